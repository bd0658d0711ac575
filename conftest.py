"""Doctests of a module that needs an absent optional library are left out, and said so."""

import ast
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parent
OPTIONAL = {"anywidget", "ipywidgets", "matplotlib", "torch", "triton"}


def imported(path: Path) -> set[str]:
    """Libraries that a module imports as soon as it is loaded."""
    names = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names.add(node.module.split(".")[0])
    return names


ABSENT = {name for name in OPTIONAL if find_spec(name) is None}
LEFT_OUT = [p for p in (ROOT / "lecture_code").rglob("*.py") if imported(p) & ABSENT]
collect_ignore = [str(path.relative_to(ROOT)) for path in LEFT_OUT]


def pytest_report_header():
    """Name what is absent."""
    if LEFT_OUT:
        modules = ", ".join(sorted(path.stem for path in LEFT_OUT))
        return f"absent: {', '.join(sorted(ABSENT))}; doctests left out: {modules}"
    return None
