"""dS and dV of one tile when dropout acts on the probabilities."""

import numpy as np

from ._exercise import Case, Exercise, edited

STATEMENT = r"""
One tile of the backward with dropout. The forward computed $O = (P \circ Z)V$, where $Z$ holds
$1/(1 - p)$ for the probabilities that were kept and 0 for the others. The tile's $P_{ij}$ has
been computed again and its $Z_{ij}$ regenerated. Return the tile of $dS$ and what the tile adds
to $dV_j$.

The tile has only some of the row's keys, and a row may see no key in it ($P = 0$).
"""


def dropout_backward_tile(P, Z, Vj, Oi, dOi):
    """Gradient of a tile of scores, and the tile's part of the gradient of the values.

    Parameters
    ----------
    P, Z : float array (Br, Bc)
        Probabilities before dropout, and the factors 0 or 1/(1 - p).
    Vj : float array (Bc, d)
    Oi, dOi : float array (Br, d)
        Finished output of these rows, over all keys, and its gradient.

    Returns
    -------
    dS : float array (Br, Bc)
    dV : float array (Bc, d)
    """
    D = (dOi * Oi).sum(axis=1)
    dV = (P * Z).T @ dOi
    dP = Z * (dOi @ Vj.T)
    return P * (dP - D[:, None]), dV


def entry_by_entry(P, Z, Vj, Oi, dOi):
    """The same from sums over single entries."""
    dropped_gradient = np.einsum("rc,kc->rk", dOi, Vj)
    D = np.einsum("rc,rc->r", dOi, Oi)
    dS = np.einsum("rk,rk,rk->rk", P, Z, dropped_gradient) - np.einsum("rk,r->rk", P, D)
    return dS, np.einsum("rk,rk,rc->kc", P, Z, dOi)


def tile(p, columns, rows=3, N_k=8, d=2, empty=None):
    """Inputs of a case: the tile `columns` of a row over N_k keys, dropout with chance p."""
    rng = np.random.default_rng(9)
    scores, draws = rng.normal(size=(rows, N_k)), rng.random((rows, N_k))
    V, dO = rng.normal(size=(N_k, d)), rng.normal(size=(rows, d))
    P = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    if empty is not None:
        P[empty] = 0
    Z = np.where(draws < p, 0.0, 1 / (1 - p)) if p < 1 else np.zeros((rows, N_k))
    O = (P * Z) @ V
    j = slice(*columns)
    return {"P": P[:, j], "Z": Z[:, j], "Vj": V[j], "Oi": O, "dOi": dO}


def all_dropped():
    """A tile in which every probability was dropped, in rows where others were kept."""
    case = tile(0.5, (0, 3))
    return {**case, "Z": np.zeros_like(case["Z"])}


RESULT = "P * (dP - D[:, None])"

EXERCISE = Exercise(
    chapter="09",
    title="One tile with dropout",
    statement=STATEMENT,
    solution=dropout_backward_tile,
    oracle=entry_by_entry,
    returns=("dS", "dV"),
    cases=[
        Case("no dropout, the tile is the whole row", lambda: tile(0.0, (0, 8), rows=2)),
        Case("no dropout, 3 of the row's 8 keys", lambda: tile(0.0, (2, 5)), hint=2),
        Case("dropout 1/2, 3 of 8 keys", lambda: tile(0.5, (2, 5)), hint=3),
        Case("every probability of the tile dropped", all_dropped, hint=4),
        Case("a row that sees no key", lambda: tile(0.5, (2, 5), empty=1), hint=2),
        Case("dropout 0.1, tile of 17 × 13", lambda: tile(0.1, (20, 33), 17, 60, 8), hint=3),
    ],
    wrong={
        "D left out": edited(
            dropout_backward_tile,
            "dS = P ∘ dP leaves D out. The denominator of the softmax depends on every score of the"
            " row.",
            {RESULT: "P * dP"},
        ),
        "D from the tile alone": edited(
            dropout_backward_tile,
            "D was summed over the tile's keys. It runs over the whole row, which rowsum(dO ∘ O) "
            "holds.",
            {"D = (dOi * Oi).sum(axis=1)": "D = (P * Z * (dOi @ Vj.T)).sum(axis=1)"},
        ),
        "no dropout in dV": edited(
            dropout_backward_tile,
            "dV was taken with P. The values were added up with the weights P ∘ Z.",
            {"(P * Z).T @ dOi": "P.T @ dOi"},
        ),
        "no dropout in dP": edited(
            dropout_backward_tile,
            "dO Vᵀ is the gradient of P ∘ Z. The gradient of P has one factor Z more.",
            {"Z * (dOi @ Vj.T)": "dOi @ Vj.T"},
        ),
        "dropped scores without a gradient": edited(
            dropout_backward_tile,
            "Z was multiplied onto dS. A dropped probability still stands in the denominator of its"
            " "
            "row, so its score keeps the gradient -P D.",
            {RESULT: "P * Z * (dOi @ Vj.T - D[:, None])"},
        ),
        "forgot to scale what is kept": edited(
            dropout_backward_tile,
            "Z was used as a mask of zeros and ones. What is kept was multiplied by 1/(1 - p) in "
            "the "
            "forward, and must be here.",
            {"(P * Z).T": "(P * (Z > 0)).T", "Z * (dOi": "(Z > 0) * (dOi"},
        ),
    },
    hints=[
        "Walk the chain from the right: O = (P ∘ Z)V, then P ∘ Z from P, then P from S.",
        "D = Σ P dP over all keys of the row. You have only some of them, and O and dO of the row.",
        "Let W = P ∘ Z. dW = dO Vᵀ and dV = Wᵀ dO; then dP = Z ∘ dW.",
        "A dropped entry has dP = 0. Put that into dS = P ∘ (dP - D).",
    ],
    explanation="Two factors Z, one in each product, and nothing else: D needs no Z, because O "
    "already contains it.",
)
