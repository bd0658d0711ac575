"""On a machine with numpy alone, leave out what needs an absent library, and say so."""

import ast
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parent
OPTIONAL = {
    "anywidget",
    "hypothesis",
    "ipywidgets",
    "matplotlib",
    "nbclient",
    "nbformat",
    "torch",
    "triton",
    "yaml",
}


def imported(path: Path) -> set[str]:
    """Libraries that a file imports as soon as it is loaded; the tools bring nbclient along."""
    names = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names.add(node.module.split(".")[0])
    return names | ({"nbclient"} if "tools" in names else set())


ABSENT = {name for name in OPTIONAL if find_spec(name) is None}
FILES = [*(ROOT / "lecture_code").rglob("*.py"), *(ROOT / "tests").rglob("*.py")]
LEFT_OUT = [path for path in FILES if imported(path) & ABSENT]
collect_ignore = [str(path.relative_to(ROOT)) for path in LEFT_OUT]


def pytest_report_header():
    """Name what is absent."""
    if LEFT_OUT:
        files = ", ".join(sorted(str(path.relative_to(ROOT)) for path in LEFT_OUT))
        return f"absent: {', '.join(sorted(ABSENT))}; left out: {files}"
    return None
