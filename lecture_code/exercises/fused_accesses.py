"""Accesses of an elementwise program: one kernel an operation, and one kernel for all."""

import numpy as np

from ..memory import HBM, SRAM
from ._exercise import Case, Exercise, edited

STATEMENT = r"""
A program of elementwise operations is a list of pairs (result, operands). This is
$\sin^2 x + \cos^2 x$:

```python
[
    ("s", ["x"]),
    ("c", ["x"]),
    ("s2", ["s", "s"]),
    ("c2", ["c", "c"]),
    ("y", ["s2", "c2"]),
]
```

All arrays have $n$ elements. A name that no operation makes is an input and lies in HBM.
`outputs` lists the results that must be in HBM at the end.

Return (separate, fused), in units of $n$: the accesses when every operation is its own kernel,
and when one kernel does it all. A kernel loads each array it needs once, and stores what it must.
"""


def fused_accesses(program, outputs):
    """Accesses per element of a program, as separate kernels and as one.

    Parameters
    ----------
    program : list of (str, list of str)
        Each result and its operands, in order. No name is made twice.
    outputs : list of str
        Results needed afterwards.

    Returns
    -------
    separate, fused : int
    """
    made = {result for result, _ in program}
    needed = {name for _, operands in program for name in operands}
    separate = sum(len(set(operands)) + 1 for _, operands in program)
    return separate, len(needed - made) + len(outputs)


def counted(program, outputs):
    """The same from two runs on the counted machine, with arrays of one element."""
    names = {name for result, operands in program for name in (result, *operands)}
    made = {result for result, _ in program}

    hbm, chip = HBM(), SRAM()
    arrays = {name: hbm.array(name, np.zeros(1)) for name in names}
    for result, operands in program:
        for name in dict.fromkeys(operands):
            chip.load(arrays[name])
        chip.store(arrays[result], np.zeros(1))
    separate = hbm.traffic.total

    hbm, on_chip = HBM(), set()
    arrays = {name: hbm.array(name, np.zeros(1)) for name in names}
    for result, operands in program:
        for name in operands:
            if name not in on_chip and name not in made:
                chip.load(arrays[name])
            on_chip.add(name)
        on_chip.add(result)
    for name in outputs:
        chip.store(arrays[name], np.zeros(1))
    return separate, hbm.traffic.total


def case(label, program, outputs, hint=1):
    """Operations written as "result: operands"."""
    pairs = [line.split(":") for line in program.split(",")]
    return Case(
        label,
        {
            "program": [(result.strip(), operands.split()) for result, operands in pairs],
            "outputs": outputs.split(),
        },
        hint=hint,
    )


SEPARATE = "len(set(operands)) + 1 for _"
FUSED = "len(needed - made) + len(outputs)"

EXERCISE = Exercise(
    chapter="05",
    title="Count before you fuse",
    statement=STATEMENT,
    solution=fused_accesses,
    oracle=counted,
    returns=("separate", "fused"),
    cases=[
        case("cos of cos", "y: x, z: y", "z"),
        case("a b + c", "t: a b, y: t c", "y", hint=2),
        case("a square", "y: x x", "y", hint=3),
        case("sin² + cos²", "s: x, c: x, s2: s s, c2: c c, y: s2 c2", "y", hint=2),
        case("three sigmoids, all kept", "s1: x, s2: s1, out: s2", "s1 s2 out", hint=4),
        case("the input is used late again", "g: x, y: g x, z: y x", "z", hint=2),
        case("two results, one of them used", "a: x y, b: a a, c: b z", "a c", hint=4),
    ],
    wrong={
        "an operand twice": edited(
            fused_accesses,
            "An operand that appears twice in an operation was loaded twice. One load serves both.",
            {SEPARATE: "len(operands) + 1 for _"},
            hint=3,
        ),
        "intermediates read": edited(
            fused_accesses,
            "The one kernel reads intermediate results from HBM. It made them itself, on the chip.",
            {FUSED: "len(needed) + len(outputs)"},
            hint=2,
        ),
        "everything stored": edited(
            fused_accesses,
            "The one kernel stores intermediate results that nobody asked for.",
            {FUSED: "len(needed - made) + len(made)"},
            hint=4,
        ),
        "last result only": edited(
            fused_accesses,
            "Only one result was stored, but more of them are needed afterwards.",
            {FUSED: "len(needed - made) + 1"},
            hint=4,
        ),
        "an input at each use": edited(
            fused_accesses,
            "The one kernel loads an input again at each use. Once it is on the chip, it stays.",
            {FUSED: "sum(n not in made for _, o in program for n in set(o)) + len(outputs)"},
            hint=2,
        ),
        "nothing stored in between": edited(
            fused_accesses,
            "Separate kernels pass their results on through HBM: each stores one array.",
            {SEPARATE: "len(set(operands)) for _"},
        ),
    },
    hints=[
        "Separate: add up, for each operation, the arrays it loads and the one it stores.",
        "Fused: which names must come from HBM? Those that nobody makes, each once.",
        "`set(operands)` has each name once.",
        "The fused kernel stores `outputs`, whether or not another operation uses them as well.",
    ],
    explanation="11 and 2 for sin² + cos². The ratio is the most that fusion can gain, and it is "
    "gained only if the fused kernel still waits for memory.",
)
