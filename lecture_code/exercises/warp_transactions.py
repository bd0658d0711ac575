"""How many bursts one load of a warp needs, and how much of them it uses."""

import numpy as np

from ._exercise import Case, Exercise, edited

STATEMENT = r"""
A matrix with `columns` columns lies in memory row by row, starting at address 0; an element takes
`element_bytes` bytes. A warp of 32 threads loads 32 elements at once. With `along = "row"`, thread
$t$ reads element (`row`, `column` $+\,t$); with `along = "column"`, it reads (`row` $+\,t$,
`column`). The memory hands over whole bursts of `burst_bytes` bytes, which start at multiples of
`burst_bytes`.

Return the number of bursts that the load needs and the share of their bytes that the threads asked
for. `element_bytes` divides `burst_bytes`.
"""


def warp_transactions(columns, row, column, along, element_bytes, burst_bytes):
    """Bursts of one load of a warp, and the useful share of their bytes.

    Parameters
    ----------
    columns : int
        Elements in a row of the matrix.
    row, column : int
        Where thread 0 reads.
    along : "row" or "column"
        Where its neighbours stand.
    element_bytes, burst_bytes : int

    Returns
    -------
    bursts : int
    useful : float
        Bytes asked for over bytes handed over.
    """
    t = np.arange(32)
    rows, cols = (row, column + t) if along == "row" else (row + t, column)
    addresses = element_bytes * (rows * columns + cols)
    bursts = len(np.unique(addresses // burst_bytes))
    return bursts, 32 * element_bytes / (bursts * burst_bytes)


def oracle(columns, row, column, along, element_bytes, burst_bytes):
    """Byte by byte: mark each byte that a thread asks for, and see which bursts hold a mark."""
    wanted = set()
    for t in range(32):
        i, j = (row, column + t) if along == "row" else (row + t, column)
        first = (i * columns + j) * element_bytes
        wanted |= set(range(first, first + element_bytes))
    touched = {byte - byte % burst_bytes for byte in wanted}
    return len(touched), len(wanted) / (len(touched) * burst_bytes)


def case(label, columns, at, along, element_bytes=4, burst_bytes=128, hint=1):
    inputs = {"columns": columns, "row": at[0], "column": at[1], "along": along}
    inputs |= {"element_bytes": element_bytes, "burst_bytes": burst_bytes}
    return Case(label, inputs, hint=hint)


EXERCISE = Exercise(
    chapter="06",
    title="One load of a warp",
    statement=STATEMENT,
    solution=warp_transactions,
    oracle=oracle,
    returns=("bursts", "useful"),
    cases=[
        case("along a row, from its start", 64, (0, 0), "row"),
        case("down a column", 64, (0, 0), "column", hint=2),
        case("along a row, one element further", 64, (0, 1), "row", hint=3),
        case("row 3 of a matrix with 65 columns", 65, (3, 0), "row", hint=3),
        case("down a column of a narrow matrix", 8, (0, 0), "column", hint=2),
        case("16-bit elements", 64, (2, 0), "row", element_bytes=2, hint=2),
        case("64-bit elements", 64, (1, 5), "row", element_bytes=8, hint=3),
        case("transactions of 32 bytes", 64, (0, 0), "row", burst_bytes=32, hint=2),
        case("16-bit elements, 257 columns, 32 bytes", 257, (1, 64), "row", 2, 32, hint=3),
    ],
    wrong={
        "elements for bytes": edited(
            warp_transactions,
            """Places of elements were taken for byte addresses: multiply by element_bytes.""",
            {"element_bytes * (rows * columns + cols)": "rows * columns + cols"},
        ),
        "alignment forgotten": edited(
            warp_transactions,
            """The bytes were divided by the size of a burst. Bursts start at multiples of their
            size: 128 bytes that start in the middle of one lie in two.""",
            {
                "len(np.unique(addresses // burst_bytes))": "-(-(addresses[-1] - addresses[0] + "
                "element_bytes) // burst_bytes) if along == 'row' else "
                "len(np.unique(addresses // burst_bytes))"
            },
        ),
        "one burst a thread": edited(
            warp_transactions,
            """Down a column each thread got a burst of its own. In a narrow matrix several rows
            share one.""",
            {
                "len(np.unique(addresses // burst_bytes))": "len(np.unique(addresses // "
                "burst_bytes)) if along == 'row' else 32"
            },
        ),
        "directions swapped": edited(
            warp_transactions,
            """The directions are swapped: along a row the column index grows from thread to
            thread.""",
            {'if along == "row"': 'if along == "column"'},
        ),
        "share upside down": edited(
            warp_transactions,
            "The share is upside down: it is at most 1.",
            {
                "32 * element_bytes / (bursts * burst_bytes)": "bursts * burst_bytes / (32 * "
                "element_bytes)"
            },
        ),
        "share of one element": edited(
            warp_transactions,
            "The bytes of one thread were counted. All 32 asked for some.",
            {"32 * element_bytes / (": "element_bytes / ("},
        ),
    },
    hints=[
        "Write down the byte address of each thread's element.",
        "The burst of an address is address // burst_bytes. How many different ones are there?",
        "Where does the row start? Not always at a multiple of the burst.",
    ],
    explanation="""The number of bursts is between what the bytes need and 32. The order of the
    threads within the warp does not matter, and neither does the path of a thread over time: only
    where the 32 stand at one moment.""",
)
