"""FlashAttention on the counted machine: exact, counted, bounded."""

import tracemalloc

import numpy as np
import pytest
from oracle import attention, head

from lecture_code.attention import standard_attention_backward, standard_attention_forward
from lecture_code.blocks import block_mask, fitting_block_sizes
from lecture_code.flash import flash2_forward, flash_attention_backward, flash_attention_forward
from lecture_code.io_model import flash2_io, flash_io
from lecture_code.memory import SRAMOverflow

EPS = np.finfo(np.float64).eps
FORWARDS = [flash_attention_forward, flash2_forward]
SIZES = [
    (1, 1, 1),
    (16, 16, 8),
    (17, 17, 5),
    (2, 5, 4),
    (5, 2, 4),
    (1, 5, 3),
    (33, 70, 7),
    (129, 1, 4),
]
BLOCKS = [
    {"Br": 1, "Bc": 1},
    {"Br": 3, "Bc": 5},
    {"Br": 16, "Bc": 16},
    {"Br": 128, "Bc": 128},
    {"M": 97},
]
OPTIONS = [
    {},
    {"causal": True},
    {"window": 3},
    {"causal": True, "scale": -2.0},
    {"scale": 0.0},
]


def ids(options):
    return ",".join(f"{k}={v}" for k, v in options.items()) or "plain"


@pytest.mark.parametrize("options", OPTIONS, ids=ids)
@pytest.mark.parametrize("blocks", BLOCKS, ids=ids)
@pytest.mark.parametrize(("N_q", "N_k", "d"), SIZES)
def test_values(N_q, N_k, d, blocks, options):
    Q, K, V, dO = head(N_q, N_k, d)
    O, lse, _, gradients = attention(Q, K, V, dO, **options)
    bound = 64 * EPS * max(N_q, N_k) * d * max(1, abs(options.get("scale", 1)))
    for forward in FORWARDS:
        run = forward(Q, K, V, **blocks, **options)
        assert np.abs(run.O - O).max() <= bound
        assert np.array_equal(np.isneginf(run.lse), np.isneginf(lse))
        alive = np.isfinite(lse)
        assert np.abs(run.lse[alive] - lse[alive]).max(initial=0) <= bound
    run = flash_attention_forward(Q, K, V, **blocks, **options)
    back = flash_attention_backward(Q, K, V, run.O, dO, run.l, run.m, **blocks, **options)
    for name, expected in zip(("dQ", "dK", "dV"), gradients):
        assert np.abs(getattr(back, name) - expected).max() <= 10 * bound, name


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("blocks", BLOCKS, ids=ids)
@pytest.mark.parametrize(("N_q", "N_k", "d"), SIZES)
def test_counts(N_q, N_k, d, blocks, causal):
    Q, K, V, dO = head(N_q, N_k, d)
    run = flash_attention_forward(Q, K, V, **blocks, causal=causal)
    back = flash_attention_backward(Q, K, V, run.O, dO, run.l, run.m, **blocks, causal=causal)
    run2 = flash2_forward(Q, K, V, **blocks, causal=causal)
    Br, Bc = run.block_sizes.Br, run.block_sizes.Bc
    visited = block_mask(N_q, N_k, Br, Bc, causal=causal)
    io = flash_io(N_q, d, Br=Br, Bc=Bc, blocks=visited, N_k=N_k)
    assert run.traffic.total == io.forward == sum(e.elems for e in run.events)
    assert back.traffic.total == io.backward == sum(e.elems for e in back.events)
    assert run2.traffic.total == flash2_io(N_q, d, Br=Br, Bc=Bc, blocks=visited, N_k=N_k).forward
    if not causal:
        assert run.matmul_flop == run2.matmul_flop == 4 * N_q * N_k * d
        assert back.matmul_flop == 10 * N_q * N_k * d


