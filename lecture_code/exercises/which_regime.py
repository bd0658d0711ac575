"""Which regime an operation is in, from the roofline and from doubling the batch."""

from fractions import Fraction

from ._exercise import Case, Exercise, edited

STATEMENT = r"""
A step does `flop` FLOP and moves `moved_bytes` bytes at least. It took `seconds`. With the batch
doubled it took `seconds_doubled`. The device reaches `flop_per_s` and `bytes_per_s` in its best
large operations. Decide in this order:

1. If the longer of the two least times, arithmetic and bytes, explains at least half of
   `seconds`, return which one it is: `"compute"` or `"bandwidth"` (`"compute"` if they are equal).
2. Otherwise, suppose that a step takes a fixed time plus a time in proportion to the batch. If the
   fixed part is at least half of `seconds`, return `"overhead"`.
3. Otherwise return `"slow kernels"`: the time grows with the work, yet no ceiling is near.

Why must 1 come before 2?
"""


def which_regime(seconds, seconds_doubled, flop, moved_bytes, flop_per_s, bytes_per_s):
    """Name what a step's time is spent on.

    Parameters
    ----------
    seconds, seconds_doubled : float
        Time of a step, and of a step with twice the batch.
    flop, moved_bytes : int
        Of the first step.
    flop_per_s, bytes_per_s : float
        What the device reaches.

    Returns
    -------
    "compute", "bandwidth", "overhead" or "slow kernels"
    """
    compute_s = flop / flop_per_s
    move_s = moved_bytes / bytes_per_s
    if 2 * max(compute_s, move_s) >= seconds:
        return "compute" if compute_s >= move_s else "bandwidth"
    fixed_s = 2 * seconds - seconds_doubled
    return "overhead" if 2 * fixed_s >= seconds else "slow kernels"


def by_shares(seconds, seconds_doubled, flop, moved_bytes, flop_per_s, bytes_per_s):
    """The same in exact fractions, by shares of the measured time."""
    t = Fraction(seconds)
    shares = {
        "compute": Fraction(flop) / Fraction(flop_per_s) / t,
        "bandwidth": Fraction(moved_bytes) / Fraction(bytes_per_s) / t,
    }
    name = max(shares, key=shares.get)
    if shares[name] >= Fraction(1, 2):
        return name
    growing = Fraction(seconds_doubled) / t - 1
    return "overhead" if growing <= Fraction(1, 2) else "slow kernels"


def case(label, seconds, doubled, flop, moved, hint=1, device=(1e14, 1e12)):
    """A step on a device of 100 TFLOP/s and 1 TB/s, if no other is given."""
    return Case(
        label,
        {
            "seconds": seconds,
            "seconds_doubled": doubled,
            "flop": flop,
            "moved_bytes": moved,
            "flop_per_s": device[0],
            "bytes_per_s": device[1],
        },
        hint=hint,
    )


EXERCISE = Exercise(
    chapter="02",
    title="Which regime?",
    statement=STATEMENT,
    solution=which_regime,
    oracle=by_shares,
    returns=("regime",),
    cases=[
        case("a large product", 0.0125, 0.025, 10**12, 10**9),
        case("a long array", 0.0125, 0.025, 10**9, 10**10),
        case("Horace He's test: ten per cent more", 0.01, 0.011, 10**9, 10**7, hint=2),
        case("one token, all the weights", 0.0125, 0.0126, 10**10, 10**10, hint=3),
        case("a kernel that walks memory badly", 0.01, 0.02, 10**9, 10**9, hint=2),
        case("a product of odd shape", 0.01, 0.0195, 10**11, 10**8, hint=2),
        case("half is fixed", 0.5, 0.75, 10**9, 10**7, hint=2),
        case("time falls when the batch doubles", 0.01, 0.0098, 10**9, 10**7, hint=2),
        case("exactly half explained", 0.5, 0.5, 10**9, 10**10, device=(1e14, 4e10)),
        case("equal times", 0.5, 1.0, 2**40, 2**32, device=(2.0**41, 2.0**33)),
    ],
    wrong={
        "batch first": edited(
            which_regime,
            """The batch was asked first. A step that reads all weights once takes the same time
            for twice the batch, and it is bound by bandwidth.""",
            {
                "compute_s = flop / flop_per_s": """if 3 * seconds >= 2 * seconds_doubled:
        return "overhead"
    compute_s = flop / flop_per_s"""
            },
            hint=3,
        ),
        "roofline only": edited(
            which_regime,
            """The roofline names the longer of two least times, and overhead is neither. First ask
            how much of the measured time it explains.""",
            {"if 2 * max(compute_s, move_s) >= seconds:": "if True:"},
        ),
        "half turned round": edited(
            which_regime,
            "The bound has to explain half of the measured time, not twice of it.",
            {"2 * max(compute_s, move_s) >= seconds": "max(compute_s, move_s) >= 2 * seconds"},
        ),
        "ten per cent only": edited(
            which_regime,
            """Only a growth of ten per cent was called overhead. By the statement half of the time
            being fixed is enough: growth up to fifty per cent.""",
            {"2 * fixed_s >= seconds": "seconds_doubled < 1.2 * seconds"},
            hint=2,
        ),
        "anything below doubling": edited(
            which_regime,
            "Every growth below 2 was called overhead; the fixed part must be at least half.",
            {"2 * fixed_s >= seconds": "fixed_s > 0"},
            hint=2,
        ),
        "never slow": edited(
            which_regime,
            """What is not explained was called overhead. If the time doubles with the work, it is
            spent in kernels that are far from the ceilings.""",
            {'"overhead" if 2 * fixed_s >= seconds else "slow kernels"': '"overhead"'},
            hint=2,
        ),
        "names swapped": edited(
            which_regime,
            "The names are exchanged: if the bytes take longer, it is bandwidth.",
            {
                '"compute" if compute_s >= move_s else "bandwidth"': """(
            "bandwidth" if compute_s >= move_s else "compute"
        )"""
            },
        ),
        "tie to bandwidth": edited(
            which_regime,
            'Equal times are to be called "compute".',
            {"compute_s >= move_s else": "compute_s > move_s else"},
        ),
    },
    hints=[
        "The least times are flop / flop_per_s and moved_bytes / bytes_per_s.",
        "t = f + w and t' = f + 2w give the fixed part f = 2t - t'.",
        "Reading the weights is a fixed time too. What tells it from overhead?",
    ],
    explanation="""Doubling the batch tells a fixed time from one that grows, and no more. A read of
    all the weights is fixed as well, so the bytes have to be asked first: generation of text looks
    like overhead to the doubling test and is bound by bandwidth.""",
)
