"""Exercises that judge an answer: ``check("name", your_function)``.

A check has three verdicts: not attempted (the function still raises NotImplementedError); wrong
(the first case that fails, what came, what was expected, the probable mistake, a hint); right
(what was verified). It stops a function that does not end, and nothing that a function raises or
prints gets out of it.

How to add an exercise
----------------------
Write ``lecture_code/exercises/<name>.py``; it is found by its file name. It holds a reference
solution called ``<name>``, an oracle, wrong answers, and one ``EXERCISE``::

    import numpy as np
    from ._exercise import Case, Exercise, edited

    def row_sum(x):
        '''Sum of a row, x of shape (n,).'''  # signature and docstring are the skeleton
        return x.sum()                          # the whole is the folded solution

    def forgot_the_last(x):
        '''The last value is missing: the range ends at n - 1.'''  # the probable mistake
        return x[:-1].sum()

    EXERCISE = Exercise(
        chapter="07", title="Row sum", statement="The task, in Markdown.",
        solution=row_sum,
        oracle=lambda x: float(np.add.reduce(x)),  # by another way than the solution
        returns=("sum",),  # names of the results; with several, the answer is a tuple
        cases=[Case("three numbers", {"x": np.array([1.0, 2.0, 3.0])}), ...],  # smallest first
        wrong={
            "forgot the last": forgot_the_last,
            "wrong sign": edited(row_sum, "The sign is wrong.", {"x.sum()": "-x.sum()"}),
        },
        hints=["First hint.", "Second, closer."],
        explanation="One or two sentences that stand below the solution.",
    )

- The solution uses nothing but its arguments, builtins and imported names; the imports it uses
  are shown in the skeleton, so prefer numpy and math. An answer must not call this package.
  ``allow=("lecture_code.hardware",)`` permits a module, or a name in one.
- The inputs of a case are named as the student should see them and passed by position. A function
  that makes the dict is fine too. Floats agree when they differ by less than rounding can explain,
  see ``Case.tolerance``; integers, strings and bools agree when they are equal.
- When a case fails, the wrong answers run on it too, and the one with the same result names the
  mistake. So a wrong answer's docstring is a message to the student: say what happened, then what
  to do. It may name the hint to show (``edited(..., hint=2)``); otherwise the case does.
- A counted problem has :class:`CountedCase` s, see ``flash_forward.py``: the answer gets a chip and
  arrays in HBM. Values, traffic, peak on chip, FLOP through the matrix unit, memory beside the chip
  and coverage (all inputs read, all rows stored) are judged. ``workspace`` says how many elements
  of numpy arrays may exist beside the tiles; choose N so that N x d and N x N are well above it.
- ``tests/exercises`` tests every exercise it finds: the skeleton is not attempted, the solution is
  right, every wrong answer is refused with its message. Nothing to add there. While writing, run
  ``python -m pytest tests/exercises -q -k <name>``.

The notebook tool uses :func:`skeleton`, :func:`solution`, :func:`statement`, :func:`hints` and
:func:`solution_markdown`.

What a check stops, and what it does not
----------------------------------------
Refused before it runs: calling this package (``allow`` aside); ``sys``, ``gc``, ``inspect``,
``threading`` and their like; ``input`` and ``exit``. On the counted machine also: modules other
than numpy and the standard library's plain ones, private attributes, ``copy_out``, setting
attributes, ``getattr``, large arrays from outside the function.

Found while it runs: numbers of an HBM array reached past the chip, another chip, a tile used after
``free`` (it holds NaN), inputs changed, rows never stored, inputs never read, counters overwritten
(the books are kept apart), numbers hoarded in Python or numpy memory, answers kept from an earlier
check (the large case draws new numbers each time). Expected values are made after the answer ran.

Not stopped: patching numpy or this package, code hidden from the byte-code reader (a C extension,
a callable object), memory taken past Python's allocator, compiled code that holds the interpreter
lock for ever (``10 ** 10 ** 10``), and allocating more memory than the machine has. A check is for
a student who wants to learn; it runs in the student's own process.
"""

from __future__ import annotations

import difflib
import importlib
import pkgutil

from ._check import Verdict, judge
from ._counted import CountedCase
from ._exercise import Case, Exercise, edited, rounding

__all__ = [
    "Case", "CountedCase", "Exercise", "Verdict", "check", "edited", "exercise", "hint", "hints",
    "names", "rounding", "skeleton", "solution", "solution_markdown", "statement",
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
    """Hints and solution, each folded, in Markdown that every front end renders."""
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
