"""Ring attention: counted ranks, and real processes."""

import numpy as np
import pytest
from oracle import attention, head

from lecture_code.ring import ring_attention, ring_attention_distributed, ring_rows
from lecture_code.ring_processes import ring_attention_processes


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
    with pytest.raises(ValueError, match="ranks must divide N into 4 pieces, got N = 10"):
        ring_attention(Q, K, V, ranks=2, placement="zigzag")
    with pytest.raises(ValueError, match="placement must be one of contiguous, zigzag, striped"):
        ring_attention(Q, K, V, ranks=2, placement="diagonal")
    with pytest.raises(ValueError, match="one length, got N_q = 10, N_k = 8"):
        ring_attention(Q, K[:8], V[:8], ranks=2)
    with pytest.raises(ValueError, match='backend must be "gloo" or "nccl"'):
        ring_attention_processes(Q, K, V, ranks=2, backend="mpi")
    with pytest.raises(ValueError, match=r"must be \(N, d\) alike, got \(10, 2\), \(8, 2\)"):
        ring_attention_processes(Q, K[:8], V[:8], ranks=2)


@pytest.mark.parametrize("placement", ["zigzag", "striped"])
@pytest.mark.parametrize("causal", [False, True])
def test_placement_changes_who_works_and_not_the_result(placement, causal):
    Q, K, V, _ = head(24, 24, 5)
    O, lse, _ = attention(Q, K, V, causal=causal)
    run = ring_attention(Q, K, V, ranks=4, causal=causal, placement=placement)
    assert np.abs(run.O - O).max() < 1e-14 and np.abs(run.lse - lse).max() < 1e-14
    assert run.pairs.sum() == (24 * 25 // 2 if causal else 24 * 24)


@pytest.mark.parametrize("ranks", [1, 2, 4, 8])
def test_pairs_on_the_clock(ranks):
    Q, K, V, _ = head(64, 64, 2)
    n, useful = 64 // ranks, 64 * 65 // 2
    runs = {
        placement: ring_attention(Q, K, V, ranks=ranks, causal=True, placement=placement)
        for placement in ("contiguous", "zigzag", "striped")
    }
    assert all(run.pairs.sum() == useful for run in runs.values())
    diagonal = n * (n + 1) // 2
    assert runs["contiguous"].critical_pairs == diagonal + (ranks - 1) * n * n
    assert runs["zigzag"].critical_pairs == useful // ranks  # nobody waits
    assert (np.ptp(runs["zigzag"].pairs, axis=1) == 0).all()
    assert runs["striped"].critical_pairs == ranks * diagonal


@pytest.mark.parametrize("placement", ["contiguous", "zigzag", "striped"])
def test_every_row_has_one_rank(placement):
    rows = ring_rows(48, 6, placement)
    assert sorted(np.concatenate(rows)) == list(range(48))
    assert all(len(r) == 8 and (np.diff(r) > 0).all() for r in rows)


@pytest.mark.parametrize(
    ("causal", "placement"), [(False, "contiguous"), (True, "contiguous"), (True, "zigzag")]
)
def test_real_processes_give_the_same(causal, placement):
    pytest.importorskip("torch")
    Q, K, V, _ = head(16, 16, 4)
    O = ring_attention_processes(Q, K, V, ranks=4, causal=causal, placement=placement)
    assert np.abs(O - attention(Q, K, V, causal=causal)[0]).max() < 1e-14


@pytest.mark.gpu
def test_the_same_over_nccl():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    Q, K, V, _ = head(16, 16, 4)
    for ranks in {1, torch.cuda.device_count()} & {1, 2, 4, 8}:
        O = ring_attention_processes(Q, K, V, ranks=ranks, causal=True, backend="nccl")
        assert np.abs(O - attention(Q, K, V, causal=True)[0]).max() < 1e-14


def test_a_rank_that_fails_is_named():
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("needs a machine without a GPU")
    Q, K, V, _ = head(4, 4, 2)
    with pytest.raises(RuntimeError, match="rank 0 failed: "):
        ring_attention_processes(Q, K, V, ranks=1, backend="nccl")


def test_without_a_process_group_it_says_so():
    torch = pytest.importorskip("torch")
    x = torch.zeros(2, 2)
    with pytest.raises(RuntimeError, match="init_process_group first"):
        ring_attention_distributed(x, x, x)


def test_causal_is_a_bool():
    x = np.eye(4)
    with pytest.raises(TypeError, match="causal must be True or False, got 'none'"):
        ring_attention(x, x, x, ranks=2, causal="none")
