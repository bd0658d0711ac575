"""Test and measure on a real GPU: `python3 tools/gpu.py PIECE ... --out DIR --commit REVISION`.

Needs torch and triton, no environment of this project and no network. Each piece writes one or two
JSON records into --out, to be copied into lecture_code/records/. Without a piece: `test`, then all.
`--list` shows the pieces; `--smoke` runs them tiny on the CPU, to check this script only.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
import traceback
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

# one compile worker: a pool of them takes longer to start than our few small graphs to compile
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")

PIECES = {
    "test": "GPU tests of the kernel (pytest -m gpu)",
    "copy_bandwidth": "copies of 64 KiB to 4 GiB",
    "matmul_ceiling": "large square matmuls in each precision",
    "matmul_wave": "square bfloat16 matmuls over many n",
    "matmul_kernels": "the kernels that cuBLAS picks for them",
    "matmul_one_tile": "the same by one kernel with one tile",
    "operator_roofline": "operators of many intensities",
    "fusion": "sin²+cos² and cos(cos(x)), fused and not",
    "launch_overhead": "chains of small kernels, CUDA graphs, batch doubling",
    "memory": "peak memory over N",
    "gpt2_attention": "the paper's figure 2: time",
    "counted_bytes": "the paper's figure 2: bytes, with ncu",
    "race": "twelve cells, six methods, forward and backward",
    "race_edge": "ragged, grouped and strided inputs",
    "small": "N = 128 to 1,024 at batch 1; the first call",
    "numerics": "errors in 16 bits against float64",
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pieces", nargs="*", metavar="PIECE", help="see --list; all if left out")
    parser.add_argument("--list", action="store_true", help="list the pieces and stop")
    parser.add_argument("--out", type=Path, default=ROOT / "_build" / "records")
    parser.add_argument("--commit", help="revision, -dirty if changed (else LECTURE_COMMIT, git)")
    parser.add_argument("--dtype", choices=["bfloat16", "float16"], default="bfloat16")
    parser.add_argument("--rounds", type=int, default=5, help="interleaved rounds of the race")
    parser.add_argument("--cells", type=int, default=12, help="the race's first cells, to try it")
    parser.add_argument("--without-kernel", action="store_true", help="leave the book's kernel out")
    parser.add_argument("--smoke", action="store_true", help="tiny shapes on the CPU")
    options = parser.parse_args()
    if options.list:
        for name, text in PIECES.items():
            print(f"{name:18} {text}")
        return 0
    unknown = [name for name in options.pieces if name not in PIECES]
    if unknown:
        parser.error(f"unknown piece {', '.join(unknown)}; known: {', '.join(PIECES)}")
    return run_pieces(options.pieces or list(PIECES), options)


def run_pieces(names: list[str], options) -> int:
    """Run the pieces in order; one that fails does not stop the next."""
    import torch
    from gpu_records import counters, machine, race, results, tiles
    from gpu_records.run import Run

    if not options.smoke and not torch.cuda.is_available():
        print("torch sees no CUDA device here; --smoke checks the script on a CPU", file=sys.stderr)
        return 2
    options.out.mkdir(parents=True, exist_ok=True)
    run = Run(
        folder=options.out,
        commit=options.commit,
        smoke=options.smoke,
        kernel=not options.without_kernel,
        dtype=getattr(torch, options.dtype),
    )
    functions = {"test": gpu_tests}
    for module in (machine, tiles, race, results, counters):
        functions |= module.PIECES
    failed = []
    for name in names:
        start = time.perf_counter()
        torch.manual_seed(0)
        try:
            if name == "race":
                functions[name](run, rounds=options.rounds, cells=options.cells)
            else:
                functions[name](run)
        except Exception:
            traceback.print_exc()
            failed.append(name)
        print(f"-- {name}: {time.perf_counter() - start:.1f} s", flush=True)
        run.finish_piece()
    print(f"{len(names) - len(failed)} of {len(names)} pieces done, {len(run.written)} records")
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def gpu_tests(run) -> None:
    """Run the tests marked gpu."""
    if run.smoke:
        return
    command = [sys.executable, "-m", "pytest", "-q", "-m", "gpu", "tests"]
    if find_spec("xdist"):
        # most of the time is compilation; pytest-benchmark warns beside xdist
        command += ["-n", "8", "-p", "no:benchmark"]
    subprocess.run(command, cwd=ROOT, check=True)


if __name__ == "__main__":
    sys.exit(main())
