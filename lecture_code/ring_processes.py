"""Ring attention on processes of this machine: start them, run the ring, collect the rows.

The processes live in a module of their own, so that they can be started from a notebook.
"""

from __future__ import annotations

import multiprocessing
import tempfile
from pathlib import Path
from queue import Empty

import numpy as np

from lecture_code.ring import ring_attention_distributed, ring_rows


def ring_attention_processes(
    Q,
    K,
    V,
    *,
    ranks: int,
    causal: bool = False,
    placement: str = "contiguous",
    backend: str = "gloo",
    timeout_s: float = 120,
) -> np.ndarray:
    """Start ``ranks`` processes on this machine, run the ring on them, put the rows together.

    Parameters
    ----------
    Q, K, V : ndarray (N, d)
    ranks : int
        Processes. With NCCL each needs a GPU of its own.
    causal, placement
        As in :func:`ring_attention`.
    backend : {"gloo", "nccl"}
        "gloo" sends between CPU processes, "nccl" between GPUs.
    timeout_s : float
        When to give up on a process that does not answer.

    Returns
    -------
    ndarray (N, d)

    Raises
    ------
    ValueError
        If shapes differ, the sequence cannot be cut so, or the backend is unknown.
    RuntimeError
        If a process fails or does not answer in time.
    """
    if backend not in ("gloo", "nccl"):
        raise ValueError(f'backend must be "gloo" or "nccl", got {backend!r}')
    if Q.ndim != 2 or not Q.shape == K.shape == V.shape:
        raise ValueError(f"Q, K, V must be (N, d) alike, got {Q.shape}, {K.shape}, {V.shape}")
    rows = ring_rows(len(Q), ranks, placement)
    context = _context()
    results = context.Queue()
    with tempfile.TemporaryDirectory() as folder:
        meeting = (Path(folder) / "ranks").as_uri()
        workers = [
            context.Process(
                target=_run_rank,
                args=(rank, ranks, meeting, backend, [x[r] for x in (Q, K, V)], results),
                kwargs={"causal": causal, "placement": placement},
                daemon=True,
            )
            for rank, r in enumerate(rows)
        ]
        for worker in workers:
            worker.start()
        try:
            O = _collect(results, rows, np.empty_like(Q), timeout_s)
            for worker in workers:
                worker.join(5)
        finally:
            for worker in workers:
                worker.kill()
    return O


def _collect(results, rows, O, timeout_s):
    for _ in rows:
        try:
            rank, part = results.get(timeout=timeout_s)
        except Empty:
            raise RuntimeError(f"not all {len(rows)} ranks answered within {timeout_s} s") from None
        if isinstance(part, str):
            raise RuntimeError(f"rank {rank} failed: {part}")
        O[rows[rank]] = part
    return O


def _context():
    """Processes that do not inherit this one's threads; torch is imported once, where possible."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch.distributed"])
    return context


def _run_rank(rank, ranks, meeting, backend, inputs, results, **options):
    try:
        import torch
        import torch.distributed as dist

        torch.set_num_threads(1)
        device = torch.device("cpu")
        if backend == "nccl":
            device = torch.device("cuda", rank)
            torch.cuda.set_device(device)
        dist.init_process_group(backend, init_method=meeting, rank=rank, world_size=ranks)
        q, k, v = (torch.from_numpy(x).to(device) for x in inputs)
        results.put((rank, ring_attention_distributed(q, k, v, **options).cpu().numpy()))
        dist.barrier()
        dist.destroy_process_group()
    except Exception as failure:
        results.put((rank, f"{type(failure).__name__}: {failure}"))
