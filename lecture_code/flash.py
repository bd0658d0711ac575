"""FlashAttention on the counted machine: the paper's order, its backward, and FlashAttention-2's
order.

The loops follow the papers line by line. Each function returns the numbers, the elements moved,
the most elements held on chip, and the log of transfers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .attention import Head
from .blocks import BlockSizes, block_mask, check_blocks, choose_block_sizes, tile_ranges
from .memory import HBM, SRAM, EventLog, Traffic
from .softmax import finite_or_zero


@dataclass(frozen=True)
class FlashForward:
    """O (N_q, d) in the inputs' dtype; m, l, lse (N_q,) in the accumulation dtype; and the cost."""

    O: np.ndarray
    m: np.ndarray
    l: np.ndarray
    lse: np.ndarray
    traffic: Traffic
    peak_sram: int
    block_sizes: BlockSizes
    matmul_flop: int
    events: EventLog | None


@dataclass(frozen=True)
class FlashBackward:
    """dQ (N_q, d); dK, dV (N_k, d); and the cost."""

    dQ: np.ndarray
    dK: np.ndarray
    dV: np.ndarray
    traffic: Traffic
    peak_sram: int
    block_sizes: BlockSizes
    matmul_flop: int
    events: EventLog | None


class _Run:
    """The machine of one call: checked head, block ranges, visited tiles, HBM and chip."""

    def __init__(self, Q, K, V, M, Br, Bc, capacity, blocks, log, **options):
        self.head = head = Head.of(Q, K, V, **options)
        self.sizes = choose_block_sizes(head.d, M, Br, Bc)
        Br, Bc = self.sizes.Br, self.sizes.Bc
        self.rows, self.columns = tile_ranges(head.N_q, Br), tile_ranges(head.N_k, Bc)
        self.visited = block_mask(
            head.N_q, head.N_k, Br, Bc, causal=head.causal, window=head.window
        )
        if blocks is not None:
            self.visited &= check_blocks(blocks, len(self.rows), len(self.columns))
        self.hbm, self.chip = HBM(log=log), SRAM(capacity, accumulate=head.acc)
        self.Q, self.K, self.V = (
            self.hbm.array(name, x) for name, x in (("Q", Q), ("K", K), ("V", V))
        )
        self.mask = None if head.mask is None else self.hbm.array("mask", head.mask)

    def scores(self, q, k, rows, columns):
        """S_ij = scale Q_i K_jᵀ with hidden pairs at −inf, in a tile of its own on chip."""
        head, chip = self.head, self.chip
        S = chip.alloc((len(q), len(k)), head.acc)
        chip.matmul(q, k.T, out=S)
        S *= head.acc.type(head.scale)
        visible = head.tile(rows, columns)
        if visible is not None:
            S[~visible] = -np.inf
        if self.mask is not None:
            S[~chip.load(self.mask, *rows, columns=columns, hold=False)] = -np.inf
        return S


