"""What recomputation does to MFU and HFU."""

from fractions import Fraction

from ._exercise import Case, Exercise, edited

STATEMENT = r"""
To save memory, a run throws activations away and computes a part of the forward again before the
backward: the fraction `fraction` of it, from 0 (nothing) to 1 (every layer). Attention's own FLOP
are small enough to forget. The run's MFU is `mfu`.

Return two numbers: the hardware's FLOP a token over the model's, and the HFU. By hand first: full
recomputation at an MFU of 46.2 %.
"""


def recompute_utilization(mfu, fraction):
    """FLOP ratio hardware to model, and HFU.

    Parameters
    ----------
    mfu : float
    fraction : float
        Share of the forward that is computed twice, 0 to 1.

    Returns
    -------
    flop_ratio : float
    hfu : float
    """
    flop_ratio = (6 + 2 * fraction) / 6
    return flop_ratio, mfu * flop_ratio


def oracle(mfu, fraction):
    """One forward, two forwards' worth backward, and a fraction of a forward more."""
    ratio = (3 + Fraction(fraction)) / 3
    return float(ratio), float(Fraction(mfu) * ratio)


def case(label, mfu, fraction, hint=1):
    """A run."""
    return Case(label, {"mfu": mfu, "fraction": fraction}, hint=hint)


EXERCISE = Exercise(
    chapter="14",
    title="HFU and recomputation",
    statement=STATEMENT,
    solution=recompute_utilization,
    oracle=oracle,
    returns=("flop_ratio", "hfu"),
    cases=[
        case("nothing again", 0.5, 0.0),
        case("everything again", 0.45, 1.0),
        case("half of it", 0.3, 0.5, hint=2),
        case("46.2 %, every layer", 0.462, 1.0),
        case("46.2 %, three quarters", 0.462, 0.75, hint=2),
    ],
    wrong={
        "the backward again": edited(
            recompute_utilization,
            "4 N is the backward. What is computed again is the forward, 2 N.",
            {"6 + 2 * fraction": "6 + 4 * fraction"},
        ),
        "the forward counted as a whole": edited(
            recompute_utilization,
            "The whole forward and backward, 6 N, was computed again. Only the forward is, 2 N.",
            {"6 + 2 * fraction": "6 + 6 * fraction"},
        ),
        "divided": edited(
            recompute_utilization,
            "HFU counts more work than MFU, so it is larger. Multiply by the ratio.",
            {"mfu * flop_ratio": "mfu / flop_ratio"},
        ),
        "a half forward": edited(
            recompute_utilization,
            "A multiply-add is 2 FLOP: the forward is 2 N a token, not N.",
            {"6 + 2 * fraction": "6 + fraction"},
        ),
        "all or nothing": edited(
            recompute_utilization,
            "The fraction was ignored: full recomputation is 8 N, but only a part was asked for.",
            {"2 * fraction": "2"},
        ),
    },
    hints=[
        "In units of N a token: forward 2, backward 4. What does the second forward add?",
        "Only the fraction of the forward is added; the ratio is against the model's 6 N.",
    ],
    explanation="""Full recomputation does 8 N where the model needs 6 N: 4/3, so 46.2 % becomes
    61.6 %. PaLM's 4.10 over 3.28 TFLOP a token is 1.25, three quarters of a forward: it recomputed
    a part.""",
)
