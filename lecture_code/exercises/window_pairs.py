"""How many scores a window leaves."""

import numpy as np

from ..blocks import visible_mask
from ._exercise import Case, Exercise, edited

STATEMENT = r"""
$N$ tokens attend to each other in a causal window of $W$: each to itself and to at most $W - 1$
tokens before it. Count the pairs (query, key) that are visible, for any $W \ge 1$, without building
a mask.

Then the lecture's question: for $N = 96$, how many are there with $W = 96$? With $W = 200$?
"""


def window_pairs(N, W):
    """Visible pairs of a causal window.

    Parameters
    ----------
    N : int
        Queries and keys.
    W : int
        Keys that a query sees, its own included; at least 1.

    Returns
    -------
    pairs : int
    """
    W = min(N, W)
    return N * W - W * (W - 1) // 2


EXERCISE = Exercise(
    chapter="11",
    title="What a window leaves to compute",
    statement=STATEMENT,
    solution=window_pairs,
    oracle=lambda N, W: int(np.sum(visible_mask(N, N, window=W))),
    returns=("pairs",),
    cases=[
        Case("one token", {"N": 1, "W": 1}),
        Case("a window of 1", {"N": 5, "W": 1}),
        Case("the first row sees one key less", {"N": 4, "W": 2}, hint=2),
        Case("a window of 3", {"N": 6, "W": 3}, hint=2),
        Case("W = N", {"N": 96, "W": 96}, hint=2),
        Case("W = 200 > N", {"N": 96, "W": 200}, hint=3),
        Case("a long sequence", {"N": 1500, "W": 128}, hint=2),
    ],
    wrong={
        "N W": edited(
            window_pairs,
            "N W counts W keys for every row. The first W - 1 rows do not have that many.",
            {" - W * (W - 1) // 2": ""},
        ),
        "both sides": edited(
            window_pairs,
            "The window was counted on both sides of the query. It looks back only.",
            {"N * W - W * (W - 1) // 2": "N + 2 * ((W - 1) * N - W * (W - 1) // 2)"},
        ),
        "one too many": edited(
            window_pairs,
            "W was counted without the query's own key. It is one of the W.",
            {"W = min(N, W)": "W = min(N, W + 1)"},
        ),
        "missing corner off by one": edited(
            window_pairs,
            "The missing corner is 1 + 2 + ... + (W - 1) = W (W - 1) / 2 pairs.",
            {"W * (W - 1) // 2": "W * (W + 1) // 2"},
        ),
        "window longer than N": edited(
            window_pairs,
            "With W > N the formula for W <= N was used. Nobody sees more than N keys.",
            {"min(N, W)": "W"},
        ),
    },
    hints=[
        "Row i (from 0) sees min(i + 1, W) keys.",
        "Rows W - 1 and later see W. The first W - 1 rows miss W - 1, W - 2, ..., 1 keys.",
        "A window longer than the sequence is a window of N.",
    ],
    explanation=r"$NW - W(W-1)/2$ for $W \le N$. With $W = 96$ and with $W = 200$ there are 4,656 "
    "= 96 · 97 / 2, all that causal attention has: both windows hide nothing.",
)
