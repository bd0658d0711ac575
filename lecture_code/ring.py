"""Ring attention: queries stay, keys and values travel from rank to rank.

Twice the same algorithm: counted, with all ranks in one process (numpy), and on real processes
through ``torch.distributed``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lecture_code.attention import Head
from lecture_code.blocks import positive_int, visible_tile
from lecture_code.softmax import finite_or_zero, merge_outputs


@dataclass(frozen=True)
class RingRun:
    """O (N, d), lse (N,), and what the ranks did.

    ``sent_elems`` that each rank sent, ``steps`` of the ring, ``busy`` bool (steps, ranks):
    whether a rank had a visible pair to compute in a step.
    """

    O: np.ndarray
    lse: np.ndarray
    sent_elems: int
    steps: int
    busy: np.ndarray


def ring_attention(Q, K, V, *, ranks: int, causal: bool = False, scale=None) -> RingRun:
    """Attention with the sequence cut over ``ranks``; in step s rank r holds the keys of rank r −
    s.

    Parameters
    ----------
    Q, K, V : ndarray (N, d)
        ``ranks`` must divide N.
    ranks : int
    causal : bool
        Pieces that lie wholly in the future are passed on without work, which leaves the early
        ranks idle for most of the ring (``.busy``).

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
    ranks = positive_int("ranks", ranks)
    if head.N_q != head.N_k or head.N_q % ranks:
        raise ValueError(
            f"ranks must divide N, the same for queries and keys; got ranks = {ranks}, "
            f"N_q = {head.N_q}, N_k = {head.N_k}"
        )
    N, piece = head.N_q, head.N_q // ranks
    spans = [(r * piece, (r + 1) * piece) for r in range(ranks)]
    held = [(K[a:b], V[a:b]) for a, b in spans]
    state = [(np.zeros((piece, head.d), head.acc), np.full(piece, -np.inf, head.acc))] * ranks
    busy, sent = np.zeros((ranks, ranks), bool), 0
    for step in range(ranks):
        for rank in range(ranks):
            rows, columns = spans[rank], spans[(rank - step) % ranks]
            visible = visible_tile(rows, columns, N, N, head.causal, None)
            if visible is None or visible.any():
                busy[step, rank] = True
                part = _piece(Q[slice(*rows)], *held[rank], visible, head)
                state[rank] = merge_outputs(state[rank], part)
        if step < ranks - 1:
            held = [held[rank - 1] for rank in range(ranks)]
            sent += 2 * piece * head.d
    O, lse = (np.concatenate(parts) for parts in zip(*state))
    return RingRun(O.astype(head.dtype), lse, sent, ranks, busy)


def _piece(q, k, v, visible, head):
    S = (q.astype(head.acc) @ k.astype(head.acc).T) * head.acc.type(head.scale)
    if visible is not None:
        S[~visible] = -np.inf
    m = S.max(axis=1)
    P = np.exp(S - finite_or_zero(m)[:, None])
    l = P.sum(axis=1)
    with np.errstate(divide="ignore"):
        return (P @ v.astype(head.acc)) / np.where(l == 0, 1, l)[:, None], m + np.log(l)


def ring_attention_distributed(q, k, v, *, causal: bool = False, scale: float | None = None):
    """The same on real processes: call it on every rank with that rank's piece of the sequence.

    Parameters
    ----------
    q, k, v : torch.Tensor (n, d)
        This rank's rows; n is the same on every rank. A ``torch.distributed`` process group must
        be up (gloo for CPU tensors, NCCL for CUDA tensors).
    causal : bool
    scale : float, optional
        1/√d if omitted.

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
    rank, ranks = dist.get_rank(), dist.get_world_size()
    n, d = q.shape
    scale = d**-0.5 if scale is None else scale
    O, lse = torch.zeros_like(q), q.new_full((n,), -torch.inf)
    own = torch.arange(n, device=q.device)
    k, v = k.contiguous(), v.contiguous()
    for step in range(ranks):
        source = (rank - step) % ranks
        # the next piece travels while this one is used
        arriving, pending = (torch.empty_like(k), torch.empty_like(v)), []
        if step < ranks - 1:
            ops = [dist.P2POp(dist.isend, x, (rank + 1) % ranks) for x in (k, v)]
            ops += [dist.P2POp(dist.irecv, x, (rank - 1) % ranks) for x in arriving]
            pending = dist.batch_isend_irecv(ops)
        if not causal or source <= rank:
            S = scale * q @ k.T
            if causal and source == rank:
                S = S.masked_fill(own[None, :] > own[:, None], -torch.inf)
            part_lse = S.logsumexp(dim=1)
            both = torch.logaddexp(lse, part_lse)
            part_O = (S - part_lse[:, None]).exp() @ v
            O = (lse - both).exp()[:, None] * O + (part_lse - both).exp()[:, None] * part_O
            lse = both
        for request in pending:
            request.wait()
        if step < ranks - 1:
            k, v = arriving
    return O
