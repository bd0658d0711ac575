"""The backward of three sigmoids from their input alone, on the counted machine."""

import numpy as np

from ._counted import CountedCase
from ._exercise import Exercise, edited

STATEMENT = r"""
The forward was $\mathrm{out} = \sigma(\sigma(\sigma(x)))$ with $\sigma(t) = 1/(1 + e^{-t})$, and it
stored nothing but `out`. Write the backward: from $x$ and the gradient `dout`, compute `dx`. The
chip holds two tiles of `tile` elements.

The check asserts the gradient and that at most $3n$ elements move: $x$ and `dout` in, `dx` out.
"""


def recompute_sigmoids(chip, x, dout, dx, tile):
    """Gradient of three sigmoids in a row, activations computed again.

    Parameters
    ----------
    chip : SRAM
        Room for two tiles.
    x, dout : arrays in HBM, (n,)
        The input, and the gradient with respect to the output.
    dx : array in HBM, (n,)
        Store the gradient with respect to x here.
    tile : int
        Elements in a tile; the last one may be shorter.
    """
    for start in range(0, len(x), tile):
        stop = min(start + tile, len(x))
        a, gradient = chip.load(x, start, stop), chip.load(dout, start, stop)
        s1 = 1 / (1 + np.exp(-a))
        s2 = 1 / (1 + np.exp(-s1))
        s3 = 1 / (1 + np.exp(-s2))
        gradient *= s3 * (1 - s3) * s2 * (1 - s2) * s1 * (1 - s1)
        chip.store(dx, gradient, start)
        chip.free(a, gradient)


def complex_step(x, dout, tile):
    """The derivative from a step into the complex plane, exact to rounding."""
    z = x + 1e-30j
    for _ in range(3):
        z = 1 / (1 + np.exp(-z))
    return dout * z.imag / 1e-30


def stored_after_all(chip, x, dout, dx, tile):
    """An activation was parked in HBM. The point is to have it again without that."""
    for start in range(0, len(x), tile):
        a = chip.load(x, start, min(start + tile, len(x)))
        chip.store(dx, 1 / (1 + np.exp(-a)), start)
        chip.free(a)
    for start in range(0, len(x), tile):
        s1 = chip.load(dx, start, min(start + tile, len(x)))
        gradient = chip.load(dout, start, min(start + tile, len(x)))
        s2 = 1 / (1 + np.exp(-s1))
        s3 = 1 / (1 + np.exp(-s2))
        gradient *= s3 * (1 - s3) * s2 * (1 - s2) * s1 * (1 - s1)
        chip.store(dx, gradient, start)
        chip.free(s1, gradient)


def case(label, values, tile, hint=1, n=0, fresh=False):
    def inputs(rng):
        x = np.array(values) if values else rng.normal(0, 3, n)
        return {"x": x, "dout": rng.normal(size=len(x))}

    n = len(values) or n
    return CountedCase(
        label=label,
        inputs=inputs,
        outputs={"dx": (n,)},
        options={"tile": tile},
        capacity=2 * tile,
        traffic_at_most=3 * n,
        workspace=10 * tile,
        landmarks={"the whole array": n},
        fresh=fresh,
        hint=hint,
    )


AGAIN = "        chip.free(a)\n        a = chip.load(x, start, stop)\n"
CHAIN = "s3 * (1 - s3) * s2 * (1 - s2) * s1 * (1 - s1)"

EXERCISE = Exercise(
    chapter="05",
    title="Recompute instead of reload",
    statement=STATEMENT,
    solution=recompute_sigmoids,
    oracle=complex_step,
    returns=("dx",),
    cases=[
        case("two values", [0.0, 1.0], 2),
        case("the last tile is short", [-2.0, 0.5, 3.0, 1.0, -0.3], 2, hint=3),
        case("one element at a time", [0.2, -0.1, 2.0], 1, hint=3),
        case("10,000 values, 64 at a time", [], 64, n=10_000, hint=3, fresh=True),
    ],
    wrong={
        "activations in HBM": stored_after_all,
        "last sigmoid only": edited(
            recompute_sigmoids,
            "Only the outermost sigmoid was differentiated. Each of the three has a factor.",
            {CHAIN: "s3 * (1 - s3)"},
        ),
        "one factor short": edited(
            recompute_sigmoids,
            "The derivative of the innermost sigmoid is missing.",
            {CHAIN: "s3 * (1 - s3) * s2 * (1 - s2)"},
        ),
        "inputs for outputs": edited(
            recompute_sigmoids,
            "The rule σ' = s(1 - s) takes the sigmoid's output s, and its input was put in.",
            {CHAIN: "s2 * (1 - s2) * s1 * (1 - s1) * a * (1 - a)"},
        ),
        "dout left out": edited(
            recompute_sigmoids,
            "The gradient that came from above is missing: the chain starts with dout.",
            {"gradient *=": "gradient[:] ="},
        ),
        "x loaded twice": edited(
            recompute_sigmoids,
            "x crossed twice. One load serves the recomputation and the gradient.",
            {"        s2 = 1": AGAIN + "        s2 = 1"},
            hint=3,
        ),
        "tail left out": edited(
            recompute_sigmoids,
            "The short last tile was left out.",
            {"range(0, len(x), tile)": "range(0, len(x) // tile * tile, tile)"},
            hint=3,
        ),
    },
    hints=[
        "With s = σ(t), the derivative is s (1 - s). The chain has three of them, and dout.",
        "Compute s1, s2, s3 from the tile of x as the forward did, then multiply.",
        "One loop over tiles: load x and dout, compute, store dx, free both.",
    ],
    explanation="Three sigmoids more, six accesses fewer than a backward of separate kernels, and "
    "nothing to keep between the passes but x.",
)
