"""Standard attention on the counted machine."""

import numpy as np
import pytest
from oracle import attention, head

from lecture_code.attention import standard_attention_backward, standard_attention_forward
from lecture_code.io_model import standard_io

EPS = np.finfo(np.float64).eps
SIZES = [(1, 1, 1), (7, 7, 3), (16, 16, 8), (2, 5, 4), (5, 2, 4), (1, 9, 5), (13, 31, 6)]
OPTIONS = [
    {},
    {"causal": True},
    {"window": 2},
    {"scale": 0.0},
    {"scale": -1.0},
    {"causal": True, "scale": 3.0},
]


def ids(options):
    return ",".join(f"{k}={v}" for k, v in options.items()) or "plain"


@pytest.mark.parametrize("options", OPTIONS, ids=ids)
@pytest.mark.parametrize(("N_q", "N_k", "d"), SIZES)
def test_values(N_q, N_k, d, options):
    Q, K, V, dO = head(N_q, N_k, d)
    O, lse, P, gradients = attention(Q, K, V, dO, **options)
    forward = standard_attention_forward(Q, K, V, **options)
    backward = standard_attention_backward(Q, K, V, forward.P, dO, **options)
    bound = 32 * EPS * max(N_q, N_k) * d * max(1, abs(options.get("scale", 1)))
    assert np.abs(forward.O - O).max() <= bound
    assert np.abs(forward.P - P).max() <= bound
    assert np.array_equal(np.isneginf(forward.lse), np.isneginf(lse))
    assert np.allclose(forward.lse, lse, rtol=0, atol=bound)
    for name, expected in zip(("dQ", "dK", "dV"), gradients):
        assert np.abs(getattr(backward, name) - expected).max() <= bound * 10, name


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("N_q", "N_k", "d"), SIZES)
def test_counts(N_q, N_k, d, causal):
    Q, K, V, dO = head(N_q, N_k, d)
    forward = standard_attention_forward(Q, K, V, causal=causal)
    backward = standard_attention_backward(Q, K, V, forward.P, dO, causal=causal)
    io = standard_io(N_q, d, N_k=N_k)
    assert forward.traffic.total == io.forward and backward.traffic.total == io.backward
    assert forward.matmul_flop == 4 * N_q * N_k * d and backward.matmul_flop == 8 * N_q * N_k * d
    assert sum(e.elems for e in forward.events) == io.forward


def test_the_papers_count():
    assert standard_io(10, 3).forward == 4 * 100 + 4 * 30
    assert standard_io(10, 3).backward == 7 * 100 + 8 * 30


def test_a_mask_is_read_and_counted():
    Q, K, V, dO = head(6, 6, 4)
    mask = np.random.default_rng(0).random((6, 6)) < 0.5
    mask[0] = False
    run = standard_attention_forward(Q, K, V, mask=mask)
    O, lse, P = attention(Q, K, V, mask=mask)
    assert np.abs(run.O - O).max() < 1e-14 and np.isneginf(run.lse[0]) and (run.O[0] == 0).all()
    assert run.traffic.total == standard_io(6, 4).forward + 36
    backward = standard_attention_backward(Q, K, V, run.P, dO, mask=mask)
    assert (backward.dQ[0] == 0).all()


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 0)])
def test_empty(shape):
    Q, K, V, dO = head(*shape, 4)
    run = standard_attention_forward(Q, K, V)
    assert run.O.shape == (shape[0], 4) and (run.O == 0).all() and np.isneginf(run.lse).all()
    back = standard_attention_backward(Q, K, V, run.P, dO)
    assert (back.dQ == 0).all() and back.dK.shape == (shape[1], 4) and (back.dV == 0).all()


def test_masking_happens_before_exp():
    Q, K, V, _ = head(2, 2, 4)
    base = standard_attention_forward(Q, K, V, causal=True)
    K[1] = 1e150
    changed = standard_attention_forward(Q, K, V, causal=True)
    assert np.array_equal(base.O[0], changed.O[0]) and base.lse[0] == changed.lse[0]


