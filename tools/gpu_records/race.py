"""Records of speed: the race, its edges, small shapes and the first call."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import tempfile

import torch

from gpu_records.methods import KERNEL, METHODS, ROUND, attention_method, backward_of, inputs
from gpu_records.run import FLOP_RULE, ROOT, Progress, Run, attempt, dtype_name
from lecture_code import measure
from lecture_code.roofline import attention_flop

SOURCES = ("tools/gpu_records/race.py", "tools/gpu_records/methods.py")
RACE_FLOP = (
    "flop = 4·batch·heads·N²·d forward, half if causal, 2.5 times that backward "
    f"(FlashAttention-2's convention); {FLOP_RULE}"
)


def race_cells(smoke: bool = False) -> list[dict]:
    """The twelve cells: 16,384 tokens, heads x d = 2,048.

    >>> len(race_cells())
    12
    """
    cells = itertools.product((64, 128, 256), (4096, 16384), (False, True))
    if smoke:
        cells = [(16, 32, False), (16, 32, True)]
    tokens, width = (32, 32) if smoke else (16384, 2048)
    return [
        {"d": d, "N": N, "causal": causal, "batch": tokens // N, "heads": width // d}
        for d, N, causal in cells
    ]


def race(run: Run, rounds: int = 5, cells: int = 12):
    """Forward and backward of six methods in (the first) twelve cells, in interleaved rounds."""
    name = "race"
    say = Progress(name)
    rows = []
    methods = list(METHODS) if run.kernel else [m for m in METHODS if m != "ours"]
    if run.smoke:
        methods = ["flash2", "plain", "cudnn"]
    with measure.ClockWatch() as watch:
        for cell in race_cells(run.smoke)[:cells]:
            rows += _race_cell(run, cell, methods, rounds)
            say(" ".join(f"{key}={value}" for key, value in cell.items()))
    if not run.smoke and run.dtype == torch.float16:
        name += "_float16"
    run.write(
        name,
        rows,
        description="The race: forward and backward of attention in twelve cells, six methods",
        unit="s",
        convention=RACE_FLOP + "; ratio_p20/p50/p80 = ours over this method in speed, by round",
        timer=f"median of CUDA events in each of {rounds} rounds, methods in random order; "
        "p20, p50, p80 over the rounds",
        settings={"dtype": dtype_name(run.dtype), "rounds": rounds, "methods": METHODS},
        clocks=watch.seen,
        sources=(*SOURCES, *([KERNEL] if run.kernel else [])),
    )


def _race_cell(run: Run, cell: dict, methods: list[str], rounds: int) -> list[dict]:
    N, d, causal = cell["N"], cell["d"], cell["causal"]
    q, k, v = inputs(run, cell["batch"], cell["heads"], N, d)
    forward, backward, status = {}, {}, {}
    for method in methods:
        function = attention_method(run, method, causal, N)

        def both(function=function):
            with torch.no_grad():
                function(q, k, v)
            backward_of(function, q, k, v)()

        _, problem = attempt(both)
        run.flush_memory()
        if problem:
            status[method] = problem
        else:
            forward[method] = lambda f=function: _no_grad(f, q, k, v)
            backward[method] = function
    rows = []
    for direction in ("forward", "backward"):
        flop = attention_flop(
            N,
            d,
            heads=cell["heads"],
            batch=cell["batch"],
            causal="half" if causal else "none",
            passes=direction,
            recompute=True,
        )
        shared = {**cell, "direction": direction, "flop": flop}
        if direction == "forward":
            times = measure.interleave(forward, lambda f: run.timing(f, **ROUND), rounds=rounds)
        else:
            times = _backward_rounds(run, backward, (q, k, v), rounds)
        for method in methods:
            row = {**shared, "method": method}
            if method in status:
                rows.append(row | {"status": status[method]})
                continue
            timing = measure.Timing.from_samples(times[method], "rounds")
            row |= timing.row()
            if "ours" in times:
                speed = [b / a for a, b in zip(times["ours"], times[method])]
                ratio = measure.Timing.from_samples(speed, "ratios")
                row |= {
                    "ratio_p20": ratio.p20_s,
                    "ratio_p50": ratio.p50_s,
                    "ratio_p80": ratio.p80_s,
                }
            rows.append(row)
    return rows


def _speed_ratio(ours: list[float], theirs: list[float]) -> dict:
    """Ours over theirs in speed, round by round: its 20th percentile, median, 80th."""
    ratios = [b / a for a, b in zip(ours, theirs)]
    spread = measure.Timing.from_samples(ratios, "ratios").row()
    return {f"ratio_{key}": spread[key] for key in ("p20", "p50", "p80")}


def _no_grad(function, *tensors):
    with torch.no_grad():
        return function(*tensors)


def _backward_rounds(run: Run, functions: dict, tensors, rounds: int) -> dict:
    """Interleave backwards; plain attention's graph holds P, so each lives only for its turn."""

    def timer(function):
        call = backward_of(function, *tensors)
        return run.timing(call, **ROUND)

    return measure.interleave(functions, timer, rounds=rounds)


