"""One head of attention, and the standard way to compute it, run on the counted machine.

Masks follow one convention everywhere: a hidden score is −inf, a row that sees no key gives O = 0,
LSE = −inf and zero gradients, and causal rows are aligned at the bottom right (the last query sees
the last key).
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real

import numpy as np

from .blocks import check_causal, check_window, visible_mask, visible_tile
from .memory import HBM, SRAM, EventLog, Traffic, accumulation_dtype

FLOATS = (np.float16, np.float32, np.float64)


@dataclass(frozen=True)
class Head:
    """The checked inputs of one head: sizes, scale, dtypes and the mask."""

    N_q: int
    N_k: int
    d: int
    scale: float
    dtype: np.dtype
    acc: np.dtype
    causal: bool
    window: int | None
    mask: np.ndarray | None

    @classmethod
    def of(cls, Q, K, V, *, causal, window, mask, scale, accumulate) -> Head:
        """Check Q, K, V and the options of an attention call.

        Raises
        ------
        TypeError
            Inputs that are not floating point, or not of one dtype.
        ValueError
            Shapes that do not belong together, a mask of another shape, a scale that is not finite.
        """
        for name, x in (("Q", Q), ("K", K), ("V", V)):
            plain = isinstance(x, np.ndarray) and not isinstance(x, np.ma.MaskedArray)
            if not plain or x.dtype.type not in FLOATS:
                got = x.dtype if plain else type(x).__name__
                raise TypeError(f"{name} must be a float16, float32 or float64 array, got {got}")
            if x.ndim != 2:
                raise ValueError(f"{name} must be one head, shape (N, d), got shape {x.shape}")
        if not Q.dtype == K.dtype == V.dtype:
            raise TypeError(
                f"Q, K and V must have one dtype, got {Q.dtype}, {K.dtype} and {V.dtype}"
            )
        if K.shape != V.shape:
            raise ValueError(f"K and V must have one shape, got {K.shape} and {V.shape}")
        if Q.shape[1] != K.shape[1] or Q.shape[1] == 0:
            raise ValueError(
                f"Q and K must have one head dimension, at least 1, got {Q.shape} and {K.shape}"
            )
        (N_q, d), N_k = Q.shape, len(K)
        if mask is not None:
            mask = np.asarray(mask)
            if mask.dtype != bool:
                raise TypeError(f"mask must be boolean, True where a key is seen, got {mask.dtype}")
            if mask.shape != (N_q, N_k):
                raise ValueError(
                    f"mask must have shape (N_q, N_k) = {(N_q, N_k)}, got {mask.shape}"
                )
        acc = accumulation_dtype(Q.dtype, accumulate)
        scale = 1 / np.sqrt(d) if scale is None else scale
        if isinstance(scale, bool | np.bool_) or not isinstance(scale, Real):
            raise TypeError(f"scale must be a number, got {scale!r}")
        if not abs(scale) <= np.finfo(acc).max.item():
            raise ValueError(f"scale must be finite in {acc}, got {scale}")
        causal, window = check_causal(causal), check_window(window)
        return cls(N_q, N_k, d, float(scale), Q.dtype, acc, causal, window, mask)

    def check_like_output(self, name: str, x, dtype=None, width: int | None = None) -> None:
        """Refuse an array that is not (N_q, d), or (N_q,) for ``width=0``."""
        shape = (self.N_q, self.d) if width is None else (self.N_q,)
        if not isinstance(x, np.ndarray) or x.shape != shape:
            got = x.shape if isinstance(x, np.ndarray) else type(x).__name__
            raise ValueError(f"{name} must be an array of shape {shape}, got {got}")
        if x.dtype.kind != "f":
            raise TypeError(f"{name} must be floating point, got {x.dtype}")
        if dtype is not None and x.dtype != dtype:
            raise TypeError(f"{name} must have the dtype of Q, {dtype}, got {x.dtype}")

    def tile(self, rows, columns) -> np.ndarray | None:
        """Which pairs of a tile are seen by causal and window; None for all of them."""
        return visible_tile(rows, columns, self.N_q, self.N_k, self.causal, self.window)


@dataclass(frozen=True)
class StandardForward:
    """O (N_q, d); P (N_q, N_k); m, l, lse (N_q,); and what it cost."""

    O: np.ndarray
    P: np.ndarray
    m: np.ndarray
    l: np.ndarray
    lse: np.ndarray
    traffic: Traffic
    matmul_flop: int
    events: EventLog | None


@dataclass(frozen=True)
class StandardBackward:
    """dQ (N_q, d); dK, dV (N_k, d); and what it cost."""

    dQ: np.ndarray
    dK: np.ndarray
    dV: np.ndarray
    traffic: Traffic
    matmul_flop: int
    events: EventLog | None


def standard_attention_forward(
    Q, K, V, *, causal=False, window=None, mask=None, scale=None, accumulate=None, log=True
) -> StandardForward:
    """Attention in three kernels, S and P written to HBM and read back.

    Each kernel reads every operand once and writes its result once, the best that three separate
    kernels can do, on a chip as large as they like. A ``mask`` is data in HBM and is read too.

    Parameters
    ----------
    Q : ndarray (N_q, d)
    K, V : ndarray (N_k, d)
        float16, float32 or float64, all alike. V must be finite even where no row sees it: 0 · NaN
        is NaN.
    causal : bool
        Row i sees keys 0 … i + N_k − N_q (bottom-right aligned).
    window : int, optional
        Row i sees its own key i + N_k − N_q and the ``window`` − 1 before it (so it implies
        causal).
    mask : bool ndarray (N_q, N_k), optional
        True where a key is seen; combined with ``causal`` and ``window``.
    scale : float, optional
        Multiplies the scores; 1/√d if omitted. Any finite number, 0 and negative ones included.
    accumulate : dtype, optional
        Precision of the sums; float32 for float16 inputs, the inputs' own otherwise. S and P are
        stored in the inputs' dtype, so float16 scores beyond 65,504 overflow here, as they do on a
        GPU.
    log : bool
        Keep the event log.

    Returns
    -------
    StandardForward
        ``.O .P .m .l .lse .traffic .matmul_flop .events``; m is the row maximum, l the sum of
        exp(S − m), lse = m + ln l.

    Notes
    -----
    Cost: 4 N_q N_k d FLOP in matmuls; 4 N_q N_k + 2 (N_q + N_k) d elements moved.

    References
    ----------
    Dao et al. 2022, FlashAttention, Algorithm 0.

    Examples
    --------
    >>> x = np.ones((4, 2))
    >>> run = standard_attention_forward(x, x, x)
    >>> run.traffic.total == 4 * 4**2 + 4 * 4 * 2
    True
    """
    head = Head.of(
        Q, K, V, causal=causal, window=window, mask=mask, scale=scale, accumulate=accumulate
    )
    N_q, N_k, d = head.N_q, head.N_k, head.d
    hbm, chip = HBM(log=log), SRAM(accumulate=head.acc)
    Q, K, V = hbm.array("Q", Q), hbm.array("K", K), hbm.array("V", V)
    S, P = hbm.empty("S", (N_q, N_k), head.dtype), hbm.empty("P", (N_q, N_k), head.dtype)
    O = hbm.empty("O", (N_q, d), head.dtype)

    # kernel 1: S = scale Q Kᵀ
    q, k = chip.load(Q), chip.load(K)
    chip.store(S, chip.matmul(q, k.T) * head.acc.type(head.scale))
    chip.free(q, k)

    # kernel 2: P = softmax(S), a row at a time
    visible = visible_mask(N_q, N_k, causal=head.causal, window=head.window)
    if mask is not None:
        seen = chip.load(hbm.array("mask", head.mask))
        visible &= seen
        chip.free(seen)
    s = chip.load(S)
    p = np.where(visible, s, -np.inf).astype(head.acc, copy=False)
    m, sees_a_key = p.max(axis=1, initial=-np.inf), visible.any(axis=1)
    with np.errstate(invalid="ignore"):  # scores that overflowed give NaN, as on hardware
        p = np.exp(p - np.where(sees_a_key, m, 0)[:, None])
    l = p.sum(axis=1)
    p /= np.where(sees_a_key, l, 1)[:, None]
    chip.store(P, p)
    chip.free(s)

    # kernel 3: O = P V
    p, v = chip.load(P), chip.load(V)
    chip.store(O, chip.matmul(p, v))
    chip.free(p, v)

    with np.errstate(divide="ignore"):
        lse = m + np.log(l)
    return StandardForward(
        O.copy_out(), P.copy_out(), m, l, lse, hbm.traffic, chip.matmul_flop, hbm.events
    )


def standard_attention_backward(
    Q, K, V, P, dO, *, causal=False, window=None, mask=None, scale=None, accumulate=None, log=True
) -> StandardBackward:
    """The backward of standard attention, from the P that the forward stored.

    Five kernels: dV = PᵀdO; dP = dO Vᵀ; dS = P ∘ (dP − D) with D_i = Σ_j P_ij dP_ij, over dP's
    place; dQ = scale dS K; dK = scale dSᵀ Q. P already holds the mask, so ``causal``, ``window``
    and ``mask`` are checked and change nothing.

    Parameters
    ----------
    Q : ndarray (N_q, d)
    K, V : ndarray (N_k, d)
    P : ndarray (N_q, N_k)
        The probabilities that :func:`standard_attention_forward` returned.
    dO : ndarray (N_q, d)
        Gradient of the loss with respect to O.
    causal, window, mask, scale, accumulate, log
        As in the forward.

    Returns
    -------
    StandardBackward
        ``.dQ .dK .dV .traffic .matmul_flop .events``

    Notes
    -----
    Cost: 8 N_q N_k d FLOP in matmuls; 7 N_q N_k + 4 (N_q + N_k) d elements moved.

    References
    ----------
    Dao et al. 2022, FlashAttention, Algorithm 3 and Appendix B.2.

    Examples
    --------
    >>> x = np.ones((4, 2))
    >>> P = standard_attention_forward(x, x, x).P
    >>> standard_attention_backward(x, x, x, P, x).traffic.total == 7 * 4**2 + 8 * 4 * 2
    True
    """
    head = Head.of(
        Q, K, V, causal=causal, window=window, mask=mask, scale=scale, accumulate=accumulate
    )
    N_q, N_k, d = head.N_q, head.N_k, head.d
    head.check_like_output("dO", dO, head.dtype)
    if not isinstance(P, np.ndarray) or P.shape != (N_q, N_k) or P.dtype != head.dtype:
        got = f"{P.shape} {P.dtype}" if isinstance(P, np.ndarray) else type(P).__name__
        raise ValueError(
            f"P must be an array of shape {(N_q, N_k)} and dtype {head.dtype}, got {got}"
        )
    hbm, chip = HBM(log=log), SRAM(accumulate=head.acc)
    Q, K, V = hbm.array("Q", Q), hbm.array("K", K), hbm.array("V", V)
    P, dO = hbm.array("P", P), hbm.array("dO", dO)
    dS = hbm.empty("dS", (N_q, N_k), head.dtype)
    dQ = hbm.empty("dQ", (N_q, d), head.dtype)
    dK, dV = hbm.empty("dK", (N_k, d), head.dtype), hbm.empty("dV", (N_k, d), head.dtype)

    # kernel 1: dV = Pᵀ dO
    p, do = chip.load(P), chip.load(dO)
    chip.store(dV, chip.matmul(p.T, do))
    chip.free(p, do)

    # kernel 2: dP = dO Vᵀ
    do, v = chip.load(dO), chip.load(V)
    chip.store(dS, chip.matmul(do, v.T))
    chip.free(do, v)

    # kernel 3: dS = P ∘ (dP − D), over the place of dP
    p, dp = chip.load(P), chip.load(dS)
    wide_p, wide_dp = p.astype(head.acc, copy=False), dp.astype(head.acc, copy=False)
    D = (wide_p * wide_dp).sum(axis=1, keepdims=True)
    chip.store(dS, wide_p * (wide_dp - D))
    chip.free(p, dp)

    # kernel 4: dQ = scale dS K
    scale = head.acc.type(head.scale)
    ds, k = chip.load(dS), chip.load(K)
    chip.store(dQ, chip.matmul(ds, k) * scale)
    chip.free(ds, k)

    # kernel 5: dK = scale dSᵀ Q
    ds, q = chip.load(dS), chip.load(Q)
    chip.store(dK, chip.matmul(ds.T, q) * scale)
    chip.free(ds, q)

    return StandardBackward(
        dQ.copy_out(), dK.copy_out(), dV.copy_out(), hbm.traffic, chip.matmul_flop, hbm.events
    )
