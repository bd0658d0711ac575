"""Attention over two sets of keys, merged with its statistics."""

import numpy as np

from ..softmax import merge_outputs
from ._exercise import Case, Exercise, edited

STATEMENT = r"""
Two workers have computed attention of *one query* over two halves of the keys. Worker $i$ reports
the largest score $m_i$, the sum $\ell_i = \sum_j e^{s_j - m_i}$ over its keys, and the finished
output of its half, $o_i = \frac{1}{\ell_i} \sum_j e^{s_j - m_i} v_j$.

Return $(o, m, \ell)$ over all keys. A half in which no key is visible reports $o_i = 0$,
$m_i = -\infty$, $\ell_i = 0$; if both do, return the same.
"""


def merge_two_outputs(o1, m1, l1, o2, m2, l2):
    """Attention of one query over all keys, from its results over two halves of them.

    Parameters
    ----------
    o1, o2 : float array (d,)
        Normalised outputs of the halves.
    m1, m2, l1, l2 : float
        Largest score and sum of exponentials of each half; (-inf, 0) where nothing is visible.

    Returns
    -------
    o : float array (d,)
    m, l : float
    """
    m = max(m1, m2)
    if m == -np.inf:
        return np.zeros_like(o1), m, 0.0
    w1, w2 = l1 * np.exp(m1 - m), l2 * np.exp(m2 - m)
    l = w1 + w2
    return (w1 * o1 + w2 * o2) / l, m, l


def through_lse(o1, m1, l1, o2, m2, l2):
    """The same by way of LSE = m + ln l, with both maxima counted from the larger one."""
    m = max(m1, m2)
    base = 0.0 if m == -np.inf else m
    with np.errstate(divide="ignore"):
        lse1, lse2 = m1 - base + np.log(l1), m2 - base + np.log(l2)
    O, lse = merge_outputs((o1[None], np.array([lse1])), (o2[None], np.array([lse2])))
    return O[0], m, float(np.exp(lse[0]))


def half(scores, values):
    """(o, m, l) of one query over some keys."""
    scores, values = np.asarray(scores, float), np.asarray(values, float)
    m = scores.max()
    if m == -np.inf:
        return np.zeros(values.shape[1]), m, 0.0
    e = np.exp(scores - m)
    return e @ values / e.sum(), float(m), float(e.sum())


def halves(first, second):
    """Inputs of a case, by name."""
    names = ("o1", "m1", "l1", "o2", "m2", "l2")
    return dict(zip(names, half(*first) + half(*second)))


def random_halves():
    rng = np.random.default_rng(7)
    draw = [(rng.normal(0, 3, n), rng.normal(size=(n, 4))) for n in (5, 12)]
    return halves(*draw)


HIDDEN = -np.inf
OUTPUT = "(w1 * o1 + w2 * o2) / l"

EXERCISE = Exercise(
    chapter="07",
    title="Merging two outputs",
    statement=STATEMENT,
    solution=merge_two_outputs,
    oracle=through_lse,
    returns=("o", "m", "l"),
    cases=[
        Case(
            "one key each, equal scores: the mean of the values",
            lambda: halves(([2.0], [[1.0, 0.0]]), ([2.0], [[0.0, 1.0]])),
        ),
        Case(
            "one key each, the second score larger",
            lambda: halves(([1.0], [[1.0, 0.0]]), ([3.0], [[0.0, 1.0]])),
            hint=2,
        ),
        Case(
            "three equal scores against one",
            lambda: halves(([0.0, 0.0, 0.0], [[1.0], [1.0], [1.0]]), ([0.0], [[0.0]])),
        ),
        Case(
            "scores [1, 3] and [5, 2]",
            lambda: halves(([1.0, 3.0], [[1.0], [2.0]]), ([5.0, 2.0], [[3.0], [4.0]])),
            hint=2,
        ),
        Case(
            "huge scores",
            lambda: halves(([1000.0, 999.0], [[1.0], [2.0]]), ([1001.0], [[3.0]])),
            hint=2,
        ),
        Case(
            "the first half fully hidden",
            lambda: halves(([HIDDEN, HIDDEN], [[1.0], [2.0]]), ([0.5], [[3.0]])),
            hint=3,
        ),
        Case(
            "both halves fully hidden",
            lambda: halves(([HIDDEN], [[1.0, 2.0]]), ([HIDDEN], [[3.0, 4.0]])),
            hint=3,
        ),
        Case("5 and 12 keys, d = 4", random_halves),
    ],
    wrong={
        "mean of the outputs": edited(
            merge_two_outputs,
            "The two outputs were averaged as if both halves had the same total weight. Weigh each "
            "by its share of the common denominator.",
            {OUTPUT: "(o1 + o2) / 2"},
        ),
        "left the number of keys out": edited(
            merge_two_outputs,
            "The outputs were weighted by exp(m_i - m) alone. An output that is a mean over many "
            "keys must also get their sum l_i back.",
            {OUTPUT: "(w1 / l1 * o1 + w2 / l2 * o2) / (w1 / l1 + w2 / l2)"},
        ),
        "never compared the maxima": edited(
            merge_two_outputs,
            "The sums l_1 and l_2 were used side by side, but each is relative to its own maximum. "
            "Bring both to the common m first.",
            {"l1 * np.exp(m1 - m), l2 * np.exp(m2 - m)": "l1, l2"},
        ),
        "rescaled l but not the outputs": edited(
            merge_two_outputs,
            "The sums were rescaled and the outputs were not: each output needs the same factor "
            "exp(m_i - m).",
            {OUTPUT: "(l1 * o1 + l2 * o2) / l"},
        ),
        "did not divide": edited(
            merge_two_outputs,
            "The weighted outputs were added and not divided by the new l.",
            {OUTPUT: "w1 * o1 + w2 * o2"},
        ),
        "no key at all": edited(
            merge_two_outputs,
            "When nothing is visible in either half, -inf - (-inf) is NaN. The result is o = 0, "
            "m = -inf, l = 0.",
            {"if m == -np.inf:": "if False:"},
        ),
    },
    hints=[
        "Undo each division first: l_i · o_i is the sum of e^(s - m_i) v over that half.",
        "These sums have two different bases. Multiply each, and its l_i, by e^(m_i - m).",
        "A half with l_i = 0 has weight 0 by itself. Only when both maxima are -inf does the "
        "exponent need care.",
    ],
    explanation=r"Each output gets its share $\ell_i e^{m_i - m} / \ell$ of the common "
    "denominator, and the shares sum to 1. FlashAttention's update of a normalised output is this "
    "merge, with a block of keys as the second half.",
)
