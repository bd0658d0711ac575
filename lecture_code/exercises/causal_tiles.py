"""Tiles that a causal mask leaves to do, and those that need the mask inside."""

import numpy as np

from ..blocks import tile_ranges, visible_mask
from ._exercise import Case, Exercise, edited

STATEMENT = r"""
$N_q$ queries in blocks of $B_r$ rows meet $N_k$ keys in blocks of $B_c$ rows, under a causal mask
aligned at the bottom right: query $i$ sees keys $0 \dots i + N_k - N_q$. Count

- `visited`: tiles in which at least one pair is visible, the ones that are not skipped;
- `masked`: those among them in which at least one pair is hidden, the ones that need the mask
  inside.

The last block of each kind may be short: a pair beyond the end of $Q$ or $K$ does not exist, so
it is neither visible nor hidden. With $N_q > N_k$ the first queries see nothing.
"""


def causal_tiles(N_q, N_k, Br, Bc):
    """Count the tiles of a causal attention that are visited, and those that need a mask.

    Parameters
    ----------
    N_q, N_k : int
        Queries and keys; the last query sees every key.
    Br, Bc : int
        Rows in a block of Q, rows in a block of K.

    Returns
    -------
    visited, masked : int
        Tiles with a visible pair; those among them with a hidden pair too.
    """
    visited = masked = 0
    for start in range(0, N_q, Br):
        last = min(start + Br, N_q) - 1
        seen_by_all = max(start + N_k - N_q + 1, 0)
        seen_by_some = max(last + N_k - N_q + 1, 0)
        stops = [min(c + Bc, N_k) for c in range(0, seen_by_some, Bc)]
        visited += len(stops)
        masked += sum(stop > seen_by_all for stop in stops)
    return visited, masked


def brute_force(N_q, N_k, Br, Bc):
    """The same from the whole mask."""
    mask = visible_mask(N_q, N_k, causal=True)
    tiles = [
        mask[r0:r1, c0:c1] for r0, r1 in tile_ranges(N_q, Br) for c0, c1 in tile_ranges(N_k, Bc)
    ]
    visited = [tile for tile in tiles if tile.any()]
    return len(visited), int(np.sum([not tile.all() for tile in visited], dtype=int))


def sizes(N_q, N_k, Br, Bc):
    return {"N_q": N_q, "N_k": N_k, "Br": Br, "Bc": Bc}


EXERCISE = Exercise(
    chapter="08",
    title="Tiles under a causal mask",
    statement=STATEMENT,
    solution=causal_tiles,
    oracle=brute_force,
    returns=("visited", "masked"),
    cases=[
        Case("two tiles a side", sizes(4, 4, 2, 2)),
        Case("one row a block", sizes(4, 4, 1, 2), hint=2),
        Case("wide tiles: two blocks of Q share a diagonal tile", sizes(8, 8, 2, 4), hint=2),
        Case("low blocks of K: one block of Q crosses two of them", sizes(8, 8, 4, 2), hint=2),
        Case("few queries, many keys", sizes(2, 8, 2, 4), hint=3),
        Case("more queries than keys", sizes(6, 2, 2, 2), hint=3),
        Case("sizes that do not divide", sizes(7, 7, 3, 2), hint=4),
        Case("a short last block that its only row sees whole", sizes(5, 5, 4, 4), hint=4),
        Case("tiles larger than the problem", sizes(3, 5, 16, 16), hint=4),
        Case("no keys", sizes(3, 0, 2, 2)),
        Case("16 x 16 blocks of 256 rows: 136 of 256", sizes(256, 256, 16, 16)),
        Case("129 queries, 300 keys", sizes(129, 300, 16, 24), hint=4),
    ],
    wrong={
        "aligned at the top left": edited(
            causal_tiles,
            "The mask is aligned at the top left. The last query sees the last key: query i "
            "stands at key i + N_k - N_q.",
            {"start + N_k - N_q + 1": "start + 1", "last + N_k - N_q + 1": "last + 1"},
        ),
        "a query does not see its own key": edited(
            causal_tiles,
            "One key too few: query i sees its own key i + N_k - N_q as well, so it sees i + N_k "
            "- N_q + 1 keys.",
            {
                "start + N_k - N_q + 1": "start + N_k - N_q",
                "last + N_k - N_q + 1": "last + N_k - N_q",
            },
        ),
        "only the first row counts": edited(
            causal_tiles,
            "A tile is visited if any row of the block sees any of its keys; the last row sees "
            "the most, not the first.",
            {"range(0, seen_by_some, Bc)": "range(0, seen_by_all, Bc)"},
        ),
        "one masked tile a block of Q": edited(
            causal_tiles,
            "The diagonal can cross several tiles of one block of Q, or none. Test each visited "
            "tile.",
            {"sum(stop > seen_by_all for stop in stops)": "min(len(stops), 1)"},
        ),
        "keys that do not exist": edited(
            causal_tiles,
            "The last block of K is short. Keys beyond N_k do not exist, so they are not hidden.",
            {"min(c + Bc, N_k)": "c + Bc"},
        ),
        "rows that do not exist": edited(
            causal_tiles,
            "The last block of Q is short. A row beyond N_q does not exist and sees nothing.",
            {"min(start + Br, N_q) - 1": "start + Br - 1"},
        ),
    },
    hints=[
        "Go through the blocks of Q. The keys that a row sees are the first so many, and a later "
        "row sees more.",
        "Two numbers decide for a block of Q: how many keys its last row sees (visited or not) "
        "and how many its first row sees (mask or not).",
        "Query i sees i + N_k - N_q + 1 keys, and never fewer than 0.",
        "Clip the last row at N_q - 1 and the last key at N_k.",
    ],
    explanation=(
        "Kernels use exactly these two numbers: the loop over K stops at the keys that the last "
        "row sees, and only the tiles past the keys that all rows see pay for a mask."
    ),
)
