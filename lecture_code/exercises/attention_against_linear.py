"""When attention matters: its FLOP and its elements against those of the linear layers."""

from fractions import Fraction

from ..roofline import matmul_cost
from ._exercise import Case, Exercise, edited

STATEMENT = r"""
For which training does FlashAttention gain more: (a) width 12288, 96 heads, sequences of 2048;
(b) width 1024, 16 heads, sequences of 8192? Decide with two ratios, for one sequence and one
layer's forward. Each compares attention with the four linear layers. In units of the width they
take 1 to 3 (Q, K and V together), 1 to 1 (the projection), 1 to 4 and 4 to 1 (the MLP).

- FLOP: the products $QK^\top$ and $PV$ of all heads, over the linear layers.
- Elements: the crossings of $N \times N$ matrices when $QK^\top$, scale, mask, softmax and $PV$ are
  five kernels, over all that the linear layers move (input, weights and output, each once).

Return (flop_ratio, element_ratio), compute both for (a) and (b), and answer.
"""


def attention_against_linear(N, d_model, heads):
    """FLOP and elements of attention over those of the linear layers.

    Parameters
    ----------
    N, d_model, heads : int
        Sequence length, width, and heads of d_model / heads columns each.

    Returns
    -------
    flop_ratio, element_ratio : float
    """
    attention_flop = 2 * 2 * N * N * d_model
    linear_flop = 2 * N * 12 * d_model**2
    attention_elems = 8 * heads * N * N
    linear_elems = 16 * N * d_model + 12 * d_model**2
    return attention_flop / linear_flop, attention_elems / linear_elems


def by_kernels(N, d_model, heads):
    """The same, kernel by kernel."""
    d = d_model // heads
    widths = [(d_model, 3 * d_model), (d_model, d_model), (d_model, 4 * d_model)]
    linear = sum(matmul_cost(N, k, n) for k, n in [*widths, (4 * d_model, d_model)])
    products = matmul_cost(N, d, N, batch=heads) + matmul_cost(N, N, d, batch=heads)
    crossings = {"QKᵀ": 1, "scale": 2, "mask": 2, "softmax": 2, "PV": 1}
    elems = sum(crossings.values()) * heads * N * N
    flop_ratio = Fraction(products.flop, linear.flop)
    return float(flop_ratio), float(Fraction(2 * elems, linear.bytes))


def case(label, N, d_model, heads, hint=1):
    """One layer."""
    return Case(
        f"{label}: N = {N:,}, d_model = {d_model:,}, {heads} heads",
        {"N": N, "d_model": d_model, "heads": heads},
        hint=hint,
    )


EXERCISE = Exercise(
    chapter="05",
    title="When the attention matters",
    statement=STATEMENT,
    solution=attention_against_linear,
    oracle=by_kernels,
    returns=("flop_ratio", "element_ratio"),
    cases=[
        case("a tiny layer", 6, 2, 1),
        case("two heads", 6, 2, 2, hint=3),
        case("(a)", 2048, 12_288, 96, hint=2),
        case("(b)", 8192, 1024, 16, hint=2),
        case("GPT-2 medium", 1024, 1024, 16, hint=3),
    ],
    wrong={
        "one product": edited(
            attention_against_linear,
            "Attention has two products: QKᵀ and PV.",
            {"2 * 2 * N * N * d_model": "2 * N * N * d_model"},
        ),
        "heads multiply the FLOP": edited(
            attention_against_linear,
            "Each head is only d_model / heads wide, so the number of heads cancels in the FLOP.",
            {"2 * 2 * N * N * d_model": "heads * 2 * 2 * N * N * d_model"},
        ),
        "heads left out": edited(
            attention_against_linear,
            "Every head has its own N × N matrix.",
            {"8 * heads * N * N": "8 * N * N"},
            hint=3,
        ),
        "written but not read": edited(
            attention_against_linear,
            "Each kernel between the products reads the matrix and writes one: 1 + 2 + 2 + 2 + 1.",
            {"8 * heads": "5 * heads"},
            hint=3,
        ),
        "weights left out": edited(
            attention_against_linear,
            "The linear layers move their weights as well, 12 d_model² elements.",
            {" + 12 * d_model**2": ""},
            hint=4,
        ),
        "upside down": edited(
            attention_against_linear,
            "The ratios are upside down: attention over linear layers.",
            {
                "attention_flop / linear_flop, attention_elems / linear_elems": (
                    "linear_flop / attention_flop, linear_elems / attention_elems"
                )
            },
        ),
    },
    hints=[
        "A product of m × k and k × n is 2mkn FLOP. Both products of a head have sides N, N and d.",
        "The four linear layers have 12 d_model² weights, and each meets all N tokens.",
        "QKᵀ writes one matrix, scale, mask and softmax read and write one each, PV reads one.",
        "Activations of the linear layers, in widths: in 1 + 1 + 1 + 4, out 3 + 1 + 4 + 1.",
    ],
    explanation=r"""The FLOP ratio is $N / 6d_\text{model}$: 0.03 for (a), 1.33 for (b). The
    elements say more: 1.5 and 58. So (b), long sequences in a narrow model. In (a) the linear
    layers are nearly all of the work, whatever is done to the attention.""",
)
