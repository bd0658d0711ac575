"""Largest value and sum of exponentials of a row, read once in blocks."""

import numpy as np

from ..softmax import statistics
from ._exercise import Case, Exercise, edited

STATEMENT = r"""
A row $x$ of $n$ scores arrives in blocks of `block` values (the last one may be shorter), and each
block can be read only once. Keep two numbers: $m$, the largest value so far, and
$\ell = \sum_j e^{x_j - m}$ over the values so far. Start from $m = -\infty$, $\ell = 0$ and return
$(m, \ell)$ after the last block.

The scores may be huge, and some or all of them may be $-\infty$ (hidden keys). A row in which
nothing is visible, or with no values at all, gives $(-\infty, 0)$.
"""


def online_softmax(x, block):
    """Largest value of a row and its sum of exponentials, in one pass over blocks.

    Parameters
    ----------
    x : float array (n,)
        The scores; finite or -inf.
    block : int
        How many values are read at a time.

    Returns
    -------
    m, l : float
        max(x), and the sum of exp(x - m); (-inf, 0) if nothing is visible.
    """
    m, l = -np.inf, 0.0
    for start in range(0, len(x), block):
        tile = x[start : start + block]
        m_new = max(m, tile.max())
        if m_new == -np.inf:
            continue
        l = l * np.exp(m - m_new) + np.exp(tile - m_new).sum()
        m = m_new
    return m, l


RESCALE = "l * np.exp(m - m_new) + np.exp(tile - m_new).sum()"

EXERCISE = Exercise(
    chapter="07",
    title="Softmax statistics in one pass",
    statement=STATEMENT,
    solution=online_softmax,
    oracle=lambda x, block: tuple(map(float, statistics(x))),
    returns=("m", "l"),
    cases=[
        Case("two values, the larger one first", {"x": np.array([3.0, 1.0]), "block": 1}),
        Case("two values, the larger one last", {"x": np.array([1.0, 3.0]), "block": 1}, hint=2),
        Case(
            "two blocks, both with several values",
            {"x": np.array([1.0, 3.0, 5.0, 2.0]), "block": 2},
            hint=2,
        ),
        Case(
            "the lecture's eight numbers in threes: the last block is short",
            {"x": np.array([2, -1, 3, 0.5, 6, 1, -2, 5.5]), "block": 3},
        ),
        Case("one block longer than the row", {"x": np.array([0.5, -0.5]), "block": 8}),
        Case("huge scores", {"x": np.array([1000.0, 999.0, 1002.0]), "block": 2}, hint=3),
        Case(
            "very negative scores", {"x": np.array([-1000.0, -1001.0, -999.0]), "block": 2}, hint=3
        ),
        Case(
            "hidden keys first", {"x": np.array([-np.inf, -np.inf, 2.0, 1.0]), "block": 2}, hint=4
        ),
        Case("every key hidden", {"x": np.full(3, -np.inf), "block": 2}, hint=4),
        Case("no values", {"x": np.zeros(0), "block": 4}),
        Case(
            "101 values in sevens",
            lambda: {"x": np.random.default_rng(7).normal(0, 3, 101), "block": 7},
        ),
    ],
    wrong={
        "forgot to rescale": edited(
            online_softmax,
            """The old sum was not rescaled. Every term of l was taken relative to the old m:
            when m grows, multiply l by exp(m_old - m_new) first.""",
            {"l * np.exp(m - m_new)": "l"},
        ),
        "rescaled the new block only": edited(
            online_softmax,
            """The factor exp(m_old - m_new) belongs to the old sum, which changes its base;
            here the new block got it.""",
            {RESCALE: "l + np.exp(tile - m_new).sum() * np.exp(m - m_new)"},
        ),
        "overflow": edited(
            online_softmax,
            """exp(x) was formed without subtracting the maximum. It overflows above 709, and
            underflows to 0 below -745.""",
            {RESCALE: "(l * np.exp(m) + np.exp(tile).sum()) * np.exp(-m_new)"},
        ),
        "dropped the short last block": edited(
            online_softmax,
            "The short last block was left out: there are ceil(n / block) blocks.",
            {"range(0, len(x), block)": "range(0, len(x) - block + 1, block)"},
        ),
        "normalised each step": edited(
            online_softmax,
            """Each block was normalised before it was added, so it counts as 1 whatever it
            holds. Divide once, after the last block, if at all.""",
            {"np.exp(tile - m_new).sum()": "np.exp(tile.max() - m_new)"},
        ),
        "NaN from hidden keys": edited(
            online_softmax,
            """As long as only hidden keys have come, m is -inf, and -inf - (-inf) is NaN. Such
            a block adds nothing: leave (m, l) as they are.""",
            {"if m_new == -np.inf": "if len(tile) == 0"},
        ),
        "starts from 0": edited(
            online_softmax,
            """m started from 0, so a row of negative scores never sees its own maximum. Start
            from -inf.""",
            {"m, l = -np.inf, 0.0": "m, l = 0.0, 0.0"},
        ),
    },
    hints=[
        "Each block has its own largest value. The new m is the larger of the old m and that.",
        """l was summed relative to the old m. exp(x - m_new) = exp(x - m_old) · exp(m_old -
        m_new), for every term alike.""",
        "Never form exp(x) itself, only exp(x - m) with m at least x.",
        "-inf - (-inf) is NaN. As long as m is -inf there is nothing to add: skip such a block.",
    ],
    explanation="""The old sum changes its base by one multiplication. No value is read twice,
    so the row never has to be on chip whole.""",
)
