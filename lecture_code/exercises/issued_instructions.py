"""Issue slots of a warp that branches, and the share of its lanes that worked."""

import numpy as np

from lecture_code.simt import Branch, run_warp

from ._exercise import Case, Exercise, edited

STATEMENT = r"""
A program for one warp, threads 0 to 31, is a list. An integer $n$ in it stands for $n$ plain
instructions. A triple `(k, then, otherwise)` stands for *if thread < k: then, else: otherwise*;
both sides are programs of their own, so branches may be nested.

The warp issues one instruction at a time. Where its threads disagree it runs both sides one after
the other; a side that no thread takes is skipped. Return the instructions issued, and the
efficiency: the lanes that worked over 32 lanes for each instruction issued.

By hand first: `[(4, [5], [5])]`. And `[(4, [5], [5]), (4, [5], [5])]`?
"""


def issued_instructions(program):
    """Instructions that a warp issues, and the share of its lanes that work.

    Parameters
    ----------
    program : list
        Integers (plain instructions) and triples (k, then, otherwise).

    Returns
    -------
    issued : int
    efficiency : float
        Between 0 and 1.
    """

    def run(steps, first, last):
        issued = active = 0
        for step in steps:
            if isinstance(step, int):
                issued += step
                active += step * (last - first)
                continue
            k, then, otherwise = step
            cut = min(max(k, first), last)
            for side, a, b in ((then, first, cut), (otherwise, cut, last)):
                if a < b:
                    slots, work = run(side, a, b)
                    issued += slots
                    active += work
        return issued, active

    issued, active = run(program, 0, 32)
    return issued, active / (32 * issued)


def by_the_simulator(program):
    """The same by running the chapter's warp."""

    def translate(steps):
        out = []
        for step in steps:
            if isinstance(step, int):
                out += ["plain"] * step
            else:
                k, then, otherwise = step
                out.append(Branch(lambda t, k=k: t < k, translate(then), translate(otherwise)))
        return out

    ran = run_warp(translate(program), threads=np.arange(32))
    return ran.issued, ran.efficiency


def side_by_side(program):
    """The two sides were run side by side. A warp issues one instruction at a time: add them."""

    def run(steps, first, last):
        issued = active = 0
        for step in steps:
            if isinstance(step, int):
                issued, active = issued + step, active + step * (last - first)
                continue
            cut = min(max(step[0], first), last)
            sides = [(step[1], first, cut), (step[2], cut, last)]
            ran = [run(side, a, b) for side, a, b in sides if a < b]
            issued += max(slots for slots, _ in ran)
            active += sum(work for _, work in ran)
        return issued, active

    issued, active = run(program, 0, 32)
    return issued, active / (32 * issued)


EXERCISE = Exercise(
    chapter="04",
    title="Count what a warp issues",
    statement=STATEMENT,
    solution=issued_instructions,
    oracle=by_the_simulator,
    returns=("issued", "efficiency"),
    cases=[
        Case("no branch", {"program": [3]}),
        Case("the lecture's branch", {"program": [(4, [5], [5])]}),
        Case("sides of different length", {"program": [2, (8, [1], [7]), 2]}),
        Case("an if without else", {"program": [(1, [6], [])]}, hint=2),
        Case("everyone agrees", {"program": [(32, [5], [9])]}, hint=2),
        Case("nested", {"program": [(16, [(8, [3], [3])], [(24, [3], [3])])]}, hint=3),
        Case("a second split at the same place", {"program": [(4, [(4, [5], [9])], [5])]}, hint=3),
        Case("nobody left", {"program": [(8, [2], [(4, [9], [3]), 1])]}, hint=3),
    ],
    wrong={
        "side by side": side_by_side,
        "empty sides run": edited(
            issued_instructions,
            """A side that no thread takes was issued all the same. The warp skips it: check that
            somebody stands there.""",
            {"if a < b:": "if a <= b:"},
            hint=2,
        ),
        "all lanes work": edited(
            issued_instructions,
            """All 32 lanes were counted as working inside a branch. Only those that took the side
            do; the others wait.""",
            {"active += step * (last - first)": "active += step * 32"},
        ),
        "then only": edited(
            issued_instructions,
            "The else side is missing. Threads that do not take the branch run it afterwards.",
            {"((then, first, cut), (otherwise, cut, last))": "((then, first, cut),)"},
        ),
        "nested branches forget": edited(
            issued_instructions,
            """The inner branch was given to all 32 threads. Only those that entered the outer side
            are still there.""",
            {"run(side, a, b)": "run(side, 0, 32)"},
            hint=3,
        ),
        "percent of issued": edited(
            issued_instructions,
            "The efficiency was divided by the instructions only. Each of them has 32 lanes.",
            {"active / (32 * issued)": "active / issued"},
        ),
    },
    hints=[
        "A plain instruction costs one slot, whoever stands there, and works for those who do.",
        "Before you run a side, count its threads. If there are none, it costs nothing.",
        """The threads in a side are always a range: first to last. A branch at k cuts it in two.
        Let a function call itself on each part.""",
    ],
    explanation="""`[(4, [5], [5])]` issues 10 at efficiency 0.5, and twice in a row 20 at 0.5: the
    warp is whole again after each branch. Nested branches multiply: four paths, 0.25.""",
)
