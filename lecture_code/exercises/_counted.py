"""Cases that run on the counted machine: values, traffic, peak, FLOP and memory are all judged."""

from __future__ import annotations

import tracemalloc
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from . import _text as text
from ._exercise import rounding
from ._machine import Machine
from ._outcome import RIGHT, Outcome, compare, failure, printed
from ._run import run

PYTHON_BYTES = 32 * 1024


@dataclass(frozen=True)
class CountedCase:
    """One run on a chip of stated capacity, with arrays in HBM.

    The answer is called with the chip, the inputs, the outputs and the options, in this order, and
    stores its results; what it returns is ignored. The oracle gets the inputs and the options, and
    returns the outputs in order.

    Parameters
    ----------
    label : str
        What is special about this case.
    inputs : callable
        Makes {name: array} from a ``numpy.random.Generator``.
    outputs : dict
        Name to shape. They start as NaN.
    options : dict
        Further arguments.
    capacity : int
        Elements on chip.
    traffic_at_most : int
        Elements moved, loads and stores together.
    flop_at_least : int
        FLOP that go through ``chip.matmul``.
    workspace : int
        Elements of numpy arrays beside the tiles that chip holds (temporaries).
    must_read : sequence of str, optional
        Inputs of which every number must be loaded; all, if omitted.
    landmarks : dict
        Name to elements: sizes that explain too much memory, such as {"N × N": N * N}.
    fresh : bool
        Other random inputs at each check, so that no answer can be kept from the last one. The
        verdict then shows no numbers of theirs.
    hint, terms, span, scale
        As for :class:`Case`. A scale of 1 fits inputs from a normal distribution.
    """

    label: str
    inputs: Callable[[np.random.Generator], Mapping]
    outputs: Mapping
    capacity: int
    traffic_at_most: int
    options: Mapping = field(default_factory=dict)
    flop_at_least: int = 0
    workspace: int = 0
    must_read: Sequence[str] | None = None
    landmarks: Mapping = field(default_factory=dict)
    fresh: bool = False
    hint: int = 1
    terms: float = 64
    span: float = 64
    scale: float = 1.0

    counted = True

    def attempt(self, exercise, function, seconds: float, salt: int = 0) -> Outcome:
        """Run the answer once and judge what it did."""
        seed = zlib.crc32(self.label.encode())
        inputs = self.inputs(np.random.default_rng([seed, salt] if self.fresh else seed))
        with Machine(self.capacity, inputs, self.outputs) as machine:
            arguments = (machine.chip, *machine.arrays, *self.options.values())
            ran, traced_bytes = traced(function, arguments, seconds)
            books = machine.books
            shown = [*self._shown(inputs), *printed(ran)]
            if books.breach:
                return self._breach(books, shown)
            if failed := failure(ran):
                if type(ran.error).__name__ == "SRAMOverflow":
                    failed.kind, failed.mistake = "capacity", OVERFLOW
                failed.fields = shown + failed.fields
                return failed
            if books.peak > self.capacity:
                books.breach = "a larger capacity than the chip has"
                return self._breach(books, shown)
            if wrong := self._coverage(machine, shown):
                return wrong
            expected = exercise.oracle(*self.inputs_again(salt).values(), *self.options.values())
            got = tuple(record.values for record in machine.outputs.values())
            outcome = compare(
                tuple(self.outputs),
                got if len(got) > 1 else got[0],
                expected,
                rounding(self.terms, self.span),
                shown,
                scale=self.scale,
                numbers=not self.fresh,
            )
            if outcome.kind != RIGHT:
                return outcome
            return self._costs(books, traced_bytes, shown) or self._facts(books, got)

    def inputs_again(self, salt: int) -> Mapping:
        """The inputs once more: expected values are made from these after the answer has run."""
        seed = zlib.crc32(self.label.encode())
        return self.inputs(np.random.default_rng([seed, salt] if self.fresh else seed))

    def _shown(self, inputs) -> list[tuple[str, str]]:
        lines = [text.named(name, x) for name, x in inputs.items() if not self.fresh]
        lines += [text.named(name, x) for name, x in self.options.items()]
        return [("input", "\n".join([*lines, f"chip of {self.capacity:,} elements"]))]

    def _breach(self, books, shown) -> Outcome:
        return Outcome(
            "breach",
            [*shown, ("got", f"use of {books.breach}")],
            "Numbers in HBM are reached through load and store of the chip you are given, alone.",
        )

    def _coverage(self, machine, shown) -> Outcome | None:
        """Every input read, no input written, every output written."""
        for name, record in machine.inputs.items():
            if record.stored.any():
                return Outcome(
                    "overwrote",
                    [*shown, ("got", f"a store to {name}")],
                    f"{name} is an input. Store to {', '.join(self.outputs)} only.",
                    detail=name,
                )
        for name, record in machine.outputs.items():
            if rows := first_gap(name, record.stored):
                return Outcome(
                    "unstored",
                    [*shown, ("got", f"{rows} never stored")],
                    "Each row of the result must be stored with chip.store. "
                    "Are the last, shorter blocks handled?",
                    detail=rows,
                )
        for name in machine.inputs if self.must_read is None else self.must_read:
            if rows := first_gap(name, machine.inputs[name].loaded):
                return Outcome(
                    "unread",
                    [*shown, ("got", f"{rows} never loaded")],
                    f"The result depends on all of {name}: load each row at least once.",
                    detail=rows,
                )
        return None

    def _costs(self, books, traced_bytes: int, shown) -> Outcome | None:
        """Traffic, matrix products and memory within their bounds."""
        moved = books.loads + books.stores
        if moved > self.traffic_at_most:
            return self._too_costly(
                "traffic",
                shown,
                f"{moved:,} elements moved: {books.loads:,} loaded, {books.stores:,} stored",
                f"at most {self.traffic_at_most:,} elements moved",
                "Something is loaded or stored more often than needed.",
            )
        if books.flop < self.flop_at_least:
            return self._too_costly(
                "flop",
                shown,
                f"{books.flop:,} FLOP through chip.matmul",
                f"at least {self.flop_at_least:,} FLOP",
                "Products of tiles go through chip.matmul.",
            )
        elements = (traced_bytes - PYTHON_BYTES) // 8
        if elements > self.capacity + self.workspace:
            return self._too_costly(
                "memory",
                shown,
                f"numpy arrays {self._as_large_as(elements)}",
                f"at most {self.workspace:,} elements beside the {self.capacity:,} on chip",
                "Numbers were kept in numpy arrays beside the chip. Only tiles, temporaries of a "
                "tile's size and row statistics may exist at a time.",
            )
        return None

    def _too_costly(self, kind, shown, got, expected, mistake) -> Outcome:
        entries = [("got", f"the right values, with {got}"), ("expected", expected)]
        return Outcome(kind, [*shown, *entries], mistake, detail=got)

    def _as_large_as(self, elements: int) -> str:
        fitting = [(size, name) for name, size in self.landmarks.items() if size <= 1.02 * elements]
        if not fitting:
            return "larger than that"
        size, name = max(fitting)
        return f"at least as large as {name} ({size:,} elements)"

    def _facts(self, books, got) -> Outcome:
        moved = books.loads + books.stores
        facts = [
            f"in the last case {moved:,} elements moved, at most {self.traffic_at_most:,};",
            f"{books.peak:,} elements on chip at the peak, of {self.capacity:,};",
            f"at most {self.workspace:,} elements in numpy arrays beside them;",
            "every input read, every row of the result stored.",
        ]
        return Outcome(RIGHT, values=got, facts="\n".join(facts))


OVERFLOW = (
    "The tiles held at one time do not fit on the chip. Load smaller blocks, and free what is done."
)


def traced(function, arguments, seconds: float):
    """Run, and measure the most memory taken meanwhile, in bytes."""
    was_tracing = tracemalloc.is_tracing()
    if not was_tracing:
        tracemalloc.start()
    try:
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        ran = run(function, arguments, seconds)
        return ran, tracemalloc.get_traced_memory()[1] - before
    finally:
        if not was_tracing:
            tracemalloc.stop()


def first_gap(name: str, covered: np.ndarray) -> str | None:
    """The first run of rows not all covered, as "row 3 of K was" or "rows 3:7 of K were"."""
    missing = np.flatnonzero(~covered.all(axis=tuple(range(1, covered.ndim))))
    if not len(missing):
        return None
    ends = np.flatnonzero(np.diff(missing) > 1)
    first, last = missing[0], missing[ends[0]] if len(ends) else missing[-1]
    return (
        f"rows {first}:{last + 1} of {name} were" if last > first else f"row {first} of {name} was"
    )
