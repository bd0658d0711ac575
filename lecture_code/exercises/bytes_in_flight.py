"""Little's law: what must be under way for the memory to be busy."""

from fractions import Fraction

import numpy as np

from ._exercise import Case, Exercise, edited

STATEMENT = r"""
A memory delivers `bytes_per_s`. From the request of a load to its arrival pass `latency_cycles`
cycles of a clock of `clock_hz`. The chip has `sm_count` SMs that share the traffic evenly; a thread
asks for `load_bytes` at a time and has one load under way.

Return the bytes that must be under way at any moment to keep the memory busy, and the least whole
number of threads an SM needs for that.

Then find out: does an A100 with 108 SMs of at most 2,048 threads have enough for 1,555 GB/s at 500
cycles of 1.41 GHz, with 4 bytes a load?
"""


def bytes_in_flight(bytes_per_s, latency_cycles, clock_hz, sm_count, load_bytes):
    """Bytes under way, and threads an SM needs, for full bandwidth.

    Parameters
    ----------
    bytes_per_s : int
    latency_cycles : int
    clock_hz : int
    sm_count : int
    load_bytes : int

    Returns
    -------
    in_flight_bytes : float
    threads_per_sm : int
    """
    in_flight_bytes = bytes_per_s * latency_cycles / clock_hz
    threads_per_sm = int(np.ceil(in_flight_bytes / load_bytes / sm_count))
    return in_flight_bytes, threads_per_sm


def in_fractions(bytes_per_s, latency_cycles, clock_hz, sm_count, load_bytes):
    """The same in exact fractions: bytes a cycle, times cycles."""
    flight = Fraction(bytes_per_s, clock_hz) * latency_cycles
    threads = flight / (load_bytes * sm_count)
    return float(flight), -(-threads.numerator // threads.denominator)


def case(label, *values, hint=1):
    names = ("bytes_per_s", "latency_cycles", "clock_hz", "sm_count", "load_bytes")
    return Case(label, dict(zip(names, values)), hint=hint)


EXERCISE = Exercise(
    chapter="04",
    title="Bytes in flight",
    statement=STATEMENT,
    solution=bytes_in_flight,
    oracle=in_fractions,
    returns=("in_flight_bytes", "threads_per_sm"),
    cases=[
        case("8 bytes a cycle, 10 cycles", 8, 10, 1, 1, 4),
        case("a clock of 2 Hz", 8, 10, 2, 1, 4, hint=2),
        case("three SMs", 8, 10, 1, 3, 4, hint=3),
        case("A100, 4 bytes", 1_555 * 10**9, 500, 1_410 * 10**6, 108, 4),
        case("A100, 16 bytes", 1_555 * 10**9, 500, 1_410 * 10**6, 108, 16, hint=3),
        case("H100, 4 bytes", 3_350 * 10**9, 500, 1_980 * 10**6, 132, 4, hint=2),
    ],
    wrong={
        "cycles as seconds": edited(
            bytes_in_flight,
            "The cycles were taken for seconds. Divide them by the clock.",
            {"latency_cycles / clock_hz": "latency_cycles"},
            hint=2,
        ),
        "upside down": edited(
            bytes_in_flight,
            """Bandwidth was divided by the latency. The longer a load is under way, the more of
            them are under way together: multiply.""",
            {"bytes_per_s * latency_cycles / clock_hz": "bytes_per_s / latency_cycles / clock_hz"},
        ),
        "threads of the chip": edited(
            bytes_in_flight,
            "These are the threads of the whole chip. Share them among the SMs.",
            {" / sm_count": ""},
            hint=3,
        ),
        "rounded down": edited(
            bytes_in_flight,
            "The threads were rounded down: that many keep the memory just short of busy.",
            {"np.ceil(": "np.floor("},
            hint=3,
        ),
        "bytes as threads": edited(
            bytes_in_flight,
            "One thread was counted for each byte. A thread asks for load_bytes at once.",
            {" / load_bytes": ""},
            hint=3,
        ),
    },
    hints=[
        """Think of a pipe: what comes out in a second, times the seconds that each drop spends
        inside, is what the pipe holds.""",
        "The seconds of one load are latency_cycles / clock_hz.",
        "Loads under way = bytes under way / load_bytes; share them among the SMs and round up.",
    ],
    explanation="""The A100 needs about 551 KB under way, 1,277 threads an SM of its 2,048, each
    with one 4-byte load. With 16 bytes a load 320 are enough: wide loads hide latency too.""",
)
