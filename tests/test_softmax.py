"""Softmax in one pass equals softmax, whatever the blocks and their order."""

import numpy as np
import pytest

from lecture_code.softmax import (
    merge,
    merge_outputs,
    naive_softmax,
    online_softmax,
    online_update,
    safe_softmax,
    statistics,
)

LECTURE = np.array([2, -1, 3, 0.5, 6, 1, -2, 5.5])
EPS = np.finfo(np.float64).eps


def test_lecture_example():
    steps = online_softmax(LECTURE, block=3).steps
    assert [(n, m, round(l, 6)) for n, m, l in steps] == [
        (3, 3.0, 1.386195),
        (6, 6.0, 1.079839),
        (8, 6.0, 1.686705),
    ]


def test_lecture_merge():
    a, b = statistics([1.0, 3.0]), statistics([5.0, 2.0])
    assert (round(float(a.l), 6), round(float(b.l), 6)) == (1.135335, 1.049787)
    m, l = merge(a, b)
    assert m == 5 and round(float(l), 6) == 1.203438


@pytest.mark.parametrize("block", [1, 2, 3, 5, 7, 8, 100])
@pytest.mark.parametrize(
    "x",
    [LECTURE, LECTURE[::-1], LECTURE * 1e5, np.zeros(9), np.array([-np.inf, 1, -np.inf, 2.0]), [3]],
    ids=["lecture", "reversed", "huge", "equal", "masked", "one"],
)
def test_online_equals_safe(x, block):
    run = online_softmax(x, block)
    expected = safe_softmax(x)
    # each of the n terms is rescaled at most n times
    bound = 2 * len(x) * len(x) * EPS
    assert np.abs(run.probabilities - expected).max() <= bound
    assert run.m == np.max(x)


def test_naive_overflows_where_safe_does_not():
    assert np.isnan(naive_softmax([0.0, 1000.0])[1])
    assert safe_softmax([0.0, 1000.0]).tolist() == [0, 1]
    assert np.finfo(np.float16).max == 65504 and np.log(65504) < 12
    assert np.isnan(naive_softmax(np.array([0, 12], np.float16))[1])
    assert safe_softmax(np.array([0, 12], np.float16)).dtype == np.float16


def test_safe_softmax_is_shift_invariant_and_sums_to_one():
    x = np.random.default_rng(0).standard_normal((5, 17))
    assert np.abs(safe_softmax(x + 1e3) - safe_softmax(x)).max() < 1e-12
    assert np.abs(safe_softmax(x, axis=0).sum(axis=0) - 1).max() <= 8 * EPS


def test_a_row_that_sees_nothing_is_zero():
    dead = np.full(4, -np.inf)
    assert safe_softmax(dead).tolist() == [0, 0, 0, 0]
    run = online_softmax(dead, 3)
    assert run.probabilities.tolist() == [0, 0, 0, 0] and run.l == 0 and run.m == -np.inf
    assert online_softmax([]).steps == ()
    assert safe_softmax(np.zeros((2, 0))).shape == (2, 0)


def test_merge_with_nothing_changes_nothing():
    full, nothing = statistics(LECTURE), statistics([-np.inf])
    assert nothing == (-np.inf, 0)
    assert merge(full, nothing) == full == merge(nothing, full)
    assert merge(nothing, nothing) == nothing


def test_merge_commutes_and_associates():
    rng = np.random.default_rng(1)
    a, b, c = (statistics(rng.standard_normal((50, 7)) * 30) for _ in range(3))
    assert all(np.array_equal(x, y) for x, y in zip(merge(a, b), merge(b, a)))
    left, right = merge(merge(a, b), c), merge(a, merge(b, c))
    assert np.array_equal(left.m, right.m)
    assert np.allclose(left.l, right.l, rtol=8 * EPS, atol=0)


def test_update_is_a_merge_with_the_blocks_statistics():
    m, l = online_update(3.0, 1.386195, [0.5, 6, 1])
    assert m == 6 and round(float(l), 6) == 1.079839


def test_merge_outputs_is_attention_over_both_halves():
    rng = np.random.default_rng(2)
    S, V = rng.standard_normal((6, 10)) * 5, rng.standard_normal((10, 3))
    S[0, :4] = -np.inf
    S[1, 4:] = -np.inf
    S[2] = -np.inf

    def part(columns):
        m, l = statistics(S[:, columns])
        with np.errstate(divide="ignore"):
            return safe_softmax(S[:, columns]) @ V[columns], m + np.log(l)

    O, lse = merge_outputs(part(slice(0, 4)), part(slice(4, 10)))
    whole, whole_lse = part(slice(0, 10))
    assert np.abs(O - whole).max() < 1e-14
    assert np.array_equal(np.isneginf(lse), np.isneginf(whole_lse)) and np.isneginf(lse[2])
    alive = np.isfinite(lse)
    assert np.abs(lse[alive] - whole_lse[alive]).max() < 1e-14
    assert (O[2] == 0).all()


def test_errors_name_the_argument():
    with pytest.raises(ValueError, match=r"x must be one row, 1-D, got shape \(2, 2\)"):
        online_softmax(np.zeros((2, 2)))
    with pytest.raises(ValueError, match="block must be at least 1, got 0"):
        online_softmax(LECTURE, 0)
    with pytest.raises(TypeError, match="x must hold real numbers"):
        safe_softmax(["a"])


def test_float16_sums_do_not_overflow():
    x = np.zeros(70_000, np.float16)
    assert statistics(x) == (0, 70_000)
    p = safe_softmax(x)
    assert p.dtype == np.float16 and p[0] == np.float16(1 / 70_000)
    with np.errstate(over="raise"):
        assert safe_softmax(np.array([60_000, -60_000], np.float16)).tolist() == [1, 0]
        assert statistics(np.array([60_000, -60_000], np.float16)).l == 1


def test_merge_outputs_refuses_shapes_that_would_spread():
    O, lse = np.ones((3, 2)), np.zeros(3)
    for a, b in (((O, lse[:, None]), (O, lse)), ((O, lse), (O[:1], lse[:1]))):
        with pytest.raises(ValueError, match=r"a and b must be \(O, lse\) of shape"):
            merge_outputs(a, b)
