"""A matrix product in tiles, on a chip that holds three of them."""

import numpy as np

from ._counted import CountedCase
from ._exercise import Exercise, edited

STATEMENT = r"""
Compute $C = AB$ in square tiles of side $T$. $A$ ($m \times k$), $B$ ($k \times n$) and the empty
$C$ ($m \times n$) lie in HBM. The chip holds $3T^2$ elements: a tile of each.

- `chip.load(A, r0, r1, columns=(c0, c1))` gives a tile, `chip.store(C, values, r0,
  columns=(c0, c1))` writes one, `chip.alloc(shape)` makes one of zeros, `chip.free(...)` gives room
  back, and products go through `chip.matmul(a, b)`.
- Sizes need not be multiples of $T$.
- Each element of $C$ is stored once and never loaded.

The check asserts the values, the capacity, and the traffic: $\lceil n/T \rceil\, mk + \lceil m/T
\rceil\, kn$ elements loaded and $mn$ stored, no more.
"""


def tiled_product(chip, A, B, C, T):
    """C = A B in tiles of T x T; stores C.

    Parameters
    ----------
    chip : SRAM
        Room for 3 T² elements.
    A, B : arrays in HBM, (m, k) and (k, n)
    C : array in HBM, (m, n), to be stored
    T : int
        Side of a tile.
    """
    (m, k), n = A.shape, B.shape[1]
    for i in range(0, m, T):
        for j in range(0, n, T):
            i1, j1 = min(i + T, m), min(j + T, n)
            acc = chip.alloc((i1 - i, j1 - j))
            for p in range(0, k, T):
                p1 = min(p + T, k)
                a = chip.load(A, i, i1, columns=(p, p1))
                b = chip.load(B, p, p1, columns=(j, j1))
                acc += chip.matmul(a, b)
                chip.free(a, b)
            chip.store(C, acc, i, columns=(j, j1))
            chip.free(acc)


def from_the_definition(A, B, T):
    """Sum over k of products of elements."""
    return np.einsum("ik,kj->ij", A, B)


def element_by_element(chip, A, B, C, T):
    """There are no tiles: every element of C reads its row and its column anew. Load T x T
    numbers of each and use every one T times."""
    (m, k), n = A.shape, B.shape[1]
    for i in range(m):
        for j in range(n):
            acc = chip.alloc((1, 1))
            for p in range(k):
                a = chip.load(A, i, i + 1, columns=(p, p + 1))
                b = chip.load(B, p, p + 1, columns=(j, j + 1))
                acc += chip.matmul(a, b)
                chip.free(a, b)
            chip.store(C, acc, i, columns=(j, j + 1))
            chip.free(acc)


def panels(chip, A, B, C, T):
    """Whole rows of A and columns of B were loaded for a tile of C. They do not fit: walk along k
    in steps of T, too."""
    (m, _), n = A.shape, B.shape[1]
    for i in range(0, m, T):
        for j in range(0, n, T):
            i1, j1 = min(i + T, m), min(j + T, n)
            a, b = chip.load(A, i, i1), chip.load(B, columns=(j, j1))
            chip.store(C, chip.matmul(a, b), i, columns=(j, j1))
            chip.free(a, b)


def sum_in_hbm(chip, A, B, C, T):
    """The unfinished tile of C went back to HBM after every step along k. Keep it on chip until it
    is done."""
    (m, k), n = A.shape, B.shape[1]
    for i in range(0, m, T):
        for j in range(0, n, T):
            i1, j1 = min(i + T, m), min(j + T, n)
            for p in range(0, k, T):
                p1 = min(p + T, k)
                a = chip.load(A, i, i1, columns=(p, p1))
                b = chip.load(B, p, p1, columns=(j, j1))
                acc = chip.load(C, i, i1, columns=(j, j1)) if p else chip.alloc((i1 - i, j1 - j))
                acc += chip.matmul(a, b)
                chip.store(C, acc, i, columns=(j, j1))
                chip.free(a, b, acc)


def inputs(m, k, n):
    return lambda rng: {"A": rng.normal(size=(m, k)), "B": rng.normal(size=(k, n))}


def two_by_two(rng):
    return {"A": np.array([[1.0, 2.0], [3.0, 4.0]]), "B": np.array([[0.0, 1.0], [1.0, 1.0]])}


def case(label, m, k, n, T, *, make=None, **more):
    return CountedCase(
        label,
        make or inputs(m, k, n),
        outputs={"C": (m, n)},
        options={"T": T},
        capacity=3 * T * T,
        traffic_at_most=-(-n // T) * m * k + -(-m // T) * k * n + m * n,
        flop_at_least=2 * m * k * n,
        workspace=4 * T * T + 512,
        landmarks={"all of A": m * k, "all of C": m * n},
        terms=k,
        scale=float(np.sqrt(k)),
        **more,
    )


EXERCISE = Exercise(
    chapter="06",
    title="A product in tiles",
    statement=STATEMENT,
    solution=tiled_product,
    oracle=from_the_definition,
    returns=("C",),
    cases=[
        case("two by two, tiles of one", 2, 2, 2, 1, make=two_by_two),
        case("four tiles of 2 x 2", 4, 4, 4, 2, hint=2),
        case("sizes 5, 7, 3: nothing divides", 5, 7, 3, 2, hint=3),
        case("a tile larger than the product", 3, 2, 4, 8, hint=3),
        case("96 x 104 x 88, tiles of 8", 96, 104, 88, 8, hint=4, fresh=True),
    ],
    wrong={
        "element by element": element_by_element,
        "panels": panels,
        "sum in HBM": sum_in_hbm,
        "ragged edge of C": edited(
            tiled_product,
            "The last, smaller tiles of C were left out.",
            {
                "range(0, m, T)": "range(0, max(m - T + 1, 1), T)",
                "range(0, n, T)": "range(0, max(n - T + 1, 1), T)",
            },
        ),
        "ragged edge of k": edited(
            tiled_product,
            "The last, shorter step along k was left out: every sum lacks its last products.",
            {"range(0, k, T)": "range(0, max(k - T + 1, 1), T)"},
        ),
        "tile not freed": edited(
            tiled_product,
            "The tile of B was never freed, so the chip fills up.",
            {"chip.free(a, b)": "chip.free(a)"},
        ),
        "sum not freed": edited(
            tiled_product,
            "The finished tile of C was stored and kept. Free it before the next one.",
            {"            chip.free(acc)": "            pass"},
        ),
        "only the last step": edited(
            tiled_product,
            "Each step along k overwrote the sum of the ones before.",
            {"acc += chip.matmul(a, b)": "acc[...] = chip.matmul(a, b)"},
        ),
        "past the matrix unit": edited(
            tiled_product,
            "The product did not go through the matrix unit: use chip.matmul.",
            {"chip.matmul(a, b)": "a @ b"},
        ),
    },
    hints=[
        "Three loops: over the rows of tiles of C, over their columns, and along k.",
        "Allocate the tile of C before the loop along k, store and free it after.",
        "The last tile of a row, of a column and of k may be smaller: min(i + T, m).",
        "Free both operands within the loop along k; three tiles are all that fit.",
    ],
    explanation="""Each number that is loaded is used T times, so 2mkn/T elements are loaded where
    the untiled product loads 2mkn. The order of the tiles of C makes no difference to this count;
    on a GPU it does to the L2 cache.""",
)
