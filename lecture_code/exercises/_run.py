"""Run somebody else's function so that nothing it does can stop the kernel."""

from __future__ import annotations

import ctypes
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


class Stop(SystemExit):
    """Raised inside a function that ran out of time. threading keeps silent about a SystemExit."""


class Printed(io.TextIOBase):
    """Takes what a function prints, keeps the beginning."""

    def __init__(self):
        self.text = ""

    def writable(self) -> bool:
        return True

    def write(self, text) -> int:
        if len(self.text) < KEPT_CHARACTERS:
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

    At the deadline an exception is raised inside the thread, again and again while it is swallowed. A thread
    that sits in compiled code cannot be reached; it is a daemon and is left behind.
    """
    ran, done = Ran(), threading.Event()

    def body():
        try:
            with np.errstate(all="ignore"):
                ran.value = function(*args)
        except BaseException as error:  # sys.exit and Stop are BaseExceptions
            ran.error = error
        finally:
            done.set()

    printed, recursion_limit = Printed(), sys.getrecursionlimit()
    streams, sys.stdout, sys.stderr = (sys.stdout, sys.stderr), printed, printed
    stack_bytes = threading.stack_size(STACK_BYTES)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            thread = threading.Thread(target=body, daemon=True, name="exercise")
            thread.start()
            wait(done, seconds)
            if not done.is_set():
                ran = Ran(timed_out=True)
                stop(thread)
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
    """Wait in short slices: a long wait cannot be interrupted from the keyboard on Windows."""
    end = time.monotonic() + seconds
    while not done.is_set() and (left := end - time.monotonic()) > 0:
        done.wait(min(left, 0.05))


def stop(thread: threading.Thread) -> None:
    """Raise Stop in a thread until it ends: for a quarter of a second here, then in the
    background."""
    if not raise_until_dead(thread, 0.25):
        threading.Thread(target=raise_until_dead, args=(thread, 60.0), daemon=True).start()


def raise_until_dead(thread: threading.Thread, seconds: float) -> bool:
    """Whether the thread ended."""
    end = time.monotonic() + seconds
    while thread.is_alive() and time.monotonic() < end:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(thread.ident), ctypes.py_object(Stop)
        )
        thread.join(0.002)
    return not thread.is_alive()
