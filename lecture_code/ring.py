"""Ring attention: queries stay, keys and values travel from rank to rank.

The same algorithm twice: counted, with all ranks in one process (numpy), and on real processes
through ``torch.distributed``. `lecture_code.ring_processes` starts those processes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lecture_code.attention import Head
from lecture_code.blocks import check_causal, positive_int
from lecture_code.softmax import finite_or_zero, merge_outputs

PLACEMENTS = ("contiguous", "zigzag", "striped")


@dataclass(frozen=True)
class RingRun:
    """O (N, d), lse (N,), and what the ranks did.

    ``sent_elems`` that each rank sent, ``steps`` of the ring, ``pairs`` int (steps, ranks): visible
    (query, key) pairs that a rank computed in a step.
    """

    O: np.ndarray
    lse: np.ndarray
    sent_elems: int
    steps: int
    pairs: np.ndarray

    @property
    def busy(self) -> np.ndarray:
        """Whether a rank had a visible pair to compute in a step: bool (steps, ranks)."""
        return self.pairs > 0

    @property
    def critical_pairs(self) -> int:
        """Pairs that the clock sees: in each step the ring waits for its busiest rank."""
        return int(self.pairs.max(axis=1).sum())


def ring_rows(N: int, ranks: int, placement: str = "contiguous") -> list[np.ndarray]:
    """Which rows of the sequence each rank holds, in ascending order.

    Parameters
    ----------
    N, ranks : int
        ``ranks`` must divide N; 2 · ranks for "zigzag".
    placement : str
        "contiguous": one piece each. "zigzag": of 2 · ranks pieces, rank r gets r and its mirror
        image 2 · ranks − 1 − r. "striped": every ranks-th row, from r on.

    Raises
    ------
    ValueError
        If N cannot be cut so, or the placement is unknown.

    References
    ----------
    Brandon et al. 2023, Striped Attention; Llama 3 (2024), section 3.3.2, for the mirrored pieces.

    Examples
    --------
    >>> [rows.tolist() for rows in ring_rows(8, 2, "zigzag")]
    [[0, 1, 6, 7], [2, 3, 4, 5]]
    """
    N, ranks = positive_int("N", N, 0), positive_int("ranks", ranks)
    if placement not in PLACEMENTS:
        raise ValueError(f"placement must be one of {', '.join(PLACEMENTS)}; got {placement!r}")
    pieces = 2 * ranks if placement == "zigzag" else ranks
    if N % pieces:
        raise ValueError(f"ranks must divide N into {pieces} pieces, got N = {N}, ranks = {ranks}")
    rows = np.arange(N)
    if placement == "striped":
        return [rows[rank::ranks] for rank in range(ranks)]
    cut = rows.reshape(pieces, -1)
    if placement == "contiguous":
        return list(cut)
    return [np.concatenate((cut[rank], cut[pieces - 1 - rank])) for rank in range(ranks)]


def ring_attention(
    Q, K, V, *, ranks: int, causal: bool = False, scale=None, placement: str = "contiguous"
) -> RingRun:
    """Attention with the sequence cut over ``ranks``; in step s rank r holds the keys of rank
    r − s.

    Parameters
    ----------
    Q, K, V : ndarray (N, d)
        ``ranks`` must divide N.
    ranks : int
    causal : bool
        Pieces that lie wholly in the future are passed on without work. With contiguous pieces
        this leaves the early ranks idle for most of the ring (``.pairs``).
    placement : str
        Who holds which rows, see :func:`ring_rows`. The result does not depend on it.

    Returns
    -------
    RingRun

    Notes
    -----
    Cost: each rank sends 2 (N / ranks) d elements in each of ranks − 1 steps.

    References
    ----------
    Liu et al. 2023, Ring Attention with blockwise transformers.

    Examples
    --------
    >>> x = np.random.default_rng(0).standard_normal((8, 2))
    >>> run = ring_attention(x, x, x, ranks=4, causal=True)
    >>> run.sent_elems, run.busy.sum(axis=0).tolist()
    (24, [1, 2, 3, 4])
    """
    head = Head.of(Q, K, V, causal=causal, window=None, mask=None, scale=scale, accumulate=None)
    if head.N_q != head.N_k:
        raise ValueError(f"Q and K must have one length, got N_q = {head.N_q}, N_k = {head.N_k}")
    N, rows = head.N_q, ring_rows(head.N_q, ranks, placement)
    piece = N // ranks
    held = [(K[r], V[r]) for r in rows]
    state = [(np.zeros((piece, head.d), head.acc), np.full(piece, -np.inf, head.acc))] * ranks
    pairs, sent = np.zeros((ranks, ranks), int), 0
    for step in range(ranks):
        for rank in range(ranks):
            visible = np.ones((piece, piece), bool)
            if head.causal:
                visible = rows[rank][:, None] >= rows[(rank - step) % ranks]
            pairs[step, rank] = visible.sum()
            if visible.any():
                part = _piece(Q[rows[rank]], *held[rank], visible, head)
                state[rank] = merge_outputs(state[rank], part)
        if step < ranks - 1:
            held = [held[rank - 1] for rank in range(ranks)]
            sent += 2 * piece * head.d
    O, lse = np.empty((N, head.d), head.dtype), np.empty(N, head.acc)
    for r, (O_r, lse_r) in zip(rows, state):
        O[r], lse[r] = O_r, lse_r
    return RingRun(O, lse, sent, ranks, pairs)


def _piece(q, k, v, visible, head):
    S = (q.astype(head.acc) @ k.astype(head.acc).T) * head.acc.type(head.scale)
    S[~visible] = -np.inf
    m = S.max(axis=1)
    P = np.exp(S - finite_or_zero(m)[:, None])
    l = P.sum(axis=1)
    with np.errstate(divide="ignore"):
        return (P @ v.astype(head.acc)) / np.where(l == 0, 1, l)[:, None], m + np.log(l)


def ring_attention_distributed(
    q,
    k,
    v,
    *,
    causal: bool = False,
    scale: float | None = None,
    placement: str = "contiguous",
):
    """The same on real processes: call it on every rank with that rank's rows of the sequence.

    Parameters
    ----------
    q, k, v : torch.Tensor (n, d)
        This rank's rows, as :func:`ring_rows` gives them; n is the same on every rank. A
        ``torch.distributed`` process group must be up (gloo for CPU tensors, NCCL for CUDA
        tensors).
    causal : bool
    scale : float, optional
        1/√d if omitted.
    placement : str
        See :func:`ring_rows`.

    Returns
    -------
    torch.Tensor (n, d)
        This rank's rows of O.

    Raises
    ------
    RuntimeError
        If no process group is up.
    """
    import torch
    import torch.distributed as dist

    if not dist.is_initialized():
        raise RuntimeError("call torch.distributed.init_process_group first, on every rank")
    causal = check_causal(causal)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    n, d = q.shape
    scale = d**-0.5 if scale is None else scale
    O, lse = torch.zeros_like(q), q.new_full((n,), -torch.inf)
    rows = [torch.from_numpy(r).to(q.device) for r in ring_rows(n * ranks, ranks, placement)]
    k, v = k.contiguous(), v.contiguous()
    after, before = (rank + 1) % ranks, (rank - 1) % ranks
    for step in range(ranks):
        # the next piece travels while this one is used
        arriving, pending = (torch.empty_like(k), torch.empty_like(v)), []
        if step < ranks - 1:
            ops = [dist.P2POp(dist.isend, x, after) for x in (k, v)]
            ops += [dist.P2POp(dist.irecv, x, before) for x in arriving]
            pending = dist.batch_isend_irecv(ops)
        hidden = rows[(rank - step) % ranks] > rows[rank][:, None]
        if not causal or not hidden.all():
            S = scale * q @ k.T
            if causal:
                S = S.masked_fill(hidden, -torch.inf)
            part_lse = S.logsumexp(dim=1)
            base = part_lse.masked_fill(part_lse.isneginf(), 0)
            part_O = (S - base[:, None]).exp() @ v
            # step 0 brings the rank's own keys: from then on every lse is finite
            both = torch.logaddexp(lse, part_lse)
            old, new = ((x - both).exp()[:, None] for x in (lse, part_lse))
            O, lse = old * O + new * part_O, both
        for request in pending:
            request.wait()
        if step < ranks - 1:
            k, v = arriving
    return O
