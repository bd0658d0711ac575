"""The Triton kernel against float64: on a CPU through Triton's interpreter, and on a GPU."""

import math
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from kernel_oracle import attention, judge, results

from lecture_code.kernels import triton_flash
from lecture_code.kernels.triton_flash import choose_config, flash_attention

F16, BF16, F32 = torch.float16, torch.bfloat16, torch.float32


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("torch sees no CUDA device")
    if request.param == "cpu" and not triton_flash.INTERPRETED:
        pytest.skip("Triton compiles for the GPU here; its interpreter is off")
    torch.manual_seed(0)
    return request.param


@pytest.fixture(autouse=True)
def nan_filled(monkeypatch):
    """Every buffer that the kernel is to fill starts as NaN."""
    empty = torch.Tensor.new_empty
    monkeypatch.setattr(
        torch.Tensor,
        "new_empty",
        lambda self, *args, **kw: empty(self, *args, **kw).fill_(math.nan),
    )


def inputs(device, B, H, N_q, d, dtype=F16, H_kv=None, N_k=None):
    H_kv, N_k = H_kv or H, N_q if N_k is None else N_k
    q, do = (torch.randn(B, H, N_q, d, device=device).to(dtype) for _ in range(2))
    k, v = (torch.randn(B, H_kv, N_k, d, device=device).to(dtype) for _ in range(2))
    return q, k, v, do, torch.randn(B, H, N_q, device=device)


def check(q, k, v, do, dlse, causal=False, scale=None):
    """Judge O, LSE, dQ, dK and dV; return them."""
    ours = results(
        lambda *qkv: flash_attention(*qkv, causal=causal, scale=scale, return_lse=True),
        q, k, v, do, dlse,
    )  # fmt: skip
    judge(ours, q, k, v, do, dlse, causal, q.shape[-1] ** -0.5 if scale is None else scale)
    return ours


# --- Lengths, head dimensions, heads, precisions


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("N", [1, 5, 15, 16, 17, 63, 127, 128, 129, 192, 300])
def test_lengths(device, N, causal):
    check(*inputs(device, 1, 2, N, 64), causal=causal)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("d", [16, 40, 63, 64, 80, 96, 111, 128, 160, 192, 256])
def test_head_dimensions(device, d, causal):
    check(*inputs(device, 2, 1, 45, d, BF16 if causal else F16), causal=causal)


@pytest.mark.parametrize(
    ("N_q", "N_k"),
    [(2, 5), (1, 5), (5, 2), (129, 1), (32, 200), (200, 70), (70, 200), (1, 300), (100, 226)],
)
@pytest.mark.parametrize("causal", [False, True])
def test_queries_and_keys_of_different_number(device, N_q, N_k, causal):
    check(*inputs(device, 1, 1, N_q, 64, N_k=N_k), causal=causal)


@pytest.mark.parametrize(("H", "H_kv"), [(6, 2), (3, 1), (2, 2)])
@pytest.mark.parametrize("causal", [False, True])
def test_grouped_heads(device, H, H_kv, causal):
    check(*inputs(device, 2, H, 33, 64, H_kv=H_kv, N_k=70), causal=causal)


@pytest.mark.parametrize("dtype", [F16, BF16, F32])
@pytest.mark.parametrize("d", [64, 128, 256])
def test_precisions(device, dtype, d):
    check(*inputs(device, 1, 2, 130, d, dtype), causal=True)


def test_float32_is_float32(device):
    q, k, v, do, dlse = inputs(device, 1, 2, 100, 64, F32)
    ours = check(q, k, v, do, dlse)
    wide = [x.double() for x in (q, k, v, do, dlse)]
    exact = results(lambda *qkv: attention(*qkv, False, 64**-0.5), *wide)
    for name, got in ours.items():
        torch.testing.assert_close(got.double(), exact[name], atol=1e-4, rtol=0, msg=name)


