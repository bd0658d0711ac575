"""Attention in PyTorch that a model can call: standard, exact in blocks, and in a window.

All three take (..., N, d) tensors and keep the book's rules: a hidden score is −inf, a row that
sees no key gives 0 with zero gradients, and causal rows are aligned at the bottom right (the last
query sees the last key). Gradients come from autograd. These functions show what is computed; the
kernels in ``lecture_code.kernels`` are what makes it fast.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from lecture_code.blocks import (
    block_mask,
    check_causal,
    check_window,
    positive_int,
    tile_ranges,
    visible_tile,
)


def standard_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    causal: bool = False,
    window: int | None = None,
    scale: float | None = None,
) -> Tensor:
    """Attention as its formula says: all scores, softmax of each row, weighted sum of V.

    Parameters
    ----------
    q : Tensor (..., N_q, d)
    k, v : Tensor (..., N_k, d)
    causal : bool
        Bottom-right aligned: query i sees keys up to i + N_k − N_q.
    window : int, optional
        Keys that a row sees, its own and the window − 1 before it; implies causal.
    scale : float, optional
        Factor of the scores, 1/√d if None.

    Returns
    -------
    Tensor (..., N_q, d)
        In the dtype of q. Scores and sums of 16-bit inputs are kept in float32.

    Raises
    ------
    TypeError
        Inputs that are not floating point tensors of one dtype.
    ValueError
        Shapes that do not belong together, a window below 1, a scale that is not finite.

    Notes
    -----
    Cost: 4 N_q N_k d matmul FLOP a head, N_q N_k scores in memory.

    Examples
    --------
    >>> v = torch.tensor([[1.0], [3.0]])
    >>> standard_attention(torch.zeros(2, 1), torch.zeros(2, 1), v, causal=True).tolist()
    [[1.0], [2.0]]
    """
    scale = _check(q, k, v, scale)
    causal, window = check_causal(causal), check_window(window)
    # S, P: (..., N_q, N_k)
    S = _wide(q) @ _wide(k).transpose(-1, -2) * scale
    N_q, N_k = S.shape[-2:]
    S = _hide(S, visible_tile((0, N_q), (0, N_k), N_q, N_k, causal, window))
    P = torch.exp(S - _finite_or_zero(_row_max(S)))
    return _divide(P @ _wide(v), P.sum(-1, keepdim=True)).to(q.dtype)


def blockwise_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    block_size: int,
    causal: bool = False,
    window: int | None = None,
    scale: float | None = None,
) -> Tensor:
    """Exact attention tile by tile with an online softmax, in the order of FlashAttention-2.

    The outer loop runs over blocks of queries, the inner one over blocks of keys. Tiles that hold
    no visible pair are skipped, and the division by the sum waits until the end of a row.

    Parameters
    ----------
    q, k, v, causal, window, scale
        As in :func:`standard_attention`.
    block_size : int
        Rows of a block of queries and of a block of keys; the last ones may be short.

    Returns
    -------
    Tensor (..., N_q, d)
        Equal to :func:`standard_attention` up to rounding, whatever the block size.

    Raises
    ------
    TypeError, ValueError
        As :func:`standard_attention`, or for a block size that is not an integer of at least 1.

    Notes
    -----
    Cost: as the formula, less the skipped tiles; block_size² scores at once in the forward.
    Autograd keeps every tile for the backward, so training with it saves no memory: for that the
    backward must recompute the tiles, as a kernel does.

    References
    ----------
    Dao 2023, FlashAttention-2, Algorithm 1.

    Examples
    --------
    >>> x = torch.arange(12.0).reshape(6, 2) / 10
    >>> whole = standard_attention(x, x, x, causal=True)
    >>> torch.allclose(blockwise_attention(x, x, x, block_size=4, causal=True), whole)
    True
    """
    scale = _check(q, k, v, scale)
    size, window = positive_int("block_size", block_size), check_window(window)
    N_q, N_k = q.shape[-2], k.shape[-2]
    if N_q == 0 or N_k == 0:
        return standard_attention(q, k, v, scale=scale)
    wide_q, wide_k, wide_v = _wide(q), _wide(k), _wide(v)
    work = block_mask(N_q, N_k, size, size, causal=causal, window=window)
    blocks = []
    for i, rows in enumerate(tile_ranges(N_q, size)):
        # Q_i, O_i: (..., rows, d); m, l: (..., rows, 1)
        Qi = wide_q[..., slice(*rows), :]
        Oi = torch.zeros_like(Qi)
        l = Qi.new_zeros(*Qi.shape[:-1], 1)
        m = torch.full_like(l, -math.inf)
        for j, columns in enumerate(tile_ranges(N_k, size)):
            if not work[i, j]:
                continue
            # S: (..., rows, columns)
            S = Qi @ wide_k[..., slice(*columns), :].transpose(-1, -2) * scale
            S = _hide(S, visible_tile(rows, columns, N_q, N_k, causal, window))
            m_new = torch.maximum(m, _row_max(S))
            P = torch.exp(S - _finite_or_zero(m_new))
            rescale = torch.exp(m - _finite_or_zero(m_new))
            l = rescale * l + P.sum(-1, keepdim=True)
            Oi = rescale * Oi + P @ wide_v[..., slice(*columns), :]
            m = m_new
        blocks.append(_divide(Oi, l))
    return torch.cat(blocks, dim=-2).to(q.dtype)


def sliding_window_attention(
    q: Tensor, k: Tensor, v: Tensor, *, window: int, causal: bool = True, scale: float | None = None
) -> Tensor:
    """Attention of each row to ``window`` keys, its own and those just before it.

    Another function than attention, unless the window covers every key. This one computes all
    scores and hides most of them: it shows what a window does to a model, not what it saves.

    Parameters
    ----------
    q, k, v, scale
        As in :func:`standard_attention`.
    window : int
        Keys seen by a row, at least 1.
    causal : bool
        A window looks back only, so anything but True is refused.

    Raises
    ------
    TypeError, ValueError
        As :func:`standard_attention`; ``causal=False``.

    References
    ----------
    Beltagy et al. 2020, Longformer, section 3.1 (the causal half of its window).

    Examples
    --------
    >>> v = torch.tensor([[1.0], [3.0], [5.0]])
    >>> sliding_window_attention(torch.zeros(3, 1), torch.zeros(3, 1), v, window=2).tolist()
    [[1.0], [2.0], [4.0]]
    """
    if causal is not True:
        raise ValueError(f"causal must be True, since a window looks back only; got {causal!r}")
    window = positive_int("window", window)
    return standard_attention(q, k, v, causal=True, window=window, scale=scale)


def _check(q, k, v, scale) -> float:
    """Refuse inputs that are not one attention problem; return the scale."""
    for name, x in (("q", q), ("k", k), ("v", v)):
        if not isinstance(x, Tensor) or not x.is_floating_point():
            got = x.dtype if isinstance(x, Tensor) else type(x).__name__
            raise TypeError(f"{name} must be a floating point tensor, got {got}")
        if x.ndim < 2:
            raise ValueError(f"{name} must have shape (..., N, d), got {tuple(x.shape)}")
    if not q.dtype == k.dtype == v.dtype:
        raise TypeError(f"q, k and v must have one dtype, got {q.dtype}, {k.dtype} and {v.dtype}")
    if k.shape != v.shape:
        raise ValueError(f"k and v must have one shape, got {tuple(k.shape)} and {tuple(v.shape)}")
    if q.shape[:-2] != k.shape[:-2] or q.shape[-1] != k.shape[-1] or q.shape[-1] == 0:
        raise ValueError(
            "q and k must agree in all but N, with a head dimension of at least 1, "
            f"got {tuple(q.shape)} and {tuple(k.shape)}"
        )
    scale = q.shape[-1] ** -0.5 if scale is None else float(scale)
    if not math.isfinite(scale):
        raise ValueError(f"scale must be finite, got {scale}")
    return scale


def _wide(x: Tensor) -> Tensor:
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def _hide(S: Tensor, visible: np.ndarray | None) -> Tensor:
    """Put −inf where ``visible`` is False; None hides nothing."""
    if visible is None:
        return S
    return S.masked_fill(~torch.from_numpy(visible).to(S.device), -math.inf)


def _row_max(S: Tensor) -> Tensor:
    """The largest score of each row, −inf for a row of none. No gradient: it cancels."""
    if S.shape[-1] == 0:
        return S.new_full((*S.shape[:-1], 1), -math.inf)
    return S.detach().amax(-1, keepdim=True)


def _finite_or_zero(m: Tensor) -> Tensor:
    # −inf − (−inf) is nan; 0 in its place leaves exp(−inf) = 0
    return torch.where(m == -math.inf, 0.0, m)


def _divide(O: Tensor, l: Tensor) -> Tensor:
    return O / torch.where(l == 0, 1.0, l)
