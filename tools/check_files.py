"""Refuse files that do not belong into the repository: too large, half merged, or cut off."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIMIT_BYTES = 500_000
TEXT = {".py", ".md", ".yml", ".toml", ".cfg", ".txt", ".ipynb", ".json", ".css", ".bib", ".cff"}


def repository_files(root: Path) -> list[Path]:
    """Files that git tracks or would add; all files where there is no git."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    found = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    return [root / name for name in found.stdout.split("\0") if name and (root / name).is_file()]


def faults(root: Path, files: list[Path], allowed: list[str]) -> list[str]:
    """One sentence for each fault."""
    found = []
    for path in files:
        name = path.relative_to(root).as_posix()
        size = path.stat().st_size
        if size > LIMIT_BYTES and name not in allowed:
            found.append(f"{name}: {size:,} bytes; the limit is {LIMIT_BYTES:,}")
        if path.suffix not in TEXT or "vendor" in path.parts:
            continue
        text = path.read_bytes()
        if re.search(rb"^(<<<<<<<|>>>>>>>) ", text, re.M):
            found.append(f"{name}: holds a mark of an unfinished merge")
        if b"\r\n" in text:
            found.append(f"{name}: has Windows line ends")
        if text and not text.endswith(b"\n"):
            found.append(f"{name}: does not end with a line end")
    for name in allowed:
        if not (root / name).exists():
            found.append(f"{name}: listed in pyproject.toml as large, but absent")
    return found


def main() -> int:
    """Print the faults of this repository."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    found = faults(ROOT, repository_files(ROOT), settings["tool"]["lecture"]["large_files"])
    print("\n".join(found) if found else "files: sizes and ends are in order")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
