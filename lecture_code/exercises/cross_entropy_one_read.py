"""The cross-entropy of one row of logits, on the counted machine, each logit read once."""

import numpy as np

from ..softmax import statistics
from ._counted import CountedCase
from ._exercise import Exercise, edited

STATEMENT = r"""
A language model ends in a row of $n$ logits $x$, one for each word of its vocabulary, and the loss
at the right word $t$ is

$$-\ln \mathrm{softmax}(x)_t = m + \ln \ell - x_t .$$

The logits lie in HBM. Store the loss in `loss`, an array of one element. The chip holds `block`
logits at a time: `chip.load(x, start, stop)` gives a tile, `chip.free(tile)` gives its room back,
and `chip.store(loss, [value])` writes the result.

The check asserts the value, that the chip never overflows, that at most $n + 1$ elements move
(every logit in once, the loss out once), and that the row is not kept beside the chip.
"""


def cross_entropy_one_read(chip, x, loss, target, block):
    """Cross-entropy of one row of logits, in one pass.

    Parameters
    ----------
    chip : SRAM
        Room for one tile of ``block`` logits.
    x : array in HBM, (n,)
        The logits; finite or -inf, x[target] finite.
    loss : array in HBM, (1,)
        Store the result here.
    target : int
        Index of the right word.
    block : int
        Logits in a tile; the last tile may be shorter.
    """
    m, l, x_target = -np.inf, 0.0, None
    for start in range(0, len(x), block):
        stop = min(start + block, len(x))
        tile = chip.load(x, start, stop)
        if start <= target < stop:
            x_target = tile[target - start]
        m_new = max(m, tile.max())
        if m_new > -np.inf:
            l = l * np.exp(m - m_new) + np.exp(tile - m_new).sum()
            m = m_new
        chip.free(tile)
    chip.store(loss, [m + np.log(l) - x_target])


def whole_row(x, target, block):
    """The same with the whole row in hand."""
    m, l = statistics(x)
    return np.array([m + np.log(l) - x[target]])


def two_passes(chip, x, loss, target, block):
    """Something was read twice: the row, once for m and once for l, or the target's logit again.

    Carry l along with m, and take the target from its tile as that passes by.
    """
    m, l, x_target = -np.inf, 0.0, None
    for start in range(0, len(x), block):
        tile = chip.load(x, start, min(start + block, len(x)))
        m = max(m, tile.max())
        chip.free(tile)
    for start in range(0, len(x), block):
        tile = chip.load(x, start, min(start + block, len(x)))
        if start <= target < start + block:
            x_target = tile[target - start]
        l += np.exp(tile - m).sum()
        chip.free(tile)
    chip.store(loss, [m + np.log(l) - x_target])


def row_on_chip(chip, x, loss, target, block):
    """The whole row was loaded at once. The chip has room for one tile of it."""
    row = chip.load(x)
    m = row.max()
    chip.store(loss, [m + np.log(np.exp(row - m).sum()) - row[target]])


def row_beside_chip(chip, x, loss, target, block):
    """The row was collected in an array beside the chip: slow memory under another name."""
    row = np.empty(len(x))
    for start in range(0, len(x), block):
        tile = chip.load(x, start, min(start + block, len(x)))
        row[start : start + block] = tile
        chip.free(tile)
    m = row.max()
    chip.store(loss, [m + np.log(np.exp(row - m).sum()) - row[target]])


def case(label, make, target, block, hint, fresh=False, landmarks=None):
    n = len(make(np.random.default_rng(0)))
    return CountedCase(
        label=label,
        inputs=lambda rng: {"x": make(rng)},
        outputs={"loss": (1,)},
        options={"target": target, "block": block},
        capacity=block,
        traffic_at_most=n + 1,
        workspace=6 * block,
        landmarks={"the row": n},
        fresh=fresh,
        hint=hint,
        terms=n,
        span=2000,
    )


EIGHT = [2, -1, 3, 0.5, 6, 1, -2, 5.5]

EXERCISE = Exercise(
    chapter="07",
    title="A loss in one read",
    statement=STATEMENT,
    solution=cross_entropy_one_read,
    oracle=whole_row,
    returns=("loss",),
    cases=[
        case("two logits, one tile", lambda _: np.array([1.0, 3.0]), 0, 2, hint=1),
        case(
            "eight logits in threes: the last tile is short",
            lambda _: np.array(EIGHT),
            7,
            3,
            hint=2,
        ),
        case("huge logits", lambda _: np.array([1000.0, 1002.0, 999.0]), 1, 1, hint=2),
        case(
            "hidden words first",
            lambda _: np.array([-np.inf, -np.inf, 2.0, 1.0]),
            3,
            2,
            hint=4,
        ),
        case(
            "50,257 logits, 1,024 at a time",
            lambda rng: rng.normal(0, 3, 50_257),
            20_000,
            1024,
            hint=3,
            fresh=True,
        ),
    ],
    wrong={
        "read the row twice": two_passes,
        "whole row on chip": row_on_chip,
        "kept the row beside the chip": row_beside_chip,
        "forgot to rescale": edited(
            cross_entropy_one_read,
            "The old sum was not rescaled when m grew: multiply it by exp(m_old - m_new) first.",
            {"l * np.exp(m - m_new) +": "l +"},
        ),
        "naive": edited(
            cross_entropy_one_read,
            "exp(x) was formed without subtracting the maximum, and overflows for large logits.",
            {
                "m_new = max(m, tile.max())": "m_new = 0.0",
            },
        ),
        "hidden tile": edited(
            cross_entropy_one_read,
            "A tile of -inf alone leaves m at -inf, and -inf - (-inf) is NaN. Skip it.",
            {"if m_new > -np.inf:": "if True:"},
        ),
    },
    hints=[
        "The loss needs m, l and x_target. Which of them can be had in the same pass?",
        "It is the chapter's update and one line more: when the target lies in the tile, keep it.",
        "n + 1 elements are one load of each logit and one store. Nothing may be loaded twice.",
        "As long as m is -inf there is nothing to add.",
    ],
    explanation="The softmax itself is never formed: the loss is one number, so nothing has to be "
    "scaled in a second pass. Attention's output is such a case too.",
)
