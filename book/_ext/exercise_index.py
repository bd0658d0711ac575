"""The exercise index: a directive that reads the chapters and ``lecture_code.exercises``."""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path

import nbformat
from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

from lecture_code import exercises  # noqa: E402
from tools.book import notebook_paths  # noqa: E402
from tools.links import slug  # noqa: E402


class ExerciseIndex(SphinxDirective):
    """A table for each chapter: its exercises, and how each is judged."""

    def run(self) -> list[nodes.Node]:
        self.env.note_reread()
        section = nodes.section()
        section.document = self.state.document
        self.state.nested_parse(
            StringList(index_lines(), source="exercise-index"),
            self.content_offset,
            section,
            match_titles=1,
        )
        return section.children


def index_lines() -> list[str]:
    """Markdown of the whole index."""
    lines = []
    for path in notebook_paths():
        notebook = nbformat.read(path, as_version=4)
        rows = [row for row in map(table_row, exercise_items(notebook, path)) if row]
        if rows:
            title = notebook.cells[0].source.splitlines()[0].lstrip("# ")
            lines += [f"## {title}", "", "| exercise | checked for |", "|---|---|"]
            lines += [*rows, ""]
    return lines


def exercise_items(notebook, path: Path) -> list[tuple[str, str, str | None]]:
    """(title, link, name or None) of each heading below "Exercises"; None: no function to write."""
    items, inside, met = [], False, Counter()
    for cell in notebook.cells:
        if cell.cell_type != "markdown":
            continue
        text = re.sub(r"```.*?```", "", cell.source, flags=re.S)
        for marks, title in re.findall(r"^(#{1,6}) (.+?)\s*$", text, flags=re.M):
            anchor = slug(title) + (f"-{met[slug(title)]}" if met[slug(title)] else "")
            met[slug(title)] += 1
            if marks == "##":
                inside = title == "Exercises"
            elif inside and marks == "###":
                link = f"../notebooks/{path.name}#{anchor}"
                items.append((title, link, cell.metadata.get("exercise")))
    return items


def table_row(item: tuple[str, str, str | None]) -> str:
    """One row: the linked title, and how an answer is judged."""
    title, link, name = item
    return f"| [{title}]({link}) | {judged_by(name)} |"


def judged_by(name: str | None) -> str:
    """What the check of an exercise looks at."""
    if name is None:
        return "nothing, on paper"
    if any(isinstance(c, exercises.CountedCase) for c in exercises.exercise(name).cases):
        return "values, traffic and space on the chip"
    return "values"


def setup(app: Sphinx) -> dict:
    """Register with Sphinx."""
    app.add_directive("exercise-index", ExerciseIndex)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
