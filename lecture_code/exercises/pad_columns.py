"""The next width at which every row of a matrix starts on a boundary."""

from fractions import Fraction

import numpy as np

from ._exercise import Case, Exercise, edited

STATEMENT = r"""
The rows of a matrix follow each other in memory without gaps; the first starts at address 0. Return
the smallest number of columns, at least `columns`, with which **every** row starts at a multiple of
`boundary_bytes`, and the share of columns that this adds: new columns over old ones. An element
takes `element_bytes` bytes.

Try it on GPT-2's vocabulary of 50,257 in 16 bits: with a boundary of 16 bytes, which a wide copy
wants, and with one of 128, a whole burst.
"""


def pad_columns(columns, element_bytes, boundary_bytes):
    """Smallest aligned width, and the share of columns added.

    Parameters
    ----------
    columns : int
        At least 1.
    element_bytes, boundary_bytes : int
        At least 1.

    Returns
    -------
    padded : int
    added : float
    """
    step = boundary_bytes // int(np.gcd(boundary_bytes, element_bytes))
    padded = -(-columns // step) * step
    return padded, (padded - columns) / columns


def oracle(columns, element_bytes, boundary_bytes):
    """Try one width after the other; row 1 decides, since all others start at its multiples."""
    width = columns
    while width * element_bytes % boundary_bytes:
        width += 1
    return width, float(Fraction(width, columns) - 1)


def case(label, columns, element_bytes, boundary_bytes, hint=1):
    return Case(
        label,
        {
            "columns": columns,
            "element_bytes": element_bytes,
            "boundary_bytes": boundary_bytes,
        },
        hint=hint,
        terms=8 * columns,
    )


EXERCISE = Exercise(
    chapter="06",
    title="How much to pad",
    statement=STATEMENT,
    solution=pad_columns,
    oracle=oracle,
    returns=("padded", "added"),
    cases=[
        case("250 float32, bursts of 128 bytes", 250, 4, 128),
        case("257 float32, bursts of 128 bytes", 257, 4, 128, hint=3),
        case("already aligned", 256, 4, 128, hint=2),
        case("1793 in 16 bits, 16 bytes", 1793, 2, 16),
        case("GPT-2's vocabulary, bursts", 50_257, 2, 128, hint=3),
        case("GPT-2's vocabulary, 16 bytes", 50_257, 2, 16, hint=3),
        case("100 float64, 16 bytes", 100, 8, 16, hint=2),
        case("an element of 3 bytes", 100, 3, 16, hint=4),
        case("an element wider than the boundary", 7, 16, 8, hint=4),
    ],
    wrong={
        "nearest": edited(
            pad_columns,
            """Rounded to the nearest multiple, which may be smaller. (The famous 50,304 is the
            next multiple of 64 after 50,257, and not the nearest.)""",
            {"-(-columns // step) * step": "max(round(columns / step), 1) * step"},
        ),
        "rounded down": edited(
            pad_columns,
            "Rounded down: columns were cut off. A vocabulary that loses words is another one.",
            {"-(-columns // step) * step": "max(columns // step, 1) * step"},
        ),
        "one step too many": edited(
            pad_columns,
            "A width that is aligned already was padded by a whole step.",
            {"-(-columns // step) * step": "(columns // step + 1) * step"},
        ),
        "boundary in elements": edited(
            pad_columns,
            "The boundary was taken in elements. It is given in bytes.",
            {"boundary_bytes // int(np.gcd(boundary_bytes, element_bytes))": "boundary_bytes"},
        ),
        "no common divisor": edited(
            pad_columns,
            """boundary_bytes // element_bytes is the step only if it divides. Otherwise several
            elements are needed before a row ends on the boundary: use the greatest common
            divisor.""",
            {
                "boundary_bytes // int(np.gcd(boundary_bytes, element_bytes))": "max("
                "boundary_bytes // element_bytes, 1)"
            },
        ),
        "power of two": edited(
            pad_columns,
            """Padded to a power of two. A multiple of a small power of two is enough, and far
            cheaper.""",
            {"-(-columns // step) * step": "max(step, 2 ** (columns - 1).bit_length())"},
        ),
        "share of the new": edited(
            pad_columns,
            "The share was taken of the new width. Divide by the old one.",
            {"(padded - columns) / columns": "(padded - columns) / padded"},
        ),
    },
    hints=[
        "Row i starts at i x columns x element_bytes. If row 1 starts on the boundary, all do.",
        "How many columns fill a whole number of boundaries? Every multiple of that works.",
        "Round up: -(-a // b) is the ceiling of a / b in whole numbers.",
        "With an element of 3 bytes and a boundary of 16 the step is 16 elements: 48 bytes.",
    ],
    explanation="""50,257 becomes 50,304 for a boundary of 128 bytes, and 50,264 already satisfies
    16. Both add less than a thousandth. np.gcd covers the odd element sizes; for powers of two
    the step is boundary over element, and at least 1.""",
)
