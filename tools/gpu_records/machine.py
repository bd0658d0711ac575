"""Records of the machine itself: bandwidth, matmul, operators, fusion, launches. No attention."""

from __future__ import annotations

import itertools

import torch
import torch.nn.functional as F

from gpu_records.run import FLOP_RULE, Progress, Run, dtype_name
from lecture_code import measure
from lecture_code.roofline import elementwise_cost, layernorm_cost, matmul_cost, softmax_cost

SOURCES = ("tools/gpu_records/machine.py",)
MODEL_BYTES = "bytes and FLOP are the model's: each input read once, each output written once"


def copy_bandwidth(run: Run):
    """Read one array and write another, 64 KiB to 4 GiB: from memory, and in L2."""
    say = Progress("copy_bandwidth")
    sizes = [2**20, 2**22] if run.smoke else [2**k for k in range(16, 33)]
    rows = []
    with measure.ClockWatch() as watch:
        for size in sizes:
            source = torch.randint(-128, 127, (size // 4,), dtype=torch.int32, device=run.device)
            target = torch.empty_like(source)
            # a graph replays copy_ on a copy engine, which is slower: there the kernel is negation
            variants = {
                ("copy", "memory"): (lambda: target.copy_(source), {"cold": True}),
                ("negate", "memory"): (lambda: torch.neg(source, out=target), {"cold": True}),
                ("negate", "repeated"): (lambda: torch.neg(source, out=target), {"graph": True}),
            }
            for (kernel, data), (function, options) in variants.items():
                row = {"kernel": kernel, "data": data, "array_bytes": size, "bytes": 2 * size}
                rows.append(row | run.timing(function, **options).row())
            del source, target
    best = max(row["bytes"] / row["p50"] for row in rows if row["data"] == "memory")
    say(f"best {best / 1e12:.2f} TB/s from memory")
    run.write(
        "copy_bandwidth",
        rows,
        description="One array read, another written, 64 KiB to 4 GiB each",
        unit="s",
        convention="bytes = read + written; data memory: L2 overwritten before each call; "
        "repeated: the same two arrays again and again, so that small ones stay in L2",
        timer="CUDA events: median of samples; one call a sample, or CUDA graph replay if repeated",
        settings={"dtype": "int32", "values": "random"},
        clocks=watch.seen,
        sources=SOURCES,
    )


def matmul_ceiling(run: Run, rounds: int = 5):
    """Large square products in each precision, on random data and on zeros, in rounds."""
    say = Progress("matmul_ceiling")
    rows = []
    sizes = [64] if run.smoke else [4096, 8192]
    kinds = [
        ("bfloat16", torch.bfloat16, False),
        ("float16", torch.float16, False),
        ("tf32", torch.float32, True),
        ("float32", torch.float32, False),
    ]

    def product(a, b):
        out = torch.empty_like(a)
        return lambda: torch.mm(a, b, out=out)

    with measure.ClockWatch() as watch:
        for (name, dtype, tf32), n in itertools.product(kinds, sizes):
            torch.backends.cuda.matmul.allow_tf32 = tf32
            pairs = [run.random(n, n, dtype=dtype) for _ in range(2)]
            rivals = {
                "random": product(*pairs),
                "zeros": product(*(torch.zeros_like(x) for x in pairs)),
            }
            times = measure.interleave(
                rivals, lambda f: run.timing(f, budget_s=0.03), rounds=rounds
            )
            for data, seconds in times.items():
                row = {"dtype": name, "n": n, "data": data, "run": "short"}
                row["flop"] = matmul_cost(n, n, n).flop
                rows.append(row | measure.Timing.from_samples(seconds, "rounds").row())
        torch.backends.cuda.matmul.allow_tf32 = False
        # the same product for two seconds: what the power limit leaves
        n = sizes[-1]
        function = product(*(run.random(n, n, dtype=torch.bfloat16) for _ in range(2)))
        timing = run.timing(function, budget_s=2.0, max_samples=2000)
        row = {"dtype": "bfloat16", "n": n, "data": "random", "run": "two seconds"}
        rows.append(row | {"flop": matmul_cost(n, n, n).flop} | timing.row())
    say(f"{len(rows)} products")
    run.write(
        "matmul_ceiling",
        rows,
        description="Square matrix products through cuBLAS: what the matrix unit reaches",
        unit="s",
        convention=f"flop = 2n³, {FLOP_RULE}",
        timer=f"CUDA events, calls back to back. short: median of about 30 ms in each of {rounds} "
        "rounds, random and zeros in turn, p20, p50, p80 over the rounds; two seconds: samples of "
        "one run",
        settings={"library": "cuBLAS through torch.mm"},
        clocks=watch.seen,
        sources=SOURCES,
    )


def wave_sizes(smoke: bool = False) -> list[int]:
    """Sizes n of the wave curve: dense where it breaks, coarse elsewhere, many residues.

    >>> len(wave_sizes()) == len(set(wave_sizes()))
    True
    """
    if smoke:
        return [32, 33, 64]
    dense = [centre + k for centre in (1792, 2048, 2112, 2304) for k in range(-24, 25)]
    coarse = list(range(256, 4097, 32))
    residues = [n + r for n in range(256, 4096, 256) for r in (1, 2, 8, 16, 32)]
    return sorted({*dense, *coarse, *residues, 4095, 4097})


def matmul_wave(run: Run):
    """Square bf16 products over many sizes: alignment and wave quantisation."""
    say = Progress("matmul_wave")
    rows = []
    with measure.ClockWatch() as watch:
        for n in wave_sizes(run.smoke):
            a, b = (run.random(n, n, dtype=torch.bfloat16) for _ in range(2))
            out = torch.empty_like(a)
            timing = run.timing(lambda: torch.mm(a, b, out=out), graph=True, budget_s=0.02)
            # the largest power of two up to 128 that divides n
            divisor = min(n & -n, 128)
            rows.append(
                {"n": n, "divisor": divisor, "flop": matmul_cost(n, n, n).flop, **timing.row()}
            )
    say(f"{len(rows)} sizes")
    run.write(
        "matmul_wave",
        rows,
        description="Square bfloat16 matrix products over n: the wave-shaped curve",
        unit="s",
        convention=f"flop = 2n³, {FLOP_RULE}; divisor = largest power of two up to 128 dividing n",
        timer="CUDA events around CUDA graph replays of calls back to back: median of samples",
        settings={"dtype": "bfloat16", "library": "cuBLAS through torch.mm", "data": "random"},
        clocks=watch.seen,
        sources=SOURCES,
    )


def _operators(run: Run):
    """Yield (name, shape text, dtype name, unit, cost, function) for each operator."""
    big = 2**12 if run.smoke else 2**27
    half, name16 = torch.bfloat16, "bfloat16"
    x, y = run.random(big, dtype=half), run.random(big, dtype=half)
    out = torch.empty_like(x)
    shape = f"{big:,} elements"

    def elementwise(reads, flop):
        return elementwise_cost(big, reads=reads, flop_per_element=flop, dtype=name16)

    yield "copy", shape, name16, "vector", elementwise(1, 0), lambda: out.copy_(x)
    yield "add", shape, name16, "vector", elementwise(2, 1), lambda: torch.add(x, y, out=out)
    yield "relu", shape, name16, "vector", elementwise(1, 1), lambda: torch.clamp_min(x, 0, out=out)
    yield "gelu", shape, name16, "vector", elementwise(1, 8), lambda: F.gelu(x)
    for rows, columns in ((2**16, 2**11), (2**14, 2**13)):
        if run.smoke:
            rows, columns = 64, 64
        z = x[: rows * columns].view(rows, columns)
        weight, bias = (run.random(columns, dtype=half) for _ in range(2))
        text = f"{rows:,} × {columns:,}"
        cost = softmax_cost(rows, columns, dtype=name16)
        yield "softmax", text, name16, "vector", cost, lambda: torch.softmax(z, -1)
        cost = layernorm_cost(rows, columns, dtype=name16)
        yield (
            ("layernorm", text, name16, "vector", cost)
            + (lambda: F.layer_norm(z, (columns,), weight, bias),)
        )
    del x, y, out, z

    shapes = [(n, n, n, 1) for n in (64, 128, 256, 512, 1024, 2048, 4096, 8192)]
    # the MLP of GPT-3: T tokens, 12,288 to 49,152
    shapes += [(T, 12288, 49152, 1) for T in (1, 8, 32, 64, 128, 256, 512, 1024, 4096)]
    # scores of 128 heads
    shapes += [(4096, d, 4096, 128) for d in (64, 128)]
    for m, k, n, batch in [(16, 16, 16, 1), (8, 16, 8, 2)] if run.smoke else shapes:
        a, b = run.random(batch, m, k, dtype=half), run.random(batch, k, n, dtype=half)
        product = torch.empty(batch, m, n, dtype=half, device=run.device)
        cost = matmul_cost(m, k, n, batch=batch, dtype=name16)
        text = (f"{batch} × " if batch > 1 else "") + f"({m:,} × {k:,}) @ ({k:,} × {n:,})"
        yield "matmul", text, name16, "matrix", cost, lambda: torch.bmm(a, b, out=product)
        del a, b, product

    if not run.smoke:
        from gpu_records.triton_kernels import fma_chain

        x = run.random(2**26, dtype=torch.float32)
        out = torch.empty_like(x)
        for links in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024):
            cost = elementwise_cost(x.numel(), flop_per_element=2 * links, dtype="float32")
            text = f"{links:,} multiply-adds an element"
            yield "fma chain", text, "float32", "vector", cost, lambda: fma_chain(x, out, links)


def operator_roofline(run: Run):
    """Operators of many intensities: FLOP and bytes of the model, time of the GPU."""
    say = Progress("operator_roofline")
    rows = []
    with measure.ClockWatch() as watch:
        for operator, shape, dtype, unit, cost, function in _operators(run):
            timing = run.timing(function, cold=True, budget_s=0.04)
            row = {"operator": operator, "shape": shape, "dtype": dtype, "unit": unit}
            rows.append(row | {"flop": cost.flop, "bytes": cost.bytes} | timing.row())
    say(f"{len(rows)} operators")
    run.write(
        "operator_roofline",
        rows,
        description="Operators over the roofline: elementwise, softmax, LayerNorm, matmuls, and a "
        "chain of multiply-adds",
        unit="s",
        convention=f"{MODEL_BYTES}; {FLOP_RULE}; FLOP an element: add, relu 1, softmax 5, "
        "layernorm 8, gelu 8; unit: the arithmetic that bounds it",
        timer="CUDA events, one call a sample, L2 overwritten before each: median of samples",
        settings={"data": "random"},
        clocks=watch.seen,
        sources=(*SOURCES, "tools/gpu_records/triton_kernels.py"),
    )


def fusion(run: Run):
    """sin²+cos² and cos(cos(x)): one kernel an operation, and one kernel in all."""
    say = Progress("fusion")
    rows = []

    def sin_cos(x):
        return torch.sin(x) ** 2 + torch.cos(x) ** 2

    def cos_cos(x):
        return x.cos().cos()

    # whole-array accesses: sin, square, cos, square are 1 + 1 each, the sum 2 + 1
    programs = {"sin²+cos²": (sin_cos, 11, 5), "cos(cos(x))": (cos_cos, 4, 2)}
    sizes = [2**10] if run.smoke else [2**16, 2**20, 2**24, 2**27]
    shapes = [(size, torch.float32) for size in sizes] + [(sizes[-1], torch.bfloat16)]
    with measure.ClockWatch() as watch:
        for (name, (program, accesses, kernels)), (size, dtype) in itertools.product(
            programs.items(), shapes
        ):
            x = run.random(size, dtype=dtype)
            variants = {"eager": (lambda: program(x), accesses, kernels)}
            if not run.smoke:
                torch._dynamo.reset()
                compiled = torch.compile(program, dynamic=False)
                variants["torch.compile"] = (lambda: compiled(x), 2, 1)
                from gpu_records.triton_kernels import fused

                out = torch.empty_like(x)
                operation = "sin_cos" if program is sin_cos else "cos_cos"
                variants["triton"] = (lambda: fused(x, out, operation), 2, 1)
                exact = program(x)
                for check in (compiled(x), fused(x, out, operation)):
                    torch.testing.assert_close(check, exact, rtol=2e-2, atol=2e-2)
            for variant, (function, moved, launches) in variants.items():
                timing = run.timing(function, cold=True)
                rows.append(
                    {"program": name, "variant": variant, "elements": size}
                    | {"dtype": dtype_name(dtype), "bytes": moved * size * x.element_size()}
                    | {"kernels": launches, **timing.row()}
                )
            say(f"{name} {size:,} {dtype_name(dtype)}")
    run.write(
        "fusion",
        rows,
        description="sin²+cos² and cos(cos(x)): separate kernels and one fused kernel",
        unit="s",
        convention="bytes: whole arrays read and written by the kernels, 11 accesses against 2 "
        "and 4 against 2",
        timer="CUDA events, one call a sample, L2 overwritten before each: median of samples; "
        "launches included",
        settings={"data": "random"},
        clocks=watch.seen,
        sources=(*SOURCES, "tools/gpu_records/triton_kernels.py"),
    )


def launch_overhead(run: Run):
    """Chains of small kernels, and a small MLP over the batch, with and without a CUDA graph."""
    say = Progress("launch_overhead")
    rows = []
    lengths = [1, 4] if run.smoke else [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]
    elements = [2**10] if run.smoke else [2**10, 2**16, 2**20, 2**24]
    modes = (False,) if run.smoke else (False, True)

    def both(function, row, **options):
        for graph in modes:
            timing = run.timing(function, graph=graph, **options)
            rows.append(row | {"mode": "graph" if graph else "eager"} | timing.row())

    with measure.ClockWatch() as watch:
        for size, length in itertools.product(elements, lengths):
            if size == 2**24 and length > 100:
                continue
            x = run.random(size, dtype=torch.float32)

            def chain():
                for _ in range(length):
                    x.add_(1.0)

            row = {"experiment": "chain", "kernels": length, "elements": size}
            both(chain, row | {"bytes": 8 * size * length}, budget_s=0.03)
        say("chains")
        width, layers = (16, 2) if run.smoke else (1024, 8)
        weights = [
            run.random(width, width, dtype=torch.bfloat16) / width**0.5 for _ in range(layers)
        ]
        for batch in [1, 2] if run.smoke else [2**k for k in range(15)]:
            x = run.random(batch, width, dtype=torch.bfloat16)

            def mlp():
                h = x
                for weight in weights:
                    h = torch.relu(h @ weight)
                return h

            layer = matmul_cost(batch, width, width, dtype="bfloat16")
            layer += elementwise_cost(batch * width, dtype="bfloat16")
            cost = layers * layer
            row = {"experiment": "batch doubling", "kernels": 2 * layers, "batch": batch}
            both(mlp, row | {"flop": cost.flop, "bytes": cost.bytes}, budget_s=0.03)
    say("batches")
    rows += [_host_row(run)]
    run.write(
        "launch_overhead",
        rows,
        description="Chains of small kernels (x += 1), and an MLP of 8 layers, width 1,024, over "
        "the batch: launched one by one, and replayed as a CUDA graph",
        unit="s",
        convention=f"time of the whole chain or pass; {MODEL_BYTES}; {FLOP_RULE}",
        timer="CUDA events around calls back to back: median of samples; "
        "host: wall clock of one launch with no wait",
        settings={"dtype": "chain float32, MLP bfloat16"},
        clocks=watch.seen,
        sources=SOURCES,
    )


def _host_row(run: Run) -> dict:
    """Seconds the CPU spends to enqueue one kernel, not waiting for the GPU."""
    x = run.random(2**10, dtype=torch.float32)
    timing = measure.time_cpu(lambda: x.add_(1.0), budget_s=0.1, max_samples=200)
    return {
        "experiment": "host",
        "kernels": 1,
        "elements": x.numel(),
        "mode": "eager",
    } | timing.row()


PIECES = {
    function.__name__: function
    for function in (
        copy_bandwidth,
        matmul_ceiling,
        matmul_wave,
        operator_roofline,
        fusion,
        launch_overhead,
    )
}
