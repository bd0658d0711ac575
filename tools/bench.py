"""Time the counted machine: `make bench`. Ratios of one run with their spread, nothing asserted.

    python tools/bench.py            # one head, N = 4096, d = 64, M = 98,304
    python tools/bench.py --quick    # the same at N = 1024

Prints seconds for the counted passes, what the event log adds, how memory grows with N, and the
counted FlashAttention beside plain numpy attention.
"""

from __future__ import annotations

import argparse
import statistics
import time
import tracemalloc
from collections.abc import Callable

import numpy as np

from lecture_code.flash import flash2_forward, flash_attention_backward, flash_attention_forward
from lecture_code.softmax import safe_softmax

D, M, ROUNDS = 64, 98_304, 5


def inputs(N: int) -> tuple[np.ndarray, ...]:
    """Q, K, V, dO of one head."""
    rng = np.random.default_rng(0)
    return tuple(rng.standard_normal((N, D)) for _ in range(4))


def interleaved(calls: dict[str, Callable]) -> dict[str, list[float]]:
    """Seconds of each call in each of ROUNDS rounds, one call after the other in a round."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    for _ in range(ROUNDS):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            seconds[name].append(time.perf_counter() - start)
    return seconds


def spread(values: list[float]) -> str:
    return f"{statistics.median(values):7.3f}  ({min(values):.3f} to {max(values):.3f})"


def time_passes(N: int, causal: bool) -> None:
    Q, K, V, dO = inputs(N)
    run = flash_attention_forward(Q, K, V, M=M, causal=causal)

    def backward(log):
        saved = (run.O, dO, run.l, run.m)
        return flash_attention_backward(Q, K, V, *saved, M=M, causal=causal, log=log)

    seconds = interleaved(
        {
            "plain numpy": lambda: safe_softmax(Q @ K.T / np.sqrt(D)) @ V,
            "forward": lambda: flash_attention_forward(Q, K, V, M=M, causal=causal),
            "forward, no log": lambda: flash_attention_forward(
                Q, K, V, M=M, causal=causal, log=False
            ),
            "backward": lambda: backward(True),
            "backward, no log": lambda: backward(False),
            "FlashAttention-2 order": lambda: flash2_forward(Q, K, V, M=M, causal=causal),
        }
    )
    print(
        f"\nN = {N}, d = {D}, M = {M:,}, causal = {causal}; "
        f"median of {ROUNDS} rounds (least to most)"
    )
    for name, values in seconds.items():
        print(f"  {name:<24} {spread(values)} s")
    for name in ("forward", "backward"):
        ratios = [a / b for a, b in zip(seconds[name], seconds[f"{name}, no log"])]
        print(f"  log on / log off, {name:<8} {spread(ratios)}")
    ratios = [a / b for a, b in zip(seconds["forward"], seconds["plain numpy"])]
    print(f"  counted / plain numpy      {spread(ratios)}")


def peak_bytes(N: int, log: bool) -> int:
    """Most bytes that one forward held beyond its inputs."""
    Q, K, V, _ = inputs(N)
    tracemalloc.start()
    flash_attention_forward(Q, K, V, M=M, log=log)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def memory(largest: int) -> None:
    print("\nPeak memory of the forward, MB (tracemalloc); an N x N array of float64 beside it")
    print(f"  {'N':>6} {'no log':>9} {'log':>9} {'N x N':>9}   bytes a row, no log")
    N = largest // 8
    while N <= largest:
        off, on = peak_bytes(N, log=False), peak_bytes(N, log=True)
        print(f"  {N:>6} {off / 1e6:9.2f} {on / 1e6:9.2f} {8 * N * N / 1e6:9.1f}   {off / N:,.0f}")
        N *= 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="N = 1024 instead of 4096")
    N = 1024 if parser.parse_args().quick else 4096
    for causal in (False, True):
        time_passes(N, causal)
    memory(2 * N)


if __name__ == "__main__":
    main()
