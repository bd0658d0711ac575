"""Every part of the source documents has its place in the book, and the place exists."""

import re
import tomllib

import pytest

from tools.book import ROOT
from tools.links import problem_with

TABLE = tomllib.loads((ROOT / "tests" / "sources.toml").read_text(encoding="utf-8"))
PLANNED = TABLE["planned"]
PLACES = {
    f"{document}, {part}": places
    for document, parts in TABLE.items()
    if document != "planned"
    for part, places in parts.items()
    if part != "document"
}


def numbers(document: str, kind: str) -> list[str]:
    """Numbers of the document's parts of one kind, in order."""
    found = [re.match(rf"{kind} ([\d.]+):", part) for part in TABLE[document]]
    return [match[1] for match in found if match]


def count(last: int) -> list[str]:
    return [str(number) for number in range(1, last + 1)]


@pytest.mark.parametrize("part", PLACES)
def test_each_place_exists(part):
    assert PLACES[part]
    for place in PLACES[part]:
        if place not in PLANNED:
            assert problem_with(place, ROOT / "any") is None


def test_what_is_planned_is_still_missing():
    assert [place for place in PLANNED if (ROOT / place).exists()] == []


def test_the_lecture_is_whole():
    subsections = {0: 5, 1: 3, 2: 5, 3: 4, 4: 4, 5: 8, 6: 3, 7: 4, 8: 5}
    expected = [f"{top}.{sub}" for top, last in subsections.items() for sub in count(last)]
    assert numbers("lecture", "section") == [*expected, "9", "12", "13"]
    assert numbers("lecture", "pitfall") == count(9)
    assert numbers("lecture", "exercise") == count(12)
    for script, demos in {"01": 4, "02": 5, "03": 5, "04": 6}.items():
        assert numbers("lecture", f"code {script} demo") == count(demos)


def test_the_gpu_lecture_is_whole():
    subsections = [*(f"2.{n}" for n in count(7)), "3", "4", *(f"5.{n}" for n in count(6))]
    expected = ["1", *subsections, *(f"6.{n}" for n in count(4)), "7"]
    assert numbers("gpu_lecture", "section") == expected
    assert numbers("gpu_lecture", "note") == count(8)


def test_the_exhibit_is_whole():
    assert numbers("exhibit", "section") == [number.zfill(2) for number in count(14)]
    assert numbers("exhibit", "misunderstanding") == count(7)
    assert numbers("exhibit", "question") == count(5)
    assert sum(part.startswith("left out: ") for part in TABLE["exhibit"]) == 5


def test_each_exercise_of_the_lecture_is_one_of_the_book():
    for part, places in TABLE["lecture"].items():
        if part.startswith("exercise"):
            assert all(place.startswith("notebooks/") for place in places)
