"""Why the wave curve is as it is: the kernels that cuBLAS picks, and one kernel with one tile."""

from __future__ import annotations

import torch

from gpu_records.machine import wave_sizes
from gpu_records.run import FLOP_RULE, Progress, Run
from lecture_code import measure
from lecture_code.roofline import matmul_cost
from lecture_code.tiling import tile_count

SOURCES = ("tools/gpu_records/tiles.py",)
TILE = {"tile_m": 256, "tile_n": 128}
MARKER = "spin_kernel"


def between_markers(events) -> list[list]:
    """Split (start time, kernel name, arguments) events, in order of time, at the marker kernels.

    >>> between_markers([(3, "gemm", {}), (1, "spin_kernel(long)", {}), (4, "reduce", {})])
    [[('gemm', {}), ('reduce', {})]]
    """
    stretches: list[list] = []
    for _, name, arguments in sorted(events, key=lambda event: event[0]):
        if MARKER in name:
            stretches.append([])
        elif stretches:
            stretches[-1].append((name, arguments))
    return stretches


def matmul_kernels(run: Run):
    """Name and grid of each kernel that a bf16 product of size n launches."""
    say = Progress("matmul_kernels")
    sizes = wave_sizes(run.smoke)
    if run.smoke:
        stretches = [[("cpu", {"grid": [1, 1, 1], "block": [1, 1, 1]})] for _ in sizes]
    else:
        stretches = _profiled(sizes)
    if len(stretches) != len(sizes):
        raise RuntimeError(f"expected {len(sizes)} stretches of kernels, got {len(stretches)}")
    rows = []
    for n, stretch in zip(sizes, stretches):
        for order, (name, arguments) in enumerate(stretch):
            blocks, threads = (
                arguments[key][0] * arguments[key][1] * arguments[key][2]
                for key in ("grid", "block")
            )
            row = {"n": n, "divisor": min(n & -n, 128), "order": order, "kernel": name}
            grid = dict(zip(("grid_x", "grid_y", "grid_z"), arguments["grid"]))
            rows.append(row | grid | {"threads": threads, "value": blocks})
    say(f"{len(rows)} kernels, {len({row['kernel'] for row in rows})} names")
    run.write(
        "matmul_kernels",
        rows,
        description="Kernels behind the wave-shaped curve: their names and thread blocks",
        unit="thread blocks",
        convention="value = thread blocks of the launch; order = place among the kernels of one n",
        timer="none: torch.profiler, one call a size",
        settings={"dtype": "bfloat16", "library": "cuBLAS through torch.mm", "data": "random"},
        sources=(*SOURCES, "tools/gpu_records/machine.py"),
    )


def _profiled(sizes) -> list[list]:
    import json
    import tempfile
    from pathlib import Path

    from torch.profiler import ProfilerActivity, profile

    operands = [torch.randn(2, n, n, device="cuda", dtype=torch.bfloat16) for n in sizes]
    for a, b in operands[:2]:
        torch.mm(a, b)
    out = [torch.empty_like(pair[0]) for pair in operands]
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        for (a, b), c in zip(operands, out):
            torch.cuda._sleep(1000)
            torch.mm(a, b, out=c)
        torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        trace = json.loads(path.read_text(encoding="utf-8"))
    return between_markers(
        (event["ts"], event["name"], event["args"])
        for event in trace["traceEvents"]
        if event.get("cat") == "kernel"
    )


def matmul_one_tile(run: Run):
    """The wave curve of one kernel that keeps its 256 x 128 tile, and gives each tile a block."""
    say = Progress("matmul_one_tile")
    sizes = [64, 128] if run.smoke else list(range(256, 4097, 32))
    rows = []
    with measure.ClockWatch() as watch:
        for n in sizes:
            a, b = (run.random(n, n, dtype=torch.bfloat16) for _ in range(2))
            product = torch.mm if run.smoke else _one_tile_product()
            out = torch.empty_like(a)
            if not run.smoke:
                _compare(product(a, b, out=out), torch.mm(a, b), n)
            timing = run.timing(lambda: product(a, b, out=out), graph=True, budget_s=0.02)
            row = {"n": n, "tiles": tile_count(n, n, **TILE), "flop": matmul_cost(n, n, n).flop}
            rows.append(row | timing.row())
    say(f"{len(rows)} sizes")
    run.write(
        "matmul_one_tile",
        rows,
        description="Square bfloat16 products by one Triton kernel that keeps its 256 x 128 tile",
        unit="s",
        convention=f"flop = 2n³, {FLOP_RULE}; one thread block a tile, one on an SM at a time",
        timer="CUDA events around CUDA graph replays of calls back to back: median of samples",
        settings={"dtype": "bfloat16", **TILE, "data": "random"},
        clocks=watch.seen,
        sources=(*SOURCES, "tools/gpu_records/one_tile.py"),
    )


def _one_tile_product():
    from gpu_records.one_tile import one_tile_product

    return one_tile_product


def _compare(got, expected, n: int) -> None:
    """Both round an fp32 sum to bf16 once; sums of n products of normal numbers are about √n."""
    error = (got.float() - expected.float()).abs().max().item()
    if not error <= 2**-7 * 8 * n**0.5:
        raise RuntimeError(f"the kernel is wrong at n = {n}: it is {error} off")


PIECES = {function.__name__: function for function in (matmul_kernels, matmul_one_tile)}
