"""Compare an answer with what was expected, and write both so that a person can read them.

Everything here is deterministic: numbers are rounded, addresses are removed, nothing is timed.
"""

from __future__ import annotations

import re
import textwrap

import numpy as np

SHOWN_ELEMENTS = 64
SHOWN_CHARACTERS = 300
WIDTH = 84


def number(x) -> str:
    """A number in at most six digits."""
    if isinstance(x, bool | np.bool_) or x is None or isinstance(x, str):
        return repr(x.item() if isinstance(x, np.bool_) else x)
    if isinstance(x, int | np.integer):
        return f"{int(x):,}"
    text = f"{float(x):.6g}"
    return "0" if text == "-0" else text


def value(x, scale: float = 0.0) -> str:
    """A value on one or several lines; a large array is described by its shape.

    Numbers far below ``scale``, or below the array's own largest, are rounding errors: shown as 0.
    """
    if isinstance(x, np.ndarray) and x.ndim and x.dtype.kind in "fiub":
        if x.size > SHOWN_ELEMENTS:
            return f"array of shape {x.shape}"
        if x.size == 0:
            return f"empty array of shape {x.shape}"
        if x.dtype.kind == "f":
            finite = np.abs(x[np.isfinite(x)])
            x = np.where(np.abs(x) < 1e-12 * finite.max(initial=scale), 0.0, x)
        return np.array2string(
            x,
            separator=", ",
            max_line_width=100,
            threshold=SHOWN_ELEMENTS,
            formatter={"all": number},
        )
    if isinstance(x, np.ndarray) and x.ndim == 0:
        x = x[()]
    if isinstance(x, int | float | np.number | np.bool_ | str) or x is None:
        return number(x)
    if isinstance(x, tuple | list) and len(x) <= 8:
        inner = ", ".join(value(v) for v in x)
        return f"({inner})" if isinstance(x, tuple) else f"[{inner}]"
    try:
        return clean(repr(x))
    except Exception:  # a class of the student's own
        return what_is(x)


def clean(text: str) -> str:
    """Without addresses, and not too long."""
    text = re.sub(r"0x[0-9a-fA-F]+", "0x…", text)
    return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + " …"


def field(label: str, text: str) -> str:
    """One labelled entry of a verdict; further lines are indented below the first."""
    first, *rest = text.split("\n")
    return "\n".join([f"  {label:<9} {first}"] + [" " * 12 + line for line in rest])


def prose(label: str, text: str) -> str:
    """A labelled sentence, broken into lines."""
    return field(label, textwrap.fill(text, WIDTH))


def named(name: str, x, scale: float = 0.0) -> str:
    """``name = value``, further lines aligned."""
    first, *rest = value(x, scale).split("\n")
    return "\n".join([f"{name} = {first}"] + [" " * (len(name) + 3) + line for line in rest])


def contrast(bad, tolerance: float, scale: float, numbers: bool) -> list[tuple[str, str]]:
    """Entries "got" and "expected" for results that differ: (name, got, expected) each.

    A large array is told by the place of its first wrong number.
    """
    got, expected = [], []
    for name, g, e in bad:
        if not isinstance(e, np.ndarray) or e.size <= SHOWN_ELEMENTS and numbers:
            largest = magnitude(e, scale)
            got.append(named(name, g, largest))
            expected.append(named(name, e, largest))
            if got[-1] == expected[-1]:  # six digits do not show it
                with np.errstate(invalid="ignore"):
                    gap = np.nanmax(np.abs(np.asarray(g, float) - np.asarray(e, float)))
                got[-1] += f", off by {gap:.0e}"
            continue
        wrong = differs(g, e, tolerance, scale)
        place = np.unravel_index(np.flatnonzero(wrong)[0], e.shape)
        at = f"{name}[{', '.join(str(int(k)) for k in place)}]"
        got.append(f"{name}, shape {e.shape}, first wrong number {at}")
        if numbers:
            got[-1] += f" = {number(g[place])}"
            expected.append(f"{at} = {number(e[place])}")
    entries = [("got", "\n".join(got))]
    return [*entries, ("expected", "\n".join(expected))] if expected else entries


def what_is(x) -> str:
    """Kind of a thing, for a message."""
    if isinstance(x, np.ndarray):
        return f"an array of shape {x.shape}, dtype {x.dtype}"
    return f"{type(x).__name__}"


def wrong_kind(got, expected) -> str | None:
    """Why ``got`` cannot be compared with ``expected``, or None when it can."""
    if isinstance(expected, np.ndarray) and expected.ndim:
        if type(got) is not np.ndarray or got.dtype.kind not in "fiub":
            return f"should be an array of numbers, shape {expected.shape}; got {what_is(got)}"
        if got.shape != expected.shape:
            return f"should have shape {expected.shape}; got shape {got.shape}"
        return None
    if isinstance(expected, str | bool | np.bool_):
        kind = str if isinstance(expected, str) else bool | np.bool_
        return (
            None
            if isinstance(got, kind)
            else f"should be {kind_name(expected)}; got {what_is(got)}"
        )
    scalar = got[()] if isinstance(got, np.ndarray) and got.ndim == 0 else got
    real = isinstance(scalar, int | float | np.integer | np.floating)
    if not real or isinstance(scalar, bool):
        return f"should be one number; got {what_is(got)}"
    return None


def kind_name(x) -> str:
    return "a string" if isinstance(x, str) else "True or False"


def magnitude(expected, scale: float = 0.0) -> float:
    """The largest finite number expected, at least ``scale``; 0 for what is not a number."""
    if isinstance(expected, str | bool | np.bool_):
        return 0.0
    expected = np.asarray(expected, float)
    return float(np.abs(expected[np.isfinite(expected)]).max(initial=scale))


def same(got, expected, tolerance: float, scale: float = 0.0) -> bool:
    """Whether two values of one kind agree, within ``tolerance`` of the largest expected number."""
    if isinstance(expected, str | bool | np.bool_):
        return got == expected
    if np.asarray(expected).dtype.kind in "iub":
        tolerance = 0.0
    return not bool(np.any(differs(got, expected, tolerance, scale)))


def differs(got, expected, tolerance: float, scale: float = 0.0) -> np.ndarray:
    """Where two arrays differ. Infinities must be equal; NaN is right only where it is expected."""
    largest = magnitude(expected, scale)
    got, expected = np.asarray(got), np.asarray(expected)
    with np.errstate(invalid="ignore"):
        equal = (got == expected) | (got != got) & (expected != expected)
        if tolerance:
            equal |= np.abs(got - expected) <= tolerance * largest
    return ~equal


def same_input(a, b) -> bool:
    """Whether an input is as it was: same type, shape, numbers."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        numbers = a.dtype.kind in "fc"
        return a.dtype == b.dtype and np.array_equal(a, b, equal_nan=numbers)
    if isinstance(a, tuple | list):
        return len(a) == len(b) and all(map(same_input, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(map(same_input, a.values(), b.values()))
    return a == b or a != a