def race_edge(run: Run, rounds: int = 5):
    """Ragged lengths, grouped heads and strided inputs against the aligned cell, in FLOP/s."""
    say = Progress("race_edge")
    rows = []
    cases = [
        ("aligned", 4096, {}),
        ("ragged", 4095, {}),
        ("gqa", 4096, {"kv": 4}),
        ("strided", 4096, {"strided": True}),
        ("aligned", 16384, {}),
        ("ragged", 16001, {}),
    ]
    if run.smoke:
        cases = [("aligned", 32, {}), ("ragged", 31, {}), ("strided", 32, {"strided": True})]
    method = "ours" if run.kernel and not run.smoke else "flash2"
    cells = [(16, False)] if run.smoke else list(itertools.product((64, 128), (False, True)))
    with measure.ClockWatch() as watch:
        for d, causal in cells:
            rows += _edge_cell(run, method, d, causal, cases, rounds)
            say(f"d={d} causal={causal}")
    run.write(
        "race_edge",
        rows,
        description="Ragged N, grouped heads (4 query heads a key head) and strided inputs against "
        "the aligned cell of the same d",
        unit="s",
        convention=RACE_FLOP,
        timer=f"median of CUDA events in each of {rounds} rounds in random order; p20, p50, p80 "
        "over the rounds",
        settings={"dtype": dtype_name(run.dtype), "method": method},
        clocks=watch.seen,
        sources=(*SOURCES, *([KERNEL] if method == "ours" else [])),
    )


