"""What share of a run attention must have been, for a whole-run speed-up to follow from its own."""

from fractions import Fraction

from ._exercise import Case, Exercise, edited

STATEMENT = r"""
Attention alone becomes `alone` times faster. The whole run becomes `whole` times faster. If nothing
else has changed, what share of the **old** time was attention? Return

- `share`: that share, a fraction;
- `possible`: whether a share of at most 1 can explain the speed-up. If not, something besides
  attention changed, or the two ratios do not have the same baseline.

`whole` is at least 1 and `alone` is more than 1.
"""


def attention_share(whole, alone):
    """Share of the old time, and whether it is possible.

    Parameters
    ----------
    whole, alone : float
        Speed-ups, old time / new time, of the run and of attention.

    Returns
    -------
    share : float
    possible : bool
    """
    share = (1 - 1 / whole) / (1 - 1 / alone)
    return share, whole <= alone


def oracle(whole, alone):
    """The same in exact fractions, multiplied out."""
    whole, alone = Fraction(whole), Fraction(alone)
    share = alone * (whole - 1) / (whole * (alone - 1))
    return float(share), share <= 1


def case(label, whole, alone, hint=1):
    """Two speed-ups."""
    return Case(label, {"whole": float(whole), "alone": float(alone)}, hint=hint)


EXERCISE = Exercise(
    chapter="13",
    title="Which comparison?",
    statement=STATEMENT,
    solution=attention_share,
    oracle=oracle,
    returns=("share", "possible"),
    cases=[
        case("half the time, halved", 4 / 3, 2),
        case("nothing gained", 1, 4),
        case("all of it was attention", 4, 4, hint=2),
        case("BERT-large, 20.0 to 17.4 minutes", 20.0 / 17.4, 7.6),
        case("GPT-2 medium against Megatron-LM", 11.5 / 6.9, 7.6),
        case("ten times from five times", 10, 5, hint=2),
    ],
    wrong={
        "time saved": edited(
            attention_share,
            """That is the share of the old time that was saved. Attention still takes 1 / alone of
            what it took, so its share was larger.""",
            {"(1 - 1 / whole) / (1 - 1 / alone)": "1 - 1 / whole"},
        ),
        "ratio of the speed-ups": edited(
            attention_share,
            "Speed-ups do not divide; times do. Write the new time as a sum of two parts.",
            {"(1 - 1 / whole) / (1 - 1 / alone)": "whole / alone"},
        ),
        "share of the new time": edited(
            attention_share,
            "That is attention's share of the new time; asked for is its share of the old.",
            {"(1 - 1 / whole) / (1 - 1 / alone)": "(whole - 1) / (alone - 1)"},
        ),
        "always possible": edited(
            attention_share,
            "A run cannot gain more than its fastest-growing part: a share above 1 is no share.",
            {"whole <= alone": "True"},
        ),
        "all of it refused": edited(
            attention_share,
            "A share of exactly 1 is possible: the run was nothing but attention.",
            {"whole <= alone": "whole < alone"},
        ),
    },
    hints=[
        "Old time 1: share + rest. New time: share / alone + rest.",
        "What share do you get when both speed-ups are equal? And when the run gained more?",
    ],
    explanation="""Amdahl's law, solved for the share. One FlashAttention run has one amount of
    attention in it; if two baselines give two amounts, at least one of them differs from it in
    something else as well.""",
)
