"""How many devices a deadline needs."""

from fractions import Fraction

from ._exercise import Case, Exercise, edited

STATEMENT = r"""
A model with `parameters` weights shall see `tokens` tokens in at most `days` days. A device has the
dense peak `peak_flop_per_s` and the run reaches the utilisation `utilization`, whatever the number
of devices. Count $6ND$. Return the smallest number of devices.
"""


def devices_for_a_deadline(parameters, tokens, days, peak_flop_per_s, utilization):
    """Smallest number of devices that finish in time.

    Parameters
    ----------
    parameters, tokens : int
        N and D.
    days : int
    peak_flop_per_s : int
        Dense peak of one device.
    utilization : float
        Fraction of the peak that the run reaches.

    Returns
    -------
    int
    """
    flop = 6 * parameters * tokens
    flop_of_one = days * 86_400 * peak_flop_per_s * utilization
    needed = flop / flop_of_one
    return int(-(-needed // 1))


def oracle(parameters, tokens, days, peak_flop_per_s, utilization):
    """The first number that is enough, from the exact quotient."""
    of_one = days * 86_400 * Fraction(peak_flop_per_s) * Fraction(utilization)
    quotient = Fraction(6 * parameters * tokens) / of_one
    whole = quotient.numerator // quotient.denominator
    return whole if whole == quotient else whole + 1


def case(label, parameters, tokens, days, peak_flop_per_s, utilization, hint=1):
    """A plan."""
    inputs = {
        "parameters": parameters,
        "tokens": tokens,
        "days": days,
        "peak_flop_per_s": peak_flop_per_s,
        "utilization": utilization,
    }
    return Case(label, inputs, hint=hint)


EXERCISE = Exercise(
    chapter="01",
    title="Devices for a deadline",
    statement=STATEMENT,
    solution=devices_for_a_deadline,
    oracle=oracle,
    returns=("devices",),
    cases=[
        case("two and a half devices", 10**6, 18_000 * 10**6, 1, 10**12, 0.5, hint=2),
        case("exactly four", 10**6, 14_400 * 10**6, 1, 10**12, 0.25, hint=2),
        case(
            "7 billion weights, 2 trillion tokens, 30 days of H100 at 40 %",
            7 * 10**9,
            2 * 10**12,
            30,
            989 * 10**12,
            0.40,
        ),
        case("the same at 20 %", 7 * 10**9, 2 * 10**12, 30, 989 * 10**12, 0.20),
    ],
    wrong={
        "rounded down": edited(
            devices_for_a_deadline,
            "A part of a device was thrown away, so the run is late. Round up.",
            {"int(-(-needed // 1))": "int(needed)"},
        ),
        "at peak": edited(
            devices_for_a_deadline,
            "The devices were taken at their peak; they reach only a fraction of it.",
            {" * utilization": ""},
        ),
        "the forward only": edited(
            devices_for_a_deadline,
            "2 N D is the forward. Training needs the backward too: 6 N D.",
            {"6 * parameters": "2 * parameters"},
        ),
        "one too many": edited(
            devices_for_a_deadline,
            "One device too many where the quotient is whole.",
            {"int(-(-needed // 1))": "int(needed) + 1"},
        ),
    },
    hints=[
        "What does one device do until the deadline?",
        "Divide, and round up: two and a half devices are three.",
    ],
    explanation="""Half the utilisation needs twice the devices: 82 at 40 %, 164 at 20 %. That is
    why utilisation is money.""",
)
