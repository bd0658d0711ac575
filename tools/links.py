"""Links in Markdown: which there are, and whether each leads to something in the repository."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

import nbformat


def markdown_targets(text: str) -> list[str]:
    """Targets of all links and images, in order; code is skipped."""
    text = re.sub(r"```.*?```", "", text, flags=re.S)
    text = re.sub(r"`[^`\n]*`", "", text)
    inline = re.findall(r"\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)", text)
    html = re.findall(r"(?:href|src)=\"([^\"]+)\"", text)
    return inline + html


def headings(path: Path) -> list[str]:
    """Anchors of a page's headings, as GitHub and the site form them."""
    if path.suffix == ".ipynb":
        cells = nbformat.read(path, as_version=4).cells
        text = "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    else:
        text = path.read_text(encoding="utf-8")
    text = re.sub(r"```.*?```", "", text, flags=re.S)
    return [slug(title) for title in re.findall(r"^#{1,6} (.+?)\s*$", text, flags=re.M)]


def slug(title: str) -> str:
    """GitHub's form of a heading."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def problem_with(target: str, page: Path) -> str | None:
    """Why a link on ``page`` is wrong, or None; addresses on the network are not visited."""
    if re.match(r"(https?|mailto):", target):
        return None
    if target.startswith("/"):
        return f"{page.name}: {target} is absolute"
    name, _, anchor = target.partition("#")
    file = page if not name else (page.parent / unquote(name)).resolve()
    if not file.exists():
        return f"{page.name}: {target} leads to no file"
    if anchor and file.suffix in (".md", ".ipynb") and anchor not in headings(file):
        return f"{page.name}: {target} leads to no heading"
    return None
