"""Records beside the papers: memory over N, figure 2's times, and errors in 16 bits."""

from __future__ import annotations

import itertools

import torch

from gpu_records.methods import KERNEL, METHODS, ROUND, attention_method, inputs, plain_attention
from gpu_records.run import FLOP_RULE, Progress, Run, attempt, dtype_name
from lecture_code import measure
from lecture_code.roofline import attention_flop

SOURCES = ("tools/gpu_records/results.py", "tools/gpu_records/methods.py")


def memory(run: Run):
    """Peak memory of forward and backward over N: plain with dropout, FlashAttention-2, ours."""
    say = Progress("memory")
    rows = []
    batch, heads, d = (1, 2, 16) if run.smoke else (16, 8, 64)
    sizes = [16, 32] if run.smoke else [2**k for k in range(7, 17)]
    methods = ["plain", "flash2"] + (["ours"] if run.kernel and not run.smoke else [])
    dtype = torch.float32 if run.smoke else torch.float16
    if not run.smoke:
        _open_workspaces(run)
    for N, method in itertools.product(sizes, methods):
        if method == "plain":
            function = lambda q, k, v: plain_attention(q, k, v, dropout=0.1)  # noqa: E731
        else:
            function = attention_method(run, method, False, N)
        row = {"N": N, "method": method}
        run.flush_memory()

        def forward_backward():
            q, k, v = inputs(run, batch, heads, N, d, dtype=dtype)
            do = torch.randn_like(q)
            function(q, k, v).backward(do)

        if method == "ours":
            # a first call compiles; what it allocates is not the kernel's
            attempt(forward_backward)
        held = 0 if run.smoke else torch.cuda.memory_allocated()
        if held > 100 * 2**20:
            raise RuntimeError(f"{held >> 20} MiB are held: run this piece in a process of its own")
        peak, problem = attempt(lambda: measure.peak_memory(forward_backward, device=run.device))
        row["held_before"] = held / 2**20
        rows.append(row | ({"status": problem} if problem else {"value": peak / 2**20}))
        say(f"N={N} {method}: {problem or f'{peak / 2**20:.0f} MiB'}")
    run.write(
        "memory",
        rows,
        description="Peak memory of attention forward and backward, batch 16, 8 heads, d 64",
        unit="MiB",
        convention="largest sum of live tensors: Q, K, V, dO, O, gradients and what the method "
        "keeps, with held_before: cuBLAS's workspaces, opened before the first reading",
        timer="torch.cuda.max_memory_allocated of one forward and backward",
        settings={
            "dtype": dtype_name(dtype),
            "batch": batch,
            "heads": heads,
            "d": d,
            "dropout": "0.1 in plain, 0 in the others",
            "methods": METHODS,
        },
        sources=(*SOURCES, *([KERNEL] if "ours" in methods else [])),
    )


def _open_workspaces(run: Run):
    """Run a small matmul forward and backward: each thread's cuBLAS workspace stays allocated."""
    a = run.random(64, 64, dtype=torch.float16, grad=True)
    (a @ a).sum().backward()
    torch.cuda.synchronize()


