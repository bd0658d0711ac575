"""Softmax, safe softmax, and softmax in one pass over blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .blocks import positive_int, tile_ranges


def naive_softmax(x, axis: int = -1) -> np.ndarray:
    """exp(x) / Σ exp(x), as in the definition. Overflows for large x, without a warning.

    >>> naive_softmax([0.0, 1000.0])
    array([ 0., nan])
    """
    x = _floats(x)
    with np.errstate(over="ignore", invalid="ignore"):
        e = np.exp(x)
        return e / e.sum(axis=axis, keepdims=True)


def safe_softmax(x, axis: int = -1) -> np.ndarray:
    """exp(x − max x) / Σ exp(x − max x): the same function, never above exp(0).

    A row of −inf alone has no largest number to subtract and nothing to share out: it gives zeros.

    >>> safe_softmax([0.0, 1000.0])
    array([0., 1.])
    """
    x = _floats(x)
    m = x.max(axis=axis, keepdims=True, initial=-np.inf)
    with np.errstate(over="ignore"):  # float16 may leave its range downwards: exp(−inf) is 0
        e = np.exp(x - finite_or_zero(m))
    l = _sum(e, axis=axis, keepdims=True)
    return (e / np.where(l == 0, 1, l)).astype(x.dtype, copy=False)


class Statistics(NamedTuple):
    """Largest value so far, and the sum of exp(x − m) over the values so far."""

    m: np.ndarray
    l: np.ndarray


def statistics(x) -> Statistics:
    """(m, l) of the last axis of one block; (−inf, 0) where it is empty or all −inf."""
    x = _floats(x)
    m = x.max(axis=-1, initial=-np.inf)
    with np.errstate(over="ignore"):  # float16 may leave its range downwards: exp(−inf) is 0
        e = np.exp(x - finite_or_zero(m)[..., None])
    return Statistics(m, _sum(e, axis=-1))


def merge(a, b) -> Statistics:
    """(m, l) of two pieces taken together, from the (m, l) of each.

    m = max(m_a, m_b), l = l_a e^(m_a − m) + l_b e^(m_b − m). The order of the pieces does not
    matter. A piece with nothing in it, (−inf, 0), changes nothing.

    Parameters
    ----------
    a, b : pair of floats or of arrays of one shape
        (m, l) of each piece.

    References
    ----------
    Milakov & Gimelshein 2018, Online normalizer calculation for softmax, section 3.1.

    Examples
    --------
    >>> m, l = merge(statistics([1.0, 3.0]), statistics([5.0, 2.0]))
    >>> float(m), round(float(l), 6)
    (5.0, 1.203438)
    """
    (m_a, l_a), (m_b, l_b) = a, b
    m = np.maximum(m_a, m_b)
    base = finite_or_zero(m)
    return Statistics(m, l_a * np.exp(m_a - base) + l_b * np.exp(m_b - base))


def merge_outputs(a, b):
    """Outputs of attention over two sets of keys, made one: the same rule applied to (O, LSE).

    Parameters
    ----------
    a, b : pair (O, lse)
        Normalised outputs, float (N, d), and natural-log sums, float (N,), over disjoint keys.

    Returns
    -------
    (O, lse)
        Over all keys. A row that saw no key in one part (LSE = −inf) takes the other part whole.

    Examples
    --------
    >>> O, lse = merge_outputs((np.ones((1, 2)), np.zeros(1)), (np.zeros((1, 2)), np.zeros(1)))
    >>> O, lse.round(4)
    (array([[0.5, 0.5]]), array([0.6931]))
    """
    (O_a, lse_a), (O_b, lse_b) = a, b
    if not np.shape(O_a)[:-1] == np.shape(O_b)[:-1] == np.shape(lse_a) == np.shape(lse_b):
        raise ValueError(
            "a and b must be (O, lse) of shape (N, d) and (N,), got "
            f"{np.shape(O_a)}, {np.shape(lse_a)} and {np.shape(O_b)}, {np.shape(lse_b)}"
        )
    m = np.maximum(lse_a, lse_b)
    base = finite_or_zero(m)
    w_a, w_b = np.exp(lse_a - base), np.exp(lse_b - base)
    total = w_a + w_b
    share = np.where(total == 0, 1, total)
    O = (w_a / share)[..., None] * O_a + (w_b / share)[..., None] * O_b
    with np.errstate(divide="ignore"):
        return O, m + np.log(total)


def online_update(m, l, block) -> Statistics:
    """Take one more block into (m, l): m' = max(m, max x), l' = l e^(m − m') + Σ e^(x − m').

    >>> m, l = online_update(3.0, 1.386195, [0.5, 6.0, 1.0])
    >>> float(m), round(float(l), 6)
    (6.0, 1.079839)
    """
    return merge((m, l), statistics(block))


@dataclass(frozen=True)
class OnlineSoftmax:
    """What one pass over a row leaves behind.

    ``steps`` holds (values read so far, m, l) after each block.
    """

    m: float
    l: float
    probabilities: np.ndarray
    steps: tuple[tuple[int, float, float], ...]


def online_softmax(x, block: int = 1) -> OnlineSoftmax:
    """Softmax of a row, read once in blocks for (m, l), then scaled.

    Parameters
    ----------
    x : array_like (n,)
        One row.
    block : int
        How many values are read at a time.

    References
    ----------
    Milakov & Gimelshein 2018, Online normalizer calculation for softmax, Algorithm 3.

    Examples
    --------
    >>> run = online_softmax([2, -1, 3, 0.5, 6, 1, -2, 5.5], block=3)
    >>> [(n, m, round(l, 6)) for n, m, l in run.steps]
    [(3, 3.0, 1.386195), (6, 6.0, 1.079839), (8, 6.0, 1.686705)]
    """
    x = _floats(x)
    if x.ndim != 1:
        raise ValueError(f"x must be one row, 1-D, got shape {x.shape}")
    state, steps = Statistics(-np.inf, 0.0), []
    for start, stop in tile_ranges(len(x), positive_int("block", block)):
        state = online_update(*state, x[start:stop])
        steps.append((stop, float(state.m), float(state.l)))
    m, l = float(state.m), float(state.l)
    return OnlineSoftmax(m, l, np.exp(x - finite_or_zero(m)) / (l if l else 1.0), tuple(steps))


def finite_or_zero(m):
    """``m`` with −inf replaced by 0, so that exp(−inf − m) is 0 and not NaN."""
    return np.where(np.isneginf(m), 0, m)


def _sum(e, **options):
    """A sum in float32 where ``e`` is float16, whose range ends at 65,504."""
    return e.sum(dtype=np.float32 if e.dtype == np.float16 else None, **options)


def _floats(x) -> np.ndarray:
    x = np.asarray(x)
    if x.dtype.kind not in "fiu":
        raise TypeError(f"x must hold real numbers, got dtype {x.dtype}")
    return x if x.dtype.kind == "f" else x.astype(np.float64)
