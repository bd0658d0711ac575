"""Run every check of the book, show progress, and end with one line of counts.

    python tools/check.py                # everything
    python tools/check.py --notebook 07  # the gates and the comparison of one chapter

Exit status: 0 all is well; 1 the book is at fault; 2 a tool could not do its work.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tools.book import ROOT, notebook_paths

BIN = Path(sys.executable).parent
REPORTS = ROOT / "_build" / "reports"
CORES = max(1, min(4, os.cpu_count() or 1))
CELL_TIMEOUT_S = 180

OK, FAULT, TOOL = "ok", "FAULT", "TOOL FAILED"


@dataclass
class Stage:
    """One check: what it is, and how it went."""

    name: str
    verdict: str = OK
    sentence: str = ""
    elapsed_s: float = 0.0
    counts: Counter = field(default_factory=Counter)


def run(*command: str | Path) -> int:
    """Run a command in the repository, its output shown; 127 when it does not exist."""
    environment = dict(os.environ, OMP_NUM_THREADS="1")
    try:
        return subprocess.run([str(c) for c in command], cwd=ROOT, env=environment).returncode
    except FileNotFoundError:
        print(f"{command[0]} is not installed")
        return 127


def tool(stage: Stage, faults: tuple[int, ...], *command: str | Path) -> None:
    """Run one tool; ``faults`` are the statuses that mean that it worked and found something."""
    status = run(*command)
    stage.counts["passed" if status == 0 else "failed"] += 1
    if status == 0:
        return
    name = Path(command[1] if str(command[0]) == sys.executable else command[0]).name
    if status in faults:
        if stage.verdict == OK:
            stage.verdict = FAULT
        stage.sentence += f"{name} found faults. "
    else:
        stage.verdict = TOOL
        stage.sentence += f"{name} could not run (status {status}). "


def pytest(stage: Stage, what: str, *arguments: str | Path) -> None:
    """Run pytest; tell failing tests from a pytest that could not run."""
    REPORTS.mkdir(parents=True, exist_ok=True)
    report = REPORTS / f"{stage.name.replace(' ', '-')}.xml"
    report.unlink(missing_ok=True)
    status = run(
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        f"--junitxml={report}",
        *arguments,
    )
    counts = read_report(report) if report.exists() else Counter()
    stage.counts += counts
    if status == 0 and counts["xfailed"]:
        stage.verdict, stage.sentence = FAULT, "a test that should decide was left open (xfail)"
    elif status == 1:
        stage.verdict, stage.sentence = FAULT, what
    elif status != 0:
        stage.verdict = TOOL
        stage.sentence = f"pytest could not run (status {status})"


def read_report(report: Path) -> Counter:
    """Counts of outcomes in a JUnit file."""
    counts = Counter()
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        skipped = case.find("skipped")
        if case.find("error") is not None:
            counts["errors"] += 1
        elif case.find("failure") is not None:
            counts["failed"] += 1
        elif skipped is not None and skipped.get("type") == "pytest.xfail":
            counts["xfailed"] += 1
        elif skipped is not None:
            counts["skipped"] += 1
        else:
            counts["passed"] += 1
    return counts


def lint(stage: Stage) -> None:
    """Style, spelling, sizes, third-party files, generated cells, workflows."""
    tool(stage, (1,), BIN / "ruff", "check", ".")
    tool(stage, (1,), BIN / "ruff", "format", "--check", "--quiet", ".")
    tool(stage, (1, 64, 65), BIN / "codespell")
    tool(stage, (1,), sys.executable, "tools/check_files.py")
    tool(stage, (1,), sys.executable, "tools/vendor.py")
    tool(stage, (1,), sys.executable, "tools/publish.py", "--check")
    tool(stage, (1,), sys.executable, "tools/notebooks.py", "sync", "--check")
    workflows = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
    schema = ("--builtin-schema", "vendor.github-workflows")
    tool(stage, (1,), BIN / "check-jsonschema", "--quiet", *schema, *workflows)


def unit(stage: Stage) -> None:
    """Unit tests, doctests, and the gates of the chapters."""
    pytest(
        stage,
        "a test of the code, or a chapter's gate, failed",
        "-n",
        str(CORES),
        "--dist=worksteal",  # the kernel's tests are slow: let an idle worker take some
        "tests",
        "lecture_code",
        "--ignore=tests/site",
    )


def compare(stage: Stage, paths: list[Path]) -> None:
    """Execute the chapters again and compare with their committed outputs."""
    if not paths:
        stage.sentence = "there is no chapter yet"
        return
    pytest(
        stage,
        "a notebook failed, or gave other outputs than the committed ones",
        "--nbval",
        "--nbval-current-env",
        f"--nbval-cell-timeout={CELL_TIMEOUT_S}",
        "--nbval-sanitize-with=tests/notebooks/sanitize.cfg",
        "-Wdefault",
        *(("-n", str(CORES), "--dist=loadfile") if len(paths) > 1 else ()),
        *paths,
    )


def site(stage: Stage) -> None:
    """Build the site from nothing, a warning being an error."""
    tool(stage, (1,), sys.executable, "tools/build.py", "--strict", "--quiet")


def site_tests(stage: Stage) -> None:
    """Walk the built site, and open it in a browser."""
    pytest(stage, "the built site has a fault", "-n", str(CORES), "tests/site", "-rs")


def report(stages: list[Stage], started: float) -> int:
    """Print how each stage went, and the counts as pytest prints them."""
    print("\n" + "-" * 78)
    for stage in stages:
        print(f"{stage.verdict:12s} {stage.name:16s} {stage.elapsed_s:5.0f} s  {stage.sentence}")
    total = sum((stage.counts for stage in stages), Counter())
    verdicts = {stage.verdict for stage in stages}
    if TOOL in verdicts:
        print("\nA tool could not do its work: this says nothing about the book yet.")
    elif FAULT in verdicts:
        print("\nThe tools worked; the book has faults: see the stages above.")
    else:
        print("\nAll is well.")
    order = ("failed", "errors", "passed", "skipped", "xfailed")
    counts = ", ".join(f"{total[key]} {key}" for key in order if total[key] or key == "passed")
    print(f"=========== {counts} in {time.monotonic() - started:.2f}s ===========")
    return 2 if TOOL in verdicts else 1 if FAULT in verdicts else 0


def main() -> int:
    """Run the stages that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--notebook", nargs="+", metavar="NB", help="only these chapters")
    chosen = parser.parse_args().notebook
    if chosen:
        paths = notebook_paths(chosen)
        names = " or ".join(path.stem for path in paths)
        steps = [
            ("gates", lambda s: pytest(s, "a gate failed", "tests/notebooks", "-k", names)),
            ("comparison", lambda s: compare(s, paths)),
        ]
    else:
        steps = [
            ("lint", lint),
            ("unit tests", unit),
            ("notebooks", lambda s: compare(s, notebook_paths())),
            ("site build", site),
            ("site tests", site_tests),
        ]
    started = time.monotonic()
    stages = []
    for number, (name, step) in enumerate(steps, start=1):
        print(f"\n=== {number} of {len(steps)}: {name} ===", flush=True)
        stage = Stage(name)
        begun = time.monotonic()
        step(stage)
        stage.elapsed_s = time.monotonic() - begun
        stages.append(stage)
    return report(stages, started)


if __name__ == "__main__":
    sys.exit(main())
