"""How many elementwise operations to fuse so that a chain meets a deadline."""

from fractions import Fraction

from ._exercise import Case, Exercise, edited

STATEMENT = r"""
A chain of `k` elementwise operations runs over an array of `n` float32 numbers. A kernel made of
$g$ neighbours in the chain reads the array once, writes it once, and does $g$ operations of
`op_ns` nanoseconds each (for the whole array) while it moves the bytes. `move_ns` nanoseconds pass
for each read and each write of the whole array; the arithmetic overlaps with them. The CPU needs
`launch_ns` nanoseconds to launch a kernel, the queue is asynchronous and long, so each kernel
costs the longer of its launch and its run.

Return the smallest $g$ at which the chain takes at most `limit_ns`, or 0 if no $g$ up to `k` does.
The chain is cut into kernels of $g$ operations and perhaps a last one of fewer, which is to be
counted like the others.
"""


def kernels_to_fuse(k, op_ns, move_ns, launch_ns, limit_ns):
    """Smallest number of operations in a kernel that brings a chain under a limit.

    Parameters
    ----------
    k : int
        Operations in the chain.
    op_ns, move_ns, launch_ns : int
        Time of the arithmetic of one operation, of one read or write of the array, of a launch.
    limit_ns : int

    Returns
    -------
    int
        0 if there is none.
    """
    for g in range(1, k + 1):
        kernels = -(-k // g)
        run_ns = max(2 * move_ns, g * op_ns)
        if kernels * max(launch_ns, run_ns) <= limit_ns:
            return g
    return 0


def by_listing(k, op_ns, move_ns, launch_ns, limit_ns):
    """The same by listing every size and cutting the chain by hand."""
    good = []
    for g in range(1, k + 1):
        pieces = len(list(range(0, k, g)))
        longest = sorted([Fraction(launch_ns), Fraction(2 * move_ns), Fraction(g * op_ns)])[-1]
        if sum([longest] * pieces) <= limit_ns:
            good.append(g)
    return min(good, default=0)


def case(label, k, op_ns, move_ns, launch_ns, limit_ns, hint=1):
    """A chain."""
    names = ("k", "op_ns", "move_ns", "launch_ns", "limit_ns")
    return Case(label, dict(zip(names, (k, op_ns, move_ns, launch_ns, limit_ns))), hint=hint)


EXERCISE = Exercise(
    chapter="02",
    title="How many kernels to fuse",
    statement=STATEMENT,
    solution=kernels_to_fuse,
    oracle=by_listing,
    returns=("g",),
    cases=[
        case("already fast enough", 4, 10, 100, 50, 800),
        case("a small array: launches", 12, 10, 100, 10_000, 40_000, hint=1),
        case("a large array: bytes", 12, 500, 20_000, 10_000, 130_000, hint=2),
        case("does not divide", 10, 10, 100, 10_000, 30_000, hint=3),
        case("dear functions", 8, 40_000, 10_000, 10_000, 200_000, hint=2),
        case("dear functions, early enough", 8, 10_000, 20_000, 10_000, 90_000, hint=2),
        case("a single kernel", 100, 10, 1_000, 10_000, 10_000),
    ],
    wrong={
        "bytes grow": edited(
            kernels_to_fuse,
            """The bytes of a fused kernel were multiplied by g. What stays on the chip is not
            moved: one read, one write, whatever g.""",
            {"2 * move_ns": "2 * g * move_ns"},
            hint=2,
        ),
        "arithmetic forgotten": edited(
            kernels_to_fuse,
            """The arithmetic was left out. Fusion does not remove it: g operations take g times as
            long.""",
            {"max(2 * move_ns, g * op_ns)": "2 * move_ns"},
            hint=2,
        ),
        "one move": edited(
            kernels_to_fuse,
            "A kernel reads its array and writes its result: two moves.",
            {"2 * move_ns": "move_ns"},
            hint=2,
        ),
        "launch added": edited(
            kernels_to_fuse,
            """Launch and run were added. The queue is asynchronous: while one kernel runs, the CPU
            launches the next.""",
            {"max(launch_ns, run_ns)": "(launch_ns + run_ns)"},
        ),
        "launch forgotten": edited(
            kernels_to_fuse,
            "The launches were left out: a kernel costs at least its launch.",
            {"max(launch_ns, run_ns)": "run_ns"},
        ),
        "rounded down": edited(
            kernels_to_fuse,
            "The last kernel, with fewer operations than g, was forgotten: round up.",
            {"-(-k // g)": "(k // g)"},
            hint=3,
        ),
        "number of kernels": edited(
            kernels_to_fuse,
            "That is the number of kernels that remain; asked for is the operations in one.",
            {"return g\n": "return kernels\n"},
        ),
        "largest": edited(
            kernels_to_fuse,
            "A larger g than needed was returned; asked for is the smallest.",
            {"range(1, k + 1)": "range(k, 0, -1)"},
        ),
    },
    hints=[
        "Write down the time of the chain for g = 1, then for g = k.",
        "A fused kernel still moves 2 arrays, and its arithmetic is g times as much.",
        "ceil(k / g) kernels.",
    ],
    explanation="""On a small array fusion saves launches, on a large one bytes, and with dear
    functions neither: then the chain takes k times the arithmetic, fused or not. Three regimes, one
    remedy, three different gains.""",
)
