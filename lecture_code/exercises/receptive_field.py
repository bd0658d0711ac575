"""How far back stacked windows reach."""

import numpy as np

from ..blocks import visible_mask
from ._exercise import Case, Exercise, edited

STATEMENT = r"""
A causal Transformer has $L$ layers; in each, a token sees a window of $W \ge 2$ tokens, its own
included. There are $N$ tokens. Return

1. how many input tokens can influence the output at the *last* position,
2. how many layers it takes until the first token can influence the last.
"""


def receptive_field(N, W, L):
    """Reach of stacked windows.

    Parameters
    ----------
    N : int
        Tokens.
    W : int
        Keys that a query sees in one layer, its own included; at least 2.
    L : int
        Layers.

    Returns
    -------
    field : int
        Input tokens that the last output can depend on.
    layers : int
        Layers until the first token can influence the last.
    """
    field = min(N, L * (W - 1) + 1)
    layers = -(-(N - 1) // (W - 1))
    return field, layers


def by_hops(N, W, L):
    """The same by multiplying masks: who reaches whom in one more layer."""
    hop = visible_mask(N, N, window=W).astype(int)
    reached, fields = np.eye(N, dtype=int)[-1], []
    while len(fields) <= L or fields[-1] < N:
        fields.append(int(reached.sum()))
        reached = (reached @ hop > 0).astype(int)
    return fields[L], fields.index(N)


def case(label, N, W, L, hint=1):
    """One model."""
    return Case(f"{label}: N = {N}, W = {W}, L = {L}", {"N": N, "W": W, "L": L}, hint=hint)


FIELD, LAYERS = "min(N, L * (W - 1) + 1)", "-(-(N - 1) // (W - 1))"

EXERCISE = Exercise(
    chapter="11",
    title="How far windows reach",
    statement=STATEMENT,
    solution=receptive_field,
    oracle=by_hops,
    returns=("field", "layers"),
    cases=[
        case("one layer", 10, 4, 1),
        case("two layers", 10, 4, 2),
        case("not even", 48, 24, 2, hint=2),
        case("one more", 48, 25, 2, hint=2),
        case("more layers than needed", 12, 5, 9, hint=3),
        case("the book's model", 96, 8, 2, hint=2),
    ],
    wrong={
        "L W": edited(
            receptive_field,
            "L W counts the own token again in each layer. A layer adds W - 1 new tokens.",
            {FIELD: "min(N, L * W)"},
        ),
        "one layer": edited(
            receptive_field,
            "Only one layer was counted. A token that is seen has itself seen others.",
            {FIELD: "min(N, W)"},
        ),
        "own token forgotten": edited(
            receptive_field,
            "The last token itself is missing from the count.",
            {FIELD: "min(N, L * (W - 1))"},
        ),
        "product of windows": edited(
            receptive_field,
            "The windows were multiplied. Each layer moves the edge by W - 1, so they add.",
            {FIELD: "min(N, W**L)"},
        ),
        "beyond the start": edited(
            receptive_field,
            "There are only N tokens: nothing lies before the first.",
            {FIELD: "L * (W - 1) + 1"},
        ),
        "steps of W": edited(
            receptive_field,
            "The layers were counted in steps of W. One layer moves information by W - 1.",
            {LAYERS: "-(-(N - 1) // W)"},
        ),
        "rounded down": edited(
            receptive_field,
            "The number of layers was rounded down; the last hop may be a short one.",
            {LAYERS: "max((N - 1) // (W - 1), 1)"},
        ),
    },
    hints=[
        "In one layer the last position sees W tokens. What has the earliest of them seen?",
        "Every layer moves the edge back by W - 1 tokens.",
        "The field cannot be larger than N.",
    ],
    explanation=r"The field is $L(W-1) + 1$, at most $N$, and $\lceil (N-1)/(W-1) \rceil$ layers "
    "span the whole sequence. That is what can arrive. Whether it does is for training to decide.",
)
