"""Run somebody else's function so that nothing ordinary can stop the kernel."""

from __future__ import annotations

import ctypes
import inspect
import io
import sys
import threading
import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

KEPT_CHARACTERS = 2000
STACK_BYTES = 16 * 2**20
HERE_S, BEHIND_S = 0.25, 60.0


class Stop(SystemExit):
    """Raised in a function that ran out of time. threading keeps silent about a SystemExit."""


class Printed(io.TextIOBase):
    """Takes what a function prints, keeps the beginning."""

    def __init__(self):
        self.text = ""

    def writable(self) -> bool:
        return True

    def write(self, text) -> int:
        self.text += str(text)[: KEPT_CHARACTERS - len(self.text)]
        return len(text)


@dataclass
class Ran:
    """What came of a call: a value, or an error, or neither because time ran out."""

    value: Any = None
    error: BaseException | None = None
    timed_out: bool = False
    printed: str = ""


def run(function, args, seconds: float) -> Ran:
    """Call ``function(*args)`` in a thread of its own, for at most ``seconds``.

    At the deadline an exception is raised inside the thread, again and again while it is
    swallowed. A thread that sits in compiled code cannot be reached: it is left behind, a daemon.
    Output and warnings are taken in, and the recursion limit is put back.
    """
    ran, done, printed = Ran(), threading.Event(), Printed()

    def body():
        try:
            with np.errstate(all="ignore"):
                ran.value = function(*args)
        except BaseException as error:  # sys.exit and Stop are BaseExceptions
            ran.error = error
        finally:
            done.set()

    recursion_limit = sys.getrecursionlimit()
    streams, sys.stdout, sys.stderr = (sys.stdout, sys.stderr), printed, printed
    stack_bytes = threading.stack_size(STACK_BYTES)
    thread = threading.Thread(target=body, daemon=True, name="exercise")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            thread.start()
            wait(done, seconds)
            if not done.is_set():
                stop(thread)
                return Ran(timed_out=True, printed=printed.text)
            if inspect.iscoroutine(ran.value):
                ran.value.close()
    except KeyboardInterrupt:
        stop(thread)
        raise
    finally:
        threading.stack_size(stack_bytes)
        sys.stdout, sys.stderr = streams
        sys.setrecursionlimit(recursion_limit)
    ran.printed = printed.text
    return ran


def wait(done: threading.Event, seconds: float) -> None:
    """Wait in short slices: on Windows a long wait cannot be interrupted from the keyboard."""
    end = time.monotonic() + seconds
    while not done.is_set() and (left := end - time.monotonic()) > 0:
        done.wait(min(left, 0.05))


def stop(thread: threading.Thread) -> None:
    """Raise Stop in a thread until it ends, for a moment here, then in the background."""
    if not raise_until_dead(thread, HERE_S):
        threading.Thread(target=raise_until_dead, args=(thread, BEHIND_S), daemon=True).start()


def raise_until_dead(thread: threading.Thread, seconds: float) -> bool:
    """Whether the thread ended."""
    end = time.monotonic() + seconds
    while thread.is_alive() and time.monotonic() < end:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(thread.ident), ctypes.py_object(Stop)
        )
        thread.join(0.002)
    return not thread.is_alive()
