"""Compile every configuration of the Triton kernel for five GPUs, with no GPU: tools/compile_all.py

For each compute capability, head dimension and precision the kernels are compiled exactly as a
launch would compile them, with a driver that only names the target. What is reported of each:
shared memory against the device's limit, registers, spilled bytes, matrix instructions in the PTX,
and whether ptxas serialised wgmma (its messages C7510 to C7519, which cost up to half the speed).

`--full` compiles the product of precision, causal or not, heads shared or not, descriptors or
pointers, and sign of the scale; without it each distinct configuration is compiled once.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import os
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

CAPABILITIES = ((7, 5), (8, 0), (8, 9), (9, 0), (10, 0))
MATRIX_INSTRUCTIONS = {
    (7, 5): None,  # Triton uses no tensor cores here since 3.3
    (8, 0): "mma.sync",
    (8, 9): "mma.sync",
    (9, 0): "wgmma.mma_async",
    (10, 0): "tcgen05.mma",
}


@dataclasses.dataclass(frozen=True)
class Case:
    """One call of the kernel to compile for one device."""

    capability: tuple[int, int]
    d: int
    dtype: str
    causal: bool = True
    group: int = 1
    pointers: bool = False
    scale: float = 0.125


@dataclasses.dataclass(frozen=True)
class Compiled:
    """What came out for one kernel of a case."""

    case: Case
    kernel: str
    shared_bytes: int
    shared_limit_bytes: int
    registers: int
    spilled_bytes: int
    matrix_instructions: int
    serialised: tuple[str, ...]

    def problems(self) -> list[str]:
        """What must not be shipped."""
        found = []
        if self.shared_bytes > self.shared_limit_bytes:
            found.append(f"shared memory {self.shared_bytes} > {self.shared_limit_bytes} bytes")
        wants_matrix = self.case.dtype != "float32" and MATRIX_INSTRUCTIONS[self.case.capability]
        if wants_matrix and not self.matrix_instructions:
            found.append(f"no {wants_matrix} in the PTX")
        if self.serialised:
            found.append(f"ptxas serialised the matrix instructions: {', '.join(self.serialised)}")
        if self.spilled_bytes > spill_bound_bytes(self.case):
            found.append(f"{self.spilled_bytes} bytes spilled > {spill_bound_bytes(self.case)}")
        return found


def spill_bound_bytes(case: Case) -> int:
    """The spilled bytes a thread that a case may have; the reasons stand in notes/kernel.md."""
    if case.dtype == "float32" or case.capability == (7, 5):
        return 1024
    if case.pointers:
        return 640
    return 96 if case.d > 128 else 0


def distinct_cases() -> list[Case]:
    """Each distinct choice of tiles once: 16 bits causal with descriptors, and float32."""
    cases = []
    for capability in CAPABILITIES:
        for d in (64, 128, 256):
            cases.append(Case(capability, d, "float16"))
        for d in (64, 128, 256):
            cases.append(Case(capability, d, "float32"))
    return cases


def all_cases() -> list[Case]:
    """The full product."""
    product = itertools.product(
        CAPABILITIES,
        (16, 64, 80, 128, 256),
        ("float16", "bfloat16", "float32"),
        (False, True),
        (1, 4),
        (False, True),
        (0.125, -1.0),
    )
    return [
        Case(*values)
        for values in product
        if not (values[2] == "bfloat16" and values[0] < (8, 0))
        and not (values[5] and values[0] < (9, 0))
        and not (values[5] and values[2] == "float32")
    ]


class NamedTarget:
    """A driver with no device: it only says for which target to compile."""

    def __init__(self, capability):
        from triton.backends.compiler import GPUTarget

        self.target = GPUTarget("cuda", capability[0] * 10 + capability[1], 32)

    def get_current_target(self):
        return self.target

    def get_current_device(self):
        return self.target.arch

    def get_current_stream(self, device=None):
        return 0


def compile_case(case: Case) -> list[Compiled]:
    """Compile the kernels of one case as their launches would."""
    import torch
    import triton

    from lecture_code.kernels import triton_flash

    triton.runtime.driver.set_active(NamedTarget(case.capability))
    dtype = getattr(torch, case.dtype)
    config = triton_flash.choose_config(case.capability, case.d, dtype)
    if case.pointers:
        config = dataclasses.replace(config, descriptors=False)
    kernels = []

    def compile_only(kernel, programs, device, *args, **options):
        kernels.append(kernel.warmup(*args, grid=(programs,), **options))

    launch, triton_flash._launch = triton_flash._launch, compile_only
    try:
        q = torch.empty(1, 8, 256, case.d, dtype=dtype)
        k = torch.empty(1, 8 // case.group, 256, case.d, dtype=dtype)
        o, lse = triton_flash._forward(q, k, k, case.causal, case.scale, config)
        triton_flash._backward(q, None, q, k, k, o, lse, case.causal, case.scale, config)
    finally:
        triton_flash._launch = launch
    return [report(case, kernel, config.shared_limit_bytes) for kernel in kernels]


def report(case: Case, kernel, shared_limit_bytes: int) -> Compiled:
    """Read shared memory, PTX and ptxas's own words about one compiled kernel."""
    from triton import knobs

    arch = case.capability[0] * 10 + case.capability[1]
    ptxas = knobs.nvidia.ptxas_blackwell if arch >= 100 else knobs.nvidia.ptxas
    ptx = kernel.asm["ptx"]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.ptx"
        path.write_text(ptx)
        name = f"sm_{arch}{'a' if arch >= 90 else ''}"
        command = [ptxas.path, "-v", f"--gpu-name={name}", str(path), "-o", os.devnull]
        words = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    instruction = MATRIX_INSTRUCTIONS[case.capability]
    return Compiled(
        case=case,
        kernel=kernel.metadata.name,
        shared_bytes=kernel.metadata.shared,
        shared_limit_bytes=shared_limit_bytes,
        registers=int(re.search(r"Used (\d+) registers", words)[1]),
        spilled_bytes=sum(int(n) for n in re.findall(r"(\d+) bytes spill stores", words)),
        matrix_instructions=ptx.count(instruction) if instruction else 0,
        serialised=tuple(sorted(set(re.findall(r"C751\d", words)))),
    )


def compile_many(cases: list[Case], workers: int):
    """Yield (case, compiled kernels or the error) in order."""
    with ProcessPoolExecutor(workers) as pool:
        for future, case in [(pool.submit(compile_case, case), case) for case in cases]:
            try:
                yield case, future.result()
            except Exception as error:
                yield case, error


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="the full product, not one of each")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    options = parser.parse_args()
    start = time.perf_counter()
    cases = all_cases() if options.full else distinct_cases()
    failed = 0
    print("target  d   dtype    kernel          shared  registers  spilled  matrix")
    for case, result in compile_many(cases, options.workers):
        target = f"sm_{case.capability[0]}{case.capability[1]}"
        if isinstance(result, Exception):
            failed += 1
            print(f"{target:7} {case.d:<3} {case.dtype:8} FAILED {type(result).__name__}: {result}")
            continue
        for one in result:
            line = (
                f"{target:7} {case.d:<3} {case.dtype:8} {one.kernel:15} {one.shared_bytes:6}"
                f"  {one.registers:9}  {one.spilled_bytes:7}  {one.matrix_instructions:6}"
            )
            problems = one.problems()
            failed += bool(problems)
            if problems or not options.full:
                print(line, "; ".join(problems), flush=True)
    print(f"{len(cases)} cases, {failed} problems, {time.perf_counter() - start:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
