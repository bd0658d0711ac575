"""What one point of utilisation is worth."""

from fractions import Fraction

from ._exercise import Case, Exercise, edited

STATEMENT = r"""
A run takes `days` on `devices` devices at utilisation `utilization` (a fraction). Somebody raises
it by one percentage point, to `utilization + 0.01`. Nothing else changes.

Return the device-hours saved. Is a point worth more at 20 % or at 50 %?
"""


def worth_of_a_point(days, devices, utilization):
    """Device-hours that one percentage point more saves.

    Parameters
    ----------
    days : float
    devices : int
    utilization : float
        Between 0 and 0.99.

    Returns
    -------
    float
    """
    share_saved = 0.01 / (utilization + 0.01)
    return 24 * devices * days * share_saved


def oracle(days, devices, utilization):
    """The share 0.01 / (u + 0.01) of all device-hours."""
    point = Fraction(0.01)
    share = point / (Fraction(utilization) + point)
    return float(24 * devices * Fraction(days) * share)


def case(label, days, devices, utilization, hint=1):
    """A run."""
    return Case(label, {"days": days, "devices": devices, "utilization": utilization}, hint=hint)


EXERCISE = Exercise(
    chapter="01",
    title="The worth of a point",
    statement=STATEMENT,
    solution=worth_of_a_point,
    oracle=oracle,
    returns=("device_hours",),
    cases=[
        case("a hundred days at 99 %", 100.0, 1, 0.99),
        case("two devices at 49 %", 100.0, 2, 0.49, hint=2),
        case("PaLM", 37.9, 6144, 0.462),
        case("PaLM at GPT-3's utilisation", 82.2, 6144, 0.213),
    ],
    wrong={
        "one per cent of the time": edited(
            worth_of_a_point,
            """A point was taken for one per cent of the time. Time goes as 1 / utilisation, so a
            point is a larger share when utilisation is low.""",
            {"0.01 / (utilization + 0.01)": "0.01"},
        ),
        "one per cent more": edited(
            worth_of_a_point,
            "Utilisation was raised by one per cent of itself; asked for is one percentage point.",
            {"0.01 / (utilization + 0.01)": "0.01 / 1.01"},
        ),
        "the old time": edited(
            worth_of_a_point,
            "The saving was taken against the new utilisation; new days are days · u / (u + 0.01).",
            {"/ (utilization + 0.01)": "/ utilization"},
        ),
        "days": edited(
            worth_of_a_point,
            "That is in device-days; a day has 24 hours.",
            {"24 * devices": "devices"},
        ),
        "one device": edited(
            worth_of_a_point,
            "That is the time of one device; all of them stand still meanwhile.",
            {"24 * devices *": "24 *"},
        ),
        "what is left": edited(
            worth_of_a_point,
            "Those are the hours still needed; asked for are those saved.",
            {"days * share_saved": "days * (1 - share_saved)"},
        ),
    },
    hints=[
        "The work is the same: days times utilisation does not change.",
        "New days first, then the difference, in hours, for all devices.",
    ],
    explanation="""For PaLM a point saves about 118,000 chip-hours, and at GPT-3's utilisation
    544,000: time goes as one over utilisation, so the first points are the cheapest speed there
    is.""",
)
