"""What an exercise is made of: texts, cases, wrong answers, and the sources that it hands out."""

from __future__ import annotations

import ast
import copy
import inspect
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from . import _text as text
from ._outcome import Outcome, compare, failure, printed
from ._run import run


@dataclass(frozen=True)
class Case:
    """One call of the answer: named inputs, passed by position.

    Parameters
    ----------
    label : str
        What is special about this case, as the student reads it.
    inputs : dict or callable
        Name to value, or a function that makes this.
    hint : int
        Which hint helps when this case fails, counted from 1.
    terms, span : float, optional
        How many numbers are added up, and how far from 0 the arguments of exp reach: they give the
        tolerance (see :func:`rounding`). Guessed from the arrays among the inputs if omitted.
    scale : float
        The tolerance is relative to the largest expected number, or to this if it is larger. For
        results that are 0 after cancellation.
    """

    label: str
    inputs: Mapping | Callable[[], Mapping]
    hint: int = 1
    terms: float | None = None
    span: float | None = None
    scale: float = 0.0

    counted = False

    def attempt(self, exercise: Exercise, function, seconds: float, salt: int = 0) -> Outcome:
        """Run the answer once and judge what came."""
        inputs = self.make()
        given = copy.deepcopy(inputs)
        ran = run(function, tuple(given.values()), seconds)
        shown = [("input", "\n".join(text.named(name, x) for name, x in inputs.items()))]
        shown += printed(ran)
        if failed := failure(ran):
            failed.fields = shown + failed.fields
            return failed
        for name, x in inputs.items():
            if not text.same_input(x, given[name]):
                return Outcome(
                    "changed",
                    [*shown, ("got", text.named(f"{name} after the call", given[name]))],
                    f"Your function changed its input {name}. Work on a copy, or make a new array.",
                    detail=name,
                )
        expected = exercise.oracle(*copy.deepcopy(inputs).values())
        tolerance = self.tolerance(inputs)
        return compare(exercise.returns, ran.value, expected, tolerance, shown, scale=self.scale)

    def make(self) -> dict:
        """The inputs, made anew."""
        return dict(self.inputs() if callable(self.inputs) else self.inputs)

    def tolerance(self, inputs: Mapping) -> float:
        """Relative error that rounding alone can cause in float64."""
        arrays = [x for x in inputs.values() if isinstance(x, np.ndarray) and x.dtype.kind in "fiu"]
        terms, span = self.terms, self.span
        if terms is None:
            terms = sum(x.size for x in arrays)
        if span is None:
            finite = [np.abs(x[np.isfinite(x)]).max(initial=0) for x in arrays]
            span = 2 * max(finite, default=0)
        return rounding(terms, span)


def rounding(terms: float, span: float = 0.0) -> float:
    """Relative rounding error of a float64 sum of exponentials.

    Two ways of adding ``terms`` numbers err by at most terms · eps each. exp turns the error of an
    argument, up to span · eps, into a relative error of that size, in the answer and in the
    oracle. Eight more operations are allowed for.
    """
    return float(np.finfo(np.float64).eps * (2 * terms + 2 * span + 8))


