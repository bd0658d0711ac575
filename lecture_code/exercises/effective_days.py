"""Days that a training run really took."""

from fractions import Fraction

from ._exercise import Case, Exercise, edited

STATEMENT = r"""
A run trained in phases, a list of pairs (hours, chips), stops and repeated steps included. Its best
rate was `tokens_per_s` on `chips` chips, and it saw `tokens` tokens.

Return the days that the tokens would take without a pause at the best rate, the days that the same
chip-hours make on all `chips`, and the second over the first.
"""


def effective_days(phases, chips, tokens, tokens_per_s):
    """Ideal days, real days as if on all chips, and their ratio.

    Parameters
    ----------
    phases : list of (float, int)
        Hours and chips of each phase.
    chips : int
    tokens, tokens_per_s : float

    Returns
    -------
    ideal_days, real_days, ratio : float
    """
    ideal_days = tokens / tokens_per_s / 86_400
    chip_hours = sum(hours * used for hours, used in phases)
    real_days = chip_hours / chips / 24
    return ideal_days, real_days, real_days / ideal_days


def oracle(phases, chips, tokens, tokens_per_s):
    """The same in exact fractions, phase by phase."""
    ideal = Fraction(tokens) / Fraction(tokens_per_s) / 86_400
    real = sum(
        (Fraction(hours) / 24 * Fraction(used, chips) for hours, used in phases), Fraction(0)
    )
    return float(ideal), float(real), float(real / ideal)


def case(label, phases, chips, tokens, tokens_per_s, hint=1):
    """A run."""
    inputs = {"phases": phases, "chips": chips, "tokens": tokens, "tokens_per_s": tokens_per_s}
    return Case(label, inputs, hint=hint)


EXERCISE = Exercise(
    chapter="14",
    title="The calendar and the rate",
    statement=STATEMENT,
    solution=effective_days,
    oracle=oracle,
    returns=("ideal_days", "real_days", "ratio"),
    cases=[
        case("one phase, one day", [(48.0, 4)], 4, 86_400.0, 1.0),
        case("a second phase on half the chips", [(24.0, 4), (24.0, 2)], 4, 86_400.0, 1.0, hint=2),
        case("PaLM", [(1200.0, 6144), (336.0, 3072)], 6144, 780e9, 238.3e3, hint=2),
    ],
    wrong={
        "hours added up": edited(
            effective_days,
            "Hours on half the chips count half: weigh each phase by its chips.",
            {"hours * used for": "hours * chips for"},
        ),
        "the largest phase only": edited(
            effective_days,
            "Only the first phase was counted.",
            {"in phases)": "in phases[:1])"},
        ),
        "upside down": edited(
            effective_days,
            "The ratio is real over ideal, above 1.",
            {"real_days / ideal_days": "ideal_days / real_days"},
        ),
        "hours for days": edited(
            effective_days,
            "That is in hours; a day has 24.",
            {" / chips / 24": " / chips"},
        ),
        "seconds for days": edited(
            effective_days,
            "That is in seconds; a day has 86,400.",
            {"tokens_per_s / 86_400": "tokens_per_s"},
        ),
    },
    hints=[
        "Tokens over tokens a second is seconds.",
        "Chip-hours add up: hours times chips, phase by phase; then divide by all chips.",
    ],
    explanation="""PaLM: 37.9 days at the best rate, 57.0 days in chip-hours, 1.50 times as much. In
    between lie the smaller batches of the first weeks, broken machines, and steps run twice.""",
)
