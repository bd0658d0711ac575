"""The frame itself: what an exercise must have, how it is found, what is printed."""

import dataclasses

import numpy as np
import pytest

from lecture_code import exercises
from lecture_code.exercises import Case, Exercise, _text, edited
from lecture_code.exercises._check import judge


def double(x):
    """Add to itself."""
    return 2 * x


def half(x):
    """Halved instead of doubled."""
    return x / 2


GOOD = {
    "chapter": "07",
    "title": "Double",
    "statement": "Return twice x.",
    "solution": double,
    "oracle": lambda x: x + x,
    "returns": ("y",),
    "cases": [Case("three", {"x": 3.0})],
    "wrong": {"half": half},
    "hints": ["Add it to itself."],
    "explanation": "Twice is x + x.",
}


def undocumented(x):
    return x


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cases": []}, "double has no cases: it would pass anything"),
        ({"wrong": {}}, "lists no wrong answer"),
        ({"oracle": double}, "oracle must differ from the solution"),
        ({"hints": []}, "needs hints"),
        ({"statement": ""}, "needs statement"),
        ({"wrong": {"a": undocumented}}, "wrong answer 'a' needs a docstring"),
        ({"solution": undocumented}, "the solution needs a docstring"),
        ({"cases": [Case("three", {"x": 3.0}, hint=2)]}, "there is no hint 2"),
    ],
)
def test_incomplete_exercise_is_an_error(change, message):
    with pytest.raises(ValueError, match=message):
        Exercise(**GOOD | change)


def test_hints_must_be_a_list():
    with pytest.raises(TypeError, match="lists of strings"):
        Exercise(**GOOD | {"hints": "one"})


def test_exercise_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Exercise(**GOOD).cases = []


def test_unknown_name_lists_close_ones():
    with pytest.raises(ValueError, match="did you mean .*online_softmax"):
        exercises.exercise("online_sofmax")
    with pytest.raises(ValueError, match="no exercise 'zzz'.*flash_forward"):
        exercises.check("zzz", half)


def test_edited_refuses_text_that_is_not_there_once():
    with pytest.raises(ValueError, match="'7 \\* x' must occur once in double, not 0 times"):
        edited(double, "message", {"7 * x": "x"})
    with pytest.raises(ValueError, match="must occur once in double, not 2 times"):
        edited(double, "message", {"x": "y"})


def test_solution_must_stand_alone():
    def leans(x):
        """Uses something of its module."""
        return GOOD

    with pytest.raises(ValueError, match=r"must stand alone, but uses \['GOOD'\]"):
        exercises._exercise.imports_of(leans)


def test_check_prints_once_and_returns_the_verdict(capsys):
    def online_softmax(x, block):
        raise NotImplementedError

    verdict = exercises.check("online_softmax", online_softmax)
    assert capsys.readouterr().out == verdict.text + "\n"
    assert repr(verdict) == "Verdict(name='online_softmax', status='not attempted')"
    # IPython shows what this prints in place of the repr: nothing
    verdict._ipython_display_()
    assert capsys.readouterr().out == ""


def test_hint_is_printed(capsys):
    exercises.hint("online_softmax", 2)
    first, *_ = capsys.readouterr().out.splitlines()
    assert first.startswith("Hint 2 of 4: l was summed relative to the old m.")
    with pytest.raises(ValueError, match="k must lie between 1 and 4 for online_softmax, got 9"):
        exercises.hint("online_softmax", 9)


def test_mistake_of_the_same_wrong_answer_is_named_for_other_code():
    def mine(x, block):
        largest, total = -np.inf, 0.0
        for start in range(0, len(x), block):
            part = x[start : start + block]
            largest = max(largest, part.max())
            total += np.exp(part - largest).sum()
        return largest, total

    exercise = exercises.exercise("online_softmax")
    verdict = exercises.check("online_softmax", mine)
    assert exercise.mistake("forgot to rescale") in " ".join(verdict.text.split())


def test_unknown_mistake_is_not_given_a_wrong_name():
    verdict = exercises.check("online_softmax", lambda x, block: (0.25, 0.75))
    assert verdict.status == "wrong" and "mistake" not in verdict.text


def test_mistake_that_would_have_failed_earlier_is_not_named():
    exercise = Exercise(
        **GOOD
        | {
            "cases": [Case("three", {"x": 3.0}), Case("four", {"x": 4.0})],
            "wrong": {"always 7": edited(double, "Always 7.", {"2 * x": "7.0"})},
        }
    )
    assert "Always 7." in judge(exercise, lambda x: 7.0).text
    late = judge(exercise, lambda x: 6.0 if x == 3 else 7.0)
    assert late.status == "wrong" and "Always 7." not in late.text


@pytest.mark.parametrize(
    ("got", "expected", "tolerance", "equal"),
    [
        (1.0, 1.0 + 1e-15, 1e-14, True),
        (1.0, 1.0 + 1e-12, 1e-14, False),
        (np.inf, np.inf, 1e-14, True),
        (np.inf, -np.inf, 1e-14, False),
        (np.nan, np.nan, 1e-14, True),
        (np.nan, 1.0, 1e-14, False),
        (1.0, np.nan, 1e-14, False),
        (2**62 + 1, 2**62, 1e-14, False),
        (3.0, 3, 1e-14, True),
        (np.array([1.0, 1e-20]), np.array([1.0, 0.0]), 1e-14, True),
        (np.zeros(0), np.zeros(0), 1e-14, True),
        ("memory", "memory", 1e-14, True),
        (True, False, 1e-14, False),
    ],
)
def test_comparison(got, expected, tolerance, equal):
    assert _text.same(got, expected, tolerance) is equal


def test_scale_is_for_results_that_cancel():
    assert not _text.same(1e-17, 0.0, 1e-15)
    assert _text.same(1e-17, 0.0, 1e-15, scale=1.0)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (-0.0, "0"),
        (1234567, "1,234,567"),
        (0.1 + 0.2, "0.3"),
        (np.array([1.0, 1e-17, -1e-17]), "[1, 0, 0]"),
        (np.zeros((0, 2)), "empty array of shape (0, 2)"),
        (np.zeros((99, 2)), "array of shape (99, 2)"),
        (np.array([True, False]), "[True, False]"),
        (("a", 1.5), "('a', 1.5)"),
        (object(), "<object object at 0x…>"),
    ],
)
def test_values_are_shown_without_rounding_errors_or_addresses(value, shown):
    assert _text.value(value) == shown


def test_derived_tolerance_is_of_the_size_of_rounding():
    assert exercises.rounding(0) == 8 * 2.0**-52
    assert exercises.rounding(100, 50) == (200 + 100 + 8) * 2.0**-52
    case = Case("row", {"x": np.array([3.0, -np.inf]), "block": 2})
    assert case.tolerance(case.make()) == exercises.rounding(2, 6)


def test_a_difference_beyond_six_digits_is_shown():
    bad = [("l", 1.13534 * (1 + 1e-6), 1.13534), ("m", np.array([1.0, np.inf]), np.ones(2))]
    entries = dict(_text.contrast(bad, 1e-12, 0.0, True))
    assert entries["got"] == "l = 1.13534, off by 1e-06\nm = [1, inf]"
    assert entries["expected"] == "l = 1.13534\nm = [1, 1]"
