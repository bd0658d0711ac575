"""From an answer to a verdict: run the cases, stop at the first that fails, name the mistake."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass, field

from . import _text as text
from ._exercise import Exercise
from ._outcome import NOT_ATTEMPTED, RIGHT, Outcome
from ._scan import objection

WRONG = "wrong"
WRONG_ANSWER_LIMIT_S = 10.0


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


def judge(exercise: Exercise, function, limit_s: float = 10.0) -> Verdict:
    """The verdict on an answer. Prints nothing.

    Parameters
    ----------
    exercise : Exercise
    function : callable
    limit_s : float
        Seconds for all cases together.
    """
    if not callable(function):
        raise TypeError(
            f"function must be your function itself, as in "
            f"check({exercise.name!r}, {exercise.name}); got {text.what_is(function)}"
        )
    if why := objection(function, allow=exercise.allow, counted=exercise.counted):
        return Verdict(exercise.name, WRONG, refused(exercise, why))
    end, salt = time.monotonic() + limit_s, secrets.randbits(64)
    for position, case in enumerate(exercise.cases):
        outcome = case.attempt(exercise, function, end - time.monotonic(), salt)
        if outcome.kind == NOT_ATTEMPTED and position == 0:
            return Verdict(exercise.name, NOT_ATTEMPTED, not_attempted(exercise))
        if outcome.kind != RIGHT:
            ended = outcome.kind != "timeout"
            label = diagnose(exercise, function, position, outcome, end, salt) if ended else None
            return Verdict(exercise.name, WRONG, explain(exercise, position, outcome, label))
    return Verdict(exercise.name, RIGHT, praise(exercise, outcome))


def not_attempted(exercise: Exercise) -> str:
    """Text of the first verdict."""
    return (
        f"{exercise.name}: not attempted\n"
        "  Replace `raise NotImplementedError` by your answer, run the cell, then this check.\n"
        f'  First hint: hint("{exercise.name}", 1)'
    )


def refused(exercise: Exercise, why: str) -> str:
    """Text for an answer that is not run."""
    tools = "numpy, math and the chip" if exercise.counted else "your own code"
    return "\n".join(
        [
            f"{exercise.name}: wrong",
            text.prose("got", f"an answer that uses {why}"),
            text.prose("expected", f"an answer made of {tools} alone"),
        ]
    )


def praise(exercise: Exercise, last: Outcome) -> str:
    """Text for a right answer: what was verified."""
    count = len(exercise.cases)
    values = f"{', '.join(exercise.returns)} in {count} case{'s' * (count > 1)}"
    cases = "\n".join(f"- {case.label}" for case in exercise.cases)
    lines = [f"{exercise.name}: right", text.field("values", f"{values}\n{cases}")]
    if last.facts:
        lines.append(text.field("counted", last.facts))
    return "\n".join(lines)


def explain(exercise: Exercise, position: int, outcome: Outcome, label: str | None) -> str:
    """Text for a wrong answer."""
    case, count = exercise.cases[position], len(exercise.cases)
    lines = [
        f"{exercise.name}: wrong",
        text.field("case", f"{position + 1} of {count}, {case.label}"),
    ]
    lines += [text.field(name, content) for name, content in outcome.fields]
    if message := exercise.mistake(label) if label else outcome.mistake:
        lines.append(text.prose("mistake", message))
    k = getattr(exercise.wrong.get(label), "hint", case.hint)
    lines.append(text.prose(f"hint {k}", exercise.hints[k - 1]))
    if k < len(exercise.hints):
        lines.append(text.field("", f'next: hint("{exercise.name}", {k + 1})'))
    return "\n".join(lines)


def diagnose(exercise, function, position, outcome, end, salt) -> str | None:
    """The wrong answer that behaves like this one: right on the same first cases, alike on the case
    that failed and, as long as several remain, on the cases after it.
    """

    def wrong(label, case):
        return case.attempt(exercise, exercise.wrong[label], WRONG_ANSWER_LIMIT_S, salt)

    suspects = [
        label
        for label in exercise.wrong
        if all(wrong(label, case).kind == RIGHT for case in exercise.cases[:position])
        and wrong(label, exercise.cases[position]).like(outcome)
    ]
    for case in exercise.cases[position + 1 :]:
        left = end - time.monotonic()
        if len(suspects) < 2 or left <= 0:
            break
        outcome = case.attempt(exercise, function, left, salt)
        suspects = [label for label in suspects if wrong(label, case).like(outcome)] or suspects
    return suspects[0] if suspects else None