def test_float16_scores_are_stored_in_float16():
    Q = np.full((1, 4), 200, np.float16)
    V = np.ones((2, 4), np.float16)
    K = np.stack([np.full(4, 200), np.zeros(4)]).astype(np.float16)
    assert standard_attention_forward(Q, K, V, scale=0.1).O[0, 0] == 1
    assert np.isnan(standard_attention_forward(Q, K, V, scale=1.0).O[0, 0])  # 160,000 > 65,504
    run = standard_attention_forward(Q, -K, V, scale=0.4)  # scores −64,000 and 0
    assert np.isfinite(run.O).all() and run.O.dtype == np.float16 and run.lse.dtype == np.float32


def test_inputs_stay_as_they_were():
    inputs = head(5, 5, 3)
    copies = [x.copy() for x in inputs]
    Q, K, V, dO = inputs
    P = standard_attention_forward(Q, K, V, causal=True).P
    standard_attention_backward(Q, K, V, P, dO, causal=True)
    assert all(np.array_equal(a, b) for a, b in zip(inputs, copies))


def test_errors_name_the_argument():
    Q, K, V, dO = head(4, 4, 3)
    P = standard_attention_forward(Q, K, V).P
    cases = [
        (
            TypeError,
            "Q must be a float16, float32 or float64 array, got int64",
            (Q.astype(int), K, V),
        ),
        (TypeError, "K must be .* got list", (Q, [[1.0]], V)),
        (TypeError, "one dtype, got float32, float64 and float64", (Q.astype("f4"), K, V)),
        (ValueError, r"Q must be one head, shape \(N, d\), got shape \(1, 4, 3\)", (Q[None], K, V)),
        (ValueError, r"K and V must have one shape, got \(4, 3\) and \(3, 3\)", (Q, K, V[:3])),
        (
            ValueError,
            r"one head dimension, at least 1, got \(4, 2\) and \(4, 3\)",
            (Q[:, :2], K, V),
        ),
    ]
    for error, message, inputs in cases:
        with pytest.raises(error, match=message):
            standard_attention_forward(*inputs)
    for options, error, message in [
        ({"mask": np.ones((4, 4))}, TypeError, "mask must be boolean"),
        ({"mask": np.ones((4, 3), bool)}, ValueError, r"mask must have shape .* got \(4, 3\)"),
        ({"scale": np.inf}, ValueError, "scale must be finite in float64, got inf"),
        ({"window": 0}, ValueError, "window must be at least 1"),
        ({"accumulate": "float32"}, ValueError, "at least as wide as float64"),
    ]:
        with pytest.raises(error, match=message):
            standard_attention_forward(Q, K, V, **options)
    with pytest.raises(ValueError, match=r"P must be an array of shape \(4, 4\)"):
        standard_attention_backward(Q, K, V, P[:3], dO)
    with pytest.raises(ValueError, match=r"dO must be an array of shape \(4, 3\), got \(3, 3\)"):
        standard_attention_backward(Q, K, V, P, dO[:3])


def test_causal_is_a_bool():
    x = np.eye(4)
    expected = standard_attention_forward(x, x, x, causal=True).O
    assert np.array_equal(standard_attention_forward(x, x, x, causal=np.bool_(True)).O, expected)
    for word in ("none", "False", 1, None, np.nan):
        with pytest.raises(TypeError, match="causal must be True or False, got"):
            standard_attention_forward(x, x, x, causal=word)


def test_scale_is_a_number_that_the_sums_can_hold():
    x = np.eye(4)
    for scale in ("2", True, 1j, [1.0], np.ones(2)):
        with pytest.raises(TypeError, match="scale must be a number, got"):
            standard_attention_forward(x, x, x, scale=scale)
    for scale, dtype in ((1e300, "float32"), (10**400, "float64"), (np.nan, "float64")):
        y = x.astype(dtype)
        with pytest.raises(ValueError, match=f"scale must be finite in {dtype}, got"):
            standard_attention_forward(y, y, y, scale=scale)


def test_a_masked_array_is_refused_since_its_mask_would_be_lost():
    x = np.eye(4)
    with pytest.raises(TypeError, match="K must be a float16.* array, got MaskedArray"):
        standard_attention_forward(x, np.ma.masked_array(x, x > 0), x)
