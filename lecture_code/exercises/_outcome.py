"""What one run of an answer showed, and what that says about the answer."""

from __future__ import annotations

import traceback
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from . import _text as text
from ._run import Ran

NOT_ATTEMPTED, RIGHT = "not attempted", "right"


@dataclass
class Outcome:
    """The result of one case.

    ``kind`` is "right" or names what is wrong. Two answers made the same mistake when their kind,
    detail and values agree. ``fields`` are the labelled entries of the verdict, ``mistake`` is a
    guess at the cause, ``facts`` says what a counted run took.
    """

    kind: str
    fields: list[tuple[str, str]] = field(default_factory=list)
    mistake: str = ""
    detail: str = ""
    values: tuple | None = None
    facts: str = ""

    def like(self, other: Outcome) -> bool:
        """Whether another answer behaved in the same way on the same case."""
        if self.kind != other.kind or self.detail != other.detail:
            return False
        if self.values is None or other.values is None:
            return self.values is other.values
        return all(
            text.wrong_kind(x, y) is None and text.same(x, y, 1e-9)
            for x, y in zip(self.values, other.values)
        )


def printed(ran: Ran) -> list[tuple[str, str]]:
    """The entry for what the answer printed, shortened."""
    lines = [text.clean(line) for line in ran.printed.strip().splitlines()]
    return [("printed", "\n".join(lines[:10]))] if lines else []


def failure(ran: Ran) -> Outcome | None:
    """The outcome of a call that did not come to its end."""
    error = ran.error
    if ran.timed_out:
        return Outcome(
            "timeout",
            [("got", "no answer within the time limit")],
            "A loop that never ends? Check that what it waits for comes.",
        )
    if error is None:
        return None
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
    what = text.clean(f"{type(error).__name__}: {message_of(error)}")
    return Outcome("raised", [("got", what + line_of(error))], detail=what)


def message_of(error: BaseException) -> str:
    """The text of an error, whose class may be the student's own."""
    try:
        return str(error)
    except Exception:
        return "(its message cannot be shown)"


def line_of(error: BaseException) -> str:
    """The line of the answer in which an error arose."""
    frames = traceback.extract_tb(error.__traceback__)[1:]
    own = [f for f in frames if f.line and not foreign(f.filename)]
    return f"\nin the line: {own[-1].line}" if own else ""


def foreign(filename: str) -> bool:
    """Whether a file is this package's or another library's."""
    package = str(Path(__file__).resolve().parent.parent)
    return filename.startswith((package, "<")) or "site-packages" in filename


def compare(
    returns, got, expected, tolerance, shown, *, scale: float = 0.0, numbers: bool = True
) -> Outcome:
    """Compare what came with what was expected, name by name.

    Parameters
    ----------
    returns : sequence of str
        Names of the results; several mean that ``got`` and ``expected`` are tuples.
    tolerance : float
        Relative to the largest expected number, or to ``scale`` if that is larger.
    shown : list
        Entries that stand first in the verdict.
    numbers : bool
        Whether the verdict may show numbers.
    """
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
            detail=text.what_is(got),
        )
    got, expected = (tuple(got), tuple(expected)) if several else ((got,), (expected,))
    for name, g, e in zip(returns, got, expected):
        if why := text.wrong_kind(g, e):
            return Outcome(
                "type", [*shown, ("got", text.named(name, g))], f"{name} {why}.", detail=name + why
            )
    bad = [
        (name, g, e)
        for name, g, e in zip(returns, got, expected)
        if not text.same(g, e, tolerance, scale)
    ]
    if not bad:
        return Outcome(RIGHT, values=got)
    return Outcome(
        "values",
        [*shown, *text.contrast(bad, tolerance, scale, numbers)],
        mistake_in_numbers(bad),
        values=got,
    )


def mistake_in_numbers(bad) -> str:
    """A mistake that shows in the numbers themselves."""
    for name, g, e in bad:
        if isinstance(e, str | bool | np.bool_):
            continue
        g, e = np.asarray(g, float), np.asarray(e, float)
        if np.isnan(g).any() and not np.isnan(e).any():
            return f"{name} holds NaN: somewhere inf - inf, 0 · inf or 0 / 0 was formed."
        if np.isposinf(g).any() and not np.isposinf(e).any():
            return f"{name} holds inf: an exponential overflowed, or something was divided by 0."
    return ""
