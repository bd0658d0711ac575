"""Links in the Markdown files around the chapters."""

import pytest

from tools.book import ROOT
from tools.links import markdown_targets, problem_with, slug

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "book").glob("*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in markdown_targets(page.read_text(encoding="utf-8")):
        assert problem_with(target, page) is None


def test_a_link_to_nothing_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# One heading\n\n[a](#one-heading) [b](none.md) [c](#two) `[d](no)`\n")
    found = [problem_with(target, page) for target in markdown_targets(page.read_text())]
    assert found[0] is None
    assert "no file" in found[1]
    assert "no heading" in found[2]
    assert len(found) == 3


def test_slug_is_githubs():
    assert slug("Merging two blocks: (m, l)!") == "merging-two-blocks-m-l"
