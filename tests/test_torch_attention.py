"""Attention in PyTorch: the oracle, exactness in blocks, windows, gradients."""

from functools import partial

import numpy as np
import pytest
from oracle import attention, head

torch = pytest.importorskip("torch")

from lecture_code.torch_attention import (  # noqa: E402
    blockwise_attention,
    sliding_window_attention,
    standard_attention,
)

# N_q, N_k, d
SIZES = [(1, 1, 1), (1, 5, 4), (5, 1, 3), (2, 5, 4), (5, 2, 4), (17, 17, 16), (31, 23, 7)]
MASKS = [{}, {"causal": True}, {"window": 1}, {"window": 3}, {"window": 40}]
IDS = ["full", "causal", "window 1", "window 3", "window 40"]


def tensors(*sizes, seed=0, spread=1.0):
    """Q, K, V, dO of one head in float64, as arrays and as tensors."""
    arrays = head(*sizes, seed=seed, spread=spread)
    return arrays, [torch.from_numpy(x) for x in arrays]


def heads(B, H, N_q, N_k, d, dtype=torch.float64, seed=0):
    """q, k, v of a batch."""
    g = torch.Generator().manual_seed(seed)
    sizes = ((B, H, N_q, d), (B, H, N_k, d), (B, H, N_k, d))
    return [torch.randn(s, generator=g, dtype=torch.float64).to(dtype) for s in sizes]


def functions(block_size):
    """The two ways to compute the same thing."""

    def blockwise(q, k, v, **options):
        return blockwise_attention(q, k, v, block_size=block_size, **options)

    return [standard_attention, blockwise]


@pytest.mark.parametrize("mask", MASKS, ids=IDS)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_values_and_gradients_are_those_of_the_equations(size, mask):
    (Q, K, V, dO), (q, k, v, do) = tensors(*size)
    O, _, _, wanted = attention(Q, K, V, dO, **mask)
    for function in functions(block_size=4):
        inputs = [x.clone().requires_grad_() for x in (q, k, v)]
        o = function(*inputs, **mask)
        assert np.abs(o.detach().numpy() - O).max() < 1e-14
        got = torch.autograd.grad(o, inputs, do)
        for a, b in zip(got, wanted):
            assert np.abs(a.numpy() - b).max() < 1e-13


@pytest.mark.parametrize("block_size", [1, 2, 5, 16, 32, 37, 64])
@pytest.mark.parametrize("mask", MASKS, ids=IDS)
def test_block_size_does_not_matter(block_size, mask):
    q, k, v = heads(2, 3, 37, 37, 8)
    whole = standard_attention(q, k, v, **mask)
    blocks = blockwise_attention(q, k, v, block_size=block_size, **mask)
    assert blocks.shape == q.shape and (blocks - whole).abs().max() < 1e-14


@pytest.mark.parametrize("causal", [False, True])
def test_pytorch_agrees(causal):
    q, k, v = heads(2, 3, 21, 21, 8)
    wanted = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
    for function in functions(block_size=8):
        assert (function(q, k, v, causal=causal) - wanted).abs().max() < 1e-14


def test_a_window_over_everything_is_causal_attention():
    q, k, v = heads(1, 2, 12, 12, 4)
    causal = standard_attention(q, k, v, causal=True)
    for window in (12, 13, 200):
        assert torch.equal(sliding_window_attention(q, k, v, window=window), causal)
    for window in range(1, 12):
        narrow = sliding_window_attention(q, k, v, window=window)
        assert torch.equal(narrow[:, :, :window], causal[:, :, :window])
        assert (narrow - causal).abs().max() > 1e-3
    assert torch.equal(sliding_window_attention(q, k, v, window=1), v)


@pytest.mark.parametrize("window", [1, 3, 6, 20])
def test_a_window_skips_tiles_and_changes_nothing(window):
    q, k, v = heads(1, 2, 20, 20, 4)
    dense = sliding_window_attention(q, k, v, window=window)
    blocks = blockwise_attention(q, k, v, block_size=4, window=window)
    assert (blocks - dense).abs().max() < 1e-14


def test_the_future_does_not_exist():
    q, k, v = heads(1, 1, 9, 9, 4)
    other_k, other_v = k.clone(), v.clone()
    other_k[:, :, 6:], other_v[:, :, 6:] = 1e300, -v[:, :, 6:]
    for function in functions(block_size=4):
        base = function(q, k, v, causal=True)
        changed = function(q, other_k, other_v, causal=True)
        assert torch.equal(changed[:, :, :6], base[:, :, :6])
        assert not torch.equal(changed[:, :, 6:], base[:, :, 6:])


