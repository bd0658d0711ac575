"""Attention over a cache in many pieces, put together from outputs and LSE."""

import numpy as np

from ._exercise import Case, Exercise, edited

STATEMENT = r"""
A cache of keys and values was cut into $S$ pieces, and each piece attended to by a worker of its
own. Worker $i$ reports its finished output $o_i$, normalised over its own keys, and the natural
log-sum-exp of its scores, $\mathrm{LSE}_i = \ln \sum_j e^{s_j}$.

Return $(o, \mathrm{LSE})$ over all keys. LSE may be in the thousands. A worker that saw no key
reports $o_i = 0$, $\mathrm{LSE}_i = -\infty$; if none saw a key, return the same.
"""


def split_kv_merge(O, lse):
    """Attention of one query over all keys, from its results over pieces of them.

    Parameters
    ----------
    O : float array (S, d)
        Normalised output of each piece.
    lse : float array (S,)
        Log-sum-exp of each piece; -inf where it saw no key.

    Returns
    -------
    o : float array (d,)
    total : float
        Log-sum-exp of all scores.
    """
    m = lse.max()
    if m == -np.inf:
        return np.zeros(O.shape[1]), -np.inf
    weight = np.exp(lse - m)
    return weight @ O / weight.sum(), float(m + np.log(weight.sum()))


def two_at_a_time(O, lse):
    """The same, one piece after the other."""
    o, total = np.zeros(O.shape[1]), -np.inf
    for o_i, lse_i in zip(O, lse):
        if lse_i == -np.inf:
            continue
        both = np.logaddexp(total, lse_i)
        o = np.exp(total - both) * o + np.exp(lse_i - both) * o_i
        total = both
    return o, float(total)


def pieces(scores, values):
    """(O, lse) of the pieces of a cache, from lists of scores and of values."""
    O, lse = [], []
    for s, v in zip(scores, values):
        s, v = np.asarray(s, float), np.asarray(v, float)
        m = s.max()
        e = np.exp(s - m) if m > -np.inf else np.zeros(len(s))
        with np.errstate(divide="ignore"):
            lse.append(m + np.log(e.sum()) if m > -np.inf else -np.inf)
        O.append(e @ v / (e.sum() or 1))
    return {"O": np.array(O), "lse": np.array(lse)}


def random_pieces():
    rng = np.random.default_rng(15)
    sizes = (3, 11, 1, 6)
    return pieces(
        [rng.normal(0, 3, n) for n in sizes], [rng.standard_normal((n, 4)) for n in sizes]
    )


HIDDEN = -np.inf

EXERCISE = Exercise(
    chapter="15",
    title="Merging the pieces of a cache",
    statement=STATEMENT,
    solution=split_kv_merge,
    oracle=two_at_a_time,
    returns=("o", "total"),
    cases=[
        Case(
            "one key each, scores 0 and ln 3",
            lambda: pieces([[0.0], [np.log(3)]], [[[10.0]], [[2.0]]]),
        ),
        Case(
            "three keys against one, all scores 0",
            lambda: pieces([[0.0] * 3, [0.0]], [[[1.0, 0.0]] * 3, [[0.0, 1.0]]]),
        ),
        Case(
            "scores around 2000",
            lambda: pieces([[2000.0, 1999.0], [2001.0]], [[[1.0], [2.0]], [[3.0]]]),
            hint=2,
        ),
        Case(
            "scores around -2000",
            lambda: pieces([[-2000.0, -1999.0], [-2001.0]], [[[1.0], [2.0]], [[3.0]]]),
            hint=2,
        ),
        Case(
            "the middle piece saw no key",
            lambda: pieces([[0.5], [HIDDEN, HIDDEN], [1.0]], [[[3.0]], [[1.0], [2.0]], [[4.0]]]),
            hint=3,
        ),
        Case(
            "no piece saw a key",
            lambda: pieces([[HIDDEN], [HIDDEN]], [[[1.0, 2.0]], [[3.0, 4.0]]]),
            hint=3,
        ),
        Case("four pieces of 3, 11, 1 and 6 keys", random_pieces),
    ],
    wrong={
        "mean of the outputs": edited(
            split_kv_merge,
            """The outputs were averaged as if all pieces weighed the same. A piece weighs as much
            as its sum of exponentials, e^LSE.""",
            {"weight @ O / weight.sum()": "O[lse > -np.inf].mean(axis=0)"},
        ),
        "LSE as the weight": edited(
            split_kv_merge,
            "The outputs were weighted by LSE itself. It is a logarithm; the weight is e^LSE.",
            {"weight @ O / weight.sum()": "np.where(lse > -np.inf, lse, 0) @ O / lse.sum()"},
        ),
        "overflow": edited(
            split_kv_merge,
            """e^LSE overflows, or all of them underflow to 0. Only differences matter: subtract the
            largest LSE first.""",
            {"m = lse.max()\n    if m == -np.inf:": "m = 0.0\n    if lse.max() == -np.inf:"},
        ),
        "not divided": edited(
            split_kv_merge,
            "The weighted outputs were added and not divided by the sum of the weights.",
            {"weight @ O / weight.sum()": "weight @ O"},
        ),
        "largest LSE only": edited(
            split_kv_merge,
            """The LSE of all keys is not the largest one: add the logarithm of the sum of the
            weights.""",
            {"float(m + np.log(weight.sum()))": "float(m)"},
        ),
        "forgot the maximum": edited(
            split_kv_merge,
            "The maximum that was subtracted must be added to the logarithm again.",
            {"float(m + np.log(weight.sum()))": "float(np.log(weight.sum()))"},
        ),
        "no key at all": edited(
            split_kv_merge,
            """When no piece saw a key, -inf - (-inf) is NaN. By rule the result is o = 0,
            LSE = -inf.""",
            {"if m == -np.inf:": "if False:"},
        ),
    },
    hints=[
        """Before it was divided, the output of piece i was a sum of e^s v, and the divisor was
        e^LSE_i. Multiply it back.""",
        "Numerator and denominator may both be multiplied by e^(-m). Take m = the largest LSE.",
        """A piece with LSE = -inf gets weight e^(-inf) = 0 by itself. Only when all are -inf does
        the exponent need care.""",
    ],
    explanation=r"""LSE alone is enough; $m$ and $\ell$ need not travel separately. In
    Flash-Decoding a second small kernel does this for every query and head: $S(d + 1)$ numbers in,
    $d$ out.""",
)
