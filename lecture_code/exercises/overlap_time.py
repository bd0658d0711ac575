"""Cycles of a tile with and without overlap of exponentials and matrix products."""

from fractions import Fraction

from ._exercise import Case, Exercise, edited

STATEMENT = r"""
For one tile of the forward pass, $B_r$ queries against $B_c$ keys of head dimension $d$, an SM
makes $S = QK^\top$, takes $e^x$ of every score, and adds $PV$ to the output. Its tensor cores do
`flop_per_cycle` FLOP a cycle (a multiply-add is two), its special-function units
`exp_per_cycle` exponentials. Nothing else counts.

Return the cycles of a tile in three schedules that go on for many tiles:

- `serial`: the three steps one after the other;
- `inside`: within one warpgroup, the exponentials of a tile run beside the product $PV$ of the tile
  before; the product $S$ of the next tile waits for both;
- `pingpong`: two warpgroups take turns, so that either unit is never idle if it can help it. Per
  tile, not per pair.
"""


def overlap_time(Br, Bc, d, flop_per_cycle, exp_per_cycle):
    """Cycles per tile of three schedules, in the long run.

    Parameters
    ----------
    Br, Bc, d : int
        Rows of the tile, its columns, head dimension.
    flop_per_cycle, exp_per_cycle : int
        Rates of one SM.

    Returns
    -------
    serial, inside, pingpong : float
    """
    product = 2 * Br * Bc * d / flop_per_cycle
    exponentials = Br * Bc / exp_per_cycle
    serial = 2 * product + exponentials
    inside = product + max(product, exponentials)
    pingpong = max(2 * product, exponentials)
    return serial, inside, pingpong


def by_playing_it(Br, Bc, d, flop_per_cycle, exp_per_cycle):
    """The same by playing the schedules, in exact fractions, and timing the later tiles."""
    product = Fraction(2 * Br * Bc * d, flop_per_cycle)
    exps = Fraction(Br * Bc, exp_per_cycle)
    tiles = 40

    def inside():
        ends, done, tensor = [], Fraction(0), Fraction(0)
        for tile in range(tiles):
            scores = max(done, tensor) + product
            tensor = scores + (product if tile else 0)
            done = scores + exps
            ends.append(max(done, tensor))
        return ends

    def pingpong():
        ends, tensor, unit, ready = [], Fraction(0), Fraction(0), {}
        for group in "ab":
            tensor += product
            unit = ready[group] = max(tensor, unit) + exps
        for _ in range(tiles):
            for group in "ab":
                tensor = max(tensor, ready[group]) + 2 * product
                unit = ready[group] = max(tensor, unit) + exps
                ends.append(tensor)
        return ends

    def pace(ends, span):
        return float((ends[-1] - ends[-1 - span]) / span)

    return float(2 * product + exps), pace(inside(), 10), pace(pingpong(), 20)


def case(label, Br, Bc, d, flop_per_cycle, exp_per_cycle, hint=1):
    names = ("Br", "Bc", "d", "flop_per_cycle", "exp_per_cycle")
    return Case(label, dict(zip(names, (Br, Bc, d, flop_per_cycle, exp_per_cycle))), hint=hint)


EXERCISE = Exercise(
    chapter="15",
    title="Three schedules",
    statement=STATEMENT,
    solution=overlap_time,
    oracle=by_playing_it,
    returns=("serial", "inside", "pingpong"),
    cases=[
        case("exponentials take 4 cycles, a product 1", 2, 2, 2, 16, 1),
        case("exponentials take 4 cycles, a product 8", 2, 2, 4, 4, 1, hint=2),
        case("exponentials take 4 cycles, a product 3", 2, 2, 3, 8, 1, hint=3),
        case("H100, 128 x 128, d = 64", 128, 128, 64, 4096, 16, hint=3),
        case("H100, 128 x 128, d = 128", 128, 128, 128, 4096, 16, hint=2),
        case("H100 in 8 bits, 128 x 128, d = 64", 128, 128, 64, 8192, 16, hint=3),
        case("B200, 128 x 256, d = 128", 128, 256, 128, 8192, 16, hint=3),
    ],
    wrong={
        "one product": edited(
            overlap_time,
            "Only one product was counted. A tile has two: Q Kᵀ and P V.",
            {
                "2 * product + exponentials": "product + exponentials",
                "product + max(product, exponentials)": "max(product, exponentials)",
                "max(2 * product, exponentials)": "max(product, exponentials)",
            },
        ),
        "multiply-add as one": edited(
            overlap_time,
            "A multiply-add is two FLOP: a product of the tile has 2 Br Bc d.",
            {"product = 2 * Br": "product = Br"},
        ),
        "everything overlaps inside": edited(
            overlap_time,
            """Within a warpgroup the scores of a tile must exist before their exponentials: only
            the product with V runs beside them.""",
            {"product + max(product, exponentials)": "max(2 * product, exponentials)"},
        ),
        "per pair": edited(
            overlap_time,
            "That is the time of a pair of tiles, one of each warpgroup. Give it per tile.",
            {"pingpong = max": "pingpong = 2 * max"},
        ),
        "twice the tensor cores": edited(
            overlap_time,
            """Two warpgroups do not have two sets of tensor cores. They share one: per tile it is
            busy for both products.""",
            {"pingpong = max": "pingpong = 0.5 * max"},
        ),
        "smaller of the two": edited(
            overlap_time,
            "Two units that work side by side take the longer of the two times, not the shorter.",
            {
                "product + max(product, exponentials)": "product + min(product, exponentials)",
                "max(2 * product, exponentials)": "min(2 * product, exponentials)",
            },
        ),
        "exponential of every row": edited(
            overlap_time,
            "There is one exponential for each score, Br Bc of them, not one a row.",
            {"exponentials = Br * Bc": "exponentials = Br"},
        ),
    },
    hints=[
        "A product of the tile has 2 Br Bc d FLOP. There are two of them, and Br Bc exponentials.",
        """Inside a warpgroup: first the product S, alone; then PV of the tile before and the
        exponentials, side by side.""",
        """With two warpgroups one unit is always busy: which one? Over many tiles the busier unit
        sets the pace.""",
    ],
    explanation="""At d = 128 on an H100 a product takes 1,024 cycles and the exponentials as many:
    3,072 in series, 2,048 with either kind of overlap. At d = 64 the exponentials are longer than a
    product, and only ping-pong hides them: 2,048, 1,536, 1,024.""",
)