def flash_attention_forward(
    Q,
    K,
    V,
    *,
    M=None,
    Br=None,
    Bc=None,
    capacity=None,
    causal=False,
    window=None,
    mask=None,
    blocks=None,
    scale=None,
    accumulate=None,
    log=True,
) -> FlashForward:
    """FlashAttention, Algorithm 1: K, V blocks outside, Q blocks inside, O kept normalised in HBM.

    Tiles that ``causal``, ``window`` or ``blocks`` hide whole are skipped: not read, not computed.

    Parameters
    ----------
    Q : ndarray (N_q, d)
    K, V : ndarray (N_k, d)
        float16, float32 or float64, all alike. V must be finite even where no row sees it: 0 · NaN
        is NaN.
    M : int, optional
        On-chip capacity in elements, at least d. It only chooses the blocks, by the paper's rule.
    Br, Bc : int, optional
        Block sizes, both, instead of ``M``.
    capacity : int, optional
        What the chip enforces, in elements. None: nothing; ``.peak_sram`` tells what was needed.
    causal : bool
        Row i sees keys 0 … i + N_k − N_q (bottom-right aligned).
    window : int, optional
        Row i sees its own key i + N_k − N_q and the ``window`` − 1 before it (so it implies
        causal).
    mask : bool ndarray (N_q, N_k), optional
        True where a key is seen, combined with the others. It is data in HBM: each visited tile of
        it is read and counted.
    blocks : bool ndarray (Tr, Tc), optional
        Tiles to visit (block-sparse attention), combined with the others.
    scale : float, optional
        Multiplies the scores; 1/√d if omitted. Any finite number, 0 and negative ones included.
    accumulate : dtype, optional
        Precision of sums, statistics and the running O; float32 for float16 inputs, the inputs' own
        otherwise. P is rounded to the inputs' dtype before P V, as tensor cores want it.
    log : bool
        Keep the event log.

    Returns
    -------
    FlashForward
        ``.O .m .l .lse .traffic .peak_sram .block_sizes .matmul_flop .events``

    Raises
    ------
    ValueError
        Anything but M alone or Br and Bc together; M < d; shapes that do not belong together.
    TypeError
        Inputs that are not floating point or not of one dtype.
    SRAMOverflow
        A tile does not fit in ``capacity``.

    Notes
    -----
    Cost: 4 N_q N_k d FLOP in matmuls; 2 N_k d + N_q (d + 2) + T_c N_q (3d + 4) elements moved; at
    most 2 Bc d + 2 Br d + Br Bc elements on chip.

    References
    ----------
    Dao et al. 2022, FlashAttention, Algorithm 1 (Algorithm 5 with ``blocks``).

    Examples
    --------
    >>> x = np.ones((8, 2))
    >>> run = flash_attention_forward(x, x, x, Br=2, Bc=4)
    >>> run.traffic.total, run.peak_sram
    (224, 32)
    """
    run = _Run(
        Q, K, V, M, Br, Bc, capacity, blocks, log,
        causal=causal, window=window, mask=mask, scale=scale, accumulate=accumulate,
    )  # fmt: skip
    head, hbm, chip = run.head, run.hbm, run.chip
    N_q, d, acc = head.N_q, head.d, head.acc
    O, l, m = hbm.empty("O", (N_q, d), acc), hbm.empty("l", N_q, acc), hbm.empty("m", N_q, acc)
    chip.store(O, np.zeros((N_q, d), acc))
    chip.store(l, np.zeros(N_q, acc))
    chip.store(m, np.full(N_q, -np.inf, acc))

    for j, (c0, c1) in enumerate(run.columns):
        if not run.visited[:, j].any():
            continue
        # K_j, V_j: (Bc, d)
        Kj, Vj = chip.load(run.K, c0, c1), chip.load(run.V, c0, c1)
        for i in np.flatnonzero(run.visited[:, j]):
            r0, r1 = run.rows[i]
            # Q_i, O_i: (Br, d); l_i, m_i: (Br,)
            Qi, Oi = chip.load(run.Q, r0, r1), chip.load(O, r0, r1)
            li, mi = chip.load(l, r0, r1, hold=False), chip.load(m, r0, r1, hold=False)
            # S_ij, then P̃_ij in its place: (Br, Bc)
            P = run.scores(Qi, Kj, (r0, r1), (c0, c1))
            m_tile = P.max(axis=1)
            np.exp(np.subtract(P, finite_or_zero(m_tile)[:, None], out=P), out=P)
            l_tile = P.sum(axis=1)

            m_new = np.maximum(mi, m_tile)
            old = np.exp(mi - finite_or_zero(m_new)) * li
            new = np.exp(m_tile - finite_or_zero(m_new))
            l_new = old + new * l_tile
            norm = np.where(l_new == 0, 1, l_new)
            Oi *= (old / norm)[:, None]
            Oi += (new / norm)[:, None] * chip.matmul(P.astype(head.dtype, copy=False), Vj)

            chip.store(O, Oi, r0)
            chip.store(l, l_new, r0)
            chip.store(m, m_new, r0)
            chip.free(Qi, Oi, P)
        chip.free(Kj, Vj)

    m, l = m.copy_out(), l.copy_out()
    return FlashForward(
        O.copy_out().astype(head.dtype), m, l, log_sum_exp(m, l),
        hbm.traffic, chip.peak, run.sizes, chip.matmul_flop, hbm.events,
    )  # fmt: skip


