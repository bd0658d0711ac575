"""What the site adds to Jupyter Book: the status page, clean pages, and links when published."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import nbformat
from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

from tools.book import address  # noqa: E402

SHOWN_PACKAGES = (
    "numpy",
    "torch",
    "triton",
    "matplotlib",
    "ipywidgets",
    "anywidget",
    "jupyter-book",
    "nbval",
)


class BookStatus(SphinxDirective):
    """Tables of versions, chapters and measurements, read from the repository."""

    def run(self) -> list[nodes.Node]:
        self.env.note_reread()
        lines = [*versions(), "", *chapters(), "", *records()]
        section = nodes.section()
        section.document = self.state.document
        self.state.nested_parse(
            StringList(lines, source="book-status"), self.content_offset, section, match_titles=1
        )
        return section.children


def versions() -> list[str]:
    """Pinned versions of what the numbers depend on."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pins = dict(re.findall(r"^([\w.-]+)==(\S+)", (ROOT / "constraints.txt").read_text(), re.M))
    rows = [f"| {name} | {pins[name]} |" for name in SHOWN_PACKAGES]
    return [
        "## Versions",
        "",
        f"This is version {project['version']} of the book. Its outputs come from these versions.",
        "",
        "| package | version |",
        "|---|---|",
        f"| Python | {project['requires-python']} |",
        *rows,
    ]


def chapters() -> list[str]:
    """One row for each chapter: its size, and when its outputs were last saved."""
    lines = [
        "## Chapters",
        "",
        "Every chapter is executed again, and its outputs compared, before each publication.",
        "",
        "| chapter | code cells | outputs | last saved |",
        "|---|--:|--:|---|",
    ]
    for path in sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        code = [cell for cell in notebook.cells if cell.cell_type == "code"]
        title = notebook.cells[0].source.splitlines()[0].lstrip("# ")
        outputs = sum(bool(cell.outputs) for cell in code)
        link = f"[{title}](../notebooks/{path.name})"
        lines.append(f"| {link} | {len(code)} | {outputs} | {last_commit_date(path)} |")
    return lines


def records() -> list[str]:
    """One row for each file of measurements."""
    paths = sorted((ROOT / "lecture_code" / "records").glob("*.json"))
    if not paths:
        return []
    lines = [
        "## Measurements",
        "",
        "Numbers measured on other machines come from these files.",
        "",
        "| record | device | date |",
        "|---|---|---|",
    ]
    for path in paths:
        record = json.loads(path.read_text(encoding="utf-8"))
        made = record.get("provenance", record)
        device, date = made.get("device", "not said"), made.get("date", "not said")
        lines.append(f"| [{path.stem}](../lecture_code/records/{path.name}) | {device} | {date} |")
    return lines


def last_commit_date(path: Path) -> str:
    """Day of the last commit that touched the file."""
    command = ["git", "log", "-1", "--format=%cs", "--", str(path)]
    try:
        found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown outside git"
    return found.stdout.strip() or "not committed"


def clean_scripts(app: Sphinx, pagename, templatename, context, doctree) -> None:
    """Keep each script once, and none of two extensions that the book does not use."""
    kept, seen = [], set()
    for script in context.get("script_files", []):
        body = getattr(script, "attributes", {}).get("body") or ""
        key = (str(getattr(script, "filename", script)), body)
        unused = any(word in "".join(key).lower() for word in ("thebe", "toggle"))
        if unused or key in seen:
            continue
        seen.add(key)
        kept.append(script)
    context["script_files"] = kept


def silence_theme(app: Sphinx, exception) -> None:
    """Remove the theme's notes to the browser's console, so that a real message stands out."""
    path = Path(app.outdir) / "_static" / "scripts" / "pydata-sphinx-theme.js"
    if exception is None and path.exists():
        script = path.read_text(encoding="utf-8")
        path.write_text(script.replace("console.log(", "void("), encoding="utf-8")


def use_address(app: Sphinx, config) -> None:
    """With a public address: a repository button, canonical links, a site map."""
    where = address(ROOT)
    config.html_theme_options["use_repository_button"] = bool(where.url)
    if where.on_github:
        config.html_baseurl = config.ogp_site_url = where.pages_url
        config.ogp_site_name = config.html_title
        config.ogp_social_cards = {"enable": False}
        config.sitemap_url_scheme = "{link}"


def setup(app: Sphinx) -> dict:
    """Register with Sphinx."""
    if address(ROOT).on_github:
        app.setup_extension("sphinxext.opengraph")
        app.setup_extension("sphinx_sitemap")
    app.add_directive("book-status", BookStatus)
    app.connect("config-inited", use_address, priority=100)
    app.connect("html-page-context", clean_scripts, priority=900)
    app.connect("build-finished", silence_theme)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
