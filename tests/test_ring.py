"""Ring attention: counted ranks, and real processes."""

import numpy as np
import pytest
from oracle import attention, head

from lecture_code.ring import ring_attention, ring_attention_distributed


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("ranks", [1, 2, 4, 8])
def test_the_ring_is_attention(ranks, causal):
    Q, K, V, _ = head(24, 24, 5)
    O, lse, _ = attention(Q, K, V, causal=causal)
    run = ring_attention(Q, K, V, ranks=ranks, causal=causal)
    assert np.abs(run.O - O).max() < 1e-14 and np.abs(run.lse - lse).max() < 1e-14
    assert run.sent_elems == (ranks - 1) * 2 * (24 // ranks) * 5
    assert run.busy.sum() == (ranks * (ranks + 1) // 2 if causal else ranks**2)


def test_causal_leaves_the_first_rank_idle():
    Q, K, V, _ = head(16, 16, 2)
    busy = ring_attention(Q, K, V, ranks=4, causal=True).busy
    assert busy.sum(axis=0).tolist() == [1, 2, 3, 4]


def test_errors_name_the_argument():
    Q, K, V, _ = head(10, 10, 2)
    with pytest.raises(ValueError, match="ranks must divide N"):
        ring_attention(Q, K, V, ranks=3)
    with pytest.raises(ValueError, match="ranks must be at least 1"):
        ring_attention(Q, K, V, ranks=0)


def _rank(rank, ranks, port, Q, K, V, causal, results):
    torch = pytest.importorskip("torch")
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks
    )
    rows = slice(rank * len(Q) // ranks, (rank + 1) * len(Q) // ranks)
    q, k, v = (torch.from_numpy(x[rows]) for x in (Q, K, V))
    results.put((rank, ring_attention_distributed(q, k, v, causal=causal).numpy()))
    dist.barrier()
    dist.destroy_process_group()


@pytest.mark.parametrize("causal", [False, True])
def test_real_processes_give_the_same(causal):
    pytest.importorskip("torch")
    import multiprocessing
    import socket

    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    Q, K, V, _ = head(16, 16, 4)
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    workers = [
        context.Process(target=_rank, args=(r, 4, port, Q, K, V, causal, results)) for r in range(4)
    ]
    for worker in workers:
        worker.start()
    parts = dict(results.get(timeout=90) for _ in workers)
    for worker in workers:
        worker.join(30)
        assert worker.exitcode == 0
    O = np.concatenate([parts[r] for r in range(4)])
    assert np.abs(O - attention(Q, K, V, causal=causal)[0]).max() < 1e-14


def test_without_a_process_group_it_says_so():
    torch = pytest.importorskip("torch")
    x = torch.zeros(2, 2)
    with pytest.raises(RuntimeError, match="init_process_group first"):
        ring_attention_distributed(x, x, x)