def flash_attention_backward(
    Q,
    K,
    V,
    O,
    dO,
    l,
    m,
    *,
    M=None,
    Br=None,
    Bc=None,
    capacity=None,
    causal=False,
    window=None,
    mask=None,
    blocks=None,
    scale=None,
    accumulate=None,
    log=True,
) -> FlashBackward:
    """The backward of FlashAttention: P is computed again, tile by tile, from Q, K and (m, l).

    Parameters
    ----------
    Q, K, V, causal, window, mask, blocks, scale
        As the forward had them.
    O, dO : ndarray (N_q, d)
        Output of the forward, and the gradient of the loss with respect to it.
    l, m : ndarray (N_q,)
        Row statistics of the forward.
    M, Br, Bc, capacity, accumulate, log
        As in :func:`flash_attention_forward`; the blocks need not be those of the forward.

    Returns
    -------
    FlashBackward
        ``.dQ .dK .dV .traffic .peak_sram .block_sizes .matmul_flop .events``

    Raises
    ------
    As :func:`flash_attention_forward`.

    Notes
    -----
    Cost: 10 N_q N_k d FLOP in matmuls; 4 N_k d + N_q d + T_c N_q (5d + 2) elements moved; at most
    4 Bc d + 4 Br d + 2 Br Bc elements on chip.

    References
    ----------
    Dao et al. 2022, FlashAttention, Algorithm 4, without dropout.

    Examples
    --------
    >>> x = np.ones((8, 2))
    >>> f = flash_attention_forward(x, x, x, Br=2, Bc=4)
    >>> run = flash_attention_backward(x, x, x, f.O, x, f.l, f.m, Br=2, Bc=4)
    >>> run.traffic.total, run.peak_sram
    (272, 64)
    """
    run = _Run(
        Q, K, V, M, Br, Bc, capacity, blocks, log,
        causal=causal, window=window, mask=mask, scale=scale, accumulate=accumulate,
    )  # fmt: skip
    head, hbm, chip = run.head, run.hbm, run.chip
    N_q, N_k, d, acc = head.N_q, head.N_k, head.d, head.acc
    head.check_like_output("O", O, head.dtype)
    head.check_like_output("dO", dO, head.dtype)
    head.check_like_output("l", l, width=0)
    head.check_like_output("m", m, width=0)
    O, dO, l, m = (hbm.array(name, x) for name, x in (("O", O), ("dO", dO), ("l", l), ("m", m)))
    dQ = hbm.empty("dQ", (N_q, d), acc)
    dK, dV = hbm.empty("dK", (N_k, d), acc), hbm.empty("dV", (N_k, d), acc)
    chip.store(dQ, np.zeros((N_q, d), acc))
    scale = acc.type(head.scale)

    for j, (c0, c1) in enumerate(run.columns):
        if not run.visited[:, j].any():
            chip.store(dK, np.zeros((c1 - c0, d), acc), c0)
            chip.store(dV, np.zeros((c1 - c0, d), acc), c0)
            continue
        # K_j, V_j, dK_j, dV_j: (Bc, d)
        Kj, Vj = chip.load(run.K, c0, c1), chip.load(run.V, c0, c1)
        dKj, dVj = chip.alloc((c1 - c0, d), acc), chip.alloc((c1 - c0, d), acc)
        for i in np.flatnonzero(run.visited[:, j]):
            r0, r1 = run.rows[i]
            # Q_i, O_i, dO_i, dQ_i: (Br, d); l_i, m_i, D_i: (Br,)
            Qi, Oi, dOi = (chip.load(x, r0, r1) for x in (run.Q, O, dO))
            dQi = chip.load(dQ, r0, r1)
            li, mi = chip.load(l, r0, r1, hold=False), chip.load(m, r0, r1, hold=False)
            # P_ij = diag(l_i)⁻¹ exp(S_ij − m_i): (Br, Bc)
            P = run.scores(Qi, Kj, (r0, r1), (c0, c1))
            np.exp(np.subtract(P, finite_or_zero(mi)[:, None], out=P), out=P)
            P /= np.where(li == 0, 1, li)[:, None]
            dVj += chip.matmul(P.astype(head.dtype, copy=False).T, dOi)

            # dP_ij = dO_i V_jᵀ, then dS_ij = P_ij ∘ (dP_ij − D_i) in its place: (Br, Bc)
            dS = chip.alloc(P.shape, acc)
            chip.matmul(dOi, Vj.T, out=dS)
            Di = (dOi.astype(acc, copy=False) * Oi).sum(axis=1)
            dS -= Di[:, None]
            dS *= P
            narrow = dS.astype(head.dtype, copy=False)
            dQi += scale * chip.matmul(narrow, Kj)
            chip.store(dQ, dQi, r0)
            dKj += scale * chip.matmul(narrow.T, Qi)
            chip.free(Qi, Oi, dOi, dQi, P, dS)
        chip.store(dK, dKj, c0)
        chip.store(dV, dVj, c0)
        chip.free(Kj, Vj, dKj, dVj)

    gradients = (x.copy_out().astype(head.dtype) for x in (dQ, dK, dV))
    return FlashBackward(
        *gradients, hbm.traffic, chip.peak, run.sizes, chip.matmul_flop, hbm.events
    )


