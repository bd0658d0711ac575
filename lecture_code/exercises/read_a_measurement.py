"""What a measured time says, held against the roofline."""

from fractions import Fraction

from ._exercise import Case, Exercise, edited

STATEMENT = r"""
Somebody reports that an operation took `seconds`. It does `flop` FLOP and moves `moved_bytes` bytes
at least; the device has a peak of `flop_per_s` and a bandwidth of `bytes_per_s`. Return three
things:

- `side`: `"memory"` or `"compute"`, whichever bounds the operation on this device (`"compute"` at
  the ridge point itself);
- `share`: the fraction of the roof that was reached, which is the least time divided by the
  measured time;
- `possible`: whether the report can be true as it stands. It cannot if the device would have had to
  compute faster than its peak, or to move bytes faster than its bandwidth.

`flop` may be 0: a copy does no arithmetic.
"""


def read_a_measurement(flop, moved_bytes, seconds, flop_per_s, bytes_per_s):
    """Side of the ridge, share of the roof, and whether a measured time is possible.

    Parameters
    ----------
    flop, moved_bytes : int
        FLOP done; bytes moved, more than 0.
    seconds : float
        Measured time.
    flop_per_s, bytes_per_s : float
        Peak and bandwidth of the device.

    Returns
    -------
    side : "memory" or "compute"
    share : float
    possible : bool
    """
    compute_s = flop / flop_per_s
    move_s = moved_bytes / bytes_per_s
    least_s = max(compute_s, move_s)
    side = "compute" if compute_s >= move_s else "memory"
    return side, least_s / seconds, least_s <= seconds


def oracle(flop, moved_bytes, seconds, flop_per_s, bytes_per_s):
    """By rates instead of times, in exact fractions: the height of the point over the roof's."""
    flop, moved_bytes, seconds = Fraction(flop), Fraction(moved_bytes), Fraction(seconds)
    peak, bandwidth = Fraction(flop_per_s), Fraction(bytes_per_s)
    computed, moved = flop / seconds / peak, moved_bytes / seconds / bandwidth
    side = "compute" if flop * bandwidth >= moved_bytes * peak else "memory"
    return side, float(max(computed, moved)), computed <= 1 and moved <= 1


def case(label, flop, moved_bytes, seconds, flop_per_s=989e12, bytes_per_s=4.8e12, hint=1):
    """A report; about an H200 if no device is given."""
    inputs = {"flop": flop, "moved_bytes": moved_bytes, "seconds": seconds}
    return Case(label, inputs | {"flop_per_s": flop_per_s, "bytes_per_s": bytes_per_s}, hint=hint)


SQUARE = (2 * 8192**3, 3 * 2 * 8192**2)

EXERCISE = Exercise(
    chapter="03",
    title="What a measured time says",
    statement=STATEMENT,
    solution=read_a_measurement,
    oracle=oracle,
    returns=("side", "share", "possible"),
    cases=[
        case("100 FLOP and 8 bytes in 4 s, left of the ridge", 100, 8, 4.0, 100, 4),
        case("600 FLOP and 8 bytes in 10 s, right of it", 600, 8, 10.0, 100, 4),
        case("at the ridge exactly", 200, 8, 2.0, 100, 4, hint=2),
        case("a copy, 512 MiB read and written", 0, 2**30, 250e-6, hint=2),
        case("a small product, all launch", 2 * 64**3, 3 * 2 * 64**2, 5e-6),
        case("a large product", *SQUARE, 1.4e-3),
        case("a copy that stayed in the L2 cache", 0, 2**25, 5.8e-6, hint=3),
        case("a product that claims 1,200 TFLOP/s", *SQUARE, SQUARE[0] / 1.2e15, hint=3),
        case("an addition, 10 % above the bandwidth", 2**26, 3 * 2**27, 76e-6, hint=3),
    ],
    wrong={
        "share of the peak": edited(
            read_a_measurement,
            """The share was taken of the peak. Left of the ridge the roof is lower than the peak:
            there the slope, intensity x bandwidth, is what can be reached.""",
            {"least_s / seconds, least_s": "compute_s / seconds, least_s"},
        ),
        "share of the bandwidth": edited(
            read_a_measurement,
            """The share was taken of the bandwidth. Right of the ridge the roof is the peak.""",
            {"least_s / seconds, least_s": "move_s / seconds, least_s"},
        ),
        "times added": edited(
            read_a_measurement,
            "The two times were added. They overlap: the least time is the larger of the two.",
            {"max(compute_s, move_s)": "(compute_s + move_s)"},
        ),
        "upside down": edited(
            read_a_measurement,
            "The share is upside down: a slow kernel has a small share.",
            {"least_s / seconds, least_s": "seconds / least_s, least_s"},
        ),
        "only the peak guarded": edited(
            read_a_measurement,
            """Only the peak was guarded. Bytes that come faster than the bandwidth did not come
            from that memory: a cache was measured.""",
            {"least_s <= seconds": "compute_s <= seconds"},
        ),
        "only the bandwidth guarded": edited(
            read_a_measurement,
            """Only the bandwidth was guarded. A rate above the peak is as impossible: perhaps
            FLOP that were skipped were counted, or the peak is that of another precision.""",
            {"least_s <= seconds": "move_s <= seconds"},
        ),
        "sides swapped": edited(
            read_a_measurement,
            "The sides are swapped: the longer of the two times is the one that bounds.",
            {"compute_s >= move_s": "compute_s < move_s"},
        ),
        "the ridge itself": edited(
            read_a_measurement,
            "At the ridge point both times are equal; that was to count as compute.",
            {"compute_s >= move_s": "compute_s > move_s"},
        ),
    },
    hints=[
        "Two times: flop / flop_per_s and moved_bytes / bytes_per_s. Which one is the least time?",
        "Compare the two times, not the intensity with the ridge: it is the same question, and a "
        "copy makes no trouble.",
        "A share above 1 is a report that cannot be true.",
    ],
    explanation="""Share and possibility are one number: a share above 1 says that something was
    counted wrongly. On the slope it is nearly always a cache; on the flat part it is the peak
    (another precision, or the one with sparsity) or FLOP that never ran (a causal half). A small
    share says only that there is something left to explain.""",
)