@dataclass(frozen=True)
class Exercise:
    """A problem with its solution, its cases and the wrong answers it must refuse.

    See the docstring of :mod:`lecture_code.exercises` for how to write one.
    """

    chapter: str
    title: str
    statement: str
    solution: Callable
    oracle: Callable
    returns: Sequence[str]
    cases: Sequence
    wrong: Mapping[str, Callable]
    hints: Sequence[str]
    explanation: str
    allow: Sequence[str] = ()
    name: str = field(init=False)

    def __post_init__(self):
        object.__setattr__(self, "name", self.solution.__name__)
        if not self.cases:
            raise ValueError(f"exercise {self.name} has no cases: it would pass anything")
        if not self.wrong:
            raise ValueError(f"exercise {self.name} lists no wrong answer that it must refuse")
        if self.oracle is self.solution:
            raise ValueError(f"exercise {self.name}: the oracle must differ from the solution")
        for what in ("statement", "explanation", "title", "hints", "returns"):
            if not getattr(self, what):
                raise ValueError(f"exercise {self.name} needs {what}")
        if isinstance(self.returns, str) or isinstance(self.hints, str):
            raise TypeError(f"exercise {self.name}: returns and hints are lists of strings")
        object.__setattr__(self, "hints", [paragraphs(hint) for hint in self.hints])
        object.__setattr__(self, "explanation", paragraphs(self.explanation))
        for label, function in self.wrong.items():
            if not inspect.getdoc(function):
                raise ValueError(
                    f"exercise {self.name}: wrong answer {label!r} needs a docstring, its message"
                )
        if not inspect.getdoc(self.solution):
            raise ValueError(
                f"exercise {self.name}: the solution needs a docstring, the student sees it"
            )
        for case in self.cases:
            if not 1 <= case.hint <= len(self.hints):
                raise ValueError(
                    f"exercise {self.name}, case {case.label!r}: there is no hint {case.hint}"
                )

    @property
    def counted(self) -> bool:
        """Whether the answer runs on the counted machine."""
        return any(case.counted for case in self.cases)

    def mistake(self, label: str) -> str:
        """The message of a wrong answer."""
        return one_line(inspect.getdoc(self.wrong[label]))

    def skeleton_source(self) -> str:
        """Imports, signature, docstring and ``raise NotImplementedError``."""
        source = textwrap.dedent(inspect.getsource(self.solution))
        docstring = ast.parse(source).body[0].body[0]
        head = "\n".join(source.splitlines()[: docstring.end_lineno])
        return f"{self._imports()}{head}\n    raise NotImplementedError"

    def solution_source(self) -> str:
        """Imports and the whole solution."""
        return self._imports() + textwrap.dedent(inspect.getsource(self.solution)).rstrip()

    def _imports(self) -> str:
        lines = imports_of(self.solution)
        return "\n".join(lines) + "\n\n\n" if lines else ""


def one_line(text: str) -> str:
    """A text without its line breaks."""
    return " ".join(text.split())


def paragraphs(text: str) -> str:
    """A text with its blank lines and without its other line breaks."""
    return "\n\n".join(one_line(part) for part in re.split(r"\n\s*\n", text.strip()))


def global_names(function) -> set[str]:
    """Names that a function, or one defined in it, takes from its module or from builtins."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return used & set(function.__globals__)


def imports_of(function) -> list[str]:
    """Import lines of the function's module that bring the names it uses, as absolute imports."""
    module = inspect.getmodule(function)
    used, lines, bound = global_names(function), [], set()
    for node in ast.parse(inspect.getsource(module)).body:
        if not isinstance(node, ast.Import | ast.ImportFrom):
            continue
        wanted = [a for a in node.names if (a.asname or a.name.split(".")[0]) in used]
        if not wanted:
            continue
        bound |= {a.asname or a.name.split(".")[0] for a in wanted}
        if isinstance(node, ast.ImportFrom):
            parts = module.__name__.split(".")[: -node.level] if node.level else []
            node.module = ".".join([*parts, *([node.module] if node.module else [])])
            node.level = 0
        node.names = wanted
        lines.append(ast.unparse(node))
    if used - bound:
        raise ValueError(
            f"the solution {function.__name__} must stand alone, "
            f"but uses {sorted(used - bound)} of its module"
        )
    return lines


def edited(
    solution: Callable, message: str, changes: Mapping[str, str], *, hint: int | None = None
) -> Callable:
    """A wrong answer made from the solution by exchanging pieces of its text.

    Parameters
    ----------
    solution : function
    message : str
        The probable mistake, told to a student whose answer gives the same results.
    changes : dict
        Old text, found exactly once, to new text.
    hint : int, optional
        The hint that helps, where it is not the one of the case that fails.
    """
    source = textwrap.dedent(inspect.getsource(solution))
    for old, new in changes.items():
        if (times := source.count(old)) != 1:
            raise ValueError(f"{old!r} must occur once in {solution.__name__}, not {times} times")
        source = source.replace(old, new)
    scope = dict(solution.__globals__)
    exec(compile(source, f"<{solution.__name__}, edited>", "exec"), scope)
    function = scope[solution.__name__]
    function.__doc__ = message
    if hint is not None:
        function.hint = hint
    return function
