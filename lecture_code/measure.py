"""Measuring honestly: timers with warm-up and spread, peak memory, and where a number came from.

A timing is a median with the 20th and 80th percentile beside it. Printed, it carries ⏱, and no test
depends on it. Record files are in `lecture_code.record_files`; its functions are found here too.
torch is imported only by the functions that need a GPU.
"""

from __future__ import annotations

import contextlib
import math
import random
import statistics
import subprocess
import time
import tracemalloc
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from lecture_code.record_files import (  # noqa: F401
    Record,
    load_record,
    provenance,
    record_names,
    validate_record,
    write_record,
)

_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


@dataclass(frozen=True)
class Timing:
    """Seconds of one call: 20th percentile, median, 80th; how many samples, and how taken."""

    p20_s: float
    p50_s: float
    p80_s: float
    samples: int
    timer: str

    @classmethod
    def from_samples(cls, seconds, timer: str) -> Timing:
        """Summarise samples, in seconds.

        Raises
        ------
        ValueError
            If there is no sample, or one is negative or not finite.

        >>> Timing.from_samples([3e-3, 1e-3, 2e-3], "a stopwatch").p50_s
        0.002
        """
        ordered = sorted(seconds)
        if not ordered:
            raise ValueError("seconds: expected at least one sample")
        for second in ordered:
            if not 0 <= second < math.inf:
                raise ValueError(f"seconds: expected finite samples of at least 0, got {second}")
        return cls(*(_quantile(ordered, q) for q in (0.2, 0.5, 0.8)), len(ordered), timer)

    def row(self) -> dict:
        """Return the fields that a record's row holds, in seconds."""
        return {
            "p20": self.p20_s,
            "p50": self.p50_s,
            "p80": self.p80_s,
            "samples": self.samples,
        }

    def __str__(self):
        scale, unit = next((u for u in _UNITS if self.p50_s >= u[0]), _UNITS[-1])
        low, middle, high = (value / scale for value in (self.p20_s, self.p50_s, self.p80_s))
        return f"⏱ {middle:.3g} {unit} (p20 {low:.3g}, p80 {high:.3g}, {self.samples} samples)"


def _quantile(ordered, q: float) -> float:
    """Linear interpolation between the two nearest samples."""
    place = q * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    # clamped: rounding must not break p20 <= p50 <= p80
    value = ordered[below] + (place - below) * (ordered[above] - ordered[below])
    return min(max(value, ordered[below]), ordered[above])


def _plan(call_s: float, least_sample_s: float, budget_s: float, samples: tuple[int, int]):
    """Calls in one sample, and samples."""
    calls = max(1, math.ceil(least_sample_s / max(call_s, 1e-9)))
    fitting = int(budget_s / max(call_s * calls, 1e-9))
    return calls, min(max(fitting, samples[0]), samples[1])


def time_cpu(
    function: Callable[[], object],
    *,
    warmup: int = 1,
    budget_s: float = 0.2,
    min_samples: int = 5,
    max_samples: int = 1000,
) -> Timing:
    """Time a function on the CPU with the process's wall clock.

    Parameters
    ----------
    function
        Called without arguments; anything asynchronous must be awaited inside.
    warmup
        Calls before the first sample.
    budget_s
        Seconds to spend; short calls are grouped until a sample lasts 50 µs.
    min_samples, max_samples
        Bounds on the number of samples, whatever the budget says.

    >>> time_cpu(lambda: sum(range(100)), budget_s=0.01).samples >= 5
    True
    """
    for _ in range(warmup):
        function()
    start = time.perf_counter()
    function()
    call_s = time.perf_counter() - start
    calls, samples = _plan(call_s, 50e-6, budget_s, (min_samples, max_samples))
    seconds = []
    for _ in range(samples):
        start = time.perf_counter()
        for _ in range(calls):
            function()
        seconds.append((time.perf_counter() - start) / calls)
    return Timing.from_samples(seconds, "wall clock (perf_counter) after warm-up")


