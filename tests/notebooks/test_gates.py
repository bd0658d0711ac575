"""What every committed chapter must be, before its outputs are worth comparing."""

import re

import nbformat
import pytest

from tools.book import ROOT, address, notebook_paths, setup_source
from tools.links import markdown_targets, problem_with
from tools.notebooks import canonical, generated_source, tags

PATHS = notebook_paths()
MAX_LINES = 20
HEADER = ("**Goals.**", "**Prerequisites.**", "**Time.**", "**Hardware.**")
STEPS = ("**Question.**", "**Predict.**", "**Run.**", "**Check.**")
ENDING = ["Exercises", "Summary", "Pitfalls", "References"]
IMAGES = ("image/png", "image/svg+xml", "image/jpeg")
VIEW = "application/vnd.jupyter.widget-view+json"
STATE = "application/vnd.jupyter.widget-state+json"
KNOWN_TAGS = {
    "setup",
    "statement",
    "skeleton",
    "check",
    "solution",
    "hide-input",
    "raises-exception",
    "nbval-ignore-output",
}


@pytest.fixture(params=PATHS, ids=lambda path: path.stem)
def path(request):
    """One chapter's file."""
    return request.param


@pytest.fixture
def notebook(path):
    """One chapter."""
    return nbformat.read(path, as_version=4)


def code_cells(notebook):
    """Pairs of index and code cell."""
    return [(i, cell) for i, cell in enumerate(notebook.cells) if cell.cell_type == "code"]


def prose(notebook):
    """All Markdown of a chapter, without its code blocks."""
    text = "\n\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    return re.sub(r"```.*?```", "", text, flags=re.S)


def text_of(output):
    """All that one output says in text."""
    if output.output_type == "stream":
        return output.text
    if output.output_type == "error":
        return "\n".join(output.traceback)
    return "\n".join(str(v) for k, v in output.data.items() if k.startswith("text/"))


def test_is_valid_and_in_canonical_form(path, notebook):
    nbformat.validate(notebook)
    written = nbformat.writes(canonical(notebook, path.stem)) + "\n"
    assert path.read_text(encoding="utf-8") == written, "run `make notebook NB=..` to save it"


def test_every_code_cell_was_executed_in_order(notebook):
    counts = [cell.execution_count for _, cell in code_cells(notebook)]
    assert counts == list(range(1, len(counts) + 1))
    assert counts


def test_no_cell_failed(notebook):
    for index, cell in code_cells(notebook):
        failed = [out for out in cell.outputs if out.output_type == "error"]
        if "raises-exception" in tags(cell):
            assert failed, f"cell {index} is tagged raises-exception and raised nothing"
        else:
            assert not failed, f"cell {index}: {failed[0].ename}: {failed[0].evalue}"


def test_no_cell_warned(notebook):
    for index, cell in code_cells(notebook):
        for output in cell.outputs:
            warned = output.output_type == "stream" and output.name == "stderr"
            assert not warned, f"cell {index} wrote to stderr: {output.text[:200]}"


def test_cells_are_short(notebook):
    long = {
        index: len(cell.source.splitlines())
        for index, cell in code_cells(notebook)
        if len(cell.source.splitlines()) > MAX_LINES and "skeleton" not in tags(cell)
    }
    assert not long, f"lines by cell: {long}; at most {MAX_LINES}"


def test_no_cell_is_empty(notebook):
    empty = [index for index, cell in enumerate(notebook.cells) if not cell.source.strip()]
    assert not empty


def test_tags_are_known(notebook):
    for index, cell in enumerate(notebook.cells):
        unknown = set(tags(cell)) - KNOWN_TAGS
        assert not unknown, f"cell {index}"


def test_ignored_outputs_are_few_and_say_why(notebook):
    ignored = [cell for _, cell in code_cells(notebook) if "nbval-ignore-output" in tags(cell)]
    assert len(ignored) <= 3
    for cell in ignored:
        assert cell.metadata.get("reason"), cell.source


def test_widgets_have_their_state(notebook):
    models = notebook.metadata.get("widgets", {}).get(STATE, {}).get("state", {})
    for index, cell in code_cells(notebook):
        for output in cell.outputs:
            if VIEW in output.get("data", {}):
                assert output.data[VIEW]["model_id"] in models, f"cell {index}"