def flash2_forward(
    Q,
    K,
    V,
    *,
    M=None,
    Br=None,
    Bc=None,
    capacity=None,
    causal=False,
    window=None,
    mask=None,
    blocks=None,
    scale=None,
    accumulate=None,
    log=True,
) -> FlashForward:
    """FlashAttention-2's order: Q blocks outside, K, V blocks inside, one division at the end.

    A Q block never leaves the chip between tiles, so O is written once and m, l stay in registers;
    only O and the LSE go to HBM. Parameters, returns and errors as :func:`flash_attention_forward`.

    Notes
    -----
    Cost: 4 N_q N_k d FLOP in matmuls; N_q (2d + 1) + T_r 2 N_k d elements moved; at most
    2 Bc d + 2 Br d + Br Bc elements on chip.

    References
    ----------
    Dao 2023, FlashAttention-2, Algorithm 1.

    Examples
    --------
    >>> x = np.ones((8, 2))
    >>> flash2_forward(x, x, x, Br=2, Bc=4).traffic.total
    168
    """
    run = _Run(
        Q, K, V, M, Br, Bc, capacity, blocks, log,
        causal=causal, window=window, mask=mask, scale=scale, accumulate=accumulate,
    )  # fmt: skip
    head, hbm, chip = run.head, run.hbm, run.chip
    N_q, d, acc = head.N_q, head.d, head.acc
    O, lse = hbm.empty("O", (N_q, d), head.dtype), hbm.empty("lse", N_q, acc)
    m_all, l_all = np.full(N_q, -np.inf, acc), np.zeros(N_q, acc)

    for i, (r0, r1) in enumerate(run.rows):
        # Q_i, O_i: (Br, d); m_i, l_i: (Br,)
        Qi, Oi = chip.load(run.Q, r0, r1), chip.alloc((r1 - r0, d), acc)
        mi, li = np.full(r1 - r0, -np.inf, acc), np.zeros(r1 - r0, acc)
        for j in np.flatnonzero(run.visited[i]):
            c0, c1 = run.columns[j]
            # K_j, V_j: (Bc, d)
            Kj, Vj = chip.load(run.K, c0, c1), chip.load(run.V, c0, c1)
            # S_ij, then P̃_ij in its place: (Br, Bc)
            P = run.scores(Qi, Kj, (r0, r1), (c0, c1))
            m_new = np.maximum(mi, P.max(axis=1))
            np.exp(np.subtract(P, finite_or_zero(m_new)[:, None], out=P), out=P)
            rescale = np.exp(mi - finite_or_zero(m_new))
            li = rescale * li + P.sum(axis=1)
            Oi *= rescale[:, None]
            Oi += chip.matmul(P.astype(head.dtype, copy=False), Vj)
            mi = m_new
            chip.free(Kj, Vj, P)
        Oi /= np.where(li == 0, 1, li)[:, None]
        chip.store(O, Oi, r0)
        chip.store(lse, log_sum_exp(mi, li), r0)
        chip.free(Qi, Oi)
        m_all[r0:r1], l_all[r0:r1] = mi, li

    return FlashForward(
        O.copy_out(), m_all, l_all, lse.copy_out(),
        hbm.traffic, chip.peak, run.sizes, chip.matmul_flop, hbm.events,
    )  # fmt: skip


def log_sum_exp(m, l):
    """ln Σ exp(s) = m + ln l of each row; −inf where no key was seen."""
    with np.errstate(divide="ignore"):
        return m + np.log(l)
