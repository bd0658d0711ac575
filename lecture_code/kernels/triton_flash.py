"""FlashAttention for a GPU, in Triton: one forward kernel, two backward kernels, autograd.

Read it from top to bottom: helpers, the forward kernel, the two kernels of the backward, the table
of tile sizes, and the Python that checks the inputs and launches.

The exact attention of one head, with S = scale · Q Kᵀ and masked scores −inf, is

    P = softmax(S),   O = P V,   LSE_i = log Σ_j exp(S_ij)

A program of the forward kernel holds BLOCK_M rows of Q and walks over K and V in tiles of BLOCK_N
rows. A program of the backward does the same (dQ), or holds rows of K and V and walks over Q and dO
(dK, dV). Nothing is summed across programs, so every run gives the same bits.

Scores stay raw on chip: s = q · k. With c = |scale| · log₂e, exp(S − max) is exp2((s − max s) · c).
The difference is taken first: it is exactly 0 at the maximum, however large the scores are. LSE is
kept in the same units, as the raw score r with exp2((s − r) · c) = P, and +inf for a row that sees
no key, which makes its P = 0 without a test.

References
----------
Dao et al., FlashAttention (2022), Algorithms 1 and 4; Dao, FlashAttention-2 (2023), Algorithms 1
and 2; Milakov and Gimelshein, Online normalizer calculation for softmax (2018).
"""

import math
from dataclasses import dataclass
from numbers import Real

import numpy as np
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

LOG2E = 1.4426950408889634
INTERPRETED = bool(triton.knobs.runtime.interpret)
_INTERPRETED = tl.constexpr(INTERPRETED)
# Lengths and counts vary from call to call: no new compilation for a new value.
_jit = triton.jit(do_not_specialize=["H", "N_q", "N_k", "heads"])


# --- Helpers of the kernels


@triton.jit
def _matmul(a, b, acc):
    """acc + a @ b in float32; the interpreter multiplies bfloat16 wrongly unless it is widened."""
    if _INTERPRETED:
        a = a.to(tl.float32)
        b = b.to(tl.float32)
    return tl.dot(a, b, acc, input_precision="ieee")


@triton.jit
def _raw_scores(a, b, ROWS: tl.constexpr, COLS: tl.constexpr, SIGN: tl.constexpr):
    """SIGN · a @ b, (ROWS, COLS): the sign of scale goes here, so that the factor c is positive."""
    s = _matmul(a, b, tl.zeros((ROWS, COLS), tl.float32))
    if SIGN < 0:
        s = -s
    if SIGN == 0:
        s = tl.zeros((ROWS, COLS), tl.float32)
    return s


@triton.jit
def _load_rows(
    x, strides, batch, head, start, n, d,
    ROWS: tl.constexpr, COLS: tl.constexpr, DESCRIPTORS: tl.constexpr,
):  # fmt: skip
    """Rows [start, start + ROWS) of one head of a (B, H, n, d) tensor; zeros beyond n and d."""
    if DESCRIPTORS:
        # x is a descriptor: the copy engine computes the addresses and fills in the zeros.
        tile = x.load([batch, head, start, 0]).reshape(ROWS, COLS)
    else:
        # rows: (ROWS,), cols: (COLS,), in 64 bits: a stride times a row can pass 2³¹.
        rows = (start + tl.arange(0, ROWS)).to(tl.int64)
        cols = tl.arange(0, COLS).to(tl.int64)
        base = x + batch.to(tl.int64) * strides[0] + head.to(tl.int64) * strides[1]
        places = base + rows[:, None] * strides[2] + cols[None, :] * strides[3]
        tile = tl.load(places, mask=(rows[:, None] < n) & (cols[None, :] < d), other=0.0)
    return tile


@triton.jit
def _places(head, start, n, d, ROWS: tl.constexpr, COLS: tl.constexpr):
    """Offsets and mask of rows [start, start + ROWS) in a contiguous (heads, n, d) tensor."""
    rows = start + tl.arange(0, ROWS)
    cols = tl.arange(0, COLS)
    offsets = (head.to(tl.int64) * n + rows[:, None]) * d + cols[None, :]
    return offsets, (rows[:, None] < n) & (cols[None, :] < d)


@triton.jit
def _my_tile(tiles, heads, LAST_FIRST: tl.constexpr, TOGETHER: tl.constexpr = 4):
    """The (head, tile) of this program.

    The tiles of four heads stand together, so that they share the L2 cache; among them those with
    the most work come first, so that no long program starts last.
    """
    pid = tl.program_id(0)
    first = pid // (tiles * TOGETHER) * TOGETHER
    together = tl.minimum(heads - first, TOGETHER)
    place = pid % (tiles * TOGETHER)
    tile = place // together
    if LAST_FIRST:
        tile = tiles - 1 - tile
    return first + place % together, tile


