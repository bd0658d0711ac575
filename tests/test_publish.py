"""The repository's address: one place, two states, and back again."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from tools.book import ROOT, address
from tools.check_files import repository_files
from tools.publish import check, cleaned, publish

URL = "https://github.com/some-owner/some-book"
SHOWN = ("pyproject.toml", "_config.yml", "README.md", "CITATION.cff")


def small_chapter(path: Path) -> None:
    """A chapter with a setup cell and an output."""
    code = nbformat.v4.new_code_cell("", metadata={"tags": ["setup"]}, id="setup")
    code.execution_count = 1
    head = nbformat.v4.new_markdown_cell("# 1. A small chapter", id="head")
    path.parent.mkdir(exist_ok=True)
    nbformat.write(nbformat.v4.new_notebook(cells=[head, code]), path)


@pytest.fixture
def copy(tmp_path):
    """What shows the address, in a folder of its own, with no address yet."""
    for name in SHOWN:
        shutil.copy(ROOT / name, tmp_path / name)
    small_chapter(tmp_path / "notebooks" / "01_small.ipynb")
    publish(tmp_path, "")
    return tmp_path


def contents(folder):
    """Text of all files."""
    return {p: p.read_text("utf-8") for p in sorted(folder.rglob("*")) if p.is_file()}


def test_without_an_address_nothing_points_anywhere(copy):
    assert address(copy).url == ""
    assert check(copy) == []
    assert "launch_buttons:" not in (copy / "_config.yml").read_text()
    assert 'url: ""' in (copy / "_config.yml").read_text()
    assert "badge" not in (copy / "README.md").read_text()
    assert "repository-code" not in (copy / "CITATION.cff").read_text()
    assert "Clone the book" in (copy / "notebooks" / "01_small.ipynb").read_text()


def test_with_an_address_everything_shows_it(copy):
    changed = publish(copy, URL)
    assert set(changed) == {"_config.yml", "README.md", "CITATION.cff", "01_small.ipynb"}
    assert check(copy) == []
    assert address(copy).pages_url == "https://some-owner.github.io/some-book/"
    config = (copy / "_config.yml").read_text()
    assert f'url: "{URL}"' in config
    assert "colab_url" in config
    assert f"{URL}/actions/workflows/tests.yml/badge.svg" in (copy / "README.md").read_text()
    assert f"git clone {URL}" in (copy / "README.md").read_text()
    assert f'repository-code: "{URL}"' in (copy / "CITATION.cff").read_text()
    chapter = json.loads((copy / "notebooks" / "01_small.ipynb").read_text())
    setup = "".join(chapter["cells"][1]["source"])
    assert f'--no-deps "git+{URL}@{address(copy).tag}"' in setup


def test_removing_the_address_gives_the_same_files_again(copy):
    before = contents(copy)
    publish(copy, URL)
    assert contents(copy) != before
    publish(copy, "")
    assert contents(copy) == before


def test_another_host_gets_no_colab_button(copy):
    publish(copy, "https://git.example.org/owner/book")
    assert "launch_buttons:" not in (copy / "_config.yml").read_text()
    assert "badge" not in (copy / "README.md").read_text()
    assert "git clone https://git.example.org/owner/book" in (copy / "README.md").read_text()


def test_a_file_out_of_step_is_found(copy):
    publish(copy, URL)
    path = copy / "README.md"
    path.write_text(path.read_text().replace("some-owner", "another-owner"))
    assert check(copy) == ["README.md"]


@pytest.mark.parametrize("given", [URL, URL + "/", URL + ".git", f"  {URL} "])
def test_address_is_cleaned(given):
    assert cleaned(given) == URL


@pytest.mark.parametrize(
    "given", ["owner/book", "http://a.b/c/d", "https://a.b/c", 'https://a.b/c/d"']
)
def test_what_is_no_address_is_refused(given):
    with pytest.raises(ValueError, match="URL must look like"):
        cleaned(given)


def test_a_published_site_builds_and_offers_its_chapters(tmp_path):
    pytest.importorskip("jupyter_book")
    for source in repository_files(ROOT):
        name = source.relative_to(ROOT)
        if name.parts[0] in ("book", "tools", "_config.yml", *SHOWN) or len(name.parts) == 1:
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, tmp_path / name)
    small_chapter(tmp_path / "notebooks" / "01_small.ipynb")
    # the real first page leads to chapters that this small book does not have
    (tmp_path / "book" / "preface.md").write_text("# A small book\n")
    (tmp_path / "_toc.yml").write_text(
        "format: jb-book\nroot: book/preface\nchapters:\n"
        "  - file: book/notation\n  - file: book/references\n"
        "  - file: book/status\n  - file: notebooks/01_small\n"
    )
    publish(tmp_path, URL)
    command = [Path(sys.executable).parent / "jupyter-book", "build", ".", "-W", "-n", "-q"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    html = tmp_path / "_build" / "html"
    chapter = (html / "notebooks" / "01_small.html").read_text()
    opened = "some-owner/some-book/blob/main/notebooks/01_small.ipynb"
    assert f"https://colab.research.google.com/github/{opened}" in chapter
    assert f'href="{URL}"' in chapter
    assert 'property="og:title"' in chapter
    assert (
        "https://some-owner.github.io/some-book/notebooks/01_small.html"
        in (html / "sitemap.xml").read_text()
    )
