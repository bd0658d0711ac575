"""Read an answer's byte code before it runs: what it calls, and how it reaches for things.

This keeps an honest student from calling the function that the exercise asks for, and makes it
tedious to get around the counters. It is not a wall: see the docstring of the package.
"""

from __future__ import annotations

import dis
import types

import numpy as np

COUNTED_MODULES = {
    "numpy", "math", "itertools", "functools", "operator", "collections", "builtins", "typing",
    "time", "__future__",
}  # fmt: skip
COUNTED_BUILTINS = {
    "__import__", "eval", "exec", "compile", "open", "globals", "locals", "vars", "getattr",
    "setattr", "delattr", "object", "breakpoint",
}  # fmt: skip
COUNTED_ATTRIBUTES = {
    "copy_out", "ctypeslib", "fromfile", "memmap", "save", "savez", "savetxt", "tofile", "lib",
    "f_back", "f_locals", "f_globals", "gi_frame", "testing",
}  # fmt: skip
LARGEST_GLOBAL_ARRAY = 256


def objection(function, *, allow=(), counted: bool = False) -> str | None:
    """Why an answer is refused unread, as the end of the sentence "your answer uses …"; or None."""
    allow = (
        {"lecture_code.memory.HBM", "lecture_code.memory.SRAM", *allow} if counted else set(allow)
    )
    seen, queue = set(), [function]
    while queue:
        current = queue.pop()
        current = getattr(current, "__func__", current)
        if not isinstance(current, types.FunctionType) or current in seen:
            continue
        seen.add(current)
        for what, thing in references(current):
            if what == "value":
                name, held = thing
                if isinstance(held, types.FunctionType) and held.__module__ == function.__module__:
                    queue.append(held)
                elif why := value_objection(name, held, allow, counted):
                    return why
            elif what == "import":
                if why := module_objection(thing, allow, counted):
                    return why
            elif counted and what == "builtin" and thing in COUNTED_BUILTINS:
                return f"{thing}()"
            elif counted and what == "attribute":
                if thing.startswith("_") or thing in COUNTED_ATTRIBUTES:
                    return f".{thing}"
            elif counted and what == "set":
                return f"an assignment to .{thing}"
    return None


def references(function):
    """What the code of a function names: ("value", (name, object)), ("import", module) and so
    on."""
    scope, cells = function.__globals__, function.__closure__ or ()
    for name, cell in zip(function.__code__.co_freevars, cells):
        try:
            yield "value", (name, cell.cell_contents)
        except ValueError:
            continue
    for default in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
        yield "value", ("a default argument", default)
    codes = [function.__code__]
    while codes:
        code = codes.pop()
        codes += [c for c in code.co_consts if isinstance(c, types.CodeType)]
        for step in dis.get_instructions(code):
            if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
                if step.argval in scope:
                    yield "value", (step.argval, scope[step.argval])
                else:
                    yield "builtin", step.argval
            elif step.opname == "IMPORT_NAME":
                yield "import", step.argval
            elif step.opname in ("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR"):
                yield "attribute", step.argval
            elif step.opname in ("STORE_ATTR", "DELETE_ATTR"):
                yield "set", step.argval


def value_objection(name, held, allow, counted) -> str | None:
    """Why an answer must not use this object."""
    if isinstance(held, types.ModuleType):
        return module_objection(held.__name__, allow, counted)
    if isinstance(held, np.ndarray):
        if counted and held.size > LARGEST_GLOBAL_ARRAY:
            return f"the array {name} from outside the function"
        return None
    home = getattr(held, "__module__", None)
    if not isinstance(home, str) or not (callable(held) or isinstance(held, type)):
        return None
    if f"{home}.{getattr(held, '__name__', name)}" in allow:
        return None
    return None if home == "__main__" else module_objection(home, allow, counted, f"{home}.{name}")


def module_objection(module: str, allow, counted, shown: str | None = None) -> str | None:
    """Why an answer must not use this module, or something from it."""
    root = module.partition(".")[0]
    if any(module == a or module.startswith(a + ".") for a in allow):
        return None
    if root == "lecture_code" or (counted and root not in COUNTED_MODULES):
        return shown or module
    return None
