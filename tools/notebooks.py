"""Fill the generated cells of the chapters, execute them, and save them in one canonical form.

    python tools/notebooks.py sync [--check] [07 ...]
    python tools/notebooks.py run [07 ...]

Exit status: 0 done; 1 a notebook is at fault; 2 the tools are.
"""

from __future__ import annotations

import argparse
import base64
import io
import sys
import time
import traceback
import uuid
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from PIL import Image, ImageChops

from tools.book import ROOT, address, notebook_paths, setup_source

CELL_TIMEOUT_S = 300
MOST_COLOUR_ERROR = 8  # of 255, in the worst pixel
KERNELSPEC = {"display_name": "Python 3", "language": "python", "name": "python3"}
LANGUAGE = {
    "file_extension": ".py",
    "mimetype": "text/x-python",
    "name": "python",
    "nbconvert_exporter": "python",
    "pygments_lexer": "ipython3",
}
CELL_METADATA = {"tags", "exercise", "reason", "mystnb", "jupyter"}


def tags(cell) -> list[str]:
    """Tags of a cell."""
    return cell.metadata.get("tags", [])


def generated_source(cell, where) -> str | None:
    """What a generated cell must hold; None for a cell that an author writes."""
    if "setup" in tags(cell):
        return setup_source(where)
    kinds = [kind for kind in ("statement", "skeleton", "solution") if kind in tags(cell)]
    if not kinds:
        return None
    from lecture_code import exercises

    name = cell.metadata.get("exercise")
    if not name:
        raise ValueError(f'a cell tagged {kinds[0]} needs "exercise" in its metadata')
    if kinds[0] == "statement":
        return f"### {exercises.exercise(name).title}\n\n{exercises.statement(name).strip()}"
    if kinds[0] == "skeleton":
        return exercises.skeleton(name).strip()
    return exercises.solution_markdown(name).strip()


def sync(notebook, where) -> list[int]:
    """Fill the generated cells; return the indices of those that had drifted."""
    drifted = []
    for index, cell in enumerate(notebook.cells):
        source = generated_source(cell, where)
        if source is not None and cell.source != source:
            cell.source = source
            drifted.append(index)
    return drifted


def fill_setup(root: Path) -> list[str]:
    """Fill only the setup cells, without importing the package; return the changed files."""
    where, changed = address(root), []
    for path in notebook_paths(root=root):
        notebook = nbformat.read(path, as_version=4)
        for cell in notebook.cells:
            if "setup" in tags(cell):
                cell.source = setup_source(where)
        if save(notebook, path):
            changed.append(path.name)
    return changed


def canonical(notebook, name: str):
    """Remove what differs between two machines: timings, editors' notes, random widget ids."""
    for cell in notebook.cells:
        cell.metadata = {k: v for k, v in cell.metadata.items() if k in CELL_METADATA}
        if cell.cell_type == "code":
            cell.outputs = merge_streams(cell.outputs)
    widgets = notebook.metadata.get("widgets")
    notebook.metadata = {"kernelspec": KERNELSPEC, "language_info": LANGUAGE}
    if widgets:
        notebook.metadata["widgets"] = widgets
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    text = nbformat.writes(notebook)
    if widgets:
        models = widgets.get("application/vnd.jupyter.widget-state+json", {}).get("state", {})
        found = sorted((model for model in models if model in text), key=text.index)
        for position, model in enumerate(found):
            text = text.replace(model, uuid.uuid5(uuid.NAMESPACE_URL, f"{name}/{position}").hex)
    return nbformat.reads(text, as_version=4)


def merge_streams(outputs):
    """Join neighbouring pieces of one stream: where a kernel cuts them is chance."""
    merged = []
    for output in outputs:
        last = merged[-1] if merged else None
        if (
            last is not None
            and output.output_type == last.output_type == "stream"
            and output.name == last.name
        ):
            last.text += output.text
        else:
            merged.append(output)
    return merged