def time_cuda(
    function: Callable[[], object],
    *,
    graph: bool = False,
    cold: bool = False,
    warmup: int = 2,
    budget_s: float = 0.05,
    min_samples: int = 7,
    max_samples: int = 200,
) -> Timing:
    """Time a function on the current CUDA device with events.

    Parameters
    ----------
    function
        Launches work on the current stream; its shapes and addresses stay the same.
    graph
        Capture the calls in a CUDA graph and time its replays: the launches cost next to nothing.
    cold
        Overwrite a buffer of four times the L2 cache before each sample of one call, so that inputs
        come from device memory. Otherwise calls follow each other and small inputs stay in L2.
    warmup, budget_s, min_samples, max_samples
        As in `time_cpu`; calls are grouped until a sample lasts 200 µs, unless `cold`.

    Raises
    ------
    RuntimeError
        If torch sees no CUDA device.
    """
    torch = _torch_with_cuda()
    for _ in range(warmup):
        function()
    call_s = _event_seconds(torch, function)
    calls, samples = _plan(call_s, 0 if cold else 200e-6, budget_s, (min_samples, max_samples))
    calls = min(calls, 200)
    run = _captured(torch, function, calls) if graph else None
    flush = torch.empty(_flush_bytes(torch), dtype=torch.int8, device="cuda") if cold else None
    pairs = []
    for _ in range(samples):
        if cold:
            flush.zero_()
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        if run:
            run.replay()
        else:
            for _ in range(calls):
                function()
        stop.record()
        pairs.append((start, stop))
    torch.cuda.synchronize()
    seconds = [start.elapsed_time(stop) * 1e-3 / calls for start, stop in pairs]
    how = "CUDA events" + (", CUDA graph replay" if graph else "")
    how += ", L2 overwritten before each call" if cold else ", calls back to back"
    return Timing.from_samples(seconds, how)


def _torch_with_cuda():
    import torch

    if not torch.cuda.is_available():
        raise RuntimeError("time_cuda needs a CUDA device, and torch sees none")
    return torch


def _flush_bytes(torch) -> int:
    return 4 * torch.cuda.get_device_properties().L2_cache_size


def _event_seconds(torch, function) -> float:
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    function()
    stop.record()
    torch.cuda.synchronize()
    return start.elapsed_time(stop) * 1e-3


def _captured(torch, function, calls: int):
    """Capture `calls` calls after a warm-up on the side stream that capture wants."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        function()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(calls):
            function()
    graph.replay()
    torch.cuda.synchronize()
    return graph


def interleave(
    functions: Mapping[str, Callable[[], object]],
    timer: Callable[[Callable[[], object]], Timing],
    *,
    rounds: int = 5,
    seed: int = 0,
) -> dict[str, list[float]]:
    """Time rivals in rounds, each round in a new random order, and return each one's medians.

    Clocks and temperature drift; within a round they drift little, so compare medians of one round.

    Returns
    -------
    dict
        Name to `rounds` medians in seconds, in the order of the rounds.

    >>> timings = interleave({"a": int, "b": float}, lambda f: time_cpu(f, budget_s=0), rounds=2)
    >>> [len(timings[name]) for name in ("a", "b")]
    [2, 2]
    """
    order = random.Random(seed)
    medians: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(rounds):
        for name in order.sample(list(functions), len(functions)):
            medians[name].append(timer(functions[name]).p50_s)
    return medians


def peak_memory(function: Callable[[], object], *, device: str = "cpu") -> int:
    """Return the largest number of bytes allocated while a function runs.

    Parameters
    ----------
    device
        "cpu": what Python and numpy allocate on top of what is held at the start (tracemalloc).
        "cuda": all that torch's allocator holds at its highest, what was there before included.

    Raises
    ------
    ValueError
        If `device` is neither.

    >>> peak_memory(lambda: bytearray(10**6)) >= 10**6
    True
    """
    if device == "cuda":
        torch = _torch_with_cuda()
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        function()
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated()
    if device != "cpu":
        raise ValueError(f'device: expected "cpu" or "cuda", got {device!r}')
    nested = tracemalloc.is_tracing()
    if not nested:
        tracemalloc.start()
    try:
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        function()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        if not nested:
            tracemalloc.stop()


class ClockWatch(contextlib.AbstractContextManager):
    """Watch the GPU's clocks and power through nvidia-smi while a block runs.

    `.seen` afterwards: median and range of the SM clock, the memory clock, the highest power; empty
    where there is no nvidia-smi.
    """

    QUERY = ("clocks.sm", "clocks.mem", "power.draw")

    def __init__(self, interval_s: float = 0.25):
        self.seen: dict[str, float] = {}
        self._interval_ms = round(interval_s * 1000)
        self._process = None

    def __enter__(self):
        command = [
            "nvidia-smi",
            f"--query-gpu={','.join(self.QUERY)}",
            f"--loop-ms={self._interval_ms}",
        ]
        with contextlib.suppress(FileNotFoundError):
            self._process = subprocess.Popen(
                [*command, "--format=csv,noheader,nounits", "--id=0"],
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        return self

    def __exit__(self, *_):
        if self._process is None:
            return
        self._process.terminate()
        output, _ = self._process.communicate()
        lines = [line.split(",") for line in output.splitlines()]
        rows = []
        for line in lines:
            with contextlib.suppress(ValueError):
                rows.append(tuple(float(value) for value in line))
        rows = [row for row in rows if len(row) == len(self.QUERY)]
        if rows:
            sm, memory, power = zip(*rows)
            self.seen = {
                "sm_mhz_median": statistics.median(sm),
                "sm_mhz_min": min(sm),
                "sm_mhz_max": max(sm),
                "memory_mhz": max(memory),
                "power_w_max": max(power),
                "samples": len(rows),
            }