def gpt2_attention(run: Run, rounds: int = 5):
    """GPT-2 medium's attention, the paper's figure 2: time and counted FLOP of both passes."""
    say = Progress("gpt2_attention")
    rows = []
    shapes = [(64, 1024), (8, 8192)] if not run.smoke else [(1, 32)]
    heads, d = (2, 16) if run.smoke else (16, 64)
    methods = ["plain", "plain, causal, dropout 0.1", "flash2", "cudnn"]
    methods += ["ours"] if run.kernel and not run.smoke else []
    if run.smoke:
        methods = methods[:3]
    dtype = torch.float32 if run.smoke else torch.float16
    with measure.ClockWatch() as watch:
        for batch, N in shapes:
            q, k, v = inputs(run, batch, heads, N, d, dtype=dtype)
            do = torch.randn_like(q)
            functions, status = {}, {}
            for method in methods:
                if method.startswith("plain,"):
                    function = lambda q, k, v: plain_attention(q, k, v, True, 0.1)  # noqa: E731
                else:
                    function = attention_method(run, method, False, N)

                def call(function=function):
                    return torch.autograd.grad(function(q, k, v), (q, k, v), do)

                _, problem = attempt(call)
                run.flush_memory()
                if problem:
                    status[method] = problem
                else:
                    functions[method] = call
            times = measure.interleave(functions, lambda f: run.timing(f, **ROUND), rounds=rounds)
            for method in methods:
                flop = attention_flop(
                    N,
                    d,
                    heads=heads,
                    batch=batch,
                    passes="both",
                    recompute=not method.startswith("plain"),
                )
                row = {"batch": batch, "N": N, "method": method, "flop": flop}
                if method in status:
                    rows.append(row | {"status": status[method]})
                else:
                    rows.append(row | measure.Timing.from_samples(times[method], "").row())
            say(f"batch={batch} N={N}")
    run.write(
        "gpt2_attention",
        rows,
        description="GPT-2 medium's attention (16 heads, d 64), forward + backward: N 1,024 at "
        "batch 64, as in the paper's figure 2, and one longer sequence",
        unit="s",
        convention="flop = 12N²d a head for plain, 14N²d with S recomputed, all pairs; "
        + FLOP_RULE,
        timer=f"median of CUDA events in each of {rounds} rounds in random order; p20, p50, p80 "
        "over the rounds",
        settings={"dtype": dtype_name(dtype), "heads": heads, "d": d, "causal": False}
        | {"methods": METHODS},
        clocks=watch.seen,
        sources=(*SOURCES, *([KERNEL] if "ours" in methods else [])),
    )


def numerics(run: Run):
    """Error of 16-bit attention against float64: plain, FlashAttention-2 and ours."""
    say = Progress("numerics")
    rows = []
    methods = ["plain", "flash2"] + (["ours"] if run.kernel and not run.smoke else [])
    sizes = [32] if run.smoke else [256, 1024, 4096]
    dtypes = [torch.bfloat16] if run.smoke else [torch.float16, torch.bfloat16]
    kinds = ("gaussian", "channel means", "outliers")
    for dtype, N, data in itertools.product(dtypes, sizes, kinds):
        torch.manual_seed(0)
        q, k, v = _structured(run, data, N, dtype)
        do = torch.randn_like(q)
        exact = _with_gradients(plain_attention, *(x.detach().double() for x in (q, k, v, do)))
        for method in methods:
            function = attention_method(run, method, False, N)
            got, problem = attempt(lambda f=function: _with_gradients(f, q, k, v, do))
            for i, tensor in enumerate(("O", "dQ", "dK", "dV")):
                row = {"dtype": dtype_name(dtype), "N": N, "data": data, "method": method}
                row |= {"tensor": tensor}
                if problem:
                    rows.append(row | {"status": problem})
                    continue
                error = got[i].double() - exact[i]
                relative = error.norm() / exact[i].norm()
                rows.append(row | {"value": relative.item(), "max_abs": error.abs().max().item()})
        say(f"{dtype_name(dtype)} N={N} {data}")
    run.write(
        "numerics",
        rows,
        description="Rounding error of attention in 16 bits against the same inputs in float64",
        unit="relative error ‖got − exact‖ / ‖exact‖",
        convention="max_abs: largest error of one element; outliers: 1 % of the elements of Q and "
        "K ten times larger; channel means: one offset a channel, standard deviation 1",
        timer="none: errors, not times",
        settings={"batch": 2, "heads": 4, "d": 64, "causal": False, "methods": METHODS},
        sources=(*SOURCES, *([KERNEL] if "ours" in methods else [])),
    )


def _structured(run: Run, data: str, N: int, dtype):
    tensors = [run.random(2, 4, N, 64, dtype=torch.float32) for _ in range(3)]
    if data == "channel means":
        tensors = [x + run.random(1, 1, 1, 64, dtype=torch.float32) for x in tensors]
    if data == "outliers":
        for x in tensors[:2]:
            x[torch.rand_like(x) < 0.01] *= 10
    return [x.to(dtype) for x in tensors]


def _with_gradients(function, q, k, v, do):
    q, k, v = (x.detach().requires_grad_() for x in (q, k, v))
    out = function(q, k, v)
    return (out.detach(), *torch.autograd.grad(out, (q, k, v), do))


PIECES = {function.__name__: function for function in (memory, gpt2_attention, numerics)}
