"""From an answer to a verdict: run the cases, stop at the first that fails, name the mistake."""

from __future__ import annotations

import copy
import time
import traceback
from dataclasses import dataclass, field

from . import _text as text
from ._exercise import Case, Exercise
from ._run import Ran, run

NOT_ATTEMPTED, WRONG, RIGHT = "not attempted", "wrong", "right"


@dataclass(frozen=True)
class Verdict:
    """``.name``, ``.status`` ("not attempted", "wrong" or "right"), ``.text``. True when right."""

    name: str
    status: str
    text: str = field(repr=False)

    def __bool__(self) -> bool:
        return self.status == RIGHT

    def _ipython_display_(self) -> None:
        """The text was printed already: a notebook shows nothing more."""


@dataclass
class Outcome:
    """What one case showed.

    ``kind`` is "right", or what is wrong: two answers with equal kind and equal values made the same mistake.
    """

    kind: str
    fields: list[tuple[str, str]] = field(default_factory=list)
    mistake: str = ""
    values: tuple | None = None
    facts: str = ""


def judge(exercise: Exercise, function, limit_s: float = 10.0) -> Verdict:
    """The verdict on an answer. Prints nothing."""
    if not callable(function):
        raise TypeError(
            f"function must be your function itself, as in check({exercise.name!r}, {exercise.name}); "
            f"got {text.what_is(function)}"
        )
    end = time.monotonic() + limit_s
    for position, case in enumerate(exercise.cases):
        outcome = attempt(case, exercise, function, end - time.monotonic())
        if outcome.kind == NOT_ATTEMPTED and position == 0:
            return Verdict(exercise.name, NOT_ATTEMPTED, not_attempted(exercise))
        if outcome.kind != RIGHT:
            return Verdict(
                exercise.name, WRONG, explain(exercise, function, position, outcome, end)
            )
    return Verdict(exercise.name, RIGHT, praise(exercise, outcome))


def not_attempted(exercise: Exercise) -> str:
    return (
        f"{exercise.name}: not attempted\n"
        "  Replace `raise NotImplementedError` by your answer, run the cell, then this check.\n"
        f'  First hint: hint("{exercise.name}", 1)'
    )


def praise(exercise: Exercise, last: Outcome) -> str:
    count = len(exercise.cases)
    lines = [
        f"{exercise.name}: right",
        text.field(
            "verified", f"{', '.join(exercise.returns)} in {count} case{'s' * (count > 1)}:"
        ),
    ]
    lines += [f"            - {case.label}" for case in exercise.cases]
    if last.facts:
        lines.append(text.field("counted", last.facts))
    return "\n".join(lines)


def explain(exercise, function, position, outcome, end) -> str:
    case = exercise.cases[position]
    lines = [
        f"{exercise.name}: wrong",
        text.field("case", f"{position + 1} of {len(exercise.cases)}, {case.label}"),
    ]
    lines += [text.field(label, content) for label, content in outcome.fields]
    label = diagnose(exercise, function, position, outcome, end)
    message = exercise.mistake(label) if label else outcome.mistake
    if message:
        lines.append(text.prose("mistake", message))
    lines.append(text.prose(f"hint {case.hint}", exercise.hints[case.hint - 1]))
    if case.hint < len(exercise.hints):
        lines.append(text.field("", f'next: hint("{exercise.name}", {case.hint + 1})'))
    return "\n".join(lines)


def diagnose(exercise, function, position, outcome, end) -> str | None:
    """The wrong answer that behaves like this one, on this case and, if several do, on the later ones."""
    suspects = list(exercise.wrong)
    for case in exercise.cases[position:]:
        same = [
            label
            for label in suspects
            if alike(outcome, attempt(case, exercise, exercise.wrong[label], 10.0), case)
        ]
        if not same:
            return suspects[0] if case is not exercise.cases[position] else None
        suspects = same
        if len(suspects) < 2 or case is exercise.cases[-1] or end - time.monotonic() < 0:
            break
        following = exercise.cases[exercise.cases.index(case) + 1]
        outcome = attempt(following, exercise, function, end - time.monotonic())
    return suspects[0]


def alike(a: Outcome, b: Outcome, case) -> bool:
    """Whether two outcomes of one case are the same."""
    if a.kind != b.kind or (a.values is None) != (b.values is None):
        return False
    if a.values is None:
        return a.kind == b.kind and a.fields == b.fields or a.kind in SHARED_KINDS
    return all(
        text.wrong_kind(x, y) is None and text.same(x, y, 1e-9) for x, y in zip(a.values, b.values)
    )


