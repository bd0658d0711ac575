"""Attention in a sliding window, in numpy."""

import numpy as np

from ..blocks import visible_mask
from ._exercise import Case, Exercise, edited

STATEMENT = r"""
One head: $Q$ of shape $(N_q, d)$, $K$ and $V$ of shape $(N_k, d)$. The last query stands at the
last key, so query $i$ stands at key $i + N_k - N_q$. In a window of $W$ it sees that key and the
$W - 1$ before it, and none after. Return

$$O = \mathrm{softmax}\!\left(\frac{QK^\top}{\sqrt d}\right) V$$

with hidden scores taken as $-\infty$. A query that sees no key gives a row of zeros. Scores may be
large, so subtract the row's maximum.
"""


def window_attention(Q, K, V, window):
    """Attention in a window that looks back, one head.

    Parameters
    ----------
    Q : float array (N_q, d)
    K, V : float array (N_k, d)
    window : int
        Keys that a query sees, its own included; at least 1.

    Returns
    -------
    O : float array (N_q, d)
    """
    (N_q, d), N_k = Q.shape, len(K)
    own = np.arange(N_q)[:, None] + N_k - N_q
    keys = np.arange(N_k)
    seen = (keys <= own) & (keys > own - window)
    S = np.where(seen, Q @ K.T / np.sqrt(d), -np.inf)
    m = S.max(axis=1, keepdims=True)
    P = np.exp(S - np.where(m == -np.inf, 0, m))
    l = P.sum(axis=1, keepdims=True)
    return P @ V / np.where(l == 0, 1, l)


def row_by_row(Q, K, V, window):
    """The same from the mask of the package, one row at a time."""
    O = np.zeros(Q.shape)
    for i, seen in enumerate(visible_mask(len(Q), len(K), window=window)):
        if seen.any():
            s = K[seen] @ Q[i] / np.sqrt(Q.shape[1])
            weights = np.exp(s - s.max())
            O[i] = weights / weights.sum() @ V[seen]
    return O


def problem(N_q, N_k, d, window, spread=1.0):
    """Inputs of a case, by name."""

    def draw():
        rng = np.random.default_rng(11)
        Q, K, V = (rng.normal(0, 1, (n, d)) for n in (N_q, N_k, N_k))
        return {"Q": spread * Q, "K": K, "V": V, "window": window}

    return draw


SEEN = "(keys <= own) & (keys > own - window)"
HIDDEN = "np.where(seen, Q @ K.T / np.sqrt(d), -np.inf)"

EXERCISE = Exercise(
    chapter="11",
    title="Attention in a window",
    statement=STATEMENT,
    solution=window_attention,
    oracle=row_by_row,
    returns=("O",),
    cases=[
        Case(
            "three tokens, a window of 2, equal scores",
            {
                "Q": np.zeros((3, 1)),
                "K": np.zeros((3, 1)),
                "V": np.array([[1.0], [3.0], [9.0]]),
                "window": 2,
            },
        ),
        Case("a window of 1 returns V", problem(4, 4, 2, 1)),
        Case("7 tokens, a window of 3", problem(7, 7, 4, 3), hint=2),
        Case("2 queries behind 5 keys, a window of 3", problem(2, 5, 3, 3), hint=3),
        Case("5 queries, 2 keys: rows that see nothing", problem(5, 2, 3, 3), hint=4),
        Case("scores in the thousands", problem(6, 6, 4, 4, spread=3000.0), hint=2),
        Case("a window longer than the sequence", problem(9, 9, 4, 200)),
        Case("40 tokens, a window of 16", problem(40, 40, 8, 16)),
    ],
    wrong={
        "one key too many": edited(
            window_attention,
            "The window holds one key too many: W counts the query's own key.",
            {"keys > own - window": "keys >= own - window"},
        ),
        "own key left out": edited(
            window_attention,
            "A query does not see its own key. It is one of the W.",
            {SEEN: "(keys < own) & (keys >= own - window)"},
        ),
        "looks both ways": edited(
            window_attention,
            "The window looks ahead as well as back. A query may not see a later key.",
            {SEEN: "abs(keys - own) < window"},
        ),
        "cut after the softmax": edited(
            window_attention,
            "The weights were cut to the window after the division, so they no longer sum to 1. "
            "Hide the scores before the softmax.",
            {
                HIDDEN: "np.where(keys <= own, Q @ K.T / np.sqrt(d), -np.inf)",
                "P @ V / np.where(l == 0, 1, l)": "(P * seen) @ V / np.where(l == 0, 1, l)",
            },
        ),
        "hidden score 0": edited(
            window_attention,
            "A hidden score was set to 0, which still gets the weight e^(0 - m). Use -inf.",
            {HIDDEN: "np.where(seen, Q @ K.T / np.sqrt(d), 0)"},
        ),
        "aligned at the top left": edited(
            window_attention,
            "The first query was put at the first key. The last query stands at the last key.",
            {" + N_k - N_q": ""},
        ),
        "no scale": edited(
            window_attention, "The scores were not divided by the root of d.", {" / np.sqrt(d)": ""}
        ),
        "nan where nothing is seen": edited(
            window_attention,
            "A row without keys gave nan: its maximum is -inf, and -inf - (-inf) is nan. Such a "
            "row is 0.",
            {"np.where(m == -np.inf, 0, m)": "m"},
        ),
    },
    hints=[
        "Make a bool array (N_q, N_k) of what is seen, and put -inf elsewhere before the softmax.",
        "Key j is seen by the query standing at p when p - W < j <= p.",
        "The last query stands at the last key: p = i + N_k - N_q, which may be negative.",
        "Put 0 in place of a maximum of -inf, and 1 in place of a sum of 0.",
    ],
    explanation="With $W \\ge N$ nothing more is hidden than causal attention hides: the same "
    "function, not an approximation of it.",
)
