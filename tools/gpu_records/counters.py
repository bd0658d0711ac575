"""Bytes that attention really moves, read from the hardware's counters with Nsight Compute.

`counted_bytes` starts ncu on this file; run as a script the file runs each method once, between
marker kernels, so that the report of one process can be split by method.
"""

from __future__ import annotations

import csv
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MARKER = "spin_kernel"
COUNTERS = {
    "dram__bytes_read.sum": "DRAM read",
    "dram__bytes_write.sum": "DRAM written",
    "lts__t_bytes.sum": "L2 traffic",
}
SHAPES = ((64, 1024), (1, 8192))
METHODS = ("plain", "flash2", "ours")
_SCALE = {"byte": 1, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9, "Tbyte": 1e12}


def parse_counters(text: str) -> list[list[dict]]:
    """Split ncu's raw CSV at the marker kernels; return the kernels of each stretch.

    >>> page = '"ID","Kernel Name","dram__bytes_read.sum"\\n"","","Kbyte"\\n'
    >>> page += '"0","spin_kernel(long)","1"\\n"1","void at::gemm<int>(float)","2.5"\\n'
    >>> parse_counters(page)
    [[{'kernel': 'at::gemm', 'dram__bytes_read.sum': 2500.0}]]
    """
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        raise ValueError(f"ncu printed no table: {text.strip()[-300:]!r}")
    header, units, *rows = csv.reader(lines[start:])
    columns = {name: header.index(name) for name in COUNTERS if name in header}
    name_at = header.index("Kernel Name")
    stretches: list[list[dict]] = []
    for row in rows:
        if len(row) != len(header):
            continue
        if MARKER in row[name_at]:
            stretches.append([])
        elif stretches:
            bytes_of = {
                counter: float(row[at].replace(",", "")) * _SCALE[units[at]]
                for counter, at in columns.items()
            }
            stretches[-1].append({"kernel": short_name(row[name_at])} | bytes_of)
    return stretches


def short_name(kernel: str) -> str:
    """Strip return type, template arguments and parameters from a kernel's name.

    >>> short_name("void <unnamed>::softmax_warp_forward<Half, 10>(T2 *, int)")
    'softmax_warp_forward'
    """
    kernel = kernel.removeprefix("void ").replace("<unnamed>::", "")
    return re.split(r"[<(]", kernel)[0].strip()


def counted_bytes(run):
    """DRAM and L2 bytes of one forward and backward: plain, FlashAttention-2, ours."""
    from gpu_records.run import Progress
    from lecture_code.io_model import flash_io, standard_io

    say = Progress("counted_bytes")
    if run.smoke:
        say("needs a GPU and ncu: nothing to do")
        return
    methods = METHODS if run.kernel else METHODS[:-1]
    ncu = (
        shutil.which("ncu")
        or next((str(p) for p in sorted(Path("/opt/nvidia").glob("nsight-compute/*/ncu"))), None)
        or shutil.which("ncu", path="/usr/local/cuda/bin")
    )
    if ncu is None:
        raise RuntimeError("ncu is not on the PATH, nor in /usr/local/cuda/bin")
    command = [ncu, "--clock-control", "none", "--cache-control", "none"]
    command += ["--profile-from-start", "off", "--page", "raw", "--csv", "--print-units", "base"]
    command += ["--metrics", ",".join(COUNTERS)]
    command += [sys.executable, __file__, *methods]
    environment = os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'tools'}"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    (run.folder / "ncu.csv").write_text(done.stdout + done.stderr, encoding="utf-8")
    stretches = parse_counters(done.stdout)
    plan = [(batch, N, method) for batch, N in SHAPES for method in methods]
    if len(stretches) != len(plan):
        raise RuntimeError(
            f"ncu: expected {len(plan)} stretches, got {len(stretches)}; see ncu.csv"
        )
    rows, kernels = [], []
    heads, d = 16, 64
    for (batch, N, method), stretch in zip(plan, stretches):
        shared = {"batch": batch, "N": N, "method": method}
        for counter, meaning in COUNTERS.items():
            total = sum(kernel[counter] for kernel in stretch)
            row = {"quantity": meaning, "counter": counter, "kernels": len(stretch)}
            rows.append(shared | row | {"value": total})
        model = standard_io(N, d) if method == "plain" else flash_io(N, d, 98304)
        row = {"quantity": "counted", "counter": "lecture_code.io_model"}
        rows.append(shared | row | {"value": 2 * batch * heads * model.total})
        for order, kernel in enumerate(stretch):
            read, written, l2 = (kernel[counter] for counter in COUNTERS)
            row = {"order": order, "kernel": kernel["kernel"], "value": read + written}
            kernels.append(shared | row | {"read": read, "written": written, "l2": l2})
    say(f"{len(rows)} sums, {len(kernels)} kernels")
    texts = {
        "unit": "byte",
        "timer": "none: Nsight Compute counters, --clock-control none, --cache-control none",
        "settings": {"dtype": "float16", "heads": heads, "d": d, "causal": False},
        "sources": ("tools/gpu_records/counters.py", "tools/gpu_records/methods.py")
        + (("lecture_code/kernels/triton_flash.py",) if run.kernel else ()),
    }
    run.write(
        "gpt2_attention_bytes",
        rows,
        description="Bytes moved by GPT-2 medium's attention (16 heads, d 64), forward + backward: "
        "hardware counters beside the counted algorithm",
        convention="sums over the kernels of one forward and backward, caches kept between them; "
        "counted: 2 bytes an element, plain 11N² + 12Nd a head, flash the FlashAttention-1 rule "
        "at M = 98,304 elements",
        **texts,
    )
    run.write(
        "gpt2_attention_kernels",
        kernels,
        description="The same bytes kernel by kernel, in the order of their launch",
        convention="value = DRAM read + written of one kernel; l2: bytes through L2",
        **texts,
    )


def main(methods: list[str]):
    """Run each method once under the profiler, a marker kernel before each."""
    import torch

    from gpu_records.methods import attention_method, inputs
    from gpu_records.run import Run

    run = Run(Path("."), None)
    for batch, N in SHAPES:
        q, k, v = inputs(run, batch, 16, N, 64, dtype=torch.float16)
        do = torch.randn_like(q)
        for method in methods:
            function = attention_method(run, method, False, N)

            def forward_backward(function=function):
                return torch.autograd.grad(function(q, k, v), (q, k, v), do)

            forward_backward()
            torch.cuda.synchronize()
            torch.cuda.cudart().cudaProfilerStart()
            torch.cuda._sleep(1000)
            forward_backward()
            torch.cuda.synchronize()
            torch.cuda.cudart().cudaProfilerStop()
        del q, k, v, do
        torch.cuda.empty_cache()


PIECES = {"counted_bytes": counted_bytes}

if __name__ == "__main__":
    main(sys.argv[1:])