def lighter(png: str) -> str:
    """The same picture with a palette of 256 colours, where no eye can tell the difference.

    A chapter is then less than half as large. ``png`` and the result are base64, as a notebook
    holds them.
    """
    picture = Image.open(io.BytesIO(base64.b64decode(png)))
    if picture.mode == "P":
        return png
    full = picture.convert("RGB")
    small = full.quantize(256, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    largest = max(
        high for _, high in ImageChops.difference(full, small.convert("RGB")).getextrema()
    )
    if largest > MOST_COLOUR_ERROR or has_holes(picture):
        return png
    written = io.BytesIO()
    small.save(written, "PNG", optimize=True)
    return base64.b64encode(written.getvalue()).decode() + "\n"


def has_holes(picture) -> bool:
    """Whether any pixel is transparent."""
    return "A" in picture.getbands() and picture.getchannel("A").getextrema()[0] < 255


def save(notebook, path: Path) -> bool:
    """Write the notebook if it changed; tell whether it did."""
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if "image/png" in output.get("data", {}):
                output.data["image/png"] = lighter(output.data["image/png"])
    text = nbformat.writes(canonical(notebook, path.stem)) + "\n"
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return False
    path.write_text(text, encoding="utf-8")
    return True


def run(path: Path, where) -> str | None:
    """Execute and save one chapter; return what went wrong, if anything."""
    notebook = nbformat.read(path, as_version=4)
    sync(notebook, where)
    code = [index for index, cell in enumerate(notebook.cells) if cell.cell_type == "code"]
    started = time.monotonic()

    def progress(cell_index, **_):
        if cell_index in code and sys.stdout.isatty():
            done = code.index(cell_index) + 1
            print(f"\r{path.name}: cell {done} of {len(code)}", end="", flush=True)

    client = NotebookClient(
        notebook,
        timeout=CELL_TIMEOUT_S,
        kernel_name="python3",
        resources={"metadata": {"path": str(path.parent)}},
        store_widget_state=True,
        record_timing=False,
        on_cell_start=lambda cell, cell_index, **_: progress(cell_index),
    )
    if not sys.stdout.isatty():
        print(f"{path.name}: {len(code)} cells", flush=True)
    try:
        client.execute()
    except CellExecutionError as error:
        return failure(notebook, f"{error.ename}: {error.evalue}", str(error))
    except CellTimeoutError:
        return failure(notebook, f"a cell ran longer than {CELL_TIMEOUT_S} s", "")
    except DeadKernelError:
        return failure(notebook, "the kernel died", "")
    changed = save(notebook, path)
    elapsed_s = time.monotonic() - started
    end = "\r" if sys.stdout.isatty() else ""
    print(f"{end}{path.name}: {elapsed_s:.0f} s, {'saved' if changed else 'unchanged'}    ")
    return None


def failure(notebook, what: str, trace: str) -> str:
    """One readable message about the first cell that failed."""
    for index, cell in enumerate(notebook.cells):
        if any(output.output_type == "error" for output in cell.get("outputs", [])):
            first_lines = "\n".join("    " + line for line in cell.source.splitlines()[:8])
            return f"cell {index} failed: {what}\n{first_lines}"
    return f"{what}\n{trace}".rstrip()


def command_sync(paths: list[Path], check: bool) -> int:
    """Fill the generated cells, or with ``check`` only tell which have drifted."""
    where = address()
    faults = 0
    for path in paths:
        notebook = nbformat.read(path, as_version=4)
        try:
            drifted = sync(notebook, where)
        except (ValueError, KeyError) as error:
            print(f"{path.name}: {error}")
            faults += 1
            continue
        if check:
            for index in drifted:
                print(f"{path.name}: cell {index} ({tags(notebook.cells[index])[0]}) has drifted")
            faults += len(drifted)
        elif save(notebook, path):
            print(f"{path.name}: {len(drifted)} cells filled")
    if check and not faults:
        print(f"{len(paths)} notebooks: every generated cell is as its source says")
    return 1 if faults else 0


def command_run(paths: list[Path]) -> int:
    """Execute and save the chapters, all of them even when one fails."""
    where = address()
    failed = {}
    for path in paths:
        message = run(path, where)
        if message is not None:
            print(f"\n{path.name}: NOT saved. {message}\n", flush=True)
            failed[path.name] = message
    if failed:
        print(f"{len(failed)} of {len(paths)} notebooks failed: {', '.join(failed)}")
        return 1
    return 0


def main() -> int:
    """Parse the command line and do what it says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("sync", "run"):
        command = commands.add_parser(name)
        command.add_argument("numbers", nargs="*", metavar="NB", help="chapter number; default all")
        if name == "sync":
            command.add_argument("--check", action="store_true", help="change nothing")
    options = parser.parse_args()
    paths = notebook_paths(options.numbers, ROOT)
    if options.command == "sync":
        return command_sync(paths, options.check)
    return command_run(paths)


if __name__ == "__main__":
    try:
        status = main()
    except Exception:
        traceback.print_exc()
        print("\nThe tools failed, not a notebook: see the traceback above.", file=sys.stderr)
        status = 2
    sys.exit(status)
