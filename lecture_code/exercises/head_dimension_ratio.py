"""What the head dimension does to FlashAttention's advantage."""

from fractions import Fraction

from ..io_model import flash_io, standard_io
from ._exercise import Case, Exercise, edited

STATEMENT = r"""
For one head, forward and backward together, divide the elements that standard attention moves by
the elements that FlashAttention moves on a chip of $M$ elements:

- standard: $11N^2 + 12Nd$;
- FlashAttention: $8Nd + 2N + T_c(8Nd + 6N)$ with $T_c = \lceil N / \lceil M/4d \rceil \rceil$.

Return the ratio. Then compute it for $N = 8192$, $M = 98{,}304$ and $d = 64$, 128, 192, 256. Where
does FlashAttention move more, and why does $d$ matter so much?
"""


def head_dimension_ratio(N, d, M):
    """Elements moved by standard attention over those moved by FlashAttention.

    Parameters
    ----------
    N : int
        Queries and keys.
    d : int
        Head dimension.
    M : int
        On-chip capacity in elements.

    Returns
    -------
    float
        Above 1 where FlashAttention moves less.
    """
    Tc = -(-N // -(-M // (4 * d)))
    standard = 11 * N**2 + 12 * N * d
    flash = 8 * N * d + 2 * N + Tc * (8 * N * d + 6 * N)
    return standard / flash


def oracle(N, d, M):
    """From the package, as an exact fraction."""
    return float(Fraction(standard_io(N, d).total, flash_io(N, d, M).total))


def case(label, N, d, M=98_304, hint=1):
    """One problem on one chip."""
    return Case(f"{label}: N = {N:,}, d = {d}, M = {M:,}", {"N": N, "d": d, "M": M}, hint=hint)


EXERCISE = Exercise(
    chapter="10",
    title="What the head dimension does to the ratio",
    statement=STATEMENT,
    solution=head_dimension_ratio,
    oracle=oracle,
    returns=("ratio",),
    cases=[
        case("one block", 2, 2, 16),
        case("rounding up matters", 5, 2, 17, hint=2),
        case("the lecture's", 8192, 64),
        case("twice the head dimension", 8192, 128),
        case("FlashAttention moves more", 8192, 192, hint=2),
        case("FlashAttention moves more", 8192, 256, hint=2),
        case("a long sequence", 1_000_000, 64),
    ],
    wrong={
        "upside down": edited(
            head_dimension_ratio,
            "The ratio is upside down: standard over FlashAttention.",
            {"standard / flash": "flash / standard"},
        ),
        "rounded down": edited(
            head_dimension_ratio,
            "The number of blocks was rounded down. Both divisions round up.",
            {"-(-N // -(-M // (4 * d)))": "max(N // max(M // (4 * d), 1), 1)"},
        ),
        "not rounded": edited(
            head_dimension_ratio,
            """The number of blocks was not rounded. A short last block costs a whole pass over
            Q and O.""",
            {"-(-N // -(-M // (4 * d)))": "N / (M / (4 * d))"},
        ),
        "N² only": edited(
            head_dimension_ratio,
            "Q, K, V, O and their gradients were left out of standard attention: 12 N d.",
            {" + 12 * N * d": ""},
        ),
        "forward only": edited(
            head_dimension_ratio,
            "Only the forward was counted. Add the backward on both sides.",
            {
                "11 * N**2 + 12 * N * d": "4 * N**2 + 4 * N * d",
                "8 * N * d + 2 * N + Tc * (8 * N * d + 6 * N)": (
                    "3 * N * d + 2 * N + Tc * (3 * N * d + 4 * N)"
                ),
            },
        ),
    },
    hints=[
        "First the number of column blocks, then the two sums, then the ratio.",
        "The ceiling of a / b in whole numbers is -(-a // b). Two of them are nested.",
    ],
    explanation=r"""7.63 at $d = 64$, 2.02 at 128, below 1 at 192 and 256. Twice the $d$ makes a
    row of K and V twice as large, so half as many fit and there are twice as many passes; and
    each pass over Q and O is twice as large. That is $d^2$ in $\Theta(N^2d^2/M)$, against
    $11N^2$ without any $d$.""",
)
