"""The paper's block sizes, and what they take on chip."""

import math

from ..blocks import block_sizes
from ._exercise import Case, Exercise, edited

STATEMENT = r"""
FlashAttention takes $B_c = \lceil M / 4d \rceil$ rows of K and V and $B_r = \min(B_c, d)$ rows of
Q at a time, on a chip of $M$ elements. In the forward pass the tiles of $K$, $V$ ($B_c \times d$),
$Q$, $O$ ($B_r \times d$) and $S$ ($B_r \times B_c$; $P$ overwrites it) are on chip together.

Return $B_r$, $B_c$ and the number of elements these tiles take. Then compare that number with $M$
for $d = 64$ and $d = 128$ at $M = 98{,}304$. Why does the paper want $B_r \le d$? What would $S$
alone take with $B_r = B_c = M/4d$?
"""


def block_size_rule(M, d):
    """Block sizes by the paper's rule, and the elements that the forward's tiles take.

    Parameters
    ----------
    M : int
        On-chip capacity in elements.
    d : int
        Head dimension.

    Returns
    -------
    Br, Bc, elements : int
    """
    Bc = -(-M // (4 * d))
    Br = min(Bc, d)
    return Br, Bc, 2 * Bc * d + 2 * Br * d + Br * Bc


def oracle(M, d):
    """Sizes from the package, tiles added up one by one."""
    sizes = block_sizes(M, d)
    tiles = [(sizes.Bc, d), (sizes.Bc, d), (sizes.Br, d), (sizes.Br, d), (sizes.Br, sizes.Bc)]
    return sizes.Br, sizes.Bc, sum(math.prod(tile) for tile in tiles)


def case(label, M, d, hint=1):
    """One chip and head dimension."""
    return Case(f"{label}: M = {M:,}, d = {d}", {"M": M, "d": d}, hint=hint)


EXERCISE = Exercise(
    chapter="08",
    title="Block sizes and capacity",
    statement=STATEMENT,
    solution=block_size_rule,
    oracle=oracle,
    returns=("Br", "Bc", "elements"),
    cases=[
        case("a small chip", 16, 2),
        case("M / 4d is not whole", 17, 4, hint=2),
        case("Bc larger than d", 80, 2, hint=3),
        case("M = d, the smallest the paper allows", 5, 5, hint=3),
        case("the lecture's chip", 98_304, 64, hint=3),
        case("the lecture's chip, d = 128", 98_304, 128),
        case("d does not divide", 98_304, 80, hint=2),
    ],
    wrong={
        "rounded down": edited(
            block_size_rule,
            "M / 4d was rounded down. The rule rounds up.",
            {"-(-M // (4 * d))": "max(M // (4 * d), 1)"},
        ),
        "Br not limited": edited(
            block_size_rule,
            """Br was set to Bc. The rule limits it to d, so that S, Br × Bc, stays below about
            M / 4: without the limit S alone exceeds M once M > 16 d².""",
            {"min(Bc, d)": "Bc"},
        ),
        "Br is d": edited(
            block_size_rule,
            "Br was set to d even where Bc is smaller: it is the smaller of the two.",
            {"min(Bc, d)": "d"},
        ),
        "scores left out": edited(
            block_size_rule,
            "The tile of scores was left out, Br × Bc elements.",
            {" + Br * Bc": ""},
        ),
        "P beside S": edited(
            block_size_rule,
            "P was counted beside S. It overwrites S: one tile of Br × Bc.",
            {" + Br * Bc": " + 2 * Br * Bc"},
        ),
        "O left out": edited(
            block_size_rule,
            "One of the four d-wide tiles was left out: K, V, Q and O are on chip together.",
            {"2 * Br * d": "Br * d"},
        ),
    },
    hints=[
        "K and V have Bc rows each, Q and O have Br rows each, all of them d wide.",
        "The ceiling of a / b in whole numbers is -(-a // b).",
        "Br is the smaller of Bc and d.",
    ],
    explanation=r"""K and V take about $M/2$ together. $B_r \le B_c$ keeps Q and O below another
    $M/2$, and $B_r \le d$ keeps $S$ below $d \cdot M/4d = M/4$. The sum is a constant times
    $M$, and that is all the analysis needs: at $d = 128$ the tiles take 106,496 elements, more
    than the 98,304 there are. With $B_r = B_c = M/4d$, $S$ alone has $(M/4d)^2$ elements, more
    than $M$ once $M > 16d^2$.""",
)