SHARED_KINDS = ("capacity", "memory", "traffic", "unread", "unstored", "flop")


def attempt(case, exercise: Exercise, function, seconds: float) -> Outcome:
    """Run one case and judge what came."""
    if not isinstance(case, Case):
        return case.attempt(exercise, function, seconds)
    inputs = case.make()
    given = copy.deepcopy(inputs)
    ran = run(function, tuple(given.values()), seconds)
    shown = [("input", "\n".join(text.named(k, v) for k, v in inputs.items()))]
    shown += printed(ran)
    if failed := failure(ran, seconds):
        failed.fields = shown + failed.fields
        return failed
    for name, value in inputs.items():
        if not text.same_input(value, given[name]):
            return Outcome(
                "changed",
                [*shown, ("got", text.named(f"{name} after the call", given[name]))],
                f"Your function changed its input {name}. Work on a copy, or make a new array.",
            )
    expected = exercise.oracle(*case.make().values())
    return compare(exercise.returns, ran.value, expected, case.tolerance(inputs), shown)


def printed(ran: Ran) -> list[tuple[str, str]]:
    """What the function printed, shortened."""
    lines = text.clean(ran.printed.strip()).split("\n")
    return [("printed", "\n".join(lines[:10]))] if ran.printed.strip() else []


def failure(ran: Ran, seconds: float) -> Outcome | None:
    """The outcome of a call that gave no value."""
    if ran.timed_out:
        return Outcome(
            "timeout",
            [("got", "no answer: the time limit passed")],
            "A loop that never ends? Check that what it waits for comes.",
        )
    error = ran.error
    if isinstance(error, NotImplementedError):
        return Outcome(
            NOT_ATTEMPTED, [("got", "NotImplementedError")], "This case is not handled yet."
        )
    if isinstance(error, SystemExit):
        return Outcome("exit", [("got", "a call to exit")], "Return the answer instead of leaving.")
    if isinstance(error, RecursionError):
        return Outcome(
            "recursion",
            [("got", "RecursionError: the function calls itself without end")],
            "A recursion needs a case that ends it.",
        )
    if error is not None:
        what = text.clean(f"{type(error).__name__}: {error}")
        return Outcome("raised " + what, [("got", what + line_of(error))])
    return None


def line_of(error: BaseException) -> str:
    """The line of the answer in which an error arose."""
    frames = traceback.extract_tb(error.__traceback__)[1:]
    mine = [
        f
        for f in frames
        if f.line and "lecture_code" not in f.filename and "site-packages" not in f.filename
    ]
    return f"\nin the line: {mine[-1].line}" if mine else ""


def compare(returns, got, expected, tolerance, shown) -> Outcome:
    """Compare what came with what was expected, name by name."""
    several = len(returns) > 1
    if got is None:
        return Outcome(
            "none",
            [*shown, ("got", "None")],
            "Your function returns nothing: is a `return` missing?",
        )
    if several and (not isinstance(got, tuple | list) or len(got) != len(returns)):
        return Outcome(
            "type",
            [*shown, ("got", text.what_is(got))],
            f"Return {len(returns)} values, ({', '.join(returns)}).",
        )
    got_values, expected_values = (
        (tuple(got), tuple(expected)) if several else ((got,), (expected,))
    )
    for name, g, e in zip(returns, got_values, expected_values):
        if why := text.wrong_kind(g, e):
            return Outcome("type", [*shown, ("got", text.named(name, g))], f"{name} {why}.")
    bad = [
        (name, g, e)
        for name, g, e in zip(returns, got_values, expected_values)
        if not text.same(g, e, tolerance)
    ]
    if not bad:
        return Outcome(RIGHT, values=got_values)
    return Outcome(
        "values",
        [
            *shown,
            ("got", "\n".join(text.named(name, g) for name, g, _ in bad)),
            ("expected", "\n".join(text.named(name, e) for name, _, e in bad)),
        ],
        generic_mistake(bad),
        got_values,
    )


def generic_mistake(bad) -> str:
    """A mistake that shows in the numbers themselves."""
    import numpy as np

    for name, g, e in bad:
        if isinstance(e, str | bool | np.bool_):
            continue
        g, e = np.asarray(g, float), np.asarray(e, float)
        if np.isnan(g).any() and not np.isnan(e).any():
            return f"{name} holds NaN: somewhere inf − inf, 0 · inf or 0 / 0 was formed."
        if np.isposinf(g).any() and not np.isposinf(e).any():
            return f"{name} holds inf: an exponential overflowed, or something was divided by 0."
    return ""