def test_images_have_alt_text_and_a_caption(notebook):
    for index, cell in code_cells(notebook):
        if any(kind in output.get("data", {}) for output in cell.outputs for kind in IMAGES):
            shown = cell.metadata.get("mystnb", {})
            assert len(shown.get("image", {}).get("alt", "")) >= 20, f"cell {index}: alt text"
            assert len(shown.get("figure", {}).get("caption", "")) >= 20, f"cell {index}: caption"
    for alt, target in re.findall(r"!\[([^\]]*)\]\(([^)]*)\)", prose(notebook)):
        assert len(alt) >= 20, f"alt text of {target}"


def test_header_says_what_a_reader_needs(path, notebook):
    first = notebook.cells[0]
    assert first.cell_type == "markdown"
    title = re.match(r"# (\d+)\. \S", first.source)
    assert title, "the first line is `# 7. Title`"
    assert int(title[1]) == int(path.name[:2])
    missing = [line for line in HEADER if line not in first.source]
    assert not missing
    assert len(re.findall(r"^# ", prose(notebook), flags=re.M)) == 1


def test_setup_is_the_first_code_cell(notebook):
    setups = [index for index, cell in code_cells(notebook) if "setup" in tags(cell)]
    assert setups == [code_cells(notebook)[0][0]]


def test_sections_ask_predict_run_and_check(notebook):
    sections = re.split(r"^## ", prose(notebook), flags=re.M)[1:]
    found = [
        [step for step in re.findall(r"\*\*\w+\.\*\*", section) if step in STEPS]
        for section in sections
    ]
    whole = [steps for steps in found if steps[: len(STEPS)] == list(STEPS)]
    assert len(whole) >= 3, [section.splitlines()[0] for section in sections]


def test_ends_with_exercises_summary_pitfalls_references(notebook):
    headings = re.findall(r"^## (.+?)\s*$", prose(notebook), flags=re.M)
    assert headings[-len(ENDING) :] == ENDING


def test_each_exercise_has_skeleton_check_and_solution(notebook):
    names = {}
    for kind in ("skeleton", "check", "solution"):
        names[kind] = [
            cell.metadata.get("exercise") for cell in notebook.cells if kind in tags(cell)
        ]
    assert len(names["skeleton"]) >= 3
    assert len(set(names["skeleton"])) == len(names["skeleton"])
    assert names["skeleton"] == names["check"] == names["solution"]


def test_an_untouched_exercise_is_not_attempted(notebook):
    for index, cell in code_cells(notebook):
        if "check" in tags(cell):
            said = "".join(text_of(output) for output in cell.outputs).lower()
            assert "not attempted" in said, f"cell {index}"


def test_generated_cells_are_in_sync(notebook):
    where = address()
    for index, cell in enumerate(notebook.cells):
        source = generated_source(cell, where)
        assert source in (None, cell.source), f"cell {index} drifted: run `make sync`"


def test_folded_text_has_blank_lines_inside(notebook):
    for index, cell in enumerate(notebook.cells):
        if cell.cell_type == "markdown" and "<details" in cell.source:
            assert re.search(r"</summary>\n\n", cell.source), f"cell {index}: after </summary>"
            assert re.search(r"\n\n</details>", cell.source), f"cell {index}: before </details>"


def test_markdown_is_portable(notebook):
    for index, cell in enumerate(notebook.cells):
        if cell.cell_type == "markdown":
            myst = re.search(r"^(```|:::)\{|\{(ref|cite|doc|numref|eq)[:\w]*\}`", cell.source, re.M)
            assert not myst, f"cell {index} uses {myst[0] if myst else ''}, which only MyST reads"


def test_links_lead_somewhere(path, notebook):
    for target in markdown_targets(prose(notebook)):
        assert problem_with(target, path) is None


def test_nothing_names_a_place_on_this_machine(path):
    text = path.read_text(encoding="utf-8")
    found = re.search(r"(?<![\w.])(/home/|/Users/|/root/|/tmp/|/var/|[A-Z]:\\\\)", text)
    assert found is None, found
    assert str(ROOT) not in text


def test_no_two_chapters_claim_one_exercise():
    owners = {}
    for path in PATHS:
        for cell in nbformat.read(path, as_version=4).cells:
            if "skeleton" in tags(cell):
                owners.setdefault(cell.metadata["exercise"], []).append(path.name)
    assert all(len(where) == 1 for where in owners.values()), owners


def test_setup_source_says_to_clone_or_where_from():
    from tools.book import Address

    assert "Clone the book" in setup_source(Address("", "v1"))
    published = setup_source(Address("https://host.example/owner/name", "v1"))
    assert "--no-deps" in published
    assert "git+https://host.example/owner/name@v1" in published
    for word in ("numpy", "torch", "ipywidgets"):
        assert word not in published
