"""Statistics of two pieces of many rows, made one."""

import numpy as np

from ._exercise import Case, Exercise, edited

STATEMENT = r"""
Two pieces of the same rows were processed apart. For each row, piece $a$ left its largest score
$m_a$ and $\ell_a = \sum_j e^{x_j - m_a}$; piece $b$ left $(m_b, \ell_b)$. Return $(m, \ell)$ of
both pieces together, without seeing a score again.

All four arguments are arrays with one number a row. A piece in which a row saw nothing has
$m = -\infty$, $\ell = 0$; if a row saw nothing in both, so has the result. By hand first: $[1, 3]$
and $[5, 2]$.
"""


def merge_two_blocks(m_a, l_a, m_b, l_b):
    """Merge the softmax statistics of two pieces.

    Parameters
    ----------
    m_a, l_a, m_b, l_b : float arrays (rows,)
        Largest score and sum of exp(x - m) of each piece; (-inf, 0) where it is empty.

    Returns
    -------
    m, l : float arrays (rows,)
        The same for both pieces together.
    """
    m = np.maximum(m_a, m_b)
    base = np.where(m == -np.inf, 0, m)
    return m, l_a * np.exp(m_a - base) + l_b * np.exp(m_b - base)


def oracle(m_a, l_a, m_b, l_b):
    """Through log-sum-exp: l = exp(lse - m)."""
    m = np.where(m_a > m_b, m_a, m_b)
    with np.errstate(divide="ignore", invalid="ignore"):
        lse = np.logaddexp(m_a + np.log(l_a), m_b + np.log(l_b))
        return m, np.where(m == -np.inf, 0, np.exp(lse - m))


def case(label, *rows, hint=1):
    """Rows are (m_a, l_a, m_b, l_b)."""
    inputs = dict(zip(("m_a", "l_a", "m_b", "l_b"), np.array(rows, float).T.copy()))
    return Case(label, inputs, hint=hint)


def many(rng_seed=3):
    """Statistics of 40 rows of random scores, 30 in one piece and 17 in the other."""
    x = np.random.default_rng(rng_seed).normal(0, 3, (40, 47))
    a, b = x[:, :30], x[:, 30:]
    m_a, m_b = a.max(axis=1), b.max(axis=1)
    return {
        "m_a": m_a,
        "l_a": np.exp(a - m_a[:, None]).sum(axis=1),
        "m_b": m_b,
        "l_b": np.exp(b - m_b[:, None]).sum(axis=1),
    }


HALF, EMPTY = (3.0, 1 + np.exp(-2.0)), (-np.inf, 0.0)

EXERCISE = Exercise(
    chapter="07",
    title="Merge two blocks",
    statement=STATEMENT,
    solution=merge_two_blocks,
    oracle=oracle,
    returns=("m", "l"),
    cases=[
        case("equal maxima", (2.0, 1.5, 2.0, 2.0)),
        case("the lecture's [1, 3] and [5, 2]", (*HALF, 5.0, 1 + np.exp(-3.0)), hint=2),
        case("the larger maximum in a", (5.0, 1 + np.exp(-3.0), *HALF), hint=2),
        case("two rows", (0.0, 1.0, 1.0, 2.0), (1.0, 3.0, -1.0, 1.0), hint=2),
        case("one piece empty", (*HALF, *EMPTY), (*EMPTY, *HALF), hint=3),
        case("both pieces empty", (*EMPTY, *EMPTY), (*HALF, *HALF), hint=3),
        case("scores far apart", (900.0, 1.0, -900.0, 1.0), (-900.0, 1.0, 900.0, 1.0), hint=4),
        Case("40 rows", many),
    ],
    wrong={
        "adds l as it is": edited(
            merge_two_blocks,
            """The sums were added as they are. Each was taken relative to its own maximum:
            bring both to the common one, l_a exp(m_a - m) + l_b exp(m_b - m).""",
            {"l_a * np.exp(m_a - base) + l_b * np.exp(m_b - base)": "l_a + l_b"},
        ),
        "rescales b only": edited(
            merge_two_blocks,
            "Only one piece was rescaled. Either may have the smaller maximum: both need a factor.",
            {"l_a * np.exp(m_a - base)": "l_a"},
        ),
        "the wrong way round": edited(
            merge_two_blocks,
            "The exponent has the wrong sign: it is m_a - m, never above 0.",
            {
                "np.exp(m_a - base)": "np.exp(base - m_a)",
                "np.exp(m_b - base)": "np.exp(base - m_b)",
            },
        ),
        "NaN for an empty piece": edited(
            merge_two_blocks,
            """Where both pieces are empty, m is -inf and -inf - (-inf) is NaN. Subtract some finite
            number there instead.""",
            {"np.where(m == -np.inf, 0, m)": "m"},
        ),
        "forgot the maximum": edited(
            merge_two_blocks,
            """The maximum of the two was not taken: the base is m_a whatever m_b is, so a
            larger m_b overflows.""",
            {"np.maximum(m_a, m_b)": "m_a + 0"},
        ),
    },
    hints=[
        "The largest score of both pieces is the larger of the two largest.",
        "exp(x - m) = exp(x - m_a) · exp(m_a - m): the factor is the same for all terms of l_a.",
        "exp(-inf) is 0, which is right for one empty piece. Only -inf - (-inf) needs care.",
        "With m at least m_a and m_b no exponent is positive, so nothing overflows.",
    ],
    explanation="""The rule does not mind the order of the pieces, nor which of them is longer.
    So pieces can be processed in parallel and merged in any tree, as Flash-Decoding does with a
    long KV cache.""",
)
