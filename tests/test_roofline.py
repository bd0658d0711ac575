"""The roofline model: the lecture's intensities, counts by brute force, and refusals."""

import numpy as np
import pytest

from lecture_code.hardware import DEVICES, ridge_flop_per_byte
from lecture_code.roofline import (
    OpCost,
    attainable_flop_per_s,
    attention_flop,
    bound_by,
    elementwise_cost,
    layernorm_cost,
    matmul_cost,
    softmax_cost,
    time_bound,
    visible_pairs,
)


@pytest.mark.parametrize("n", [3, 64, 1000, 4096])
def test_a_square_matmul_has_intensity_n_over_three(n):
    assert matmul_cost(n, n, n).intensity == pytest.approx(n / 3, rel=1e-15)


def test_scores_of_one_head():
    cost = matmul_cost(4096, 64, 4096)
    assert (cost.flop, cost.bytes) == (2_147_483_648, 34_603_008)
    assert round(cost.intensity, 1) == 62.1
    assert bound_by(cost, "A100-40GB") == "memory"


@pytest.mark.parametrize("T, intensity", [(1, 1.0), (128, 126.4), (200, 196.0), (224, 219.0)])
def test_gpt3_mlp_leaves_the_slope_near_two_hundred_tokens(T, intensity):
    cost = matmul_cost(T, 12288, 49152)
    assert round(cost.intensity, 1) == intensity
    assert bound_by(cost, "A100-40GB") == ("compute" if intensity > 201 else "memory")


