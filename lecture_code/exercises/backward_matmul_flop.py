"""Matmul FLOP of attention's backward, arranged in four ways."""

from ._exercise import Case, Exercise, edited

STATEMENT = r"""
Count the FLOP of the matrix products between the forward's end and the three gradients of one
head, with $N_q$ queries, $N_k$ keys and head dimension $d$. A multiply-add is 2 FLOP, and no
tile is skipped. `method` is one of

- `"standard"`: the forward stored $P$, the backward reads it;
- `"flash"`: $P$ is computed again tile by tile, one pass over the tiles makes all three
  gradients;
- `"two kernels"`: $P$ is computed again, one kernel makes $dK$ and $dV$, another makes $dQ$,
  and they share only $D$;
- `"checkpoint"`: the whole forward is run again, $O$ included, and then the standard backward.
"""


def backward_matmul_flop(N_q, N_k, d, method):
    """FLOP of the matrix products in the backward of one head.

    Parameters
    ----------
    N_q, N_k, d : int
        Queries, keys, head dimension.
    method : str
        "standard", "flash", "two kernels" or "checkpoint".

    Returns
    -------
    flop : int
    """
    products = {"standard": 4, "flash": 5, "two kernels": 7, "checkpoint": 6}
    return products[method] * 2 * N_q * N_k * d


def by_listing(N_q, N_k, d, method):
    """The same, from the list of products with their shapes."""
    shapes = {
        "S": (N_q, d, N_k),
        "O": (N_q, N_k, d),
        "dP": (N_q, d, N_k),
        "dV": (N_k, N_q, d),
        "dQ": (N_q, N_k, d),
        "dK": (N_k, N_q, d),
    }
    gradients = ["dV", "dP", "dQ", "dK"]
    made = {
        "standard": gradients,
        "flash": ["S", *gradients],
        "two kernels": ["S", "dP", "dV", "dK"] + ["S", "dP", "dQ"],
        "checkpoint": ["S", "O", *gradients],
    }[method]
    return sum(2 * m * k * n for m, k, n in map(shapes.get, made))


def head(method, N_q=4, N_k=4, d=2):
    """Inputs of a case."""
    return {"N_q": N_q, "N_k": N_k, "d": d, "method": method}


EXERCISE = Exercise(
    chapter="09",
    title="FLOP of four backwards",
    statement=STATEMENT,
    solution=backward_matmul_flop,
    oracle=by_listing,
    returns=("flop",),
    cases=[
        Case("standard, N = 4, d = 2", head("standard")),
        Case("flash, N = 4, d = 2", head("flash"), hint=2),
        Case("two kernels, N = 4, d = 2", head("two kernels"), hint=3),
        Case("checkpoint, N = 4, d = 2", head("checkpoint"), hint=4),
        Case("3 queries, 5 keys", head("flash", 3, 5), hint=1),
        Case("two kernels, N = 1024, d = 64", head("two kernels", 1024, 1024, 64), hint=3),
    ],
    wrong={
        "multiply-add as one": edited(
            backward_matmul_flop,
            "A multiply-add was counted as one FLOP. It is one multiplication and one addition.",
            {"* 2 * N_q": "* N_q"},
        ),
        "recomputation left out": edited(
            backward_matmul_flop,
            "S = QKᵀ was not counted again. Every method that did not store P needs it before it "
            "has P.",
            {'"flash": 5, "two kernels": 7': '"flash": 4, "two kernels": 5'},
        ),
        "O computed again": edited(
            backward_matmul_flop,
            "O = PV was counted again. The forward saved O; only P is computed again.",
            {'"flash": 5, "two kernels": 7': '"flash": 6, "two kernels": 8'},
        ),
        "second kernel for free": edited(
            backward_matmul_flop,
            "The kernel for dQ was given S and dP by the other one. They share nothing but D: it "
            "must "
            "compute both again.",
            {'"two kernels": 7': '"two kernels": 5'},
        ),
        "dP not computed twice": edited(
            backward_matmul_flop,
            "Both kernels need dP = dO Vᵀ for dS, not only S.",
            {'"two kernels": 7': '"two kernels": 6'},
        ),
        "checkpoint saved O": edited(
            backward_matmul_flop,
            "Checkpointing as described runs the whole forward again: both of its products.",
            {'"checkpoint": 6': '"checkpoint": 5'},
        ),
        "queries twice": edited(
            backward_matmul_flop,
            "N_q was used in both places. Each product pairs N_q queries with N_k keys.",
            {"N_q * N_k": "N_q * N_q"},
        ),
    },
    hints=[
        "Each of dV, dP, dQ and dK is one product over the whole head. Whatever its shape, it "
        "costs "
        "2 N_q N_k d FLOP.",
        "P needs S = QKᵀ first: one product more. The exponential is no product.",
        "The kernel for dK and dV needs P for dV and dS for dK. The one for dQ needs dS as "
        "well. What "
        "does dS need?",
        "The forward has two products.",
    ],
    explanation="A product costs the same whatever its shape here, so counting products is enough: "
    "4, 5, 7 and 6. With the forward's 2, the totals are 6, 7, 9 and 8 products.",
)
