"""From FLOP to days."""

from fractions import Fraction

from ._exercise import Case, Exercise, edited

STATEMENT = r"""
A model with `parameters` weights sees `tokens` tokens on `devices` devices that each reach
`achieved_flop_per_s` on average. Count $6ND$ FLOP. Return the days.

By hand first: OPT-175B, 300 billion tokens, 992 A100 at 147 TFLOP/s. And on 1,024?
"""


def days_to_train(parameters, tokens, devices, achieved_flop_per_s):
    """Days to train at a constant rate.

    Parameters
    ----------
    parameters, tokens : float
        N and D.
    devices : int
    achieved_flop_per_s : float
        Of one device.

    Returns
    -------
    float
    """
    flop = 6 * parameters * tokens
    return flop / (devices * achieved_flop_per_s) / 86_400


def oracle(parameters, tokens, devices, achieved_flop_per_s):
    """Tokens of one device, seconds of one token, in exact fractions."""
    each = Fraction(tokens) / devices
    return float(each * 6 * Fraction(parameters) / Fraction(achieved_flop_per_s) / (24 * 3600))


def case(label, parameters, tokens, devices, achieved_flop_per_s, hint=1):
    """A run."""
    inputs = {
        "parameters": parameters,
        "tokens": tokens,
        "devices": devices,
        "achieved_flop_per_s": achieved_flop_per_s,
    }
    return Case(label, inputs, hint=hint)


EXERCISE = Exercise(
    chapter="01",
    title="Days to train",
    statement=STATEMENT,
    solution=days_to_train,
    oracle=oracle,
    returns=("days",),
    cases=[
        case("a day on one device", 1e6, 14_400e6, 1, 1e12),
        case("the same on four", 1e6, 14_400e6, 4, 1e12, hint=2),
        case("OPT-175B on 992 A100", 175e9, 300e9, 992, 147e12),
        case("OPT-175B on 1,024 A100", 175e9, 300e9, 1024, 147e12, hint=2),
    ],
    wrong={
        "the forward only": edited(
            days_to_train,
            "2 N D is the forward. Training needs the backward too: 6 N D.",
            {"6 * parameters": "2 * parameters"},
        ),
        "one device": edited(
            days_to_train,
            "The rate is that of one device; all devices work at the same time.",
            {"(devices * achieved_flop_per_s)": "achieved_flop_per_s"},
        ),
        "hours": edited(
            days_to_train,
            "That is in hours; a day has 86,400 seconds.",
            {"86_400": "3600"},
        ),
        "seconds": edited(
            days_to_train,
            "That is in seconds; a day has 86,400.",
            {" / 86_400": ""},
        ),
    },
    hints=[
        """How many FLOP is the whole training? A multiply-add is two; the backward costs twice the
        forward.""",
        "All devices together do devices times the rate of one. A day has 86,400 seconds.",
    ],
    explanation="""OPT: 25.0 days on 992 GPUs, 24.2 on 1,024. The team's own estimate was about 33
    days: 147 TFLOP/s was the best rate, not the average, and a training does more than 6 N D. In
    the end it took about two months, because machines broke and the loss diverged.""",
)
