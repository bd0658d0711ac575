"""Where the book's files are, and what is generated from the repository's address."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Address:
    """The repository's public address; an empty url means that it has none yet."""

    url: str
    tag: str

    @property
    def on_github(self) -> bool:
        """Whether the services that open a chapter from GitHub can find it."""
        return self.url.startswith("https://github.com/")

    @property
    def pages_url(self) -> str:
        """Where the repository's pages are served."""
        owner, name = self.url.split("/")[-2:]
        return f"https://{owner.lower()}.github.io/{name}/"


def address(root: Path = ROOT) -> Address:
    """Read the address and the tag from ``pyproject.toml``."""
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    return Address(
        url=settings["tool"]["lecture"]["repository_url"],
        tag="v" + settings["project"]["version"],
    )


def setup_source(where: Address) -> str:
    """Source of the first code cell of every chapter."""
    if where.url:
        return (
            "try:\n"
            "    import lecture_code\n"
            "except ModuleNotFoundError:  # a hosted notebook: fetch the book's own code, no more\n"
            f'    %pip install --quiet --no-deps "git+{where.url}@{where.tag}"'
        )
    return (
        "try:\n"
        "    import lecture_code\n"
        "except ModuleNotFoundError:\n"
        '    print("Clone the book, run make setup, and open this file there.")'
    )


def notebook_paths(numbers: list[str] | None = None, root: Path = ROOT) -> list[Path]:
    """The chapters in order, or those whose numbers are given."""
    paths = sorted((root / "notebooks").glob("[0-9][0-9]_*.ipynb"))
    if not numbers:
        return paths
    wanted = {number.zfill(2) for number in numbers}
    known = {path.name[:2] for path in paths}
    if wanted - known:
        missing = ", ".join(sorted(wanted - known))
        raise SystemExit(f"No chapter {missing}. There are: {', '.join(sorted(known))}.")
    return [path for path in paths if path.name[:2] in wanted]
