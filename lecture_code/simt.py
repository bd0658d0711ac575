"""A warp: 32 threads, one instruction at a time. What a branch costs, counted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

WARP_SIZE = 32


@dataclass(frozen=True)
class Branch:
    """``if condition(thread): then  else: otherwise``, each side a program of its own.

    ``condition`` takes the thread indices, int (32,), and gives a bool for each.
    """

    condition: Callable[[np.ndarray], np.ndarray]
    then: Sequence = ()
    otherwise: Sequence = ()


@dataclass(frozen=True)
class WarpRun:
    """What the warp did.

    ``issued`` instructions, each taking one issue slot of all 32 lanes; ``active``
    lane-instructions that did work; ``trace`` the (instruction, active lanes) in order.
    """

    issued: int
    active: int
    trace: tuple[tuple[str, np.ndarray], ...]

    @property
    def efficiency(self) -> float:
        """Lanes that worked over lanes that were there."""
        return self.active / (self.issued * WARP_SIZE) if self.issued else 1.0


def run_warp(program: Sequence, *, threads=None) -> WarpRun:
    """Run a program on one warp.

    A program is a sequence of instructions (names) and :class:`Branch`es. When the threads of a
    warp do not agree on a branch, the warp runs both sides one after the other, each with the
    other side's lanes switched off. A side on which no lane stands is skipped.

    Parameters
    ----------
    program : sequence of str or Branch
    threads : array_like of int (32,), optional
        Thread indices; 0 … 31 if omitted.

    Examples
    --------
    >>> half = Branch(lambda t: t < 4, ["A"], ["X"])
    >>> run_warp([half]).issued, run_warp([half]).efficiency
    (2, 0.5)
    >>> run_warp([Branch(lambda t: t < 32, ["A"], ["X"])]).issued
    1
    """
    threads = np.arange(WARP_SIZE) if threads is None else np.asarray(threads)
    if threads.shape != (WARP_SIZE,):
        raise ValueError(f"threads must be {WARP_SIZE} thread indices, got shape {threads.shape}")
    trace: list[tuple[str, np.ndarray]] = []
    _run(program, np.ones(WARP_SIZE, bool), threads, trace)
    return WarpRun(len(trace), int(sum(lanes.sum() for _, lanes in trace)), tuple(trace))


def _run(program, lanes, threads, trace) -> None:
    if isinstance(program, str):
        raise TypeError(f"a program is a list of instructions, got the string {program!r}")
    for step in program:
        if isinstance(step, str):
            trace.append((step, lanes))
        elif isinstance(step, Branch):
            taken = np.asarray(step.condition(threads.copy()))
            if taken.shape != (WARP_SIZE,) or taken.dtype != bool:
                raise ValueError(
                    f"condition must give {WARP_SIZE} booleans, got {taken.dtype} {taken.shape}"
                )
            for side, chosen in ((step.then, lanes & taken), (step.otherwise, lanes & ~taken)):
                if chosen.any():
                    _run(side, chosen, threads, trace)
        else:
            raise TypeError(f"an instruction is a name or a Branch, got {type(step).__name__}")