def test_structured_inputs(device):
    q, k, v, do, dlse = inputs(device, 2, 1, 80, 256, BF16)
    channel_mean = torch.randn(256, device=device).to(BF16) * 2
    q, k, v = q + channel_mean, k + channel_mean, v + channel_mean
    q[:, :, 3] *= 8
    k[:, :, 70] *= 8
    check(q, k, v, do, dlse, causal=True)


# --- Masks and extremes


def test_rows_without_keys(device):
    q, k, v, do, dlse = inputs(device, 1, 1, 5, 64, N_k=2)
    ours = check(q, k, v, do, dlse, causal=True)
    assert (ours["O"][0, 0, :3] == 0).all() and (ours["dQ"][0, 0, :3] == 0).all()
    assert (ours["LSE"][0, 0, :3] == -math.inf).all()
    alone = check(q[:, :, 3:], k, v, do[:, :, 3:], dlse[:, :, 3:], causal=True)
    assert torch.equal(ours["dK"], alone["dK"]) and torch.equal(ours["dV"], alone["dV"])


def test_one_key(device):
    q, k, v, do, _ = inputs(device, 1, 1, 5, 64, F32, N_k=1)
    ours = check(q, k, v, do, torch.zeros(1, 1, 5, device=device))
    assert ours["dQ"].abs().max() <= 1e-6 * k.abs().max() * do.abs().max() * v.abs().max() * 64
    torch.testing.assert_close(ours["dV"][0, 0, 0], do[0, 0].sum(0))


def test_storage_beyond_the_rows_is_not_read(device):
    q, k, v, do, dlse = inputs(device, 1, 2, 33, 40)
    padded = []
    for x in (q, k, v, do):
        room = torch.full((1, 2, 64, 48), math.nan, device=device, dtype=x.dtype)
        room[:, :, :33, :40] = x
        padded.append(room[:, :, :33, :40])
    ours, alone = check(*padded, dlse, causal=True), check(q, k, v, do, dlse, causal=True)
    assert all(torch.equal(ours[name], alone[name]) for name in ours)


def test_a_hidden_key_changes_no_bit(device):
    q, k, v, do, _ = inputs(device, 1, 1, 2, 64)
    before = flash_attention(q, k, v, causal=True)
    k[:, :, 1], v[:, :, 1] = 3e4, -3e4
    assert torch.equal(before[:, :, 0], flash_attention(q, k, v, causal=True)[:, :, 0])


def test_scores_below_any_finite_minus_infinity(device):
    q = torch.full((1, 1, 20, 16), 1e3, device=device)
    k, v, do = -q, torch.randn_like(q), torch.randn_like(q)
    ours = check(q, k, v, do, torch.zeros(1, 1, 20, device=device), causal=True, scale=1.0)
    torch.testing.assert_close(ours["O"][0, 0, 9], v[0, 0, :10].mean(0))


@pytest.mark.parametrize("dtype", [F16, BF16])
@pytest.mark.parametrize("d", [64, 256])
def test_huge_scores_pick_one_key(device, dtype, d):
    q, k, v, do, dlse = inputs(device, 1, 1, 8, d, dtype)
    q = k = q.sign() * 1e4
    ours = results(lambda *x: flash_attention(*x, return_lse=True), q, k, v, do, 0 * dlse)
    assert all(torch.isfinite(x).all() for x in ours.values())
    assert torch.equal(ours["O"], v) and torch.equal(ours["dV"], do)


def test_half_precision_scores_near_its_limit(device):
    q = torch.full((1, 1, 17, 16), 64.0, device=device, dtype=F16)
    k = torch.full_like(q, -64.0)
    k[:, :, 5] = -63.0
    o = flash_attention(q, k, torch.randn_like(q), scale=1.0)
    assert torch.isfinite(o).all()


@pytest.mark.parametrize("scale", [0, 0.0, -1, -0.07, 1e-40, 3])
def test_any_scale(device, scale):
    check(*inputs(device, 1, 1, 40, 32, F32), causal=True, scale=scale)


