"""Elements that block-sparse FlashAttention moves in its forward pass."""

import numpy as np

from ..io_model import flash_io
from ._exercise import Case, Exercise, edited

STATEMENT = r"""
Block-sparse FlashAttention is Algorithm 1 with tiles left out: tile $(i, j)$ is done only where
`blocks[i, j]` is True.
Count the elements that its forward pass moves, for one head with $N$ queries and keys:

- $O$, $\ell$ and $m$ are written once at the start, whole;
- $K_j$ and $V_j$ are read once if any tile of column $j$ is done, otherwise not at all;
- for each tile that is done, $Q_i$, $O_i$, $\ell_i$, $m_i$ are read and $O_i$, $\ell_i$, $m_i$
are written.

The last block of rows and the last block of columns may be short.
"""


def block_sparse_traffic(N, d, Br, Bc, blocks):
    """Elements moved by the forward pass of block-sparse FlashAttention.

    Parameters
    ----------
    N, d : int
        Sequence length and head dimension.
    Br, Bc : int
        Rows of a block of Q, rows of a block of K and V.
    blocks : bool array (Tr, Tc)
        The tiles that are done.

    Returns
    -------
    traffic : int
        Loads and stores together, in elements.
    """
    traffic = N * d + 2 * N
    for j, c in enumerate(range(0, N, Bc)):
        keys = min(Bc, N - c)
        if blocks[:, j].any():
            traffic += 2 * keys * d
        for i, r in enumerate(range(0, N, Br)):
            if blocks[i, j]:
                traffic += min(Br, N - r) * (3 * d + 4)
    return traffic


def times_the_fraction(N, d, Br, Bc, blocks):
    """The whole traffic was scaled by the fraction of tiles. The initial store does not shrink,
    and K, V are read a column at a time."""
    whole = 3 * N * d + 2 * N + -(-N // Bc) * (3 * N * d + 4 * N)
    return round(whole * blocks.mean())


def a(N, d, Br, Bc, blocks):
    return {"N": N, "d": d, "Br": Br, "Bc": Bc, "blocks": np.array(blocks, dtype=bool)}


EXERCISE = Exercise(
    chapter="10",
    title="Traffic of a block mask",
    statement=STATEMENT,
    solution=block_sparse_traffic,
    oracle=lambda N, d, Br, Bc, blocks: flash_io(N, d, Br=Br, Bc=Bc, blocks=blocks).forward,
    returns=("traffic",),
    cases=[
        Case("every tile", a(4, 1, 2, 2, [[1, 1], [1, 1]])),
        Case("a triangle of tiles", a(4, 1, 2, 2, [[1, 0], [1, 1]])),
        Case("a column that nobody visits", a(4, 2, 2, 2, [[1, 0], [1, 0]]), hint=2),
        Case("a row that visits nothing", a(4, 2, 2, 2, [[0, 0], [1, 1]]), hint=3),
        Case("no tile at all", a(4, 2, 2, 2, [[0, 0], [0, 0]]), hint=3),
        Case("a short last row of tiles", a(5, 2, 4, 5, [[0], [1]]), hint=4),
        Case("a short last column of tiles", a(5, 2, 5, 4, [[0, 1]]), hint=4),
        Case(
            "the causal mask of the chapter, 136 of 256",
            lambda: a(256, 32, 16, 16, np.tri(16)),
        ),
        Case(
            "a random mask, nothing divides",
            lambda: a(101, 7, 9, 13, np.random.default_rng(4).random((12, 8)) < 0.4),
            hint=4,
        ),
    ],
    wrong={
        "times the fraction": times_the_fraction,
        "K and V for each tile": edited(
            block_sparse_traffic,
            """K and V were read again for every tile. In this order they stay on chip for the
            whole column.""",
            {"2 * keys * d": "2 * keys * d * blocks[:, j].sum()"},
        ),
        "K and V of an empty column": edited(
            block_sparse_traffic,
            "K and V were read although no tile of their column is done.",
            {"blocks[:, j].any()": "True"},
        ),
        "no initial store": edited(
            block_sparse_traffic,
            """The initial store of O, l and m is missing: a row that no tile touches still needs
            its zeros.""",
            {"traffic = N * d + 2 * N": "traffic = 0"},
        ),
        "full rows in a short block": edited(
            block_sparse_traffic,
            "The last block of rows is short: it moves only the rows that exist.",
            {"min(Br, N - r)": "Br"},
        ),
        "full columns in a short block": edited(
            block_sparse_traffic,
            "The last block of K and V is short: it moves only the rows that exist.",
            {"min(Bc, N - c)": "Bc"},
        ),
        "row statistics left out": edited(
            block_sparse_traffic,
            """The row statistics are missing: l and m are read and written with each tile, four
            elements a row.""",
            {"(3 * d + 4)": "3 * d"},
        ),
    },
    hints=[
        """Follow the two loops of Algorithm 1, j outside and i inside, and add what each line
        moves.""",
        "Read K_j and V_j only where blocks[:, j].any().",
        "The initial store writes N d + 2N elements whatever the mask.",
        "Block i holds min(Br, N - i Br) rows, block j holds min(Bc, N - j Bc).",
    ],
    explanation="""The part that repeats, Tc (3Nd + 4N), shrinks with the fraction of tiles. The
    initial store does not, so a causal mask with 0.531 of the tiles moves 0.558 of the
    elements.""",
)
