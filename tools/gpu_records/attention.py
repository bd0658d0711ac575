"""Records of attention: the race, its edges, small shapes, memory, the paper's figure 2, errors."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import tempfile

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from gpu_records.run import FLOP_RULE, ROOT, Progress, Run, attempt, dtype_name
from lecture_code import measure
from lecture_code.roofline import attention_flop

SOURCES = ("tools/gpu_records/attention.py",)
KERNEL = "lecture_code/kernels/triton_flash.py"
RACE_FLOP = (
    "flop = 4·batch·heads·N²·d forward, half if causal, 2.5 times that backward "
    f"(FlashAttention-2's convention); {FLOP_RULE}"
)
# one turn of one method in a round: about 30 ms, at least 3 calls
ROUND = {"budget_s": 0.03, "min_samples": 3, "warmup": 1}
BACKENDS = {
    "flash2": SDPBackend.FLASH_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
}
METHODS = {
    "ours": "the book's Triton kernel",
    "flash2": "SDPA forced to FlashAttention-2",
    "cudnn": "SDPA forced to cuDNN",
    "efficient": "SDPA forced to the memory-efficient kernel",
    "flex": "compiled FlexAttention",
    "plain": "softmax(Q Kᵀ / √d) V as separate PyTorch operations",
}


def plain_attention(q, k, v, causal=False, dropout=0.0):
    """Attention as separate operations: S and P are whole matrices in memory.

    The scale is the matmul's own (alpha), so that only S, P and their gradients are S-sized.
    """
    batch, heads, n_q, d = q.shape
    n_k = k.shape[2]
    nothing = q.new_empty(1, 1, 1)
    s = torch.baddbmm(
        nothing, q.flatten(0, 1), k.flatten(0, 1).transpose(1, 2), beta=0, alpha=d**-0.5
    )
    s = s.view(batch, heads, n_q, n_k)
    if causal:
        hidden = torch.ones(n_q, n_k, dtype=torch.bool, device=s.device).triu(n_k - n_q + 1)
        s = s.masked_fill(hidden, float("-inf"))
    p = torch.softmax(s, -1)
    return (F.dropout(p, dropout) if dropout else p) @ v


def attention_method(run: Run, name: str, causal: bool, N: int | None = None):
    """Return f(q, k, v) for one of METHODS."""
    if name == "ours":
        from lecture_code.kernels.triton_flash import flash_attention

        return lambda q, k, v: flash_attention(q, k, v, causal=causal)
    if name == "plain":
        return lambda q, k, v: plain_attention(q, k, v, causal)
    if name == "flex":
        return _flex(run, causal, N)

    def forced(q, k, v):
        gqa = q.shape[1] != k.shape[1]
        with sdpa_kernel(BACKENDS[name]):
            return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=gqa)

    return forced


def _flex(run: Run, causal: bool, N: int):
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    torch._dynamo.reset()
    compiled = torch.compile(flex_attention, dynamic=False)
    mask = None
    if causal:
        mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, N, N, device=run.device)
    return lambda q, k, v: compiled(q, k, v, block_mask=mask)


def backward_of(function, q, k, v):
    """Return a function that runs only the backward of one forward, again and again."""
    out = function(q, k, v)
    do = torch.randn_like(out)
    return lambda: torch.autograd.grad(out, (q, k, v), do, retain_graph=True)


def inputs(run: Run, batch, heads, N, d, *, dtype=None, kv_heads=None):
    """Random Q, K, V of shape (batch, heads, N, d), all requiring gradients."""
    shapes = [(batch, h, N, d) for h in (heads, kv_heads or heads, kv_heads or heads)]
    return [run.random(*shape, dtype=dtype, grad=True) for shape in shapes]


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


PIECES = {
    function.__name__: function
    for function in (race, race_edge, small, memory, gpt2_attention, numerics)
}
