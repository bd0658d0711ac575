"""The smallest chip on which FlashAttention moves less than standard attention."""

from ..io_model import flash_io, standard_io
from ._exercise import Case, Exercise, edited

STATEMENT = r"""
One head, $N$ queries and keys, head dimension $d$, forward and backward together. Standard
attention moves $11N^2 + 12Nd$ elements whatever the chip. FlashAttention in the paper's order moves

$$8Nd + 2N + T_c\,(8Nd + 6N), \qquad T_c = \lceil N / B_c \rceil,
\qquad B_c = \lceil M / 4d \rceil .$$

Return the smallest $M \ge d$, in elements, for which FlashAttention moves strictly less, or 0 if
there is none (a very short sequence).
"""


def crossover_M(N, d):
    """Smallest M for which FlashAttention moves fewer elements than standard attention.

    Parameters
    ----------
    N, d : int
        Sequence length and head dimension of one head.

    Returns
    -------
    M : int
        On-chip capacity in elements, at least d; 0 if no M is enough.
    """
    standard = 11 * N * N + 12 * N * d
    for Bc in range(1, N + 1):
        Tc = -(-N // Bc)
        flash = 8 * N * d + 2 * N + Tc * (8 * N * d + 6 * N)
        if flash < standard:
            return 4 * d * (Bc - 1) + 1
    return 0


def by_bisection(N, d):
    """The same from the closed forms: the traffic never grows with M, so halve the interval."""
    standard = standard_io(N, d).total
    low, high = d - 1, 4 * d * N
    if flash_io(N, d, high).total >= standard:
        return 0
    while high - low > 1:
        middle = (low + high) // 2
        if flash_io(N, d, middle).total < standard:
            high = middle
        else:
            low = middle
    return high


def from_the_leading_terms(N, d):
    """The leading terms alone give M = 32 d² / 11. M acts through whole blocks, and the terms in
    N d count too: use the full formula."""
    return round(32 * d * d / 11)


EXERCISE = Exercise(
    chapter="10",
    title="How small may the chip be?",
    statement=STATEMENT,
    solution=crossover_M,
    oracle=by_bisection,
    returns=("M",),
    cases=[
        Case("nine keys, d = 2", {"N": 9, "d": 2}),
        Case("a length that the block size does not divide", {"N": 50, "d": 9}, hint=2),
        Case("heads one number wide", {"N": 200, "d": 1}, hint=3),
        Case("a sequence of one: never", {"N": 1, "d": 4}, hint=4),
        Case("only one block wins", {"N": 7, "d": 16}, hint=2),
        Case("the chapter's head", {"N": 4096, "d": 64}, hint=2),
        Case("a wider head", {"N": 4096, "d": 128}, hint=2),
        Case("a long sequence", {"N": 20_000, "d": 80}, hint=2),
    ],
    wrong={
        "leading terms": from_the_leading_terms,
        "forward only": edited(
            crossover_M,
            "These are the forward passes alone. Compare forward and backward together.",
            {
                "11 * N * N + 12 * N * d": "4 * N * N + 4 * N * d",
                "8 * N * d + 2 * N + Tc * (8 * N * d + 6 * N)": (
                    "3 * N * d + 2 * N + Tc * (3 * N * d + 4 * N)"
                ),
            },
        ),
        "the largest M of the block size": edited(
            crossover_M,
            """This M gives the right block size, but a smaller one does too: Bc = ceil(M / 4d) is
            the same for 4d values of M.""",
            {"4 * d * (Bc - 1) + 1": "4 * d * Bc"},
        ),
        "one too small": edited(
            crossover_M,
            "One element too few: at M = 4d (Bc - 1) the block still has Bc - 1 rows.",
            {"4 * d * (Bc - 1) + 1": "4 * d * (Bc - 1)"},
        ),
        "row statistics left out": edited(
            crossover_M,
            "The row statistics were left out: l and m cross in every pass as well.",
            {"Tc * (8 * N * d + 6 * N)": "Tc * 8 * N * d"},
        ),
        "passes without rounding up": edited(
            crossover_M,
            """The last block may be short, but it is a pass over Q and O like any other: round N
            / Bc up.""",
            {"-(-N // Bc)": "N / Bc"},
        ),
    },
    hints=[
        "M enters through Bc alone, and Bc through Tc alone. Search over Bc, from small to large.",
        """Tc = ceil(N / Bc). Take the first Bc for which the full formula is below 11N² + 12Nd,
        then ask which M is the smallest that gives this Bc.""",
        "ceil(M / 4d) = Bc for M from 4d (Bc - 1) + 1 to 4d Bc.",
        """With Bc = N there is one pass, and no larger M helps. If that still moves too much,
        return 0.""",
    ],
    explanation="""The first passing block size gives the crossover, because traffic never grows
    with M. For a long sequence it is close to 32 d²/11: about three times d², not a property of
    N.""",
)
