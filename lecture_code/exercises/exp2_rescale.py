"""One step of online softmax with exp2, the scale folded into one constant."""

import numpy as np

from ._exercise import Case, Exercise, edited

STATEMENT = r"""
A GPU computes $2^x$ in one instruction; $e^x$ is that after a multiplication by $\log_2 e$. The
kernel folds this factor and the scale $\tau$ into one constant.

Take one tile of raw scores $q \cdot k$, not scaled, of shape (rows, columns), and running
statistics in base 2: $m_2$, the maximum of $\tau\, q \cdot k \log_2 e$ so far, and $\ell = \sum
2^{x - m_2}$, which is the same $\ell$ as ever. Return the new $m_2$, the new $\ell$, the factor
for the old output, and the natural log-sum-exp $\ln \sum e^{\tau\, q \cdot k}$ over all keys so
far. Use `np.exp2` and no other exponential; hidden scores are $-\infty$, at least one score of
each row is not, and $\tau > 0$.
"""


def exp2_rescale(raw, tau, m2, l):
    """One tile into the running statistics.

    Parameters
    ----------
    raw : float array (rows, columns)
        Products q · k.
    tau : float
        Scale of the scores, positive.
    m2 : float array (rows,)
        Running maximum of the scores times log2(e); -inf before the first tile.
    l : float array (rows,)
        Running sum; 0 before the first tile.

    Returns
    -------
    m2, l : float array (rows,)
    rescale : float array (rows,)
        Factor for the output so far.
    lse : float array (rows,)
        Natural log-sum-exp of the scaled scores.
    """
    x = raw * (tau * np.log2(np.e))
    m2_new = np.maximum(m2, x.max(axis=1))
    rescale = np.exp2(m2 - m2_new)
    l_new = rescale * l + np.exp2(x - m2_new[:, None]).sum(axis=1)
    return m2_new, l_new, rescale, (m2_new + np.log2(l_new)) * np.log(2)


def in_base_e(raw, tau, m2, l):
    """The same with natural exponentials."""
    ln2 = np.log(2.0)
    s, m = tau * raw, m2 * ln2
    m_new = np.maximum(m, s.max(axis=1))
    rescale = np.exp(m - m_new)
    l_new = rescale * l + np.exp(s - m_new[:, None]).sum(axis=1)
    return m_new / ln2, l_new, rescale, m_new + np.log(l_new)


def start(raw, tau):
    raw = np.asarray(raw, float)
    return {
        "raw": raw,
        "tau": tau,
        "m2": np.full(len(raw), -np.inf),
        "l": np.zeros(len(raw)),
    }


def going_on(raw, tau, m2, l):
    return {"raw": np.asarray(raw, float), "tau": tau, "m2": np.array(m2), "l": np.array(l)}


def random_tile():
    rng = np.random.default_rng(12)
    raw = rng.normal(0, 20, (5, 7))
    raw[2, 1:] = -np.inf
    return going_on(raw, 0.125, rng.normal(0, 3, 5), rng.uniform(1, 9, 5))


EXERCISE = Exercise(
    chapter="12",
    title="Softmax in base 2",
    statement=STATEMENT,
    solution=exp2_rescale,
    oracle=in_base_e,
    returns=("m2", "l", "rescale", "lse"),
    cases=[
        Case("one score of 1, scale 1", lambda: start([[1.0]], 1.0)),
        Case("two scores, scale 1/2", lambda: start([[0.0, 2 * np.log(2)]], 0.5)),
        Case("a second tile, a larger score", lambda: going_on([[4.0, 1.0]], 1.0, [1.0], [2.0])),
        Case("a second tile with smaller scores", lambda: going_on([[-4.0]], 1.0, [3.0], [1.5])),
        Case("scores in the thousands", lambda: start([[9000.0, 8999.0]], 0.5), hint=2),
        Case("a hidden score", lambda: start([[1.0, -np.inf, 2.0]], 0.25), hint=2),
        Case("five rows, seven columns", random_tile),
    ],
    wrong={
        "log2(e) forgotten": edited(
            exp2_rescale,
            "2^x is not e^x: the constant misses the factor log2(e).",
            {"tau * np.log2(np.e)": "tau"},
        ),
        "ln 2 instead of log2(e)": edited(
            exp2_rescale,
            "The scores were multiplied by ln 2. e^x = 2^(x log2 e), and log2 e = 1/ln 2.",
            {"tau * np.log2(np.e)": "tau * np.log(2)"},
        ),
        "scale forgotten": edited(
            exp2_rescale,
            "The scale tau is missing from the constant.",
            {"tau * np.log2(np.e)": "np.log2(np.e)"},
        ),
        "LSE in base 2": edited(
            exp2_rescale,
            "The log-sum-exp is in base 2. Outside the kernel it is natural: multiply by ln 2.",
            {"(m2_new + np.log2(l_new)) * np.log(2)": "m2_new + np.log2(l_new)"},
            hint=3,
        ),
        "two bases in one sum": edited(
            exp2_rescale,
            "The maximum is in base 2 and the logarithm of the sum natural: convert before adding.",
            {"(m2_new + np.log2(l_new)) * np.log(2)": "m2_new + np.log(l_new)"},
            hint=3,
        ),
        "sum not rescaled": edited(
            exp2_rescale,
            "The old sum was not rescaled to the new maximum.",
            {"rescale * l +": "l +"},
            hint=2,
        ),
        "factor turned over": edited(
            exp2_rescale,
            "The factor is turned over: the old terms shrink when the maximum grows.",
            {"np.exp2(m2 - m2_new)": "np.exp2(np.where(m2 > -np.inf, m2_new - m2, -np.inf))"},
            hint=2,
        ),
    },
    hints=[
        "e^(tau s) = 2^(c s). What is c?",
        "From here on nothing is new: maximum, factor 2^(old - new), sum.",
        "m2 + log2(l) is the log-sum-exp in base 2; log_e x = log_2 x times ln 2.",
    ],
    explanation="One multiplication a score is all that is left of scale and base; in the kernel "
    "it melts into the subtraction, as one fused multiply-add.",
)
