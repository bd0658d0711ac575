"""Build the site with Jupyter Book, and say where to open it.

python tools/build.py            # for reading: what is already built is kept
python tools/build.py --strict   # for publishing: from nothing, a warning is an error
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tools.book import ROOT

SITE = ROOT / "_build" / "html"


def build(strict: bool, quiet: bool) -> int:
    """Run Jupyter Book; return its exit status."""
    command = [str(Path(sys.executable).parent / "jupyter-book"), "build", "."]
    if strict:
        shutil.rmtree(ROOT / "_build", ignore_errors=True)
        command += ["-W", "-n", "--keep-going"]
    if quiet:
        command.append("-q")
    started = time.monotonic()
    status = subprocess.run(command, cwd=ROOT).returncode
    if status == 0:
        print(f"\nThe book is built ({time.monotonic() - started:.0f} s). Open")
        print(f"  {(SITE / 'index.html').as_uri()}")
        print("or run `make serve`.")
    else:
        print("\nThe site was not built: Jupyter Book's messages are above.", file=sys.stderr)
    return status


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--strict", action="store_true", help="from nothing, warnings are errors")
    parser.add_argument("--quiet", action="store_true", help="print warnings only")
    options = parser.parse_args()
    sys.exit(build(options.strict, options.quiet))