def test_counts_agree_with_a_loop():
    rng = np.random.default_rng(0)
    for _ in range(20):
        m, k, n, batch = rng.integers(1, 6, 4)
        cost = matmul_cost(m, k, n, dtype="float32", batch=batch)
        flop = sum(2 for _ in np.ndindex(batch, m, n, k))
        arrays = batch * sum(np.empty(s).nbytes // 2 for s in [(m, k), (k, n), (m, n)])
        assert (cost.flop, cost.bytes) == (flop, arrays)
        assert isinstance(cost.flop, int) and isinstance(cost.bytes, int)


@pytest.mark.parametrize(
    "dtype, width", [("float32", 4), ("tf32", 4), ("bfloat16", 2), ("float8", 1)]
)
def test_precision_moves_the_intensity(dtype, width):
    assert matmul_cost(96, 96, 96, dtype=dtype).intensity == pytest.approx(64 / width)


def test_low_intensity_operations():
    # ReLU: 8 bytes a FLOP in float32, 4 in float16
    assert elementwise_cost(7, dtype="float32") == OpCost(7, 56)
    assert elementwise_cost(7, dtype="float16") == OpCost(7, 28)
    assert elementwise_cost(10, reads=2, writes=1) == OpCost(10, 60)
    assert softmax_cost(3, 5).intensity == 1.25
    assert layernorm_cost(4, 8) == OpCost(8 * 32, 2 * 2 * 32 + 2 * 2 * 8)
    assert layernorm_cost(4, 8, affine=False).intensity == 2
    for cost in (elementwise_cost(9), softmax_cost(9, 9), layernorm_cost(9, 9)):
        assert 0.2 <= cost.intensity <= 2
        assert bound_by(cost, "H100-SXM", unit="vector") == "memory"


def test_costs_add_and_repeat():
    a, b = OpCost(3, 5), OpCost(10, 20)
    assert a + b == OpCost(13, 25) == sum([a, b])
    assert 4 * a == a * 4 == OpCost(12, 20)
    with pytest.raises(TypeError):
        a + 1
    with pytest.raises(TypeError):
        a * 1.5


def test_time_is_the_larger_of_two_times():
    a100 = DEVICES["A100-40GB"]
    heavy, light = OpCost(312e12, 1), OpCost(1, 1555e9)
    assert time_bound(heavy, a100) == 1 and bound_by(heavy, a100) == "compute"
    assert time_bound(light, a100) == 1 and bound_by(light, a100) == "memory"
    assert time_bound(heavy, a100, dtype="float32", unit="vector") == 16
    assert time_bound(heavy, a100, dtype="tf32") == 2


@pytest.mark.parametrize("name", ["V100", "A100-40GB", "H100-SXM", "H200-SXM", "B200"])
def test_the_roof_breaks_at_the_ridge(name):
    ridge = ridge_flop_per_byte(name)
    peak = DEVICES[name].peak_flop_per_s()
    assert attainable_flop_per_s(ridge / 2, name) == pytest.approx(peak / 2)
    assert attainable_flop_per_s(ridge * 2, name) == peak
    assert attainable_flop_per_s(0, name) == 0
    # at any intensity the roof is the cost's FLOP over its time
    for intensity in (ridge / 7, ridge * 7):
        cost = OpCost(intensity * 1e9, 1e9)
        assert cost.flop / time_bound(cost, name) == pytest.approx(
            attainable_flop_per_s(intensity, name)
        )


def test_exactly_at_the_ridge_is_compute():
    peak, rate = DEVICES["V100"].peak_flop_per_s(), DEVICES["V100"].memory_bytes_per_s
    assert bound_by(OpCost(peak, rate), "V100") == "compute"


@pytest.mark.parametrize("N", [0, 1, 2, 4, 7])
@pytest.mark.parametrize("N_k", [None, 0, 1, 3, 7, 11])
def test_exact_causal_pairs_are_those_of_the_mask(N, N_k):
    keys = N if N_k is None else N_k
    # bottom-right alignment: key j is visible to row i when j - N_k <= i - N
    rows, columns = np.indices((N, keys))
    mask = columns - keys <= rows - N
    assert visible_pairs(N, N_k, causal="exact") == mask.sum()
    assert visible_pairs(N, N_k) == mask.size
    assert visible_pairs(N, N_k, causal="half") == mask.size / 2


def test_four_tokens_have_ten_visible_pairs():
    assert [visible_pairs(4, causal=c) for c in ("none", "exact", "half")] == [16, 10, 8]


def test_attention_flop_follows_the_lecture():
    N, d = 96, 64
    assert attention_flop(N, d) == 4 * N * N * d
    assert attention_flop(N, d, passes="both") == 12 * N * N * d
    assert attention_flop(N, d, passes="both", recompute=True) == 14 * N * N * d
    backward = attention_flop(N, d, passes="backward", recompute=True)
    assert backward == 2.5 * attention_flop(N, d)
    assert attention_flop(N, d, causal="half") == 2 * N * N * d
    assert attention_flop(N, d, causal="exact") == 2 * N * (N + 1) * d
    assert attention_flop(1, d, N_k=N, causal="exact") == 4 * N * d
    assert attention_flop(N, d, heads=16, batch=8) == 128 * attention_flop(N, d)
    # the paper's figure 2 at batch 64: its 66.6 GFLOP do not fit, its ratio does
    gpt2 = {"heads": 16, "batch": 64, "passes": "both"}
    standard = attention_flop(1024, 64, **gpt2)
    flash = attention_flop(1024, 64, **gpt2, recompute=True)
    assert round(standard / 1e9) == 825
    assert flash / standard == pytest.approx(75.2 / 66.6, rel=0.04)


def test_the_matmuls_of_attention_agree_with_matmul_cost():
    N, N_k, d = 5, 9, 3
    scores, values = matmul_cost(N, d, N_k), matmul_cost(N, N_k, d)
    assert attention_flop(N, d, N_k=N_k) == (scores + values).flop


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda: OpCost(-1, 1), ValueError, "flop: expected a finite number of at least 0, got -1"),
        (lambda: OpCost(1, float("inf")), ValueError, "bytes: expected a finite"),
        (lambda: OpCost(float("nan"), 1), ValueError, "flop: expected a finite"),
        (lambda: OpCost("1", 1), TypeError, "flop: expected a number, got str"),
        (lambda: OpCost(1, 0).intensity, ValueError, "moves nothing has no intensity"),
        (lambda: matmul_cost(0, 1, 1), ValueError, "m: expected at least 1, got 0"),
        (lambda: matmul_cost(1, 1.5, 1), TypeError, "k: expected a whole number, got float"),
        (lambda: matmul_cost(1, 1, True), TypeError, "n: expected a whole number, got bool"),
        (lambda: matmul_cost(1, 1, 1, dtype="fp16"), ValueError, "dtype: unknown 'fp16'; known"),
        (lambda: elementwise_cost(1, reads=-1), ValueError, "reads: expected at least 0"),
        (lambda: elementwise_cost(4, flop_per_element=-1), ValueError, "flop: expected"),
        (lambda: time_bound(OpCost(1, 1), "H300"), ValueError, "device: unknown 'H300'; known"),
        (lambda: time_bound(OpCost(1, 1), "T4", dtype="bfloat16"), ValueError, "T4 has no known"),
        (lambda: time_bound((1, 1), "T4"), TypeError, "cost: expected an OpCost, got tuple"),
        (lambda: bound_by(OpCost(1, 1), "T4", unit="fp16"), ValueError, "unit: expected"),
        (lambda: attainable_flop_per_s(-1, "T4"), ValueError, "intensity: expected at least 0"),
        (lambda: attainable_flop_per_s(float("nan"), "T4"), ValueError, "intensity: expected"),
        (lambda: attention_flop(4, 4, causal=True), ValueError, 'causal: expected "none", "exact"'),
        (lambda: attention_flop(4, 4, passes="fwd"), ValueError, 'passes: expected "forward"'),
        (lambda: attention_flop(-4, 4), ValueError, "N: expected at least 0, got -4"),
        (lambda: attention_flop(4, 0), ValueError, "d: expected at least 1, got 0"),
    ],
)
def test_bad_input_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_costs_of_numpy_integers_do_not_overflow():
    cost = OpCost(np.int8(100), np.int32(2**30))
    assert 4 * (cost + cost) == OpCost(800, 2**33)