@pytest.mark.parametrize("N", [64, 96, 256])
def test_peak_on_chip_does_not_depend_on_N(N):
    Q, K, V, dO = head(N, N, 8)
    run = flash_attention_forward(Q, K, V, Br=16, Bc=32)
    back = flash_attention_backward(Q, K, V, run.O, dO, run.l, run.m, Br=16, Bc=32)
    assert run.peak_sram == 2 * 32 * 8 + 2 * 16 * 8 + 16 * 32
    assert back.peak_sram == 4 * 32 * 8 + 4 * 16 * 8 + 2 * 16 * 32
    assert flash2_forward(Q, K, V, Br=16, Bc=32).peak_sram == run.peak_sram


def test_lecture_figures():
    Q, K, V, _ = head(256, 256, 32)
    small = flash_attention_forward(Q, K, V, Br=16, Bc=16)
    large = flash_attention_forward(Q, K, V, Br=128, Bc=128)
    causal = flash_attention_forward(Q, K, V, Br=16, Bc=16, causal=True)
    assert (small.peak_sram, large.peak_sram) == (2_304, 32_768)
    assert round(causal.traffic.total / small.traffic.total, 3) == 0.558


def test_capacity_is_enforced():
    Q, K, V, dO = head(300, 300, 64)
    fits = fitting_block_sizes(20_000, 64)
    run = flash_attention_forward(Q, K, V, Br=fits.Br, Bc=fits.Bc, capacity=20_000)
    assert run.peak_sram <= 20_000
    with pytest.raises(SRAMOverflow, match="of 20000 are in use"):
        flash_attention_backward(
            Q, K, V, run.O, dO, run.l, run.m, Br=fits.Br, Bc=fits.Bc, capacity=20_000
        )
    fits = fitting_block_sizes(20_000, 64, backward=True)
    back = flash_attention_backward(
        Q, K, V, run.O, dO, run.l, run.m, Br=fits.Br, Bc=fits.Bc, capacity=20_000
    )
    assert back.peak_sram <= 20_000


def test_M_only_chooses_the_blocks():
    Q, K, V, _ = head(400, 400, 16)
    run = flash_attention_forward(Q, K, V, M=1024)
    assert run.block_sizes.Bc == 16 and run.peak_sram == 2 * 16 * 16 + 2 * 16 * 16 + 256
    with pytest.raises(SRAMOverflow):
        flash_attention_forward(Q, K, V, M=1024, capacity=1024)


@pytest.mark.parametrize("forward", FORWARDS)
def test_order_and_block_size_do_not_matter(forward):
    Q, K, V, _ = head(60, 60, 8, spread=3)
    a = forward(Q, K, V, Br=7, Bc=11)
    shuffle = np.random.default_rng(0).permutation(60)
    b = forward(Q, K[shuffle], V[shuffle], Br=60, Bc=3)
    assert np.abs(a.O - b.O).max() < 1e-13 and np.abs(a.lse - b.lse).max() < 1e-13


@pytest.mark.parametrize("forward", FORWARDS)
def test_causal_isolation_is_bit_for_bit(forward):
    Q, K, V, _ = head(24, 24, 4)
    base = forward(Q, K, V, Br=4, Bc=4, causal=True)
    K[13:], V[13:] = 1e150, -7
    changed = forward(Q, K, V, Br=4, Bc=4, causal=True)
    assert np.array_equal(base.O[:12], changed.O[:12])
    assert np.array_equal(base.lse[:13], changed.lse[:13])


@pytest.mark.parametrize("forward", FORWARDS)
def test_block_sparse_is_attention_under_the_expanded_mask(forward):
    Q, K, V, dO = head(50, 70, 6)
    blocks = np.random.default_rng(3).random((7, 10)) < 0.4
    blocks[2], blocks[:, 4] = False, False
    mask = np.repeat(np.repeat(blocks, 8, axis=0), 7, axis=1)[:50, :70]
    O, lse, _, gradients = attention(Q, K, V, dO, mask=mask)
    run = forward(Q, K, V, Br=8, Bc=7, blocks=blocks)
    assert np.abs(run.O - O).max() < 1e-13 and (run.O[16:24] == 0).all()
    assert np.isneginf(run.lse[16:24]).all()
    back = flash_attention_backward(Q, K, V, run.O, dO, run.l, run.m, Br=8, Bc=7, blocks=blocks)
    for name, expected in zip(("dQ", "dK", "dV"), gradients):
        assert np.abs(getattr(back, name) - expected).max() < 1e-12
    assert (back.dK[28:35] == 0).all() and (back.dQ[16:24] == 0).all()
    assert back.traffic.total == flash_io(50, 6, Br=8, Bc=7, blocks=blocks, N_k=70).backward