@triton.jit
def _key_range(start, N_q, N_k, CAUSAL: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """For rows [start, start + BLOCK_M): every row sees all keys of [0, whole), none beyond end."""
    whole = N_k
    end = N_k
    if CAUSAL:
        whole = tl.minimum(N_k, tl.maximum(0, start + 1 + N_k - N_q))
        end = tl.minimum(N_k, tl.maximum(0, start + BLOCK_M + N_k - N_q))
    return whole // BLOCK_N * BLOCK_N, end


@triton.jit
def _visible(rows, cols, N_q, N_k, CAUSAL: tl.constexpr):
    """Which keys `cols` each of the queries `rows` sees; causal is aligned at the bottom right."""
    visible = cols < N_k
    if CAUSAL:
        visible = visible & (cols <= rows + (N_k - N_q))
    return visible


# --- Forward


@triton.jit
def _forward_tiles(
    acc, l, m, s, q_tile, k, v, k_strides, v_strides, batch, kv_head, rows, lo, hi, N_q, N_k, d, c,
    MASKED: tl.constexpr, CAUSAL: tl.constexpr, SIGN: tl.constexpr, DESCRIPTORS: tl.constexpr,
    OVERLAP: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """Keys [lo, hi) into the running (acc, l, m): online softmax, FlashAttention-2 Algorithm 1.

    On entry s holds the scores of the first tile, on exit those of the tile after the last: each
    step multiplies by the next K, which then had a whole step to arrive.
    """
    for start in tl.range(lo, hi, BLOCK_N):
        start = tl.multiple_of(start, BLOCK_N)
        # s, p: (BLOCK_M, BLOCK_N); l, m: (BLOCK_M,)
        if MASKED:
            cols = start + tl.arange(0, BLOCK_N)
            visible = _visible(rows[:, None], cols[None, :], N_q, N_k, CAUSAL)
            s = tl.where(visible, s, -float("inf"))
        m_new = tl.maximum(m, tl.max(s, 1))
        reference = m_new
        if MASKED:
            # A row that has seen no key yet: any finite reference gives exp2(-inf) = 0.
            reference = tl.where(m_new == -float("inf"), 0.0, m_new)
        p = tl.exp2((s - reference[:, None]) * c)
        rescale = tl.exp2((m - reference) * c)
        l = l * rescale + tl.sum(p, 1)
        m = m_new
        # acc: (BLOCK_M, BLOCK_D). Where it is rescaled decides when the compiler waits for P V:
        # at once, or (OVERLAP) one step later, under the next step's softmax.
        if not OVERLAP:
            acc = acc * rescale[:, None]
            p_low = p.to(q_tile.dtype)
        next_start = start + BLOCK_N
        k_tile = _load_rows(
            k, k_strides, batch, kv_head, next_start, N_k, d, BLOCK_N, BLOCK_D, DESCRIPTORS
        )
        s = _raw_scores(q_tile, k_tile.T, BLOCK_M, BLOCK_N, SIGN)
        v_tile = _load_rows(
            v, v_strides, batch, kv_head, start, N_k, d, BLOCK_N, BLOCK_D, DESCRIPTORS
        )
        if OVERLAP:
            # Not earlier: the registers of the last p_low are being read until s is there.
            acc = acc * rescale[:, None]
            p_low = p.to(q_tile.dtype)
        acc = _matmul(p_low, v_tile, acc)
    return acc, l, m, s


@_jit
def _forward_kernel(
    q, k, v, o, lse,
    H, group, N_q, N_k, N_pad, d,
    q_strides, k_strides, v_strides,
    heads, c,
    CAUSAL: tl.constexpr, SIGN: tl.constexpr, DESCRIPTORS: tl.constexpr, OVERLAP: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """BLOCK_M rows of O and LSE of one head."""
    head, tile = _my_tile(N_pad // BLOCK_M, heads, LAST_FIRST=CAUSAL)
    batch = head // H
    q_head = head % H
    kv_head = q_head // group
    start = tile * BLOCK_M
    rows = start + tl.arange(0, BLOCK_M)
    whole, end = _key_range(start, N_q, N_k, CAUSAL, BLOCK_M, BLOCK_N)

    # acc, q_tile: (BLOCK_M, BLOCK_D)
    acc = tl.zeros((BLOCK_M, BLOCK_D), tl.float32)
    l = tl.zeros((BLOCK_M,), tl.float32)
    m = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    q_tile = _load_rows(q, q_strides, batch, q_head, start, N_q, d, BLOCK_M, BLOCK_D, DESCRIPTORS)
    k_tile = _load_rows(k, k_strides, batch, kv_head, 0, N_k, d, BLOCK_N, BLOCK_D, DESCRIPTORS)
    s = _raw_scores(q_tile, k_tile.T, BLOCK_M, BLOCK_N, SIGN)
    acc, l, m, s = _forward_tiles(
        acc, l, m, s, q_tile, k, v, k_strides, v_strides, batch, kv_head, rows, 0, whole,
        N_q, N_k, d, c, False, CAUSAL, SIGN, DESCRIPTORS, OVERLAP, BLOCK_M, BLOCK_N, BLOCK_D,
    )  # fmt: skip
    acc, l, m, s = _forward_tiles(
        acc, l, m, s, q_tile, k, v, k_strides, v_strides, batch, kv_head, rows, whole, end,
        N_q, N_k, d, c, True, CAUSAL, SIGN, DESCRIPTORS, OVERLAP, BLOCK_M, BLOCK_N, BLOCK_D,
    )  # fmt: skip

    # A row with no key has l = 0, a row past N_q counts as one.
    empty = (l == 0.0) | (rows >= N_q)
    l = tl.where(empty, 1.0, l)
    offsets, mask = _places(head, start, N_q, d, BLOCK_M, BLOCK_D)
    tl.store(o + offsets, (acc / l[:, None]).to(o.dtype.element_ty), mask=mask)
    raw_lse = tl.where(empty, float("inf"), m + tl.log2(l) / c)
    tl.store(lse + head.to(tl.int64) * N_pad + rows, raw_lse)


# --- Backward. With P from the saved LSE, dP = dO Vᵀ and D_i = Σ_j dO_ij O_ij:
#     dV = Pᵀ dO,   dS = P ∘ (dP − D),   dQ = scale · dS K,   dK = scale · dSᵀ Q
# A gradient g of LSE adds g_i P_ij to dS_ij: it is subtracted from D_i.


@triton.jit
def _dq_tiles(
    dq, q_tile, do_tile, scaled_rows, factor_rows, delta_rows, k, v, k_strides, v_strides,
    batch, kv_head, rows, lo, hi, N_q, N_k, d, c,
    MASKED: tl.constexpr, CAUSAL: tl.constexpr, SIGN: tl.constexpr, DESCRIPTORS: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """The part of dQ that comes from keys [lo, hi)."""
    for start in tl.range(lo, hi, BLOCK_N):
        start = tl.multiple_of(start, BLOCK_N)
        # k_tile, v_tile: (BLOCK_N, BLOCK_D); s, dp: (BLOCK_M, BLOCK_N)
        k_tile = _load_rows(
            k, k_strides, batch, kv_head, start, N_k, d, BLOCK_N, BLOCK_D, DESCRIPTORS
        )
        v_tile = _load_rows(
            v, v_strides, batch, kv_head, start, N_k, d, BLOCK_N, BLOCK_D, DESCRIPTORS
        )
        s = _raw_scores(q_tile, k_tile.T, BLOCK_M, BLOCK_N, SIGN)
        dp = _matmul(do_tile, v_tile.T, tl.zeros((BLOCK_M, BLOCK_N), tl.float32))
        if MASKED:
            cols = start + tl.arange(0, BLOCK_N)
            visible = _visible(rows[:, None], cols[None, :], N_q, N_k, CAUSAL)
            s = tl.where(visible, s, -float("inf"))
        p = tl.exp2(tl.fma(s, c, -scaled_rows[:, None]))
        ds = p * tl.fma(dp, factor_rows[:, None], -delta_rows[:, None])
        # dq: (BLOCK_M, BLOCK_D)
        dq = _matmul(ds.to(k_tile.dtype), k_tile, dq)
    return dq


@_jit
def _dq_kernel(
    q, k, v, o, do, lse, dlse, delta, dq,
    H, group, N_q, N_k, N_pad, d,
    q_strides, k_strides, v_strides, do_strides,
    heads, c, scale,
    CAUSAL: tl.constexpr, SIGN: tl.constexpr, DESCRIPTORS: tl.constexpr, IN_REGISTERS: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """BLOCK_M rows of dQ of one head, and their D (minus LSE's gradient) for the next kernel."""
    head, tile = _my_tile(N_pad // BLOCK_M, heads, LAST_FIRST=CAUSAL)
    batch = head // H
    q_head = head % H
    kv_head = q_head // group
    start = tile * BLOCK_M
    rows = start + tl.arange(0, BLOCK_M)
    whole, end = _key_range(start, N_q, N_k, CAUSAL, BLOCK_M, BLOCK_N)

    # q_tile, do_tile: (BLOCK_M, BLOCK_D); delta_rows, lse_rows: (BLOCK_M,)
    q_tile = _load_rows(q, q_strides, batch, q_head, start, N_q, d, BLOCK_M, BLOCK_D, DESCRIPTORS)
    do_tile = _load_rows(
        do, do_strides, batch, q_head, start, N_q, d, BLOCK_M, BLOCK_D, DESCRIPTORS
    )
    offsets, mask = _places(head, start, N_q, d, BLOCK_M, BLOCK_D)
    o_tile = tl.load(o + offsets, mask=mask, other=0.0)
    delta_rows = tl.sum(o_tile.to(tl.float32) * do_tile.to(tl.float32), 1)
    stats = head.to(tl.int64) * N_pad + rows
    if dlse is not None:
        delta_rows -= tl.load(dlse + stats)
    tl.store(delta + stats, delta_rows)
    lse_rows = tl.load(lse + stats)
    scaled_rows = lse_rows * c
    # exp2(s · c − scaled) in one instruction is P times exp2(lse · c − scaled), the rounding of
    # `scaled`, which is large where scores are: dP and D are divided by that factor.
    finite = tl.where(lse_rows == float("inf"), 0.0, lse_rows)
    factor_rows = tl.exp2(-tl.fma(finite, c, -(finite * c)))
    delta_rows *= factor_rows
    if IN_REGISTERS:
        # A tile that comes straight from a load feeds the tensor cores from shared memory; any
        # operation on it moves it to registers, and the multiplications read half as much.
        q_tile = tl.where(rows[:, None] < N_q, q_tile, 0.0)
        do_tile = tl.where(rows[:, None] < N_q, do_tile, 0.0)

    dq_tile = tl.zeros((BLOCK_M, BLOCK_D), tl.float32)
    dq_tile = _dq_tiles(
        dq_tile, q_tile, do_tile, scaled_rows, factor_rows, delta_rows, k, v, k_strides, v_strides,
        batch, kv_head, rows, 0, whole, N_q, N_k, d, c,
        False, CAUSAL, SIGN, DESCRIPTORS, BLOCK_M, BLOCK_N, BLOCK_D,
    )  # fmt: skip
    dq_tile = _dq_tiles(
        dq_tile, q_tile, do_tile, scaled_rows, factor_rows, delta_rows, k, v, k_strides, v_strides,
        batch, kv_head, rows, whole, end, N_q, N_k, d, c,
        True, CAUSAL, SIGN, DESCRIPTORS, BLOCK_M, BLOCK_N, BLOCK_D,
    )  # fmt: skip
    tl.store(dq + offsets, (dq_tile * scale).to(dq.dtype.element_ty), mask=mask)


@_jit
def _dkdv_kernel(
    q, k, v, do, lse, delta, dk, dv,
    H, group, N_q, N_k, N_pad, d,
    q_strides, k_strides, v_strides, do_strides,
    heads, c, scale,
    CAUSAL: tl.constexpr, SIGN: tl.constexpr, DESCRIPTORS: tl.constexpr,
    WANT_DK: tl.constexpr, WANT_DV: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """BLOCK_N rows of dK and dV (or one of them) of one key head, over the queries of its group."""
    head, tile = _my_tile(tl.cdiv(N_k, BLOCK_N), heads, LAST_FIRST=False)
    kv_heads = H // group
    batch = head // kv_heads
    kv_head = head % kv_heads
    start_n = tile * BLOCK_N
    cols = start_n + tl.arange(0, BLOCK_N)
    # The first tile with a row that sees key start_n.
    first_row = 0
    if CAUSAL:
        first_row = tl.maximum(0, start_n + N_q - N_k) // BLOCK_M * BLOCK_M

    # k_tile, v_tile, dk_tile, dv_tile: (BLOCK_N, BLOCK_D)
    k_tile = _load_rows(
        k, k_strides, batch, kv_head, start_n, N_k, d, BLOCK_N, BLOCK_D, DESCRIPTORS
    )
    if WANT_DK:
        v_tile = _load_rows(
            v, v_strides, batch, kv_head, start_n, N_k, d, BLOCK_N, BLOCK_D, DESCRIPTORS
        )
    dk_tile = tl.zeros((BLOCK_N, BLOCK_D), tl.float32)
    dv_tile = tl.zeros((BLOCK_N, BLOCK_D), tl.float32)
    for member in tl.range(0, group):
        q_head = kv_head * group + member
        stats = (batch * H + q_head).to(tl.int64) * N_pad
        for start_m in tl.range(first_row, N_q, BLOCK_M):
            start_m = tl.multiple_of(start_m, BLOCK_M)
            rows = start_m + tl.arange(0, BLOCK_M)
            # q_tile, do_tile: (BLOCK_M, BLOCK_D); s, dp, p, ds transposed: (BLOCK_N, BLOCK_M)
            q_tile = _load_rows(
                q, q_strides, batch, q_head, start_m, N_q, d, BLOCK_M, BLOCK_D, DESCRIPTORS
            )
            do_tile = _load_rows(
                do, do_strides, batch, q_head, start_m, N_q, d, BLOCK_M, BLOCK_D, DESCRIPTORS
            )
            s = _raw_scores(k_tile, q_tile.T, BLOCK_N, BLOCK_M, SIGN)
            if WANT_DK:
                dp = _matmul(v_tile, do_tile.T, tl.zeros((BLOCK_N, BLOCK_M), tl.float32))
            # Rows past N_q have lse = +inf: p = 0. The mask is always true; with it ptxas keeps the
            # matrix instructions asynchronous (without: its message C7515, and half the speed).
            lse_rows = tl.load(lse + stats + rows, mask=rows < N_pad, other=float("inf"))
            if CAUSAL:
                visible = cols[:, None] <= rows[None, :] + (N_k - N_q)
                s = tl.where(visible, s, -float("inf"))
            p = tl.exp2((s - lse_rows[None, :]) * c)
            if WANT_DV:
                dv_tile = _matmul(p.to(do_tile.dtype), do_tile, dv_tile)
            if WANT_DK:
                delta_rows = tl.load(delta + stats + rows)
                ds = p * (dp - delta_rows[None, :])
                dk_tile = _matmul(ds.to(q_tile.dtype), q_tile, dk_tile)
    offsets, mask = _places(head, start_n, N_k, d, BLOCK_N, BLOCK_D)
    if WANT_DV:
        tl.store(dv + offsets, dv_tile.to(dv.dtype.element_ty), mask=mask)
    if WANT_DK:
        tl.store(dk + offsets, (dk_tile * scale).to(dk.dtype.element_ty), mask=mask)


# --- Tile sizes


@dataclass(frozen=True)
class Tile:
    """How one kernel is built: BLOCK_M rows of Q by BLOCK_N rows of K, warps, stages of prefetch.

    `overlap` (forward): let P V run under the next softmax, for the price of registers.
    `in_registers` (dQ): keep the program's rows of Q and dO in registers, not in shared memory.
    """

    BLOCK_M: int
    BLOCK_N: int
    num_warps: int
    num_stages: int
    overlap: bool = False
    in_registers: bool = False


@dataclass(frozen=True)
class Config:
    """The tiles of one problem on one kind of device.

    `dk` is None where one kernel makes both dK and dV; otherwise `dkdv` makes dV alone.
    `descriptors`: tiles come through the copy engine (TMA) where their layout allows it.
    `shared_limit_bytes` is the shared memory that one program may use.
    """

    forward: Tile
    dq: Tile
    dkdv: Tile
    dk: Tile | None
    descriptors: bool
    shared_limit_bytes: int


# By family and padded head dimension: forward, dQ, dK with dV (or dV alone, dK alone). Notes on how
# they were chosen are in notes/kernel.md.
_TILES_16_BIT = {
    "sm_75": {
        64: (Tile(32, 32, 8, 1), Tile(32, 32, 8, 1), Tile(32, 32, 8, 1)),
        128: (Tile(32, 16, 8, 1), Tile(32, 16, 8, 1), Tile(32, 16, 8, 1)),
        256: (Tile(16, 16, 8, 1), Tile(16, 16, 8, 1), Tile(16, 16, 8, 1)),
    },
    "sm_80": {
        64: (Tile(128, 64, 8, 3), Tile(128, 64, 8, 3), Tile(64, 128, 8, 2)),
        128: (Tile(128, 32, 8, 3), Tile(64, 64, 8, 2), Tile(64, 64, 8, 2)),
        256: (Tile(64, 64, 8, 1), Tile(64, 32, 8, 1), Tile(32, 64, 8, 1)),
    },
    "sm_89": {
        64: (Tile(128, 64, 8, 3), Tile(64, 64, 8, 2), Tile(64, 128, 8, 2)),
        128: (Tile(128, 32, 8, 3), Tile(64, 32, 8, 2), Tile(32, 64, 8, 2)),
        256: (Tile(64, 32, 8, 1), Tile(32, 32, 8, 1), Tile(32, 32, 8, 1)),
    },
    "sm_90": {
        64: (Tile(64, 128, 4, 2), Tile(64, 128, 4, 3), Tile(128, 64, 4, 2)),
        128: (Tile(128, 64, 4, 2), Tile(128, 64, 8, 3, in_registers=True), Tile(64, 64, 4, 2)),
        256: (
            Tile(128, 64, 8, 2, overlap=True),
            Tile(128, 32, 8, 3),
            (Tile(64, 64, 4, 3), Tile(32, 128, 8, 3)),
        ),
    },
    "sm_100": {
        64: (Tile(128, 64, 4, 3), Tile(128, 64, 4, 2), Tile(64, 128, 4, 2)),
        128: (Tile(128, 64, 8, 2), Tile(128, 64, 8, 2), Tile(64, 128, 8, 1)),
        256: (
            Tile(128, 64, 8, 1),
            Tile(128, 32, 8, 1),
            (Tile(32, 128, 8, 1), Tile(32, 128, 8, 1)),
        ),
    },
}
_TILES_32_BIT = {
    64: (Tile(32, 32, 8, 1), Tile(32, 32, 8, 1), Tile(32, 32, 8, 1)),
    128: (Tile(32, 16, 8, 1), Tile(32, 16, 8, 1), Tile(32, 16, 8, 1)),
    256: (Tile(16, 16, 8, 1), Tile(16, 16, 8, 1), Tile(16, 16, 2, 1)),
}
_SHARED_LIMIT_BYTES = {
    "sm_75": 65536,
    "sm_80": 166912,
    "sm_89": 101376,
    "sm_90": 232448,
    "sm_100": 232448,
}


def _family(capability):
    """The row of the table for a CUDA compute capability."""
    major, minor = capability
    if capability < (7, 5):
        raise ValueError(f"capability: expected 7.5 or newer, got {major}.{minor}")
    if major == 7:
        return "sm_75"
    if major == 8:
        return "sm_80" if minor in (0, 7) else "sm_89"
    if major == 9:
        return "sm_90"
    return "sm_100" if major in (10, 11) else "sm_89"


def choose_config(capability, d, dtype):
    """Tile sizes for one kind of device, head dimension and precision.

    Parameters
    ----------
    capability : tuple of two int
        CUDA compute capability, for example (9, 0).
    d : int
        Head dimension, 16 to 256.
    dtype : torch.dtype
        float16, bfloat16 or float32.

    Returns
    -------
    Config

    Raises
    ------
    ValueError
        A capability older than 7.5, or bfloat16 before 8.0.

    Examples
    --------
    >>> choose_config((9, 0), 128, torch.bfloat16).forward.BLOCK_M
    128
    >>> choose_config((7, 5), 128, torch.float16).shared_limit_bytes
    65536
    """
    family = _family(tuple(capability))
    if family == "sm_75" and dtype == torch.bfloat16:
        raise ValueError(
            "dtype: bfloat16 needs compute capability 8.0 or newer, got 7.5; use float16 or float32"
        )
    tiles = _TILES_32_BIT if dtype == torch.float32 else _TILES_16_BIT[family]
    forward, dq, dkdv = tiles[max(64, _padded(d))]
    dkdv, dk = dkdv if isinstance(dkdv, tuple) else (dkdv, None)
    return Config(
        forward=forward,
        dq=dq,
        dkdv=dkdv,
        dk=dk,
        descriptors=family in ("sm_90", "sm_100") and dtype != torch.float32,
        shared_limit_bytes=_SHARED_LIMIT_BYTES[family],
    )


def _padded_rows(N_q):
    """Rows in the arrays of row statistics: whole tiles, so that no load of them needs a mask."""
    return triton.cdiv(N_q, 128) * 128


def _padded(d):
    """The power of two that a head of d columns is computed in."""
    return max(16, triton.next_power_of_2(d))


def _config_for(q):
    if q.is_cuda:
        return choose_config(torch.cuda.get_device_capability(q.device), q.shape[-1], q.dtype)
    # The interpreter on a CPU runs Hopper's tiles, in any precision.
    return choose_config((9, 0), q.shape[-1], torch.float16)


# --- Launches


def _fits_descriptor(x):
    """Whether the copy engine can read x: rows of unit stride, 16-byte aligned, no stride 0."""
    if x.stride(-1) != 1 or x.data_ptr() % 16:
        return False
    strides = [
        stride * x.element_size()
        for size, stride in zip(x.shape[:3], x.stride()[:3], strict=True)
        if size > 1
    ]
    return all(stride % 16 == 0 and 0 < stride < 2**40 for stride in strides)


def _sources(tensors, rows, block_d, descriptors):
    """What a kernel reads: descriptors of (1, 1, rows, block_d) tiles, or tensors and strides."""
    if not descriptors:
        return list(tensors), [x.stride() for x in tensors]
    sources = []
    for x, r in zip(tensors, rows, strict=True):
        # The stride of an axis of length 1 is never used, but must be legal.
        strides = [
            stride if size > 1 else 16
            for size, stride in zip(x.shape[:3], x.stride()[:3], strict=True)
        ] + [1]
        sources.append(TensorDescriptor(x, list(x.shape), strides, [1, 1, r, block_d]))
    return sources, [None] * len(tensors)


def _scale_parts(scale):
    """scale as SIGN (-1, 0, 1) and a positive magnitude, 1 for a scale that float32 sees as 0."""
    magnitude = abs(scale)
    if magnitude < 2.0**-100:
        return 0, 1.0
    return (1 if scale > 0 else -1), magnitude


def _launch(kernel, programs, device, *args, **options):
    if device.type == "cuda":
        with torch.cuda.device(device):
            kernel[(programs,)](*args, **options)
    else:
        # As on a GPU, no warning: the weight of a key past N_k can overflow, and is not stored.
        with np.errstate(over="ignore", invalid="ignore"):
            kernel[(programs,)](*args, **options)


def _forward(q, k, v, causal, scale, config):
    """O, and LSE in units of the raw scores, +inf for a row with no key."""
    (B, H, N_q, d), (_, H_kv, N_k, _) = q.shape, k.shape
    o = q.new_empty((B, H, N_q, d))
    N_pad = _padded_rows(N_q)
    lse = q.new_empty((B, H, N_pad), dtype=torch.float32)
    if o.numel() == 0 or N_k == 0:
        return o.zero_(), lse.fill_(math.inf)
    sign, magnitude = _scale_parts(scale)
    tile, block_d = config.forward, _padded(d)
    descriptors = config.descriptors and all(map(_fits_descriptor, (q, k, v)))
    sources, strides = _sources(
        (q, k, v), (tile.BLOCK_M, tile.BLOCK_N, tile.BLOCK_N), block_d, descriptors
    )
    _launch(
        _forward_kernel, N_pad // tile.BLOCK_M * B * H, q.device,
        *sources, o, lse, H, H // H_kv, N_q, N_k, N_pad, d, *strides, B * H, magnitude * LOG2E,
        CAUSAL=causal, SIGN=sign, DESCRIPTORS=descriptors, OVERLAP=tile.overlap,
        BLOCK_M=tile.BLOCK_M, BLOCK_N=tile.BLOCK_N, BLOCK_D=block_d,
        num_warps=tile.num_warps, num_stages=tile.num_stages,
    )  # fmt: skip
    return o, lse


def _backward(do, dlse, q, k, v, o, lse, causal, scale, config):
    """dQ, dK, dV, contiguous; dlse is the gradient of the natural LSE, padded as lse, or None."""
    (B, H, N_q, d), (_, H_kv, N_k, _) = q.shape, k.shape
    dq, dk, dv = (x.new_empty(x.shape) for x in (q, k, v))
    if q.numel() == 0 or N_k == 0:
        return dq.zero_(), dk.zero_(), dv.zero_()
    sign, magnitude = _scale_parts(scale)
    block_d = _padded(d)
    delta = torch.empty_like(lse)
    N_pad = lse.shape[-1]
    descriptors = config.descriptors and all(map(_fits_descriptor, (q, k, v, do)))

    def kernel_arguments(tile):
        rows = (tile.BLOCK_M, tile.BLOCK_N, tile.BLOCK_N, tile.BLOCK_M)
        sources, strides = _sources((q, k, v, do), rows, block_d, descriptors)
        options = {
            "CAUSAL": causal, "SIGN": sign, "DESCRIPTORS": descriptors,
            "BLOCK_M": tile.BLOCK_M, "BLOCK_N": tile.BLOCK_N, "BLOCK_D": block_d,
            "num_warps": tile.num_warps, "num_stages": tile.num_stages,
        }  # fmt: skip
        return sources, (H, H // H_kv, N_q, N_k, N_pad, d, *strides), options

    tile = config.dq
    (q_, k_, v_, do_), sizes, options = kernel_arguments(tile)
    _launch(
        _dq_kernel, N_pad // tile.BLOCK_M * B * H, q.device,
        q_, k_, v_, o, do_, lse, dlse, delta, dq, *sizes, B * H, magnitude * LOG2E, scale,
        IN_REGISTERS=tile.in_registers, **options,
    )  # fmt: skip
    # One launch for dK and dV, or one for each where both sums do not fit in the registers.
    launches = [(config.dkdv, True, True)]
    if config.dk is not None:
        launches = [(config.dkdv, False, True), (config.dk, True, False)]
    for tile, want_dk, want_dv in launches:
        (q_, k_, v_, do_), sizes, options = kernel_arguments(tile)
        _launch(
            _dkdv_kernel, triton.cdiv(N_k, tile.BLOCK_N) * B * H_kv, q.device,
            q_, k_, v_, do_, lse, delta, dk, dv, *sizes, B * H_kv, magnitude * LOG2E, scale,
            WANT_DK=want_dk, WANT_DV=want_dv, **options,
        )  # fmt: skip
    return dq, dk, dv


# --- The operator that PyTorch sees: opaque to torch.compile, with its gradient


@torch.library.custom_op("lecture_code::flash_forward", mutates_args=())
def _forward_op(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, scale: float
) -> tuple[torch.Tensor, torch.Tensor]:
    return _forward(q, k, v, causal, scale, _config_for(q))


@_forward_op.register_fake
def _(q, k, v, causal, scale):
    return q.new_empty(q.shape), q.new_empty(
        (*q.shape[:2], _padded_rows(q.shape[2])), dtype=torch.float32
    )


@torch.library.custom_op("lecture_code::flash_backward", mutates_args=())
def _backward_op(
    do: torch.Tensor, dlse: torch.Tensor | None, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor,
    o: torch.Tensor, lse: torch.Tensor, causal: bool, scale: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    return _backward(do, dlse, q, k, v, o, lse, causal, scale, _config_for(q))


@_backward_op.register_fake
def _(do, dlse, q, k, v, o, lse, causal, scale):
    return q.new_empty(q.shape), k.new_empty(k.shape), v.new_empty(v.shape)


def _save(ctx, inputs, output):
    q, k, v, ctx.causal, ctx.scale = inputs
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(q, k, v, *output)


def _gradients(ctx, do, draw_lse):
    q, k, v, o, lse = ctx.saved_tensors
    if do is None and draw_lse is None:
        return (None,) * 5
    if do is None:
        do = o.new_zeros(()).expand(o.shape)
    dlse = None
    if draw_lse is not None:
        dlse = (draw_lse / _scale_parts(ctx.scale)[1]).contiguous()
    gradients = torch.ops.lecture_code.flash_backward(
        do, dlse, q, k, v, o, lse, ctx.causal, ctx.scale
    )
    wanted = [g if need else None for g, need in zip(gradients, ctx.needs_input_grad, strict=False)]
    return (*wanted, None, None)


def _refuse(ctx, *gradients):
    raise RuntimeError(
        "flash_attention has no second derivative: its backward cannot be differentiated"
    )


_forward_op.register_autograd(_gradients, setup_context=_save)
_backward_op.register_autograd(_refuse)


# --- The function


def _check(q, k, v, causal, scale, return_lse):
    for name, x in (("q", q), ("k", k), ("v", v)):
        if not isinstance(x, torch.Tensor):
            raise TypeError(f"{name}: expected a torch.Tensor, got {type(x).__name__}")
        if x.ndim != 4:
            raise ValueError(f"{name}: expected 4 axes (B, H, N, d), got shape {tuple(x.shape)}")
        if x.dtype not in (torch.float16, torch.bfloat16, torch.float32):
            raise TypeError(f"{name}: expected float16, bfloat16 or float32, got {x.dtype}")
        if x.dtype != q.dtype:
            raise TypeError(f"{name}: expected the dtype of q, {q.dtype}, got {x.dtype}")
        if x.device != q.device:
            raise ValueError(f"{name}: expected the device of q, {q.device}, got {x.device}")
    for name, x in (("causal", causal), ("return_lse", return_lse)):
        if not isinstance(x, bool):
            raise TypeError(f"{name}: expected a bool, got {type(x).__name__}")
    (B, H, _, d), (B_k, H_kv, N_k, d_k) = q.shape, k.shape
    if (B_k, d_k) != (B, d):
        raise ValueError(
            f"k: expected batch {B} and head dimension {d} as q, got shape {tuple(k.shape)}"
        )
    if v.shape[2] != N_k:
        raise ValueError(f"v: expected {N_k} rows as k, got {v.shape[2]}")
    if v.shape != k.shape:
        raise ValueError(f"v: expected the shape of k, {tuple(k.shape)}, got {tuple(v.shape)}")
    if not 16 <= d <= 256:
        raise ValueError(f"q: expected a head dimension d from 16 to 256, got {d}")
    if (H_kv == 0) != (H == 0) or (H_kv and H % H_kv):
        raise ValueError(
            f"q: expected a number of heads that is a multiple of the {H_kv} heads of k, got {H}"
        )
    if scale is not None:
        if isinstance(scale, bool) or not isinstance(scale, Real):
            raise TypeError(f"scale: expected a number or None, got {type(scale).__name__}")
        if not math.isfinite(scale):
            raise ValueError(f"scale: expected a finite number, got {scale}")
    if not q.is_cuda and not (INTERPRETED and q.device.type == "cpu"):
        raise ValueError(
            f"q: expected a tensor on a CUDA device, got {q.device}; "
            "on a CPU, set TRITON_INTERPRET=1 before the import"
        )


def flash_attention(q, k, v, *, causal=False, scale=None, return_lse=False):
    """Exact attention, softmax(scale · Q Kᵀ) V, with its gradient; no N × N array in device memory.

    Parameters
    ----------
    q : torch.Tensor, (B, H, N_q, d)
        float16, bfloat16 or float32, on a CUDA device (on a CPU through Triton's interpreter).
        d from 16 to 256. Any strides.
    k, v : torch.Tensor, (B, H_kv, N_k, d)
        The dtype and device of q. H is a multiple of H_kv: query head h reads key head
        h // (H / H_kv).
    causal : bool
        Row i sees keys j ≤ i + N_k − N_q: the last query sees the last key (bottom-right
        alignment).
    scale : float, optional
        Any finite number; 1/√d when it is None.
    return_lse : bool
        Also return the log-sum-exp, with its gradient.

    Returns
    -------
    o : torch.Tensor, (B, H, N_q, d)
        Contiguous, the dtype of q. A row that sees no key is 0.
    lse : torch.Tensor, (B, H, N_q)
        Only with return_lse: float32, the natural log of the row's Σ exp(score); −inf for a row
        that sees no key.

    Raises
    ------
    TypeError
        Not tensors, or a dtype that is not supported or differs from that of q.
    ValueError
        Shapes or devices that do not fit together, d out of range, or a scale that is not finite.

    Notes
    -----
    A NaN or infinity in a hidden row of V (in the backward, of K too) is still multiplied by a
    weight of 0 inside a tile, and 0 · inf = NaN; nothing outside the tensors is ever read. There is
    no second derivative.

    Cost, a head: 4 N_q N_k d FLOP forward, 14 N_q N_k d backward (16 where dK and dV have a kernel
    each), about half of both if causal. Device memory beyond inputs, outputs and gradients: two
    float32 a row.

    References
    ----------
    Dao, FlashAttention-2 (2023), Algorithms 1 and 2.
    """
    _check(q, k, v, causal, scale, return_lse)
    scale = 1.0 / math.sqrt(q.shape[-1]) if scale is None else float(scale)
    o, raw_lse = torch.ops.lecture_code.flash_forward(q, k, v, causal, scale)
    if not return_lse:
        return o
    raw_lse = raw_lse[:, :, : q.shape[2]]
    empty = raw_lse == math.inf
    return o, torch.where(empty, -math.inf, raw_lse * _scale_parts(scale)[1])