def test_negative_scale_negates_the_scores(device):
    q, k, v, _, _ = inputs(device, 1, 1, 40, 64)
    negated = flash_attention(-q, k, v, scale=1.0)
    assert torch.equal(flash_attention(q, k, v, scale=-1.0), negated)


def test_zero_scale_is_the_mean(device):
    q, k, v, _, _ = inputs(device, 1, 1, 7, 64, F32)
    o, lse = flash_attention(q, k, v, scale=0, return_lse=True)
    torch.testing.assert_close(o, v.mean(2, keepdim=True).expand_as(o))
    torch.testing.assert_close(lse, torch.full_like(lse, math.log(7)))


@pytest.mark.parametrize(
    ("B", "H", "N_q", "N_k"), [(0, 2, 5, 5), (2, 0, 5, 5), (2, 2, 0, 5), (2, 2, 5, 0), (0, 0, 0, 0)]
)
def test_empty(device, B, H, N_q, N_k):
    q = torch.ones(B, H, N_q, 64, device=device, requires_grad=True)
    k, v = (torch.ones(B, H, N_k, 64, device=device, requires_grad=True) for _ in range(2))
    o, lse = flash_attention(q, k, v, return_lse=True)
    assert o.shape == q.shape and (o == 0).all()
    assert lse.shape == q.shape[:3] and (lse == -math.inf).all()
    o.sum().backward()
    for x in (q, k, v):
        assert x.grad.shape == x.shape and (x.grad == 0).all()


# --- Layouts


def layouts(name, B, H, N, d, device):
    """One tensor of shape (B, H, N, d) in a layout."""
    if name == "contiguous":
        return torch.randn(B, H, N, d, device=device).to(F16)
    if name == "heads inside":
        return torch.randn(B, N, H, d, device=device).to(F16).transpose(1, 2)
    if name == "columns first":
        return torch.randn(B, H, d, N, device=device).to(F16).transpose(2, 3)
    if name == "unaligned":
        return torch.randn(B * H * N * d + 1, device=device).to(F16)[1:].view(B, H, N, d)
    if name == "odd rows":
        return torch.randn(B, H, N, d + 3, device=device).to(F16)[..., :d]
    if name == "every other column":
        return torch.randn(B, H, N, 2 * d, device=device).to(F16)[..., ::2]
    if name == "one head for all":
        return torch.randn(B, 1, N, d, device=device).to(F16).expand(B, H, N, d)
    if name == "one number":
        return torch.ones((), device=device, dtype=F16).expand(B, H, N, d)
    raise ValueError(name)


LAYOUTS = (
    "contiguous", "heads inside", "columns first", "unaligned", "odd rows", "every other column",
    "one head for all", "one number",
)  # fmt: skip


@pytest.mark.parametrize("which", ["q", "k", "v", "do", "all"])
@pytest.mark.parametrize("name", LAYOUTS[1:])
def test_layouts(device, name, which):
    q, k, v, do = (
        layouts(name if which in (x, "all") else "contiguous", 2, 2, 37, 64, device)
        for x in ("q", "k", "v", "do")
    )
    ours = check(q, k, v, do, torch.randn(2, 2, 37, device=device), causal=True)
    assert all(ours[x].is_contiguous() for x in ("O", "dQ", "dK", "dV"))


def test_fused_projection_is_read_in_place(device):
    qkv = torch.randn(2, 37, 3, 2, 64, device=device).to(F16)
    q, k, v = qkv.permute(2, 0, 3, 1, 4)
    check(q, k, v, torch.randn_like(q), torch.randn(2, 2, 37, device=device), causal=True)


