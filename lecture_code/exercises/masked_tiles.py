"""Which tiles of one block of queries are whole, which need a mask, which are skipped."""

from ..blocks import tile_ranges, visible_mask
from ._exercise import Case, Exercise, edited

STATEMENT = r"""
One program of a causal kernel owns the rows `start` to `start + Br - 1` of $Q$, those of them
that are below `N_q`. It walks over $N_k$ keys in tiles of `Bc`. Query $i$ sees keys $0 \dots i +
N_k - N_q$ (bottom-right aligned). Count its tiles, $\lceil N_k / B_c \rceil$ in all:

- `whole`: $B_c$ keys, all of them seen by all rows of the program. The first loop does these
  without a mask.
- `masked`: at least one visible pair, and not whole. A tile cut short by the end of $K$ belongs
  here, also when everything in it is visible: its load needs a mask.
- `skipped`: no visible pair.
"""


def masked_tiles(start, Br, Bc, N_q, N_k):
    """Count the tiles of one block of queries by what they cost.

    Parameters
    ----------
    start : int
        First row of the block, below N_q.
    Br, Bc : int
        Rows of a block of Q, rows of a tile of K.
    N_q, N_k : int
        Queries and keys.

    Returns
    -------
    whole, masked, skipped : int
    """
    last = min(start + Br, N_q) - 1
    seen_by_all = max(0, start + 1 + N_k - N_q)
    seen_by_some = max(0, last + 1 + N_k - N_q)
    whole = seen_by_all // Bc
    visited = -(-seen_by_some // Bc)
    return whole, visited - whole, -(-N_k // Bc) - visited


def from_the_mask(start, Br, Bc, N_q, N_k):
    """The same from the mask of every pair."""
    rows = visible_mask(N_q, N_k, causal=True)[start : start + Br]
    tiles = [rows[:, c0:c1] for c0, c1 in tile_ranges(N_k, Bc)]
    whole = sum(bool(t.all()) and t.shape[1] == Bc for t in tiles)
    skipped = sum(not t.any() for t in tiles)
    return whole, len(tiles) - whole - skipped, skipped


def case(label, *values, hint=1):
    return Case(label, dict(zip(("start", "Br", "Bc", "N_q", "N_k"), values)), hint=hint)


EXERCISE = Exercise(
    chapter="12",
    title="Two loops for one block of queries",
    statement=STATEMENT,
    solution=masked_tiles,
    oracle=from_the_mask,
    returns=("whole", "masked", "skipped"),
    cases=[
        case("the first block, square tiles", 0, 16, 16, 64, 64),
        case("the second block", 16, 16, 16, 64, 64),
        case("high blocks: two tiles on the diagonal", 128, 128, 64, 512, 512, hint=2),
        case("more keys than queries", 0, 16, 16, 32, 80, hint=3),
        case("more queries than keys: nothing to see", 0, 16, 16, 64, 32, hint=3),
        case("more queries than keys: the last block", 48, 16, 16, 64, 32, hint=3),
        case("a short last block", 48, 16, 16, 50, 50, hint=4),
        case("one row, two whole tiles", 31, 1, 16, 64, 64, hint=3),
        case("the end of K, all visible", 48, 1, 16, 49, 49, hint=4),
        case("a short block that sees a short tile", 32, 16, 16, 33, 40, hint=4),
        case("row 3,968 of 4,096", 3968, 128, 64, 4096, 4096, hint=2),
    ],
    wrong={
        "aligned at the top left": edited(
            masked_tiles,
            "The mask is aligned at the top left. The last query sees the last key, so query i "
            "stands at key i + N_k - N_q.",
            {"start + 1 + N_k - N_q": "start + 1", "last + 1 + N_k - N_q": "last + 1"},
            hint=3,
        ),
        "the diagonal counted as whole": edited(
            masked_tiles,
            "A tile on the diagonal was counted as whole. It is whole if the FIRST row of the "
            "block sees all its keys.",
            {"whole = seen_by_all // Bc": "whole = seen_by_some // Bc"},
            hint=2,
        ),
        "one masked tile a block": edited(
            masked_tiles,
            "One masked tile a block of queries: with Br > Bc the diagonal crosses several.",
            {"visited - whole, -(": "min(1, visited - whole), -("},
            hint=2,
        ),
        "nothing skipped": edited(
            masked_tiles,
            "Tiles beyond the diagonal hold no visible pair. The loop ends before them.",
            {"visited = -(-seen_by_some // Bc)": "visited = -(-N_k // Bc)"},
            hint=1,
        ),
        "tile at the edge of the first row lost": edited(
            masked_tiles,
            "A query sees its own key too: query i sees i + N_k - N_q + 1 keys.",
            {"start + 1 + N_k - N_q": "start + N_k - N_q"},
            hint=3,
        ),
        "rows that do not exist": edited(
            masked_tiles,
            "The block is cut short by the end of Q. Rows beyond N_q see nothing.",
            {"min(start + Br, N_q) - 1": "start + Br - 1"},
            hint=4,
        ),
    },
    hints=[
        "Two numbers decide: how many keys the first row sees, and how many the last.",
        "Whole tiles end where the first row's keys end, rounded down. Visited tiles end where the "
        "last row's keys end, rounded up.",
        "Query i sees i + 1 + N_k - N_q keys, and never fewer than 0.",
        "Clip the last row at N_q - 1. Rounding down keeps a short tile of K from being whole.",
    ],
    explanation="The first loop of the kernel runs over the whole tiles and tests nothing; the "
    "second does the few masked ones; no loop reaches the skipped ones.",
)
