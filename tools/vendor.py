"""Verify the third-party files in the repository against their list.

python tools/vendor.py           # every file is listed, unchanged, and has its licence
python tools/vendor.py --write   # list the files again after an update
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = (ROOT / "book" / "vendor", ROOT / "tests" / "site" / "vendor")
LIST = "VENDOR.json"


def sha256(path: Path) -> str:
    """Checksum of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def files_of(folder: Path) -> set[str]:
    """Names of all files under a folder, but its list."""
    found = (p for p in folder.rglob("*") if p.is_file() and p.name != ".DS_Store")
    return {p.relative_to(folder).as_posix() for p in found} - {LIST}


def faults(folder: Path) -> list[str]:
    """One sentence for each difference between a folder and its list."""
    packages = json.loads((folder / LIST).read_text(encoding="utf-8"))["packages"]
    found, listed = [], set()
    for package in packages:
        if package["licence_file"] not in package["files"]:
            found.append(f"{package['name']}: its licence file is not among its files")
        for name, checksum in package["files"].items():
            listed.add(name)
            if not (folder / name).is_file():
                found.append(f"{name}: listed and absent")
            elif sha256(folder / name) != checksum:
                found.append(f"{name}: differs from version {package['version']} as listed")
    found += [f"{name}: not listed in {LIST}" for name in sorted(files_of(folder) - listed)]
    return found


def write(folder: Path) -> None:
    """Renew the checksums; each file belongs to the package that names its folder."""
    path = folder / LIST
    content = json.loads(path.read_text(encoding="utf-8"))
    for package in content["packages"]:
        mine = sorted(n for n in files_of(folder) if n.startswith(package["folder"] + "/"))
        package["files"] = {name: sha256(folder / name) for name in mine}
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def main() -> int:
    """Verify, or write, the list of each folder."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="renew the checksums")
    renew = parser.parse_args().write
    found = []
    for folder in FOLDERS:
        if not folder.exists():
            continue
        if renew:
            write(folder)
        found += faults(folder)
    print("\n".join(found) if found else "third-party files: as listed")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
