"""Model FLOPs utilisation of a training run."""

from fractions import Fraction

from ._exercise import Case, Exercise, edited

STATEMENT = r"""
A training run shows `tokens_per_s`, all its `devices` together. The model has `parameters` weights
in matrices, `layers` layers of `heads` heads of dimension `head_dim`, and a context of `context`
tokens; every query is counted against all keys. Each device has the dense peak `peak_flop_per_s`.

Return the MFU, attention included. What the hardware does beyond the model's own work does not
count.
"""


def mfu_of_a_run(
    tokens_per_s, parameters, layers, heads, head_dim, context, devices, peak_flop_per_s
):
    """Model FLOPs utilisation, forward and backward, attention included.

    Parameters
    ----------
    tokens_per_s : float
        Of the whole run.
    parameters, layers, heads, head_dim, context : int
        N, L, H, Q, T.
    devices : int
    peak_flop_per_s : float
        Dense peak of one device.

    Returns
    -------
    float
        Between 0 and 1.
    """
    flop_per_token = 6 * parameters + 12 * layers * heads * head_dim * context
    return tokens_per_s * flop_per_token / (devices * peak_flop_per_s)


def oracle(tokens_per_s, parameters, layers, heads, head_dim, context, devices, peak_flop_per_s):
    """Forward once, backward twice the forward, in exact fractions."""
    attention = layers * heads * 2 * (2 * head_dim * context)
    forward = 2 * parameters + attention
    return float(Fraction(tokens_per_s) * 3 * forward / (devices * Fraction(peak_flop_per_s)))


def case(label, tokens_per_s, parameters, shape, devices, peak_flop_per_s, hint=1):
    """A run; shape is (layers, heads, head_dim, context)."""
    layers, heads, head_dim, context = shape
    inputs = {
        "tokens_per_s": tokens_per_s,
        "parameters": parameters,
        "layers": layers,
        "heads": heads,
        "head_dim": head_dim,
        "context": context,
        "devices": devices,
        "peak_flop_per_s": peak_flop_per_s,
    }
    return Case(label, inputs, hint=hint)


EXERCISE = Exercise(
    chapter="14",
    title="MFU of a run",
    statement=STATEMENT,
    solution=mfu_of_a_run,
    oracle=oracle,
    returns=("mfu",),
    cases=[
        case("ten weights, one device", 1.0, 10, (1, 1, 1, 1), 1, 1000.0),
        case("two devices", 3.0, 10, (1, 1, 1, 1), 2, 1000.0, hint=2),
        case("a long context", 1.0, 10, (2, 3, 4, 50), 1, 1e6, hint=3),
        case("PaLM", 238.3e3, 540_350_000_000, (118, 48, 256, 2048), 6144, 275e12),
        case(
            "LLaMA 65B, all 2,048 devices",
            2048 * 380.0,
            65_200_000_000,
            (80, 64, 128, 2048),
            2048,
            312e12,
            hint=2,
        ),
    ],
    wrong={
        "attention left out": edited(
            mfu_of_a_run,
            "Attention is missing: 12 L H Q T more for each token.",
            {" + 12 * layers * heads * head_dim * context": ""},
        ),
        "one device": edited(
            mfu_of_a_run,
            """The tokens are those of the whole run, the peak is that of one device. Multiply the
            peak by the devices.""",
            {"(devices * peak_flop_per_s)": "peak_flop_per_s"},
        ),
        "the forward only": edited(
            mfu_of_a_run,
            "That is the forward alone: 2 N a token. Training adds twice as much backward.",
            {"6 * parameters + 12 *": "2 * parameters + 4 *"},
        ),
        "recomputation counted": edited(
            mfu_of_a_run,
            "8 N counts a second forward. That is the hardware's work (HFU), not the model's.",
            {"6 * parameters": "8 * parameters"},
        ),
        "attention forward only": edited(
            mfu_of_a_run,
            "Attention is counted forward only: 4 L H Q T. With its backward it is 12 L H Q T.",
            {"12 * layers": "4 * layers"},
        ),
        "the causal half": edited(
            mfu_of_a_run,
            "That is the causal half of attention. Here every query counts all keys.",
            {"12 * layers": "6 * layers"},
        ),
        "a percentage": edited(
            mfu_of_a_run,
            "That is a percentage; asked for is a fraction between 0 and 1.",
            {"return tokens_per_s": "return 100 * tokens_per_s"},
        ),
    },
    hints=[
        "FLOP a token times tokens a second is what the model's work needs.",
        "All devices together are the machine: their peaks add up.",
        """Attention multiplies each query with T keys and T values, 2 Q FLOP each, in every head
        and layer; the backward costs twice that.""",
    ],
    explanation="""For PaLM this is 46.2 %, and 45.7 % without attention. The tokens must be those
    of the run and the devices all of them: dividing by one device's peak gives a number above 1,
    which no machine can reach.""",
)
