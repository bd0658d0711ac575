"""Every tile of the kernel's table is compiled for five GPUs, with no GPU."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("triton")

from tools.compile_all import CAPABILITIES, Case, Compiled, distinct_cases

ROOT = Path(__file__).resolve().parents[1]
# The compiler instead of the interpreter, which this process may have chosen.
ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
GOOD = Compiled(
    case=Case((9, 0), 128, "float16"),
    kernel="_forward_kernel",
    shared_bytes=98_336,
    shared_limit_bytes=232_448,
    registers=252,
    spilled_bytes=0,
    matrix_instructions=64,
    serialised=(),
)


@pytest.mark.slow
def test_every_distinct_configuration_compiles():
    command = [sys.executable, "tools/compile_all.py", "--workers", "2"]
    run = subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    rows = run.stdout.splitlines()
    for capability in CAPABILITIES:
        target = f"sm_{capability[0]}{capability[1]} "
        assert sum(row.startswith(target) for row in rows) >= 18, run.stdout


def test_distinct_cases_cover_the_table():
    cases = {(c.capability, c.d, c.dtype) for c in distinct_cases()}
    assert cases == {
        (capability, d, dtype)
        for capability in CAPABILITIES
        for d in (64, 128, 256)
        for dtype in ("float16", "float32")
    }


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"shared_bytes": 232_449}, "shared memory 232449 > 232448 bytes"),
        ({"matrix_instructions": 0}, "no wgmma.mma_async in the PTX"),
        ({"serialised": ("C7515",)}, "ptxas serialised the matrix instructions: C7515"),
        ({"spilled_bytes": 4}, "4 bytes spilled > 0"),
    ],
)
def test_what_is_a_problem(change, words):
    assert GOOD.problems() == []
    assert replace(GOOD, **change).problems() == [words]


def test_no_matrix_instructions_are_asked_of_a_t4():
    on_t4 = replace(GOOD, case=Case((7, 5), 128, "float16"), matrix_instructions=0)
    assert on_t4.problems() == []


def test_one_hundred_lengths_share_their_kernels():
    program = """
import sys
sys.path.insert(0, "tools")
import torch, triton
from compile_all import NamedTarget
from lecture_code.kernels import triton_flash as flash
triton.runtime.driver.set_active(NamedTarget((9, 0)))
compiled = set()
def compile_only(kernel, programs, device, *args, **options):
    compiled.add(kernel.warmup(*args, grid=(programs,), **options).hash)
flash._launch = compile_only
config = flash.choose_config((9, 0), 64, torch.float16)
for N in range(1, 101):
    q = torch.empty(2, 4, N, 64, dtype=torch.float16)
    k = torch.empty(2, 4, 2 * N + 1, 64, dtype=torch.float16)
    o, lse = flash._forward(q, k, k, True, 0.1, config)
    flash._backward(q, None, q, k, k, o, lse, True, 0.1, config)
print(len(compiled))
"""
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True
    )
    assert run.stdout.strip() == "3", run.stdout + run.stderr