def _edge_cell(run: Run, method: str, d: int, causal: bool, cases, rounds: int) -> list[dict]:
    heads = 2 if run.smoke else 2048 // d
    forward, backward, facts = {}, {}, {}
    for kind, N, options in cases:
        batch = 1 if run.smoke else max(1, 16384 // N)
        function = attention_method(run, method, causal, N)
        kv_heads = heads // options.get("kv", 1)
        if options.get("strided"):
            # (B, N, H, d) seen as (B, H, N, d), as a projection leaves it
            tensors = [run.random(batch, N, heads, d).transpose(1, 2) for _ in range(3)]
            tensors = [t.detach().requires_grad_() for t in tensors]
        else:
            tensors = inputs(run, batch, heads, N, d, kv_heads=kv_heads)
        name = f"{kind} {N}"
        forward[name] = lambda f=function, t=tensors: _no_grad(f, *t)
        backward[name] = backward_of(function, *tensors)
        facts[name] = {"case": kind, "N": N, "batch": batch, "heads": heads, "kv_heads": kv_heads}
    rows = []
    for direction, functions in (("forward", forward), ("backward", backward)):
        times = measure.interleave(functions, lambda f: run.timing(f, **ROUND), rounds=rounds)
        for name, fact in facts.items():
            flop = attention_flop(
                fact["N"],
                d,
                heads=heads,
                batch=fact["batch"],
                causal="half" if causal else "none",
                passes=direction,
                recompute=True,
            )
            row = {**fact, "d": d, "causal": causal, "direction": direction, "flop": flop}
            rows.append(row | measure.Timing.from_samples(times[name], "rounds").row())
    return rows


def small(run: Run):
    """N = 128 to 1,024 at batch 1: launches one by one, CUDA graph replays, and the first call."""
    say = Progress("small")
    rows = []
    methods = ["ours", "flash2", "cudnn", "plain"] if run.kernel else ["flash2", "cudnn", "plain"]
    if run.smoke:
        methods = ["flash2", "plain"]
    sizes = [32] if run.smoke else [128, 256, 512, 1024]
    with measure.ClockWatch() as watch:
        for d, N, causal in itertools.product(
            [16] if run.smoke else [64, 128], sizes, (False, True)
        ):
            heads = 2 if run.smoke else 2048 // d
            q, k, v = inputs(run, 1, heads, N, d)
            for method in methods:
                function = attention_method(run, method, causal, N)
                row = {"d": d, "N": N, "causal": causal, "heads": heads, "method": method}
                call = lambda f=function, t=(q, k, v): _no_grad(f, *t)  # noqa: E731
                for mode in ("eager",) if run.smoke else ("eager", "graph"):
                    measured = row | {"direction": "forward", "mode": mode}
                    timing, problem = attempt(
                        lambda c=call, m=mode: run.timing(c, graph=m == "graph", budget_s=0.03)
                    )
                    rows.append(measured | (timing.row() if timing else {"status": problem}))
                both = lambda f=function, t=(q, k, v): backward_of(f, *t)()  # noqa: E731
                timing, problem = attempt(lambda b=both: run.timing(b, budget_s=0.03))
                measured = row | {"direction": "forward + backward", "mode": "eager"}
                rows.append(measured | (timing.row() if timing else {"status": problem}))
    say("shapes")
    if run.kernel and not run.smoke:
        rows += _first_calls(say)
    run.write(
        "small",
        rows,
        description="Attention at batch 1 and N = 128 to 1,024, and the first call of a process",
        unit="s",
        convention="time of one call; mode eager: launched one by one; graph: CUDA graph replay; "
        "first call: wall clock of forward and backward in a fresh process with an empty cache",
        timer="CUDA events, calls back to back: median of samples",
        settings={"dtype": dtype_name(run.dtype), "batch": 1, "methods": METHODS},
        clocks=watch.seen,
        sources=(*SOURCES, *([KERNEL] if run.kernel and not run.smoke else [])),
    )


_FIRST_CALL = """
import json, time, torch
from lecture_code.kernels.triton_flash import flash_attention
d, causal = {d}, {causal}
x = torch.randn(3, 1, 8, 1024, d, device="cuda", dtype=torch.bfloat16)
x = [t.requires_grad_() for t in x]
torch.cuda.synchronize()
start = time.perf_counter()
out = flash_attention(*x, causal=causal); torch.cuda.synchronize()
forward = time.perf_counter() - start
out.backward(torch.ones_like(out)); torch.cuda.synchronize()
print(json.dumps([forward, time.perf_counter() - start - forward]))
"""


def _first_calls(say) -> list[dict]:
    rows = []
    for d in (64,):
        with tempfile.TemporaryDirectory() as cache:
            environment = os.environ | {"TRITON_CACHE_DIR": cache, "PYTHONPATH": str(ROOT)}
            code = _FIRST_CALL.format(d=d, causal=True)
            done = subprocess.run(
                [sys.executable, "-c", code], env=environment, capture_output=True, text=True
            )
        row = {
            "d": d,
            "N": 1024,
            "causal": True,
            "heads": 8,
            "method": "ours",
            "mode": "first call",
        }
        if done.returncode:
            rows.append(row | {"status": f"not run: {done.stderr.strip().splitlines()[-1][:120]}"})
            continue
        for direction, seconds in zip(("forward", "backward"), json.loads(done.stdout)):
            rows.append(row | {"direction": direction, "value": seconds})
        say(f"first call d={d}")
    return rows


PIECES = {function.__name__: function for function in (race, race_edge, small)}
