"""FLOP, bytes and intensity of a matrix product."""

from ..roofline import OpCost
from ._exercise import Case, Exercise, edited

STATEMENT = r"""
The product of an $(m \times k)$ and a $(k \times n)$ matrix is computed once; each input is read
once and the result is written once, `element_bytes` bytes an element. Return its FLOP, the bytes
moved and the arithmetic intensity in FLOP per byte. A multiply-add is 2 FLOP.

Then use it: $QK^\top$ of one head is $(4096 \times 64)(64 \times 4096)$ in 16 bits. On which side
of the A100's ridge point does it lie, and why is the square product of size 4096 so far from it?
"""


def arithmetic_intensity(m, k, n, element_bytes):
    """FLOP, bytes and FLOP per byte of one matrix product (m, k) @ (k, n).

    Parameters
    ----------
    m, k, n : int
        Sizes.
    element_bytes : int
        Bytes of one element: 2 for 16-bit numbers, 4 for float32.

    Returns
    -------
    flop, moved_bytes : int
    intensity : float
        FLOP per byte.
    """
    flop = 2 * m * k * n
    moved_bytes = element_bytes * (m * k + k * n + m * n)
    return flop, moved_bytes, flop / moved_bytes


def oracle(m, k, n, element_bytes):
    """One dot product for each element of the result; three arrays moved."""
    result = m * n
    cost = OpCost(result * (k + k), sum(x * element_bytes for x in (m * k, k * n, result)))
    return cost.flop, cost.bytes, cost.intensity


def case(label, m, k, n, element_bytes=2, hint=1):
    """A product of these sizes."""
    inputs = {"m": m, "k": k, "n": n, "element_bytes": element_bytes}
    return Case(f"{label}: ({m} × {k})({k} × {n})", inputs, hint=hint)


EXERCISE = Exercise(
    chapter="03",
    title="Arithmetic intensity of QKᵀ",
    statement=STATEMENT,
    solution=arithmetic_intensity,
    oracle=oracle,
    returns=("flop", "moved_bytes", "intensity"),
    cases=[
        case("one multiply-add", 1, 1, 1),
        case("three different sizes", 2, 3, 4, hint=2),
        case("float32", 2, 3, 4, 4, hint=3),
        case("matrix times vector", 1024, 1024, 1, hint=2),
        case("QKᵀ of one head", 4096, 64, 4096),
        case("square", 4096, 4096, 4096),
        case("fp8", 128, 12288, 49152, 1, hint=3),
    ],
    wrong={
        "multiply-add as one": edited(
            arithmetic_intensity,
            "A multiply-add was counted as one FLOP. It is two: a product and a sum.",
            {"2 * m * k * n": "m * k * n"},
        ),
        "result not written": edited(
            arithmetic_intensity,
            "Only the inputs were counted. The result is written too, m n elements of it.",
            {" + m * n)": ")"},
        ),
        "elements for bytes": edited(
            arithmetic_intensity,
            "Elements were counted where bytes were asked for: an element has element_bytes bytes.",
            {"element_bytes * (": "("},
        ),
        "always two bytes": edited(
            arithmetic_intensity,
            "Two bytes an element were assumed. The argument element_bytes tells how many.",
            {"element_bytes * (": "2 * ("},
        ),
        "upside down": edited(
            arithmetic_intensity,
            "The intensity is upside down: FLOP per byte, not bytes per FLOP.",
            {"flop / moved_bytes": "moved_bytes / flop"},
        ),
    },
    hints=[
        "Each of the m n results is a dot product of length k.",
        "Three matrices move: (m, k) and (k, n) in, (m, n) out.",
        "Multiply the elements by element_bytes before dividing.",
    ],
    explanation=r"""$QK^\top$ has 2,147,483,648 FLOP on 34,603,008 bytes, 62.1 FLOP per byte:
    below the A100's 201, so bandwidth limits it. Almost all of its bytes are the 4096 × 4096
    result, and each of those numbers is a dot product of length 64 only. In the square product
    every number moved takes part in 4096 multiply-adds, which gives $n/3 = 1365$.""",
)
