"""Total time of an asynchronous queue of kernels, with and without waiting."""

from fractions import Fraction

from ._exercise import Case, Exercise, edited

STATEMENT = r"""
A CPU puts kernels into a GPU's queue, one after the other, and the GPU runs them in that order. The
CPU needs `enqueue[i]` microseconds to put kernel $i$ into the queue; the kernel can start when it
is in the queue and the kernel before it has ended, and runs for `run[i]` microseconds. If `wait[i]`
is true, the CPU then reads the result of kernel $i$: it does nothing until that kernel has ended.

Return the time from the start to the end of the last kernel, and how long the GPU was idle in it.
"""


def queue_time(enqueue, run, wait):
    """Total time and idle time of a queue of kernels, in microseconds.

    Parameters
    ----------
    enqueue, run : list of int
        For each kernel, the CPU's time to put it into the queue, and the GPU's time to run it.
    wait : list of bool
        Whether the CPU waits for the kernel's end before it goes on.

    Returns
    -------
    total, idle : int
    """
    cpu = gpu = 0
    for put, work, waits in zip(enqueue, run, wait):
        cpu += put
        gpu = max(cpu, gpu) + work
        if waits:
            cpu = gpu
    return gpu, gpu - sum(run)


def by_paths(enqueue, run, wait):
    """The same as the longest path from each event back to the start."""
    count = len(run)

    def queued(i):
        if i < 0:
            return Fraction(0)
        before = ended(i - 1) if i > 0 and wait[i - 1] else queued(i - 1)
        return before + enqueue[i]

    def ended(i):
        return Fraction(0) if i < 0 else max(queued(i), ended(i - 1)) + run[i]

    total = int(ended(count - 1))
    idle = sum(max(queued(i) - ended(i - 1), 0) for i in range(count))
    return total, int(idle)


def case(label, enqueue, run, wait, hint=1):
    """A queue."""
    return Case(label, {"enqueue": enqueue, "run": run, "wait": wait}, hint=hint)


NEVER, EACH = [False] * 4, [True] * 4

EXERCISE = Exercise(
    chapter="02",
    title="The time of a queue",
    statement=STATEMENT,
    solution=queue_time,
    oracle=by_paths,
    returns=("total", "idle"),
    cases=[
        case("one kernel", [10], [3], [False]),
        case("short kernels", [10] * 4, [3] * 4, NEVER),
        case("long kernels", [10] * 4, [30] * 4, NEVER),
        case("long kernels, a wait after each", [10] * 4, [30] * 4, EACH, hint=3),
        case("a long kernel first", [10] * 6, [45, 3, 3, 3, 3, 3], [False] * 6, hint=2),
        case("a wait in the middle", [10] * 4, [30] * 4, [False, True, False, False], hint=3),
        case("uneven", [5, 20, 5, 5, 40], [8, 2, 30, 1, 9], [False, False, True, False, False], 2),
    ],
    wrong={
        "nothing overlaps": edited(
            queue_time,
            """The CPU stood still while a kernel ran. Unless it waits, it goes on to put the next
            kernel into the queue.""",
            {"if waits:\n            cpu = gpu": "cpu = gpu"},
        ),
        "never waits": edited(
            queue_time,
            """The waits were left out. After a wait the CPU goes on from the moment when that
            kernel ended.""",
            {"if waits:": "if False:"},
            hint=3,
        ),
        "starts early": edited(
            queue_time,
            "A kernel started before it was in the queue: it needs the CPU's time too.",
            {"max(cpu, gpu) + work": "gpu + work"},
        ),
        "two at once": edited(
            queue_time,
            """A kernel started before the one before it had ended. This queue runs one kernel at a
            time.""",
            {"max(cpu, gpu) + work": "cpu + work"},
        ),
        "sum of the larger": edited(
            queue_time,
            """For each kernel the larger of the two times was added up. That forgets that the
            first kernel must be queued before anything runs, and that a queue filled during a
            long kernel is used later.""",
            {
                "max(cpu, gpu) + work": "gpu + max(put, work)",
                "if waits:\n            cpu = gpu": "pass",
            },
            hint=2,
        ),
        "idle of the CPU": edited(
            queue_time,
            "That idle time is what the CPU's work leaves; asked for is the time the GPU is idle.",
            {"gpu - sum(run)": "gpu - sum(enqueue)"},
        ),
    },
    hints=[
        "Keep two clocks: when the CPU is free, and when the GPU is free.",
        "A kernel starts at the later of two moments: it is in the queue; the GPU is free.",
        "A wait moves the CPU's clock to the end of that kernel.",
    ],
    explanation="""With equal kernels and no wait the total is n · max(a, b) + min(a, b); with a
    wait after each it is n · (a + b). The case with a long kernel first is the one that formulas
    miss: while it runs the CPU fills the queue, and the short kernels behind it cost next to
    nothing.""",
)
