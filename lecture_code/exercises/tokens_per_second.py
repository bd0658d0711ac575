"""An upper bound on the speed of generation."""

from fractions import Fraction

from ._exercise import Case, Exercise, edited

STATEMENT = r"""
A model with $N_p$ parameters generates text. One step makes one token for each of `batch`
requests: it reads all weights once, whatever the batch, `parameter_bytes` bytes each, and does
$2N_p$ FLOP a token. Nothing else counts (no KV cache, no overhead), and reading overlaps with
arithmetic.

Return the largest number of tokens per second, over all requests together. By hand first: 70
billion parameters in 16 bits on an A100 80GB (2.039 TB/s), one request. And 7 billion?
"""


def tokens_per_second(parameters, parameter_bytes, batch, flop_per_s, bytes_per_s):
    """Upper bound on tokens per second of a model that reads its weights once a step.

    Parameters
    ----------
    parameters : int
        Number of weights.
    parameter_bytes : float
        Bytes of one weight: 2 for 16 bits, 0.5 for 4 bits.
    batch : int
        Requests that generate together.
    flop_per_s, bytes_per_s : float
        Peak and bandwidth of the device.

    Returns
    -------
    float
    """
    read_s = parameters * parameter_bytes / bytes_per_s
    compute_s = 2 * parameters * batch / flop_per_s
    return batch / max(read_s, compute_s)


def oracle(parameters, parameter_bytes, batch, flop_per_s, bytes_per_s):
    """The smaller of two rates, in exact fractions."""
    by_reading = batch * Fraction(bytes_per_s) / (parameters * Fraction(parameter_bytes))
    by_computing = Fraction(flop_per_s) / (2 * parameters)
    return float(min(by_reading, by_computing))


def case(
    label, parameters, parameter_bytes, batch, flop_per_s=312e12, bytes_per_s=2.039e12, hint=1
):
    """A model on a device; an A100 80GB if none is given."""
    inputs = {
        "parameters": parameters,
        "parameter_bytes": parameter_bytes,
        "batch": batch,
        "flop_per_s": flop_per_s,
        "bytes_per_s": bytes_per_s,
    }
    return Case(label, inputs, hint=hint)


EXERCISE = Exercise(
    chapter="03",
    title="Upper bound on generation",
    statement=STATEMENT,
    solution=tokens_per_second,
    oracle=oracle,
    returns=("tokens_per_s",),
    cases=[
        case("ten weights, one request", 10, 2, 1, 1000, 40),
        case("ten weights, three requests", 10, 2, 3, 1000, 40, hint=2),
        case("70B in 16 bits, one request, A100 80GB", 70_000_000_000, 2, 1),
        case("7B in 16 bits, one request", 7_000_000_000, 2, 1),
        case("70B in 4 bits, one request", 70_000_000_000, 0.5, 1),
        case("7B, 64 requests", 7_000_000_000, 2, 64, hint=2),
        case("7B, 1024 requests: arithmetic limits", 7_000_000_000, 2, 1024, hint=3),
    ],
    wrong={
        "elements for bytes": edited(
            tokens_per_second,
            "Weights were counted where bytes are needed: a weight has parameter_bytes bytes.",
            {"parameters * parameter_bytes /": "parameters /"},
        ),
        "weights read for each request": edited(
            tokens_per_second,
            "The weights were read again for each request. One reading serves the whole batch.",
            {"parameters * parameter_bytes /": "batch * parameters * parameter_bytes /"},
        ),
        "arithmetic forgotten": edited(
            tokens_per_second,
            """Arithmetic was left out. With many requests 2 N_p FLOP a token take longer than
            reading.""",
            {"max(read_s, compute_s)": "read_s"},
        ),
        "the times added": edited(
            tokens_per_second,
            "Reading and arithmetic overlap: the step takes the longer of the two, not their sum.",
            {"max(read_s, compute_s)": "(read_s + compute_s)"},
        ),
        "arithmetic only": edited(
            tokens_per_second,
            "Only FLOP were counted. With one request the time is that of reading the weights.",
            {"max(read_s, compute_s)": "compute_s"},
        ),
        "of one request": edited(
            tokens_per_second,
            "That is the rate of one request; asked for are all requests together.",
            {"batch / max": "1 / max"},
        ),
        "seconds per token": edited(
            tokens_per_second,
            "That is seconds per token; asked for are tokens per second.",
            {"batch / max(read_s, compute_s)": "max(read_s, compute_s) / batch"},
        ),
    },
    hints=[
        """How long does it take to read all weights once? In that time one token is made for
        each request.""",
        "The weights are read once a step, however many requests there are.",
        """The arithmetic of a step is 2 N_p FLOP times the batch. A step takes the longer of
        the two times.""",
    ],
    explanation="""70 billion weights of 2 bytes are 140 GB; reading them takes 68.7 ms, so at
    most 14.6 tokens per second (and the model does not even fit on the card). 7 billion: about
    146. With one request FLOP do not enter at all. Weights of 4 bits raise the bound to four
    times that.""",
)