def test_offsets_past_two_billion_elements():
    """Three rows 2³⁰ elements apart touch three pages; offsets of 32 bits would fault."""
    if not triton_flash.INTERPRETED:
        pytest.skip("Triton compiles for the GPU here; its interpreter is off")
    program = """
import torch
from lecture_code.kernels.triton_flash import flash_attention
storage = torch.empty(2**31 + 4096, dtype=torch.float16)
q = storage.as_strided((1, 1, 3, 16), (0, 0, 2**30, 1))
q.copy_(torch.arange(48.0).reshape(1, 1, 3, 16) / 48)
small = q.contiguous()
for k, v in ((small, small), (q, q)):
    assert torch.equal(flash_attention(q, k, v), flash_attention(small, small, small))
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


# --- Autograd and torch.compile


def test_only_v_needs_a_gradient(device):
    q, k, v, do, _ = inputs(device, 1, 1, 20, 64)
    v.requires_grad_()
    flash_attention(q, k, v).backward(do)
    assert q.grad is None and k.grad is None and v.grad.shape == v.shape


def test_sum_backward(device):
    q, k, v, _, _ = inputs(device, 1, 2, 40, 64, F32)
    q, k, v = (x.requires_grad_() for x in (q, k, v))
    flash_attention(q, k, v).sum().backward()
    got = [x.grad.clone() for x in (q, k, v)]
    want = torch.autograd.grad(attention(q, k, v, False, 0.125)[0].sum(), (q, k, v))
    for a, b in zip(got, want):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)


def test_gradient_of_lse_alone(device):
    q, k, v, _, _ = inputs(device, 1, 2, 40, 64, F32)
    q, k, v = (x.requires_grad_() for x in (q, k, v))
    flash_attention(q, k, v, return_lse=True)[1].mean().backward()
    want = torch.autograd.grad(attention(q, k, v, False, 0.125)[1].mean(), (q, k))
    torch.testing.assert_close(q.grad, want[0], atol=1e-6, rtol=1e-4)
    torch.testing.assert_close(k.grad, want[1], atol=1e-6, rtol=1e-4)
    assert (v.grad == 0).all()


def test_no_second_derivative(device):
    q, k, v, _, _ = inputs(device, 1, 1, 20, 64, F32)
    q.requires_grad_()
    (dq,) = torch.autograd.grad(flash_attention(q, k, v).sum(), q, create_graph=True)
    with pytest.raises(RuntimeError, match="no second derivative"):
        dq.sum().backward()


def test_runs_agree_to_the_bit(device):
    args = inputs(device, 1, 2, 100, 64, H_kv=1)
    runs = [check(*args, causal=True) for _ in range(2 if device == "cpu" else 50)]
    for run in runs[1:]:
        assert all(torch.equal(run[name], runs[0][name]) for name in run)


def test_halves_merge_to_the_whole(device):
    q, k, v, _, _ = inputs(device, 1, 1, 50, 64, F32)
    whole, lse = flash_attention(q, k, v, return_lse=True)
    parts = [
        flash_attention(q, k[:, :, s], v[:, :, s], return_lse=True)
        for s in (slice(0, 20), slice(20, 50))
    ]
    merged_lse = torch.logaddexp(parts[0][1], parts[1][1])
    merged = sum(o * torch.exp(part - merged_lse)[..., None] for o, part in parts)
    torch.testing.assert_close(merged_lse, lse, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(merged, whole, atol=1e-5, rtol=1e-5)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_compiled_call(device):
    def block(q, k, v):
        o, lse = flash_attention(q * 2, k, v, causal=True, return_lse=True)
        return o.transpose(1, 2).reshape(1, 40, -1) + 1, lse

    q, k, v, _, _ = inputs(device, 1, 2, 40, 64, F32)
    compiled = torch.compile(block, backend="aot_eager", fullgraph=True)
    outcomes = []
    for function in (block, compiled):
        x = [t.clone().requires_grad_() for t in (q, k, v)]
        o, lse = function(*x)
        (o.sum() + lse.sum()).backward()
        outcomes.append([o, lse, *(t.grad for t in x)])
    for eager, other in zip(*outcomes):
        torch.testing.assert_close(eager, other)


def test_operator_is_registered_soundly(device):
    q, k, v, _, _ = inputs(device, 1, 2, 20, 64, F32)
    q.requires_grad_()
    torch.library.opcheck(triton_flash._forward_op, (q, k, v, True, 0.1))


# --- What is refused


def tensor(*shape, dtype=F16):
    return torch.zeros(shape, dtype=dtype)


def all_three(*shape):
    return {x: tensor(*shape) for x in "qkv"}


def keys(*shape):
    return {"k": tensor(*shape), "v": tensor(*shape)}


def values(*shape, dtype=F16):
    return {"v": tensor(*shape, dtype=dtype)}


REFUSED = {
    "not a tensor": (TypeError, "k: expected a torch.Tensor, got list", {"k": [1]}),
    "three axes": (ValueError, r"q: expected 4 axes .*\(2, 5, 64\)", {"q": tensor(2, 5, 64)}),
    "float64": (TypeError, "v: .* got torch.float64", values(1, 6, 5, 64, dtype=torch.float64)),
    "integers": (TypeError, "v: .* got torch.int32", values(1, 6, 5, 64, dtype=torch.int32)),
    "mixed": (TypeError, "v: expected the dtype of q", values(1, 6, 5, 64, dtype=BF16)),
    "batch": (ValueError, "k: expected batch 1 ", keys(2, 6, 5, 64)),
    "head dimension": (ValueError, "k: .*head dimension 64", keys(1, 6, 5, 32)),
    "rows of v": (ValueError, "v: expected 5 rows as k, got 7", values(1, 6, 7, 64)),
    "shape of v": (ValueError, "v: expected the shape of k", values(1, 6, 5, 32)),
    "heads": (ValueError, "multiple of the 4 heads of k, got 6", keys(1, 4, 5, 64)),
    "no key heads": (ValueError, "multiple of the 0 heads of k, got 6", keys(1, 0, 5, 64)),
    "small d": (ValueError, "from 16 to 256, got 8", all_three(1, 6, 5, 8)),
    "large d": (ValueError, "from 16 to 256, got 257", all_three(1, 6, 5, 257)),
    "causal": (TypeError, "causal: expected a bool, got int", {"causal": 1}),
    "return_lse": (TypeError, "return_lse: expected a bool, got NoneType", {"return_lse": None}),
    "scale of text": (TypeError, "scale: expected a number or None, got str", {"scale": "1"}),
    "scale of nan": (ValueError, "scale: expected a finite number, got nan", {"scale": math.nan}),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    error, words, changed = REFUSED[name]
    arguments = {x: tensor(1, 6, 5, 64) for x in "qkv"} | changed
    with pytest.raises(error, match=words):
        flash_attention(arguments.pop("q"), arguments.pop("k"), arguments.pop("v"), **arguments)


def test_cpu_tensors_without_the_interpreter(monkeypatch):
    monkeypatch.setattr(triton_flash, "INTERPRETED", False)
    with pytest.raises(ValueError, match="q: expected a tensor on a CUDA device, got cpu"):
        flash_attention(*(tensor(1, 1, 5, 64) for _ in range(3)))


# --- Configurations


CAPABILITIES = [(7, 5), (8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (12, 0)]


@pytest.mark.parametrize("capability", CAPABILITIES)
@pytest.mark.parametrize("d", [16, 40, 64, 96, 128, 200, 256])
@pytest.mark.parametrize("dtype", [F16, F32])
def test_a_configuration_for_every_device(capability, d, dtype):
    config = choose_config(capability, d, dtype)
    tiles = [config.forward, config.dq, config.dkdv, *([config.dk] if config.dk else [])]
    for tile in tiles:
        # a GPU's matrix product takes at least 16 of each axis; statistics are padded to 128 rows
        assert tile.BLOCK_M >= 16 and tile.BLOCK_N >= 16 and 128 % tile.BLOCK_M == 0
    assert config.descriptors == (capability in ((9, 0), (10, 0)) and dtype != F32)


def test_limits_of_shared_memory():
    limits = [choose_config(c, 64, F16).shared_limit_bytes for c in CAPABILITIES]
    assert limits == [65536, 166912, 101376, 101376, 232448, 232448, 101376]


def test_the_device_of_the_tensor_decides(monkeypatch):
    class OnAnotherGpu:
        is_cuda, device, dtype, shape = True, "cuda:1", F16, (1, 1, 1, 128)

    asked = []
    capability = {"cuda:0": (9, 0), "cuda:1": (7, 5)}
    monkeypatch.setattr(
        torch.cuda, "get_device_capability", lambda x: asked.append(x) or capability[x]
    )
    assert triton_flash._config_for(OnAnotherGpu()) == choose_config((7, 5), 128, F16)
    assert asked == ["cuda:1"]


def test_devices_without_a_configuration():
    with pytest.raises(ValueError, match="capability: expected 7.5 or newer, got 7.0"):
        choose_config((7, 0), 64, F16)
    with pytest.raises(ValueError, match="dtype: bfloat16 needs compute capability 8.0"):
        choose_config((7, 5), 64, BF16)


CONFIGS = {
    f"sm_{major}{minor} d={d} {dtype} {'descriptors' if descriptors else 'pointers'}": (
        replace(choose_config((major, minor), d, dtype), descriptors=descriptors), d, dtype,
    )
    for major, minor in [(7, 5), (8, 0), (8, 9), (9, 0), (10, 0)]
    for d in (64, 128, 256)
    for dtype in ([F16, F32] if major == 9 else [F16])
    for descriptors in {False, choose_config((major, minor), d, dtype).descriptors}
}  # fmt: skip


@pytest.mark.parametrize("name", CONFIGS)
def test_every_configuration_gives_the_same(device, name):
    config, d, dtype = CONFIGS[name]
    if device == "cuda":
        own = choose_config(torch.cuda.get_device_capability(), d, dtype)
        if replace(config, descriptors=own.descriptors) != own:
            pytest.skip("a configuration of another device")
    N_q, N_k = (40, 75) if config.forward.BLOCK_M < 64 else (100, 140)
    q, k, v, do, dlse = inputs(device, 1, 2, N_q, d, dtype, H_kv=1, N_k=N_k)
    scale = d**-0.5
    o, raw = triton_flash._forward(q, k, v, True, scale, config)
    padded = torch.zeros_like(raw)
    padded[:, :, :N_q] = dlse
    dq, dk, dv = triton_flash._backward(do, padded, q, k, v, o, raw, True, scale, config)
    ours = {"O": o, "LSE": raw[:, :, :N_q] * scale, "dQ": dq, "dK": dk, "dV": dv}
    judge(ours, q, k, v, do, dlse, True, scale)


def test_one_axis_of_programs(monkeypatch):
    """Batch × heads above 65,535 needs all programs on the first axis of the grid."""
    grids = []

    class Recorder:
        def __getitem__(self, grid):
            grids.append(grid)
            return lambda *args, **options: None

    for name in ("_forward_kernel", "_dq_kernel", "_dkdv_kernel"):
        monkeypatch.setattr(triton_flash, name, Recorder())
    q = torch.zeros(70_000, 1, 1, 64, dtype=F16)
    config = choose_config((9, 0), 64, F16)
    o, lse = triton_flash._forward(q, q, q, True, 1.0, config)
    triton_flash._backward(q, None, q, q, q, o, lse, True, 1.0, config)
    assert len(grids) == 3
    assert all(len(grid) == 1 and grid[0] >= 70_000 for grid in grids)


def test_the_package_imports_no_triton():
    program = "import sys, lecture_code, lecture_code.kernels; print('triton' in sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "False"
