"""Put one fault after another into a copy of the code; the named tests must turn red.

    python tools/mutate.py            # all of tests/mutants.toml
    python tools/mutate.py flash      # those whose file or name holds the word

Each entry of tests/mutants.toml is

    [[mutant]]
    name = "the old output is not rescaled"
    file = "lecture_code/flash.py"
    old = "O = alpha * O + P @ V"
    new = "O = O + P @ V"
    test = "tests/test_flash.py"      # anything that pytest takes, or a list of them

Exit status: 0 every fault was caught; 1 one survived; 2 the list or a test is itself at fault.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "tests" / "mutants.toml"
COPIED = ("lecture_code", "tests", "tools", "notebooks", "pyproject.toml", "conftest.py")
TIMEOUT_S = 120
PASSED, FAILED = 0, 1


def copy_into(folder: Path) -> None:
    """Copy what the tests need."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "vendor")
            shutil.copytree(source, folder / name, ignore=ignored)
        elif source.exists():
            shutil.copy(source, folder / name)


def run_tests(folder: Path, tests: list[str]) -> int | None:
    """Status of pytest in the copy; None when it did not end in time."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    environment = dict(os.environ, PYTHONPATH=str(folder), PYTHONDONTWRITEBYTECODE="1")
    try:
        return subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, timeout=TIMEOUT_S
        ).returncode
    except subprocess.TimeoutExpired:
        return None


def names_of_tests(mutant: dict) -> list[str]:
    """The tests that must catch a fault, as a list."""
    test = mutant["test"]
    return [test] if isinstance(test, str) else list(test)


def faulty(text: str, mutant: dict) -> str:
    """The text with the fault in it."""
    times = text.count(mutant["old"])
    if times != 1:
        raise ValueError(f"{mutant['old']!r} is {times} times in {mutant['file']}, not once")
    if mutant["old"] == mutant["new"]:
        raise ValueError("old and new are the same")
    return text.replace(mutant["old"], mutant["new"])


def judge(folder: Path, mutant: dict) -> str:
    """Apply one fault, run its tests, and put the file back."""
    path = folder / mutant["file"]
    original = path.read_text(encoding="utf-8")
    path.write_text(faulty(original, mutant), encoding="utf-8")
    try:
        status = run_tests(folder, names_of_tests(mutant))
    finally:
        path.write_text(original, encoding="utf-8")
    if status == PASSED:
        return "SURVIVED"
    if status == FAILED:
        return "caught"
    if status is None:
        return "caught (ran out of time)"
    raise ValueError(f"pytest could not run {names_of_tests(mutant)} (status {status})")


def main(words: list[str]) -> int:
    """Judge all faults of the list, or those that a word picks."""
    mutants = tomllib.loads(LIST.read_text(encoding="utf-8"))["mutant"]
    mutants = [m for m in mutants if all(word in m["file"] + m["name"] for word in words)]
    if not mutants:
        print("No fault of tests/mutants.toml has these words.")
        return 2
    survived, broken = [], []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        copy_into(folder)
        print("First the tests without a fault", flush=True)
        tests = sorted({test for mutant in mutants for test in names_of_tests(mutant)})
        if run_tests(folder, tests) != PASSED:
            print(f"They do not pass: {' '.join(tests)}")
            return 2
        for number, mutant in enumerate(mutants, start=1):
            started = time.monotonic()
            try:
                verdict = judge(folder, mutant)
            except (ValueError, KeyError, OSError) as error:
                verdict = f"ERROR: {error}"
                broken.append(mutant)
            if verdict == "SURVIVED":
                survived.append(mutant)
            elapsed_s = time.monotonic() - started
            where = f"{Path(mutant['file']).name}: {mutant['name']}"
            print(f"[{number}/{len(mutants)}] {where}: {verdict} ({elapsed_s:.1f} s)", flush=True)
    caught = len(mutants) - len(survived) - len(broken)
    print(f"{caught} caught, {len(survived)} survived, {len(broken)} could not be judged")
    return 2 if broken else 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
