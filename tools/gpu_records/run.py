"""What every piece shares: the device, the timer, random inputs, and writing the record."""

from __future__ import annotations

import gc
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import torch

from lecture_code import measure

ROOT = Path(__file__).resolve().parents[2]
FLOP_RULE = "multiply-add = 2 FLOP"


@dataclass
class Run:
    """One call of tools/gpu.py.

    `smoke` runs tiny shapes on the CPU to check the script itself; its files say CPU and are never
    committed. `kernel` says whether the book's kernel takes part.
    """

    folder: Path
    commit: str | None
    smoke: bool = False
    kernel: bool = True
    dtype: torch.dtype = torch.bfloat16
    written: list[Path] = field(default_factory=list)

    @property
    def device(self) -> str:
        return "cpu" if self.smoke else "cuda"

    def timing(self, function, **options) -> measure.Timing:
        """Time on the GPU, or briefly on the CPU in a smoke run."""
        if self.smoke:
            return measure.time_cpu(function, budget_s=0, min_samples=2, max_samples=2)
        return measure.time_cuda(function, **options)

    def random(self, *shape, dtype=None, grad=False) -> torch.Tensor:
        """Standard normal inputs: zeros would run faster than real data."""
        x = torch.randn(*shape, device=self.device, dtype=dtype or self.dtype)
        return x.requires_grad_(grad)

    def flush_memory(self):
        """Give cached blocks back, so that the next shape finds room."""
        if not self.smoke:
            torch.cuda.empty_cache()

    def finish_piece(self):
        """Free what a piece leaves behind.

        cuBLAS keeps 32 MiB for every stream it ran on, and each graph capture has its own stream.
        """
        gc.collect()
        if not self.smoke:
            torch._C._cuda_clearCublasWorkspaces()
            torch.cuda.empty_cache()

    def write(self, name: str, rows: list[dict], *, clocks=None, sources=(), **texts):
        """Write one record and say so."""
        files = ["lecture_code/measure.py", "tools/gpu_records/run.py", *sources]
        provenance = measure.provenance(
            commit=self.commit, sources=[ROOT / f for f in files], clocks=clocks
        )
        provenance["sources"] = dict(zip(files, provenance["sources"].values()))
        path = measure.write_record(name, rows, provenance=provenance, folder=self.folder, **texts)
        self.written.append(path)
        print(f"{path} ({len(rows)} rows)", flush=True)


def attempt(function) -> tuple[object, str | None]:
    """Return a function's value, or the reason why there is none: out of memory, not supported."""
    try:
        return function(), None
    except torch.OutOfMemoryError:
        return None, "out of memory"
    except (RuntimeError, NotImplementedError) as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        print(f"  left out: {first[:160]}", file=sys.stderr, flush=True)
        return None, f"not run: {first[:120]}"


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


class Progress:
    """One line a step, with the seconds since the start."""

    def __init__(self, title: str):
        self.title, self.start = title, time.perf_counter()

    def __call__(self, text: str):
        seconds = time.perf_counter() - self.start
        print(f"[{self.title} {seconds:5.1f} s] {text}", flush=True)