def test_rows_without_keys():
    _, (q, k, v, do) = tensors(5, 2, 4)
    for function in functions(block_size=2):
        inputs = [x.clone().requires_grad_() for x in (q, k, v)]
        o = function(*inputs, causal=True)
        assert (o[:3] == 0).all() and (o[3:] != 0).all()
        dq, dk, dv = torch.autograd.grad(o, inputs, do)
        assert (dq[:3] == 0).all()
        alone = [x.clone().requires_grad_() for x in (q[3:], k, v)]
        rest = torch.autograd.grad(function(*alone, causal=True), alone, do[3:])
        for a, b in zip((dq[3:], dk, dv), rest):
            assert (a - b).abs().max() < 1e-14


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 0)], ids=str)
def test_empty(shape):
    q, k, v = (x.requires_grad_() for x in heads(2, 1, *shape, 4))
    for function in functions(block_size=4):
        o = function(q, k, v, causal=True)
        assert o.shape == q.shape and (o == 0).all()
        grads = torch.autograd.grad(o.sum(), (q, k, v))
        assert all((g == 0).all() and g.shape == x.shape for g, x in zip(grads, (q, k, v)))


def test_huge_scores():
    q = torch.tensor([[1e3], [-1e3]])
    v = torch.tensor([[1.0], [2.0]])
    for function in functions(block_size=1):
        assert torch.equal(function(q, q, v), v)
        assert torch.equal(function(q, -q, v), v.flip(0))


def test_scale():
    q, k, v = heads(1, 1, 6, 6, 4)
    for function in functions(block_size=4):
        mean = v.mean(dim=-2, keepdim=True).expand_as(v)
        assert (function(q, k, v, scale=0) - mean).abs().max() < 1e-15
        assert torch.equal(function(q, k, v, scale=-0.5), function(-q, k, v))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_narrow_dtypes(dtype):
    q, k, v = heads(2, 2, 33, 33, 16, dtype)
    exact = standard_attention(q.double(), k.double(), v.double(), causal=True)
    # one rounding of an output below 4, and what float32 sums add
    bound = 4 * torch.finfo(dtype).eps / 2 + 1e-6
    for function in functions(block_size=8):
        o = function(q, k, v, causal=True)
        assert o.dtype == dtype and exact.abs().max() < 4
        assert (o.double() - exact).abs().max() < bound


@pytest.mark.parametrize("mask", MASKS[:4], ids=IDS[:4])
def test_gradcheck(mask):
    q, k, v = (x.requires_grad_() for x in heads(1, 2, 5, 7, 3))
    for function in functions(block_size=3):
        assert torch.autograd.gradcheck(partial(function, **mask), (q, k, v))


def test_inputs_stay_as_they_were():
    inputs = heads(1, 1, 7, 7, 4)
    copies = [x.clone() for x in inputs]
    blockwise_attention(*inputs, block_size=3, causal=True)
    sliding_window_attention(*inputs, window=2)
    assert all(torch.equal(a, b) for a, b in zip(inputs, copies))


def test_errors_name_the_argument():
    q, k, v = heads(1, 2, 4, 4, 3)
    cases = [
        (TypeError, "q must be a floating point tensor, got torch.int64", (q.long(), k, v)),
        (TypeError, "k must be a floating point tensor, got ndarray", (q, k.numpy(), v)),
        (TypeError, "q, k and v must have one dtype, got torch.float32", (q.float(), k, v)),
        (ValueError, r"v must have shape \(..., N, d\), got \(3,\)", (q, k, v[0, 0, 0])),
        (ValueError, r"k and v must have one shape, got .* \(1, 2, 3, 3\)", (q, k, v[:, :, :3])),
        (ValueError, r"q and k must agree in all but N.* got \(1, 1, 4, 3\)", (q[:, :1], k, v)),
        (ValueError, r"head dimension of at least 1", (q[..., :0], k[..., :0], v[..., :0])),
    ]
    for error, message, inputs in cases:
        for function in functions(block_size=4):
            with pytest.raises(error, match=message):
                function(*inputs)
    for options, error, message in [
        ({"scale": float("inf")}, ValueError, "scale must be finite, got inf"),
        ({"window": 0}, ValueError, "window must be at least 1, got 0"),
        ({"window": 2.0}, TypeError, "window must be an integer"),
    ]:
        for function in functions(block_size=4):
            with pytest.raises(error, match=message):
                function(q, k, v, **options)
    with pytest.raises(ValueError, match="block_size must be at least 1, got 0"):
        blockwise_attention(q, k, v, block_size=0)
    with pytest.raises(TypeError, match="window must be an integer, got None"):
        sliding_window_attention(q, k, v, window=None)
    with pytest.raises(ValueError, match="causal must be True"):
        sliding_window_attention(q, k, v, window=2, causal=False)


def test_causal_is_a_bool():
    x = torch.eye(4)
    for function in (standard_attention, partial(blockwise_attention, block_size=2)):
        with pytest.raises(TypeError, match="causal must be True or False, got 'none'"):
            function(x, x, x, causal="none")
