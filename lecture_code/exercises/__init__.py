"""Exercises that judge an answer: ``check("name", your_function)``.

A check has three verdicts: not attempted (the function still raises NotImplementedError), wrong (the first
case that fails, what came, what was expected, the probable mistake, a hint), right (what was verified).

How to add an exercise
----------------------
Write ``lecture_code/exercises/<name>.py``. It is found by its file name. It holds the reference solution (a
function called ``<name>``), an oracle, wrong answers, and one ``EXERCISE``:

    import numpy as np
    from ._counted import CountedCase
from ._exercise import Case, Exercise, edited, rounding

    def row_sum(x):
        '''Sum of a row, x of shape (n,).'''      # signature + docstring = the skeleton
        return x.sum()                            # the body is the folded solution

    def forgot_the_last(x):
        '''The last value is missing: a range that ends at n - 1.'''   # docstring = the probable mistake
        return x[:-1].sum()

    EXERCISE = Exercise(
        chapter="07", title="Row sum", statement="Markdown of the task.",
        solution=row_sum,
        oracle=lambda x: float(np.add.reduce(x)),  # written another way than the solution
        returns=("sum",),                          # names of the results; several: the answer is a tuple
        cases=[Case("three numbers", {"x": np.array([1.0, 2.0, 3.0])}), ...],   # smallest first
        wrong={
            "forgot the last": forgot_the_last,
            "wrong sign": edited(row_sum, "The sign is wrong.", {"x.sum()": "-x.sum()"}),
        },
        hints=["First hint.", "Second, closer."],
        explanation="One or two sentences below the solution.",
    )

- The solution uses nothing but its arguments, builtins and imported names; the imports it uses are shown in
  the skeleton. Answers must not call lecture_code themselves; ``allow=("lecture_code.hardware",)`` permits a module.
- ``inputs`` of a case are named as the reader should see them, and passed by position. A function that makes
  the dict is fine too. Floats are compared to within the rounding of ``terms`` additions and of exponentials
  over a range of ``span`` (both guessed from the inputs if omitted); integers, strings and bools exactly.
- When a case fails, each wrong answer runs on it too: the one with the same result names the mistake. So a wrong
  answer's docstring is a message to the student.
- A counted problem uses :class:`CountedCase` (see ``flash_forward.py``): the function gets a chip and arrays in HBM, and the check
  asserts values, traffic, the peak on chip, FLOP through the matrix unit, and memory taken beside the chip.
- ``tests/exercises`` tests every exercise it finds; nothing to add there. Run
  ``python -m pytest tests/exercises -q -k <name>``.

What the notebook tool uses: :func:`skeleton`, :func:`solution`, :func:`statement`, :func:`hints`,
:func:`solution_markdown`.
"""

from __future__ import annotations

import difflib
import importlib
import pkgutil

from ._check import Verdict, judge
from ._counted import CountedCase
from ._exercise import Case, Exercise, edited, rounding

__all__ = [
    """Case""", """CountedCase""", """Exercise""", """Verdict""", """check""", """edited""", """exercise""", """hint""", """hints""", """names""",
    "rounding", "skeleton", "solution", "solution_markdown", "statement",
]  # fmt: skip


def names() -> list[str]:
    """Names of all exercises, sorted."""
    found = (module.name for module in pkgutil.iter_modules(__path__))
    return sorted(name for name in found if not name.startswith("_"))


def exercise(name: str) -> Exercise:
    """The exercise of that name.

    Raises
    ------
    ValueError
        If there is none; the message lists names that look like it.
    """
    known = names()
    if name not in known:
        close = difflib.get_close_matches(str(name), known, n=3, cutoff=0.4) or known
        raise ValueError(f"there is no exercise {name!r}; did you mean {', '.join(close)}?")
    module = importlib.import_module(f"{__name__}.{name}")
    found = module.EXERCISE
    if found.name != name:
        raise ValueError(f"exercises/{name}.py must hold the solution of {name}, got {found.name}")
    return found


def check(name: str, function, *, limit_s: float = 10.0) -> Verdict:
    """Judge an answer, print the verdict and return it.

    Parameters
    ----------
    name : str
        Name of the exercise.
    function : callable
        The answer.
    limit_s : float
        Seconds after which a function that has not returned is stopped.

    Returns
    -------
    Verdict
        ``.status`` is "not attempted", "wrong" or "right"; ``.text`` is what was printed.

    Examples
    --------
    >>> def online_softmax(x, block):
    ...     raise NotImplementedError
    >>> verdict = check("online_softmax", online_softmax)
    online_softmax: not attempted
      Replace `raise NotImplementedError` by your answer, run the cell, then this check.
      First hint: hint("online_softmax", 1)
    """
    verdict = judge(exercise(name), function, limit_s)
    print(verdict.text)
    return verdict


def hint(name: str, k: int = 1) -> None:
    """Print the k-th hint of an exercise, counted from 1."""
    found = hints(name)
    if not 1 <= k <= len(found):
        raise ValueError(f"k must lie between 1 and {len(found)} for {name}, got {k}")
    print(f"Hint {k} of {len(found)}: {found[k - 1]}")


def hints(name: str) -> list[str]:
    """All hints of an exercise, in order."""
    return list(exercise(name).hints)


def statement(name: str) -> str:
    """The task, in Markdown."""
    return exercise(name).statement


def skeleton(name: str) -> str:
    """Source of the cell that a student fills in: imports, signature, docstring,
    NotImplementedError."""
    return exercise(name).skeleton_source()


def solution(name: str) -> str:
    """Source of the reference solution, with its imports."""
    return exercise(name).solution_source()


def solution_markdown(name: str) -> str:
    """Hints and solution in Markdown, each folded, blank lines inside so that every front end
    renders them."""
    found = exercise(name)
    blocks = [
        f"<details><summary>Hint {k}</summary>\n\n{text}\n\n</details>"
        for k, text in enumerate(found.hints, 1)
    ]
    code = f"```python\n{found.solution_source()}\n```"
    blocks.append(
        f"<details><summary>Solution</summary>\n\n{code}\n\n{found.explanation}\n\n</details>"
    )
    return "\n\n".join(blocks)
