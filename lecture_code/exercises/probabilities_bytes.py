"""How many bytes the attention probabilities take that standard training keeps."""

from fractions import Fraction

from ._exercise import Case, Exercise, edited

STATEMENT = r"""
Standard attention keeps the probabilities $P$ of every layer and every head for the backward pass.
FlashAttention keeps two float32 numbers a row instead, $m$ and $\ell$.

For a model of `layers` layers with `heads` heads each, sequences of `N` tokens, `batch` of them at
a time, and `element_bytes` bytes for one probability, return

- `per_layer`: the bytes of $P$ in one layer,
- `total`: the bytes of $P$ in all layers,
- `statistics`: the bytes of $m$ and $\ell$ in all layers.

No mask is used to save room: $P$ is stored whole. How does GPT-3 with one sequence of 2,048 tokens
compare with a card of 80 GB?
"""


def probabilities_bytes(layers, heads, N, batch, element_bytes):
    """Bytes of P in one layer and in all, and of the row statistics that replace it.

    Parameters
    ----------
    layers, heads, N, batch, element_bytes : int

    Returns
    -------
    per_layer, total, statistics : int
    """
    per_layer = batch * heads * N * N * element_bytes
    rows = layers * batch * heads * N
    return per_layer, layers * per_layer, 2 * 4 * rows


def oracle(layers, heads, N, batch, element_bytes):
    """From the statistics: each row of P is N / 8 times as long, in units of an element."""
    statistics = sum(8 * heads * N for _ in range(layers * batch))
    total = Fraction(statistics, 8) * N * element_bytes
    return int(total / layers), int(total), statistics


def case(label, layers, heads, N, batch, element_bytes, hint=1):
    """A model."""
    names = "layers", "heads", "N", "batch", "element_bytes"
    return Case(label, dict(zip(names, (layers, heads, N, batch, element_bytes))), hint=hint)


EXERCISE = Exercise(
    chapter="13",
    title="The probabilities of GPT-3",
    statement=STATEMENT,
    solution=probabilities_bytes,
    oracle=oracle,
    returns=("per_layer", "total", "statistics"),
    cases=[
        case("two layers of three heads, five tokens", 2, 3, 5, 1, 2),
        case("a batch of seven, in float32", 2, 3, 5, 7, 4),
        case("GPT-3 175B, one sequence", 96, 96, 2048, 1, 2, hint=2),
        case("24 layers at 65,536 tokens", 24, 16, 65536, 1, 2, hint=2),
    ],
    wrong={
        "one head": edited(
            probabilities_bytes,
            "That is one head. Every head has its own N x N probabilities.",
            {"batch * heads * N * N": "batch * N * N"},
        ),
        "elements": edited(
            probabilities_bytes,
            "Those are elements. Multiply by the bytes of one.",
            {"N * N * element_bytes": "N * N"},
        ),
        "bits": edited(
            probabilities_bytes,
            "Those are bits; element_bytes is in bytes already.",
            {"N * N * element_bytes": "N * N * 8 * element_bytes"},
        ),
        "one sequence": edited(
            probabilities_bytes,
            "The batch is missing: each sequence has its own P.",
            {"batch * heads * N * N": "heads * N * N"},
        ),
        "half of it": edited(
            probabilities_bytes,
            "Half of P was counted, as if a causal P were packed. It is stored whole.",
            {"N * N * element_bytes": "N * N * element_bytes // 2"},
        ),
        "one layer": edited(
            probabilities_bytes,
            "The total is that of one layer. Backward begins when all layers have stored theirs.",
            {"layers * per_layer": "per_layer"},
        ),
        "statistics in 16 bits": edited(
            probabilities_bytes,
            "The statistics are float32: four bytes each, whatever P is.",
            {"2 * 4 * rows": "2 * element_bytes * rows"},
        ),
        "one number a row": edited(
            probabilities_bytes,
            "Two numbers a row, m and l. (FlashAttention-2 keeps one, their log-sum-exp.)",
            {"2 * 4 * rows": "4 * rows"},
        ),
    },
    hints=[
        "P is N x N for each head of each sequence.",
        "All layers' probabilities live at once when the backward pass begins.",
    ],
    explanation="""GPT-3: 805,306,368 bytes a layer, 77,309,411,328 in all, which is 72 GiB: one
    sequence fills a card of 80 GB before a parameter is stored. The statistics take 144 MiB.""",
)
