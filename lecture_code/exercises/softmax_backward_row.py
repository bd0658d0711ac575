"""dS of one row from P and dP, streamed in blocks, with D from the output."""

import numpy as np

from ._counted import CountedCase
from ._exercise import Exercise, edited

STATEMENT = r"""
One row of $P$ and $dP$ lies in HBM, $N$ numbers each, and is too long for the chip. Write the
row of $dS$, reading $P$ and $dP$ **once**, in blocks of `block` numbers (the last one may be
shorter). The row of the output and its gradient, `o` and `do` with $d$ numbers each, lie in HBM
too.

Budget: $3N + 2d$ elements moved; on chip, what two blocks and two rows of length $d$ take.
"""


def softmax_backward_row(chip, p, dp, o, do, ds, block):
    """Gradient of one row of scores.

    Parameters
    ----------
    chip : SRAM
    p, dp : arrays in HBM (N,)
        Probabilities of the row, and their gradient.
    o, do : arrays in HBM (d,)
        Output of the row, and its gradient.
    ds : array in HBM (N,)
        Where the result goes.
    block : int
        How many numbers of a row are loaded at a time.
    """
    o_row, do_row = chip.load(o), chip.load(do)
    D = (o_row * do_row).sum()
    chip.free(o_row, do_row)
    for start in range(0, len(p), block):
        stop = min(start + block, len(p))
        p_block, dp_block = chip.load(p, start, stop), chip.load(dp, start, stop)
        chip.store(ds, p_block * (dp_block - D), start)
        chip.free(p_block, dp_block)


def by_the_jacobian(p, dp, o, do, block):
    """dp times the Jacobian of the softmax, written out."""
    return (np.diag(p) - np.outer(p, p)) @ dp


def two_passes(chip, p, dp, o, do, ds, block):
    """D was summed over P and dP before the row was read again. D is known without them, from
    O and dO."""
    D = 0.0
    for start in range(0, len(p), block):
        stop = min(start + block, len(p))
        p_block, dp_block = chip.load(p, start, stop), chip.load(dp, start, stop)
        D += (p_block * dp_block).sum()
        chip.free(p_block, dp_block)
    for start in range(0, len(p), block):
        stop = min(start + block, len(p))
        p_block, dp_block = chip.load(p, start, stop), chip.load(dp, start, stop)
        chip.store(ds, p_block * (dp_block - D), start)
        chip.free(p_block, dp_block)


def jacobian(chip, p, dp, o, do, ds, block):
    """The Jacobian was formed, N × N numbers for one row. p ∘ (dp - D) needs none of them."""
    chip.load(o), chip.load(do)
    row = np.concatenate([chip.load(p, i, i + 1, hold=False) for i in range(len(p))])
    dp_row = np.concatenate([chip.load(dp, i, i + 1, hold=False) for i in range(len(p))])
    chip.store(ds, (np.diag(row) - np.outer(row, row)) @ dp_row)


def row(rng, N, d):
    """A row of P and dP that belong together, and their output."""
    scores, V, do = rng.normal(size=N), rng.normal(size=(N, d)), rng.normal(size=d)
    p = np.exp(scores) / np.exp(scores).sum()
    return {"p": p, "dp": V @ do, "o": p @ V, "do": do}


def one_key(rng):
    """A row with one key, in small integers so that every sum is exact: ds is 0."""
    V, do = rng.integers(-9, 10, (1, 3)).astype(float), rng.integers(-9, 10, 3).astype(float)
    return {"p": np.ones(1), "dp": V @ do, "o": V[0], "do": do}


def case(label, N, d, block, hint=1, inputs=None, **more):
    """A case with the budget of the statement."""
    return CountedCase(
        label,
        inputs=inputs or (lambda rng: row(rng, N, d)),
        outputs={"ds": (N,)},
        options={"block": block},
        capacity=2 * block + 2 * d,
        traffic_at_most=3 * N + 2 * d,
        workspace=4 * block + 4 * d,
        landmarks={"one row": N, "N × N": N * N},
        hint=hint,
        **more,
    )


RESULT = "p_block * (dp_block - D)"

EXERCISE = Exercise(
    chapter="09",
    title="Softmax backward of a long row",
    statement=STATEMENT,
    solution=softmax_backward_row,
    oracle=by_the_jacobian,
    returns=("ds",),
    cases=[
        case("4 keys in one block", 4, 2, 4),
        case("5 keys in blocks of 2", 5, 2, 2, hint=2),
        case("one key", 1, 3, 2, inputs=one_key),
        case("1000 keys in blocks of 64", 1000, 16, 64, hint=2, fresh=True),
    ],
    wrong={
        "D left out": edited(
            softmax_backward_row,
            "ds = p ∘ dp leaves D out. The denominator of the softmax depends on every score of the"
            " row.",
            {RESULT: "p_block * dp_block"},
        ),
        "D outside the product": edited(
            softmax_backward_row,
            "D was subtracted from p ∘ dp. It is inside: ds = p ∘ (dp - D), so that the row adds up"
            " to 0.",
            {RESULT: "p_block * dp_block - D"},
        ),
        "D of each block": edited(
            softmax_backward_row,
            "Each block got a D of its own. D runs over the whole row.",
            {RESULT: "p_block * (dp_block - (p_block * dp_block).sum())"},
        ),
        "two passes": two_passes,
        "Jacobian": jacobian,
    },
    hints=[
        "Multiply dp by the Jacobian diag(p) - p pᵀ on paper first: ds = p ∘ (dp - D).",
        "D is needed before the first block and is a sum over all of them, unless it comes from"
        " o and do.",
        "D = Σ_j p_j dp_j = Σ_c o_c do_c.",
    ],
    explanation="The identity for D replaces a pass over the row by two rows of length d. "
    "FlashAttention's backward is this for every row at once, with P and dP computed on the"
    " spot.",
)
