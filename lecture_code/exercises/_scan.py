"""Read an answer's byte code before it runs: what it calls, and how it reaches for things.

This keeps an honest student from calling the function that the exercise asks for, keeps an answer
from ending the kernel, and makes it tedious to get around the counters. It is not a wall: the
docstring of the package says what it does not stop.
"""

from __future__ import annotations

import dis
import types

import numpy as np

ALLOWED = {"lecture_code.blocks.tile_count", "lecture_code.blocks.tile_ranges"}
NEVER_MODULES = {
    "ctypes", "gc", "importlib", "inspect", "multiprocessing", "os", "signal", "subprocess", "sys",
    "threading", "traceback", "tracemalloc",
}  # fmt: skip
NEVER_NAMES = {"breakpoint", "exit", "input", "quit"}

# A counted answer may use these modules, and none of these names and attributes.
COUNTED_MODULES = {
    "builtins", "collections", "functools", "itertools", "math", "numpy", "operator", "time",
    "typing", "__future__",
}  # fmt: skip
COUNTED_NAMES = {
    "__import__", "compile", "delattr", "eval", "exec", "getattr", "globals", "locals", "object",
    "open", "setattr", "vars",
}  # fmt: skip
COUNTED_ATTRIBUTES = {
    "copy_out", "ctypeslib", "f_back", "f_globals", "f_locals", "fromfile", "gi_frame", "lib",
    "memmap", "save", "savetxt", "savez", "testing", "tofile",
}  # fmt: skip
LARGEST_OUTSIDE_ARRAY = 256


def objection(function, *, allow=(), counted: bool = False) -> str | None:
    """Why an answer is refused unread, as the end of "an answer that uses …"; None if it is not.

    Helpers that were defined beside the answer are read as well.

    Parameters
    ----------
    function : callable
    allow : sequence of str
        Modules, or names in modules, of this package that the answer may use.
    counted : bool
        Whether it runs on the counted machine, where more is refused.
    """
    rules = Rules({*ALLOWED, *allow}, counted)
    seen, queue = set(), [function]
    while queue:
        current = queue.pop()
        current = getattr(current, "__func__", current)
        if not isinstance(current, types.FunctionType) or current in seen:
            continue
        seen.add(current)
        for what, name, held in references(current):
            own = isinstance(held, types.FunctionType) and held.__module__ == function.__module__
            if own:
                queue.append(held)
            elif why := getattr(rules, what)(name, held):
                return why
    return None


def references(function):
    """What a function's code names: (kind, name, object or None), kinds as in :class:`Rules`."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        try:
            yield "value", name, cell.cell_contents
        except ValueError:  # an empty cell
            continue
    for default in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
        yield "value", "a default argument", default
    scope, codes = function.__globals__, [function.__code__]
    while codes:
        code = codes.pop()
        codes += [c for c in code.co_consts if isinstance(c, types.CodeType)]
        for step in dis.get_instructions(code):
            name = step.argval
            if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
                yield "name", name, None
                if name in scope:
                    yield "value", name, scope[name]
            elif step.opname == "IMPORT_NAME":
                yield "module", name, None
            elif step.opname in ("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR"):
                yield "attribute", name, None
            elif step.opname in ("STORE_ATTR", "DELETE_ATTR"):
                yield "assignment", name, None


class Rules:
    """What is refused, by kind of reference. Each method gives the objection, or None."""

    def __init__(self, allow: set[str], counted: bool):
        self.allow, self.counted = allow, counted

    def name(self, name, _) -> str | None:
        """A global name or a builtin."""
        refused = NEVER_NAMES | COUNTED_NAMES if self.counted else NEVER_NAMES
        return f"{name}()" if name in refused else None

    def attribute(self, name, _) -> str | None:
        """An attribute that is read."""
        if name in ("_exit", "setrecursionlimit"):
            return f".{name}"
        private = name.startswith("_") or name in COUNTED_ATTRIBUTES
        return f".{name}" if self.counted and private else None

    def assignment(self, name, _) -> str | None:
        """An attribute that is set."""
        return f"an assignment to .{name}" if self.counted else None

    def module(self, name, shown=None) -> str | None:
        """A module that is imported, or the home of something used."""
        root = name.partition(".")[0]
        if any(name == a or name.startswith(f"{a}.") for a in self.allow):
            return None
        if root == "lecture_code" or root in NEVER_MODULES:
            return shown or name
        return (shown or name) if self.counted and root not in COUNTED_MODULES else None

    def value(self, name, held) -> str | None:
        """An object from outside the function."""
        if isinstance(held, types.ModuleType):
            return self.module(held.__name__)
        if isinstance(held, np.ndarray):
            large = self.counted and held.size > LARGEST_OUTSIDE_ARRAY
            return f"the array {name} from outside the function" if large else None
        home = getattr(held, "__module__", None)
        if not callable(held) or not isinstance(home, str) or home == "__main__":
            return None
        whole = f"{home}.{getattr(held, '__name__', name)}"
        return None if whole in self.allow else self.module(home, whole)
