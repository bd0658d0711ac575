"""Tiles, waves, and how much of the machine does useful work."""

from fractions import Fraction

from ._exercise import Case, Exercise, edited

STATEMENT = r"""
A matrix product has an $m \times n$ result, cut into tiles of `tile_m` × `tile_n`. Each tile is
computed whole, also where it sticks out over the edge, by one of `sm_count` SMs, one tile at a
time; all tiles take equally long. The SMs work in **waves**: each takes a tile, and the next wave
starts when all are done.

Return the number of tiles, the number of waves, and the efficiency: elements of the result over the
elements that all SMs could have computed in these waves.

Then find the two numbers of SMs in the chapter for which 1792 → 1793 is a cliff and for which it is
none.
"""


def count_waves(m, n, tile_m, tile_n, sm_count):
    """Tiles, waves and efficiency of a tiled matrix product.

    Parameters
    ----------
    m, n : int
        Shape of the result.
    tile_m, tile_n : int
        Shape of a tile.
    sm_count : int

    Returns
    -------
    tiles, waves : int
    efficiency : float
        Between 0 and 1.
    """
    tiles = -(-m // tile_m) * -(-n // tile_n)
    waves = -(-tiles // sm_count)
    return tiles, waves, m * n / (waves * sm_count * tile_m * tile_n)


def oracle(m, n, tile_m, tile_n, sm_count):
    """Hand out the tiles one by one, round by round."""
    corners = [(i, j) for i in range(0, m, tile_m) for j in range(0, n, tile_n)]
    queue, waves = len(corners), 0
    while queue > 0:
        queue, waves = queue - sm_count, waves + 1
    useful = sum(min(tile_m, m - i) * min(tile_n, n - j) for i, j in corners)
    return len(corners), waves, float(Fraction(useful, waves * sm_count * tile_m * tile_n))


def case(label, m, n, tile, sm_count, hint=1):
    inputs = {"m": m, "n": n, "tile_m": tile[0], "tile_n": tile[1], "sm_count": sm_count}
    return Case(label, inputs, hint=hint)


EXERCISE = Exercise(
    chapter="06",
    title="Count the waves",
    statement=STATEMENT,
    solution=count_waves,
    oracle=oracle,
    returns=("tiles", "waves", "efficiency"),
    cases=[
        case("four tiles, four SMs", 4, 4, (2, 2), 4),
        case("one row more", 5, 4, (2, 2), 4, hint=2),
        case("1792 on an A100", 1792, 1792, (256, 128), 108),
        case("1793 on an A100", 1793, 1793, (256, 128), 108, hint=2),
        case("1793 on an H200", 1793, 1793, (256, 128), 132, hint=3),
        case("2112 on an H200", 2112, 2112, (256, 128), 132, hint=3),
        case("a wide result", 300, 4096, (256, 128), 16, hint=4),
        case("a result smaller than its tile", 10, 10, (256, 128), 132, hint=2),
        case("whole waves", 2048, 2112, (128, 128), 132, hint=3),
    ],
    wrong={
        "tiles rounded down": edited(
            count_waves,
            "The tiles were rounded down: what sticks out over the last whole tile was left out.",
            {"-(-m // tile_m) * -(-n // tile_n)": "max(m // tile_m, 1) * max(n // tile_n, 1)"},
        ),
        "tiles by area": edited(
            count_waves,
            """The area was divided by the tile's. Each direction is rounded up by itself: a tile
            cannot be half at the right edge and half at the bottom.""",
            {"-(-m // tile_m) * -(-n // tile_n)": "-(-(m * n) // (tile_m * tile_n))"},
        ),
        "waves rounded down": edited(
            count_waves,
            "The waves were rounded down. A last wave of one tile takes as long as a full one.",
            {"-(-tiles // sm_count)": "max(tiles // sm_count, 1)"},
        ),
        "a wave too many": edited(
            count_waves,
            "When the tiles fill the waves exactly, no further wave follows.",
            {"-(-tiles // sm_count)": "tiles // sm_count + 1"},
        ),
        "edges count as useful": edited(
            count_waves,
            """Whole tiles were counted as useful. The part that sticks out over the edge is
            computed and thrown away.""",
            {"m * n / (waves * sm_count * tile_m * tile_n)": "tiles / (waves * sm_count)"},
        ),
        "idle SMs forgotten": edited(
            count_waves,
            "SMs without a tile were left out. In the last wave they wait for the others.",
            {"(waves * sm_count * tile_m * tile_n)": "(tiles * tile_m * tile_n)"},
        ),
        "tile turned": edited(
            count_waves,
            "tile_m and tile_n are swapped. Does the problem say which side is cut by which?",
            {"-(-m // tile_m) * -(-n // tile_n)": "-(-m // tile_n) * -(-n // tile_m)"},
        ),
    },
    hints=[
        "How many tiles cover m rows, and how many cover n columns?",
        "Round up in each direction: -(-m // tile_m).",
        "Waves are tiles over SMs, rounded up.",
        "In all waves together there is room for waves x sm_count tiles of tile_m x tile_n.",
    ],
    explanation="""With 108 SMs the step from 1792 to 1793 costs a second wave; with 132, and with
    the 128 that the lecturer once said, it costs none.""",
)