@pytest.mark.parametrize("forward", FORWARDS)
def test_a_dense_mask_is_read_and_counted(forward):
    Q, K, V, dO = head(20, 20, 4)
    mask = np.random.default_rng(0).random((20, 20)) < 0.3
    mask[5] = False
    O, lse, _, gradients = attention(Q, K, V, dO, mask=mask)
    run = forward(Q, K, V, Br=6, Bc=8, mask=mask)
    plain = forward(Q, K, V, Br=6, Bc=8)
    assert np.abs(run.O - O).max() < 1e-14 and np.isneginf(run.lse[5])
    assert run.traffic.total == plain.traffic.total + 400
    assert run.peak_sram == plain.peak_sram
    back = flash_attention_backward(Q, K, V, run.O, dO, run.l, run.m, Br=6, Bc=8, mask=mask)
    for name, expected in zip(("dQ", "dK", "dV"), gradients):
        assert np.abs(getattr(back, name) - expected).max() < 1e-13
    assert (back.dQ[5] == 0).all()


def test_one_key_gives_no_gradient_to_the_queries():
    Q, K, V, dO = head(5, 1, 4)
    run = flash_attention_forward(Q, K, V, Br=2, Bc=2)
    back = flash_attention_backward(Q, K, V, run.O, dO, run.l, run.m, Br=2, Bc=2)
    assert np.abs(back.dQ).max() < 4 * EPS
    assert np.abs(back.dV[0] - dO.sum(axis=0)).max() < 8 * EPS


@pytest.mark.parametrize("forward", FORWARDS)
@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 0)])
def test_empty(forward, shape):
    Q, K, V, dO = head(*shape, 4)
    run = forward(Q, K, V, M=64)
    assert run.O.shape == (shape[0], 4) and (run.O == 0).all() and np.isneginf(run.lse).all()
    back = flash_attention_backward(Q, K, V, run.O, dO, run.l, run.m, M=64)
    assert (back.dQ == 0).all() and back.dK.shape == (shape[1], 4) and (back.dV == 0).all()


@pytest.mark.parametrize("forward", FORWARDS)
def test_very_negative_real_scores_are_not_mistaken_for_masked(forward):
    Q = np.full((4, 16), 1e3, np.float32)
    K, V = -Q, np.ones((4, 16), np.float32)
    run = forward(Q, K, V, Br=2, Bc=2, causal=True)
    assert np.abs(run.O - 1).max() < 1e-6 and np.isfinite(run.lse).all()


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("causal", [False, True])
def test_low_precision_error_is_that_of_standard_attention(dtype, causal):
    Q, K, V, dO = head(128, 128, 32, dtype)
    O, _, _, gradients = attention(Q, K, V, dO, causal=causal)
    std = standard_attention_forward(Q, K, V, causal=causal)
    std_back = standard_attention_backward(Q, K, V, std.P, dO, causal=causal)
    floor = np.finfo(dtype).eps
    for forward in FORWARDS:
        run = forward(Q, K, V, Br=16, Bc=32, causal=causal)
        assert run.O.dtype == dtype and run.lse.dtype == np.float32
        assert np.abs(run.O - O).max() <= 2 * np.abs(std.O - O).max() + floor
    run = flash_attention_forward(Q, K, V, Br=16, Bc=32, causal=causal)
    back = flash_attention_backward(Q, K, V, run.O, dO, run.l, run.m, Br=16, Bc=32, causal=causal)
    for name, expected in zip(("dQ", "dK", "dV"), gradients):
        limit = 2 * np.abs(getattr(std_back, name) - expected).max() + floor
        assert getattr(back, name).dtype == dtype
        assert np.abs(getattr(back, name) - expected).max() <= limit, name


