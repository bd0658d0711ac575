"""The pages around the chapters: each term explained, each exercise listed, each claim linked."""

import re
import sys

import nbformat
import pytest

from lecture_code import exercises
from tools.book import ROOT, notebook_paths
from tools.links import markdown_targets, problem_with, slug

BOOK = ROOT / "book"
LABELS = {"question", "predict", "run", "check", "goals", "prerequisites", "time", "hardware"}
# Bold that stresses a word or opens a case, and defines nothing.
STRESSED = {
    "a second kernel for $dq$",
    "about three times $d^2$",
    "above",
    "block-sparse",
    "books a",
    "books b",
    "bytes fall less than flop",
    "every",
    "gelu, softmax and layernorm",
    "in hbm",
    "keys",
    "large products",
    "measured",
    "memory",
    "more than $m$",
    "more",
    "not",
    "nothing about time",
    "proposition 3",
    "proposition 4",
    "quoted",
    "small products",
    "streaming kernels",
    "the teeth that remain",
    "they will differ from those on this page",
    "whole row",
}


def bold_terms(notebook) -> list[tuple[str, str]]:
    """(term, anchor of its section) of each bold piece of prose that is no label and no lead-in."""
    found, anchor = [], ""
    for cell in notebook.cells:
        if cell.cell_type != "markdown" or "exercise" in cell.metadata:
            continue
        text = re.sub(r"```.*?```", "", cell.source, flags=re.S)
        text = re.sub(r"`[^`\n]*`", "`code`", text)
        for match in re.finditer(
            r"^#{1,6} (.+?)\s*$|\*\*((?:[^*\n]|\n(?!\n))+?)\*\*", text, flags=re.M
        ):
            heading, bold = match.groups()
            if heading:
                anchor = slug(heading)
                continue
            before = text[text.rfind("\n", 0, match.start()) + 1 : match.start()]
            opens = re.fullmatch(r"\s*([-*]|\d+\.)?\s*", before)
            bold = " ".join(bold.split())
            ends = bold[-1] in ".:?!" or bold[0] in '"“' or text[match.end() :][:1] in (".", ":")
            sentence = " " in bold and bold.endswith(".")
            if not sentence and not (opens and ends) and bold.rstrip(".").lower() not in LABELS:
                found.append((bold, anchor))
    return found


def plain(term: str) -> str:
    """Lower case, each word without a plural s."""
    return " ".join(re.sub(r"(?<=[a-z]{2})s$", "", word) for word in term.lower().split())


def entries() -> list[tuple[str, str, str, str]]:
    """(term, Chinese, sentence, link) of each entry of the glossary."""
    text = (BOOK / "glossary.md").read_text(encoding="utf-8")
    chinese = r'<span lang="zh">(.+)</span>'
    form = rf"^\*\*(.+?)\*\* · {chinese}\n: (.+\.) \[Chapter \d+\]\((\S+)\)$"
    return re.findall(form, text, flags=re.M)


def names_of(term: str) -> set[str]:
    """What an entry explains: the term, and an abbreviation in brackets."""
    return {plain(name) for name in re.fullmatch(r"(.+?)(?: \((\w+)\))?", term).groups() if name}


@pytest.mark.parametrize("path", notebook_paths(), ids=lambda path: path.stem)
def test_every_bold_term_is_in_the_glossary(path):
    known = set().union(*(names_of(term) for term, *_ in entries()))
    terms = bold_terms(nbformat.read(path, as_version=4))
    assert [
        term
        for term, _ in terms
        if plain(term) not in known and plain(term) not in map(plain, STRESSED)
    ] == []


def test_glossary_links_lead_to_the_section_that_introduces_the_term():
    bold = {path.name: bold_terms(nbformat.read(path, as_version=4)) for path in notebook_paths()}
    for term, _, _, link in entries():
        assert problem_with(link, BOOK / "glossary.md") is None
        name, _, anchor = link.removeprefix("../notebooks/").partition("#")
        here = {plain(found) for found, where in bold[name] if where == anchor}
        here |= {plain(term)} if slug(term) == anchor else set()
        assert names_of(term) & here, f"{term} is not introduced at {link}"


def test_glossary_is_in_order_without_doubles_and_bilingual():
    text = (BOOK / "glossary.md").read_text(encoding="utf-8")
    terms = [term for term, *_ in entries()]
    assert len(terms) == len(re.findall(r"^: ", text, flags=re.M)) > 100
    assert terms == sorted(terms, key=str.lower)
    names = [name for term in terms for name in names_of(term)]
    assert len(names) == len(set(names))
    assert all(sentence.count(". ") <= 1 for _, _, sentence, _ in entries())


def test_a_bold_term_is_told_from_a_label_and_a_lead_in():
    source = '# T\n\n**Predict.** A **wave** is.\n\n- **Note.** x\n- **"No."** y\n- **Burst**, z'
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(source)])
    assert bold_terms(notebook) == [("wave", "t"), ("Burst", "t")]


@pytest.fixture
def index(monkeypatch):
    monkeypatch.syspath_prepend(str(BOOK / "_ext"))
    import exercise_index

    yield exercise_index
    sys.modules.pop("exercise_index")


def test_the_exercise_index_lists_every_exercise_of_the_chapters(index):
    shown, chapters = set(), {path.name[:2] for path in notebook_paths()}
    for path in notebook_paths():
        items = index.exercise_items(nbformat.read(path, as_version=4), path)
        assert len(items) >= 3
        for title, link, name in items:
            target = re.sub(rf"(?<=#{re.escape(slug(title))})-\d+$", "", link)
            assert problem_with(target, BOOK / "exercise_index.md") is None
            if name:
                assert exercises.exercise(name).title == title
                shown.add(name)
    written = {name for name in exercises.names() if exercises.exercise(name).chapter in chapters}
    assert shown == written


def test_the_index_tells_a_second_heading_of_the_same_name_apart(index):
    cells = ["# A", "## Waves", "## Exercises", "### Waves", "## Summary", "### Not one"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(c) for c in cells])
    items = index.exercise_items(notebook, ROOT / "notebooks" / "a.ipynb")
    assert items == [("Waves", "../notebooks/a.ipynb#waves-1", None)]


def test_the_index_says_how_an_answer_is_judged(index):
    counted = "| [T](l) | values, traffic and space on the chip |"
    assert index.table_row(("T", "l", "flash_forward")) == counted
    assert index.table_row(("T", "l", "mfu_of_a_run")) == "| [T](l) | values |"
    assert "nothing" in index.table_row(("T", "l", None))


@pytest.mark.parametrize(("page", "least"), [("summary", 10), ("pitfalls", 16)])
def test_each_claim_has_a_link_to_a_section(page, least):
    text = (BOOK / f"{page}.md").read_text(encoding="utf-8")
    items = re.findall(r"^(?:\d+\.|-) .+(?:\n {2,}.+)*", text, flags=re.M)
    assert len(items) >= least
    for item in items:
        links = [target for target in markdown_targets(item) if "/notebooks/" in target]
        assert links, item
        assert all("#" in target for target in links), item
