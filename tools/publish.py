"""Write the repository's public address everywhere it is shown, or check that it is.

    python tools/publish.py https://github.com/owner/name
    python tools/publish.py ""        # no address: no button, no badge, no link
    python tools/publish.py --check

The address lives in pyproject.toml; all else is derived from it.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tools.book import ROOT, Address, address, notebook_paths

COLAB = "https://colab.research.google.com"
BINDER = "https://mybinder.org"


def config_block(where: Address) -> list[str]:
    """Lines of _config.yml: the repository, and where a chapter can be opened."""
    lines = ["repository:", f'  url: "{where.url}"', "  branch: main"]
    if where.on_github:
        lines += ["launch_buttons:", f"  colab_url: {COLAB}", f"  binderhub_url: {BINDER}"]
    return lines


def readme_block(where: Address) -> list[str]:
    """Lines of README.md: the badge and the address to clone."""
    if not where.url:
        return []
    lines = []
    if where.on_github:
        workflow = f"{where.url}/actions/workflows/tests.yml"
        lines += [f"[![tests]({workflow}/badge.svg)]({workflow})", ""]
        lines += [f"Read it at <{where.pages_url}>, or clone it:", ""]
    return [*lines, "```", f"git clone {where.url}", "```"]


def citation_block(where: Address) -> list[str]:
    """Lines of CITATION.cff."""
    return [f'repository-code: "{where.url}"'] if where.url else []


BLOCKS = {
    "_config.yml": ("# ", "", config_block),
    "README.md": ("<!-- ", " -->", readme_block),
    "CITATION.cff": ("# ", "", citation_block),
}


def with_block(text: str, opening: str, closing: str, lines: list[str]) -> str:
    """Replace what stands between the two marks of a file."""
    first = f"{opening}>>> repository (written by make publish){closing}\n"
    last = f"{opening}<<< repository{closing}\n"
    if text.count(first) != 1 or text.count(last) != 1:
        raise ValueError(f"the marks {first.strip()!r} and {last.strip()!r} must stand there once")
    before, rest = text.split(first)
    _, after = rest.split(last)
    return before + first + "".join(line + "\n" for line in lines) + last + after


def expected(root: Path) -> dict[Path, str]:
    """What each file that shows the address must hold."""
    where = address(root)
    texts = {}
    for name, (opening, closing, lines) in BLOCKS.items():
        path = root / name
        text = path.read_text(encoding="utf-8")
        texts[path] = with_block(text, opening, closing, lines(where))
    return texts


def write_url(root: Path, url: str) -> None:
    """Store the address in pyproject.toml."""
    path = root / "pyproject.toml"
    text = path.read_text(encoding="utf-8")
    new, count = re.subn(r'^repository_url = ".*"$', f'repository_url = "{url}"', text, flags=re.M)
    if count != 1:
        raise ValueError("pyproject.toml must hold one line repository_url = ...")
    path.write_text(new, encoding="utf-8")


def cleaned(url: str) -> str:
    """The address without a trailing slash or .git; refuse what is none."""
    url = url.strip().rstrip("/").removesuffix(".git")
    if url and not re.fullmatch(r"https://[\w.-]+(:\d+)?(/[\w.~-]+){2,}", url):
        raise ValueError(f"URL must look like https://host/owner/name, got {url!r}")
    return url


def publish(root: Path, url: str) -> list[str]:
    """Write the address everywhere; return the names of the files that changed."""
    write_url(root, cleaned(url))
    changed = []
    for path, text in expected(root).items():
        if path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            changed.append(path.name)
    if notebook_paths(root=root):
        from tools.notebooks import fill_setup

        changed += fill_setup(root)
    return changed


def check(root: Path) -> list[str]:
    """Names of the files that do not show the address as pyproject.toml has it."""
    return [p.name for p, text in expected(root).items() if p.read_text("utf-8") != text]


def main(arguments: list[str]) -> int:
    """Publish, or check."""
    if arguments == ["--check"]:
        stale = check(ROOT)
        print(f"not as the address says: {', '.join(stale)}" if stale else "address: in order")
        return 1 if stale else 0
    if len(arguments) != 1:
        print("make publish URL=https://host/owner/name")
        return 2
    try:
        changed = publish(ROOT, arguments[0])
    except ValueError as error:
        print(error)
        return 2
    print(f"changed: {', '.join(changed) or 'nothing'}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