def test_accumulating_in_float16_is_worse():
    Q, K, V, _ = head(256, 256, 64, np.float16)
    O = attention(Q, K, V)[0]
    wide = flash_attention_forward(Q, K, V, Br=32, Bc=32)
    narrow = flash_attention_forward(Q, K, V, Br=32, Bc=32, accumulate=np.float16)
    assert np.abs(narrow.O - O).max() > 2 * np.abs(wide.O - O).max()


def test_large_scores_in_float16_are_finite_here_and_not_in_standard_attention():
    Q = np.full((4, 16), 100, np.float16)
    V = np.ones((4, 16), np.float16)
    assert np.isnan(standard_attention_forward(Q, Q, V, scale=1.0).O).all()
    assert (flash_attention_forward(Q, Q, V, Br=2, Bc=2, scale=1.0).O == 1).all()


def test_inputs_stay_as_they_were():
    inputs = head(20, 20, 4)
    copies = [x.copy() for x in inputs]
    Q, K, V, dO = inputs
    run = flash_attention_forward(Q, K, V, M=64, causal=True)
    flash_attention_backward(Q, K, V, run.O, dO, run.l, run.m, M=64, causal=True)
    assert all(np.array_equal(a, b) for a, b in zip(inputs, copies))


def test_memory_is_linear_in_N():
    def peak_bytes(N):
        Q, K, V, _ = head(N, N, 16)
        tracemalloc.start()
        flash_attention_forward(Q, K, V, Br=16, Bc=64, log=False)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    first, second, third = (peak_bytes(N) for N in (512, 1024, 2048))
    # twice the step costs twice the bytes; an N x N array would cost four times as much
    assert abs((third - second) / (2 * (second - first)) - 1) < 0.05
    assert second - first < 512 * 16 * 8 * 8


def test_the_log_tells_the_order_of_the_loops():
    Q, K, V, _ = head(4, 4, 2)
    events = flash_attention_forward(Q, K, V, Br=2, Bc=2).events
    names = [(e.op, e.array) for e in events]
    assert names[:5] == [("store", n) for n in "Olm"] + [("load", "K"), ("load", "V")]
    assert names[5:9] == [("load", n) for n in "QOlm"]
    assert [e.start for e in events if e.array == "Q"] == [0, 2, 0, 2]
    assert [e.start for e in events if e.array == "K"] == [0, 2]
    events = flash2_forward(Q, K, V, Br=2, Bc=2).events
    assert [e.start for e in events if e.array == "Q"] == [0, 2]
    assert [e.start for e in events if e.array == "K"] == [0, 2, 0, 2]


def test_errors_name_the_argument():
    Q, K, V, dO = head(8, 8, 4)
    with pytest.raises(ValueError, match="give M, or both Br and Bc"):
        flash_attention_forward(Q, K, V)
    with pytest.raises(ValueError, match="d <= M <= N d, got M = 3 < d = 4"):
        flash_attention_forward(Q, K, V, M=3)
    with pytest.raises(ValueError, match=r"blocks must have shape \(Tr, Tc\) = \(4, 2\)"):
        flash_attention_forward(Q, K, V, Br=2, Bc=4, blocks=np.ones((2, 2), bool))
    with pytest.raises(TypeError, match="capacity must be an integer"):
        flash_attention_forward(Q, K, V, Br=2, Bc=2, capacity=1e4)
    run = flash_attention_forward(Q, K, V, Br=2, Bc=4)
    for name, bad in [("O", 0), ("dO", 1), ("l", 2), ("m", 3)]:
        inputs = [run.O, dO, run.l, run.m]
        inputs[bad] = inputs[bad][:5]
        with pytest.raises(ValueError, match=rf"^{name} must be an array of shape \(8,"):
            flash_attention_backward(Q, K, V, *inputs, Br=2, Bc=4)


def test_a_huge_window_is_causal():
    x = np.random.default_rng(0).standard_normal((5, 3))
    causal = flash_attention_forward(x, x, x, Br=2, Bc=2, causal=True)
    wide = flash_attention_forward(x, x, x, Br=2, Bc=2, window=10**30)
    assert np.array_equal(wide.O, causal.O) and wide.traffic == causal.traffic
