"""A row whose blocks were normalised apart, put right."""

import numpy as np

from ..softmax import safe_softmax
from ._exercise import Case, Exercise, edited

STATEMENT = r"""
Somebody cut a row of scores into blocks, took the softmax of each block by itself and wants to
join the results. Each block then sums to 1, so a row of two blocks sums to 2. What was kept is
enough to repair it: for each block its softmax $p$, its largest score $m$ and its sum
$\ell = \sum_j e^{x_j - m}$.

`parts` is a list of $(p, m, \ell)$. Return the softmax of the whole row as one array. The scores
may be huge, and a block whose scores are all $-\infty$ has $p = 0$, $m = -\infty$, $\ell = 0$; at
least one block has a finite score.
"""


def blockwise_softmax_fixed(parts):
    """Softmax of a row from the separate softmax of its blocks.

    Parameters
    ----------
    parts : list of (p, m, l)
        p : float array, the softmax within a block; m, l : float, its largest score and its sum of
        exp(x - m).

    Returns
    -------
    float array
        The softmax of the whole row, blocks in the given order.
    """
    m = max(m_k for _, m_k, _ in parts)
    weights = [l_k * np.exp(m_k - m) for _, m_k, l_k in parts]
    l = sum(weights)
    return np.concatenate([p * w / l for (p, _, _), w in zip(parts, weights)])


def oracle(parts):
    """From the scores themselves: x = m + ln(p l)."""
    with np.errstate(divide="ignore"):
        return safe_softmax(np.concatenate([m + np.log(p * l) for p, m, l in parts]))


def cut(x, *sizes):
    """The parts that somebody would have kept of a row cut into blocks of these sizes."""
    parts = []
    for block in np.split(np.array(x, float), np.cumsum(sizes)[:-1]):
        m = float(block.max())
        e = np.exp(block - (m if np.isfinite(m) else 0))
        l = float(e.sum())
        parts.append((e / (l or 1.0), m, l))
    return parts


def case(label, x, *sizes, hint=1):
    """A row and the sizes of its blocks."""
    finite = np.abs(np.array(x)[np.isfinite(x)]).max()
    parts = cut(x, *sizes)
    return Case(label, {"parts": parts}, hint=hint, terms=len(x), span=4 * finite)


EXERCISE = Exercise(
    chapter="07",
    title="Why softmax cannot simply be cut into blocks",
    statement=STATEMENT,
    solution=blockwise_softmax_fixed,
    oracle=oracle,
    returns=("p",),
    cases=[
        case("two blocks of one equal score", [1.0, 1.0], 1, 1),
        case("two blocks of one score", [0.0, 1.0], 1, 1, hint=2),
        case("two blocks of two", [1.0, 3.0, 5.0, 2.0], 2, 2, hint=2),
        case("blocks of different length", [1.0, 1.0, 1.0, 1.0], 3, 1, hint=3),
        case("the lecture's row in threes", [2, -1, 3, 0.5, 6, 1, -2, 5.5], 3, 3, 2, hint=3),
        case("huge scores", [1000.0, 999.0, 1002.0], 2, 1, hint=4),
        case("one block hidden", [-np.inf, -np.inf, 1.0, 2.0], 2, 2, hint=4),
        case("50 scores", np.random.default_rng(5).normal(0, 3, 50), 20, 20, 10),
    ],
    wrong={
        "joined as they are": edited(
            blockwise_softmax_fixed,
            """Joined as they are, the blocks sum to 1 each, and the row to the number of
            blocks. Every block needs a weight, its share of the whole row's sum.""",
            {"p * w / l": "p"},
        ),
        "divided by the number of blocks": edited(
            blockwise_softmax_fixed,
            """The row sums to 1 now, but every block got the same share. A block with larger
            scores has a larger one.""",
            {"p * w / l": "p / len(parts)"},
        ),
        "maxima not compared": edited(
            blockwise_softmax_fixed,
            """The shares were taken from l alone. Each l is relative to its own block's
            maximum, so the maxima have to be compared: l exp(m_k - m).""",
            {"l_k * np.exp(m_k - m)": "l_k"},
        ),
        "sums left out": edited(
            blockwise_softmax_fixed,
            """The shares were taken from the maxima alone. A block with more scores near its
            maximum has a larger sum l.""",
            {"l_k * np.exp(m_k - m)": "np.exp(m_k - m)"},
        ),
        "overflow": edited(
            blockwise_softmax_fixed,
            "exp(m_k) overflows above 709. Subtract the largest maximum first.",
            {"np.exp(m_k - m)": "np.exp(m_k)"},
        ),
    },
    hints=[
        "The joined row must sum to 1. By what must each block be multiplied?",
        "p_j l_k = exp(x_j - m_k) undoes the separate normalisation of block k.",
        """exp(x_j - m) = p_j l_k exp(m_k - m), with m the largest of all maxima. Then divide by
        the sum over the whole row.""",
        """With m the largest maximum no exponent is positive, and a hidden block gets exp(-inf)
        = 0.""",
    ],
    explanation="""Two things were lost by cutting: the denominator saw one block only, and the
    maxima of the blocks were never compared. The pair (m, l) of each block keeps both, which is
    what online softmax carries along.""",
)
