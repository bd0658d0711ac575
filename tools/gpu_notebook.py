"""Execute one chapter on this machine and save it: `python3 tools/gpu_notebook.py NOTEBOOK OUT`.

For a machine with a GPU and nothing of this project's environment: needs nbclient, nbformat, a
Python kernel (ipykernel), and what the chapter imports. NOTEBOOK is not changed: copy OUT over it,
then `make sync` brings it into the one form that the checks ask for.

Exit status: 0 saved; 1 a cell failed (nothing is written); 2 something is missing here.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CELL_TIMEOUT_S = 300


def execute(source: Path, target: Path) -> None:
    """Run every cell of `source` in a fresh kernel of this Python; write the result to `target`."""
    import nbformat
    from jupyter_client import KernelManager
    from jupyter_client.kernelspec import KernelSpec
    from nbclient import NotebookClient

    notebook = nbformat.read(source, as_version=4)
    metadata = notebook.metadata.copy()
    manager = KernelManager()
    # the kernel of this very Python, whether or not one was ever registered
    command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    manager._kernel_spec = KernelSpec(argv=command, display_name="Python 3", language="python")
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    )
    started = time.monotonic()
    NotebookClient(
        notebook,
        km=manager,
        timeout=CELL_TIMEOUT_S,
        record_timing=False,
        store_widget_state=True,
        resources={"metadata": {"path": str(source.parent)}},
        on_cell_executed=lambda cell, cell_index, **_: print(
            f"cell {cell_index}: {time.monotonic() - started:.1f} s", flush=True
        ),
    ).execute()
    notebook.metadata = metadata
    target.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, target)


def main() -> int:
    """Parse the command line, execute, and say what happened."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("notebook", type=Path)
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    if not options.notebook.is_file():
        print(f"notebook: no file {options.notebook}", file=sys.stderr)
        return 2
    try:
        import ipykernel  # noqa: F401
        import nbformat  # noqa: F401
        from nbclient.exceptions import CellExecutionError
    except ModuleNotFoundError as error:
        print(f"needs nbclient, nbformat and ipykernel: {error}", file=sys.stderr)
        return 2
    try:
        execute(options.notebook.resolve(), options.out)
    except CellExecutionError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"saved {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
