"""Bias, GELU and residual in one kernel, on the counted machine."""

import numpy as np

from ._counted import CountedCase
from ._exercise import Exercise, edited

STATEMENT = r"""
After a matrix product comes $Y = R + \mathrm{gelu}(X + b)$: a bias $b$ with an element for each
column, the activation, the residual. Three kernels would move 7 arrays of $n \times w$ (and $b$).
Write one.

$X$, $R$ and $Y$ are $n \times w$ in HBM, $b$ has $w$ elements. Work on `rows` rows at a time; the
last block may be shorter. Use

$$\mathrm{gelu}(t) = \tfrac t2 \bigl(1 + \tanh(\sqrt{2/\pi}\,(t + 0.044715\, t^3))\bigr).$$

The chip has room for $b$ and for two blocks of `rows` rows. The check asserts the values and that
at most $3nw + w$ elements move.
"""


def fused_bias_gelu(chip, X, b, R, Y, rows):
    """Y = R + gelu(X + b) in one pass.

    Parameters
    ----------
    chip : SRAM
        Room for b and two blocks of ``rows`` rows.
    X, R : arrays in HBM, (n, w)
    b : array in HBM, (w,)
    Y : array in HBM, (n, w)
        Store the result here.
    rows : int
        Rows in a block; the last block may be shorter.
    """
    bias = chip.load(b)
    for start in range(0, len(X), rows):
        stop = min(start + rows, len(X))
        t, r = chip.load(X, start, stop), chip.load(R, start, stop)
        t += bias
        r += t / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (t + 0.044715 * t**3)))
        chip.store(Y, r, start)
        chip.free(t, r)


def whole_arrays(X, b, R, rows):
    """The same without blocks."""
    t = X + b
    inner = np.sqrt(2 / np.pi) * t * (1 + 0.044715 * np.square(t))
    return R + t * (np.tanh(inner) + 1) * 0.5


def three_kernels(chip, X, b, R, Y, rows):
    """Intermediate results went to HBM and back. Keep them on the chip until Y is finished."""
    bias = chip.load(b)
    for start in range(0, len(X), rows):
        t = chip.load(X, start, min(start + rows, len(X)))
        chip.store(Y, t + bias, start)
        chip.free(t)
    for start in range(0, len(X), rows):
        t = chip.load(Y, start, min(start + rows, len(X)))
        gelu = t / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (t + 0.044715 * t**3)))
        chip.store(Y, gelu, start)
        chip.free(t)
    for start in range(0, len(X), rows):
        t = chip.load(Y, start, min(start + rows, len(X)))
        r = chip.load(R, start, min(start + rows, len(X)))
        chip.store(Y, t + r, start)
        chip.free(t, r)


def case(label, n, w, rows, hint=1, fresh=False):
    def inputs(rng):
        X, b, R = rng.normal(size=(n, w)), rng.normal(size=w), rng.normal(size=(n, w))
        return {"X": X, "b": b, "R": R}

    return CountedCase(
        label=label,
        inputs=inputs,
        outputs={"Y": (n, w)},
        options={"rows": rows},
        capacity=w + 2 * rows * w,
        traffic_at_most=3 * n * w + w,
        workspace=8 * rows * w,
        landmarks={"n × w": n * w},
        fresh=fresh,
        hint=hint,
    )


LOOP = "    for start in range(0, len(X), rows):\n"
LOAD_BIAS = "    bias = chip.load(b)\n" + LOOP

EXERCISE = Exercise(
    chapter="05",
    title="Bias, GELU and residual in one kernel",
    statement=STATEMENT,
    solution=fused_bias_gelu,
    oracle=whole_arrays,
    returns=("Y",),
    cases=[
        case("one block", 2, 3, 2),
        case("two blocks", 4, 2, 2, hint=3),
        case("the last block is short", 5, 2, 2, hint=2),
        case("one row at a time", 6, 4, 1, hint=3),
        case("1,000 rows of 64, 16 at a time", 1000, 64, 16, hint=3, fresh=True),
    ],
    wrong={
        "three kernels": three_kernels,
        "bias loaded for each block": edited(
            fused_bias_gelu,
            "The bias was loaded again for every block. Load it once, before the loop.",
            {
                LOAD_BIAS: LOOP + "        bias = chip.load(b)\n",
                "chip.free(t, r)": "chip.free(t, r, bias)",
            },
            hint=3,
        ),
        "blocks never freed": edited(
            fused_bias_gelu,
            "Finished blocks stayed on the chip. Give their room back with chip.free.",
            {"        chip.free(t, r)\n": ""},
            hint=2,
        ),
        "tail left out": edited(
            fused_bias_gelu,
            "The short last block was left out.",
            {"range(0, len(X), rows)": "range(0, len(X) // rows * rows, rows)"},
            hint=2,
        ),
        "residual inside": edited(
            fused_bias_gelu,
            "The residual went through the activation as well. It is added after it.",
            {"t += bias": "t += bias + r"},
        ),
        "bias left out": edited(
            fused_bias_gelu,
            "The bias was loaded and not added.",
            {"        t += bias\n": ""},
        ),
    },
    hints=[
        "One loop over blocks of rows: load X and R, compute, store Y, free.",
        "`stop = min(start + rows, len(X))`, and `chip.free(...)` takes the tiles that load gave.",
        "3nw + w leaves one load of X and R, one store of Y, and one load of b: before the loop.",
    ],
    explanation="The bias is used n times for one load, because it stays on the chip. Everything "
    "else crosses once: 7 accesses have become 3.",
)
