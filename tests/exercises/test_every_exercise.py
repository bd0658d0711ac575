"""Every exercise: skeleton not attempted, solution right, each wrong answer refused by name."""

import ast
import re
from functools import cache

import pytest

from lecture_code import exercises
from lecture_code.exercises._check import judge

NAMES = exercises.names()
WRONG = [(name, label) for name in NAMES for label in exercises.exercise(name).wrong]


def defined(source: str, name: str):
    """The function that a cell defines, as a notebook would make it."""
    scope = {"__name__": "__main__"}
    exec(compile(source, "<cell>", "exec"), scope)
    return scope[name]


@cache
def refused(name: str, label: str):
    """The verdict on a wrong answer."""
    exercise = exercises.exercise(name)
    return judge(exercise, exercise.wrong[label])


def plain(text: str) -> str:
    """A verdict without its line breaks."""
    return " ".join(text.split())


def assert_readable(text: str) -> None:
    """No address, no path, no line too long to read, nothing that overflows a screen."""
    assert not re.search(r"0x[0-9a-f]{4}", text)
    assert "/work" not in text and "site-packages" not in text and "<cell>" not in text
    assert max(map(len, text.splitlines())) <= 120
    assert len(text.splitlines()) <= 50


def test_there_are_exercises():
    assert len(NAMES) >= 11 and sorted(NAMES) == NAMES
    assert not any(name.startswith("_") for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_skeleton_is_not_attempted(name):
    source = exercises.skeleton(name)
    verdict = judge(exercises.exercise(name), defined(source, name))
    assert verdict.status == "not attempted"
    assert_readable(verdict.text)
    # the skeleton is the head of the solution
    head, _, tail = source.rpartition("    raise NotImplementedError")
    assert not tail and exercises.solution(name).startswith(head)


@pytest.mark.parametrize("name", NAMES)
def test_solution_is_right(name):
    exercise = exercises.exercise(name)
    verdict = judge(exercise, defined(exercises.solution(name), name))
    assert verdict.status == "right", verdict.text
    assert verdict
    assert_readable(verdict.text)
    assert all(case.label in verdict.text for case in exercise.cases)
    assert verdict.text == judge(exercise, exercise.solution).text


@pytest.mark.parametrize(("name", "label"), WRONG, ids=lambda part: part.replace(" ", "-"))
def test_wrong_answer_is_refused_with_its_message(name, label):
    exercise = exercises.exercise(name)
    verdict = refused(name, label)
    assert verdict.status == "wrong" and not verdict
    assert exercise.mistake(label) in plain(verdict.text), verdict.text
    assert_readable(verdict.text)


@pytest.mark.parametrize("name", NAMES)
def test_verdict_is_the_same_each_time(name):
    exercise = exercises.exercise(name)
    # one wrong answer for each case that refuses some
    first = {refused(name, label).text.splitlines()[1]: label for label in exercise.wrong}
    for label in first.values():
        assert judge(exercise, exercise.wrong[label]).text == refused(name, label).text


@pytest.mark.parametrize("name", NAMES)
def test_texts_are_complete(name):
    exercise = exercises.exercise(name)
    assert re.fullmatch(r"\d\d", exercise.chapter)
    assert len(exercises.statement(name).split()) >= 20
    assert exercises.hints(name) == list(exercise.hints)
    labels = [case.label for case in exercise.cases]
    assert len(set(labels)) == len(labels)
    messages = [exercise.mistake(label) for label in exercise.wrong]
    assert len(set(messages)) == len(messages)
    assert len(exercise.cases) >= 2 and len(exercise.wrong) >= 2


@pytest.mark.parametrize("name", NAMES)
def test_skeleton_cell_is_clean(name):
    tree = ast.parse(exercises.skeleton(name))
    *imports, function = tree.body
    assert all(isinstance(node, ast.Import | ast.ImportFrom) for node in imports)
    assert function.name == name
    body = function.body
    assert ast.get_docstring(function) and len(body) == 2 and isinstance(body[1], ast.Raise)


@pytest.mark.parametrize("name", NAMES)
def test_solution_folds_in_every_front_end(name):
    markdown = exercises.solution_markdown(name)
    opened, closed = markdown.count("<details>"), markdown.count("</details>")
    assert opened == closed == len(exercises.hints(name)) + 1
    assert markdown.count("</summary>\n\n") == opened
    assert markdown.count("\n\n</details>") == closed
    assert f"```python\n{exercises.solution(name)}\n```" in markdown
