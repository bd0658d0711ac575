"""How many tokens must be processed together before a matrix product is limited by arithmetic."""

import math

from ..roofline import matmul_cost
from ._exercise import Case, Exercise, edited

STATEMENT = r"""
A linear layer multiplies $T$ tokens, $(T \times d_\text{in})$, by a weight matrix
$(d_\text{in} \times d_\text{out})$, 16-bit numbers, each matrix moved once. A device has a peak of
`flop_per_s` and a bandwidth of `bytes_per_s`.

Return the smallest $T$ at which the product leaves the slope of the roofline: its intensity is at
least the ridge point. If no number of tokens is enough, return `math.inf`.
"""


def batch_to_leave_the_slope(d_in, d_out, flop_per_s, bytes_per_s):
    """Smallest number of tokens at which a 16-bit linear layer reaches the ridge point.

    Parameters
    ----------
    d_in, d_out : int
        Sizes of the weight matrix.
    flop_per_s, bytes_per_s : int
        Peak and bandwidth of the device.

    Returns
    -------
    int, or math.inf if there is none
    """
    # 2 T a b / (2 (T a + a b + T b)) >= P / W, solved for T in whole numbers
    weights = d_in * d_out
    gain = weights * bytes_per_s - (d_in + d_out) * flop_per_s
    if gain <= 0:
        return math.inf
    return -(-weights * flop_per_s // gain)


def oracle(d_in, d_out, flop_per_s, bytes_per_s):
    """By bisection on the exact comparison FLOP · W >= bytes · P."""

    def enough(T):
        cost = matmul_cost(T, d_in, d_out)
        return cost.flop * bytes_per_s >= cost.bytes * flop_per_s

    low, high = 0, 1
    while not enough(high):
        low, high = high, 2 * high
        if high > 2**60:
            return math.inf
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def case(label, d_in, d_out, flop_per_s, bytes_per_s, hint=1):
    """A layer on a device."""
    inputs = {
        "d_in": d_in,
        "d_out": d_out,
        "flop_per_s": flop_per_s,
        "bytes_per_s": bytes_per_s,
    }
    return Case(label, inputs, hint=hint)


A100, H100 = (312 * 10**12, 1_555 * 10**9), (989 * 10**12, 3_350 * 10**9)

EXERCISE = Exercise(
    chapter="03",
    title="How many tokens leave the slope",
    statement=STATEMENT,
    solution=batch_to_leave_the_slope,
    oracle=oracle,
    returns=("T",),
    cases=[
        case("a ridge point of 1, width 4", 4, 4, 10, 10, hint=2),
        case("a ridge point of 3, widths 8 and 24", 8, 24, 30, 10, hint=3),
        case("GPT-3's MLP, 12288 → 49152, on an A100 40GB", 12288, 49152, *A100),
        case("a narrow layer, 1024 → 1024, on an A100 40GB", 1024, 1024, *A100, hint=2),
        case("GPT-3's MLP on an H100", 12288, 49152, *H100),
        case("a layer too narrow: 256 → 256 on an A100 40GB", 256, 256, *A100, hint=4),
        case("just too narrow: a ridge point of 2, width 4", 4, 4, 20, 10, hint=4),
    ],
    wrong={
        "the ridge point itself": edited(
            batch_to_leave_the_slope,
            """T was set to the ridge point. That holds only while T is small beside the widths: the
            tokens' own numbers move as well, T (d_in + d_out) of them.""",
            {"(d_in + d_out) * flop_per_s": "0"},
        ),
        "result not written": edited(
            batch_to_leave_the_slope,
            "The result was left out: T d_out numbers are written as well.",
            {"(d_in + d_out)": "d_in"},
        ),
        "input not read": edited(
            batch_to_leave_the_slope,
            "The tokens' inputs were left out: T d_in numbers are read as well.",
            {"(d_in + d_out)": "d_out"},
        ),
        "rounded down": edited(
            batch_to_leave_the_slope,
            "Rounded down, T lies just below the ridge point: round up.",
            {"-(-weights * flop_per_s // gain)": "weights * flop_per_s // gain"},
        ),
        "one too many": edited(
            batch_to_leave_the_slope,
            "One too many: at the ridge point exactly the product has left the slope.",
            {"-(-weights * flop_per_s // gain)": "weights * flop_per_s // gain + 1"},
        ),
        "multiply-add as one": edited(
            batch_to_leave_the_slope,
            """A multiply-add was counted as one FLOP, or a 16-bit number as four bytes: it is
            two in both cases.""",
            {
                "weights * bytes_per_s -": "weights * bytes_per_s - 2 *",
                "-weights * flop_per_s //": "-2 * weights * flop_per_s //",
            },
        ),
        "never gives up": edited(
            batch_to_leave_the_slope,
            """A narrow layer never gets there: as T grows its intensity tends to
            d_in d_out / (d_in + d_out), which may lie below the ridge point.""",
            {"if gain <= 0": "if gain == 0"},
        ),
    },
    hints=[
        """Write the intensity with T in it: FLOP 2 T d_in d_out, bytes 2 (T d_in + d_in d_out +
        T d_out).""",
        "Set it equal to flop_per_s / bytes_per_s and solve for T.",
        "Round up to a whole number. Whole-number arithmetic avoids a rounding error at the edge.",
        """What does the intensity tend to as T grows? If that is not above the ridge point, no
        T will do.""",
    ],
    explanation="""For GPT-3's MLP on an A100 the answer is 205, a little above the ridge point of
    200.6. In generation each request brings one token a step, so a server must gather about two
    hundred requests before this layer uses the matrix units fully. Below that, the time is that of
    reading the weights, and fewer bytes a weight help directly.""",
)
