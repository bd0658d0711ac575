"""Closed forms for the elements that attention moves between HBM and the chip, one head.

Nothing here runs an algorithm. The counted programs of ``attention`` and ``flash`` never import
this module and it never imports them, so that their agreement means something.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .blocks import check_blocks, choose_block_sizes, positive_int, tile_count, tile_ranges


@dataclass(frozen=True)
class IO:
    """Elements moved by a forward and a backward pass."""

    forward: int
    backward: int

    @property
    def total(self) -> int:
        return self.forward + self.backward


@dataclass(frozen=True)
class ForwardIO:
    """Elements moved by a forward pass."""

    forward: int


def standard_io(N: int, d: int, *, N_k: int | None = None) -> IO:
    """Standard attention with S and P in HBM.

    Forward: read Q, K, write S; read S, write P; read P, V, write O, in all 4N² + 4Nd. Backward:
    dV = PᵀdO, dP = dO Vᵀ, dS from P and dP, dQ = dS K, dK = dSᵀ Q, in all 7N² + 8Nd.

    Parameters
    ----------
    N, d : int
        Queries (and keys, unless ``N_k`` is given); head dimension.
    N_k : int, optional
        Keys, where they differ from the queries.

    Returns
    -------
    IO
        ``.forward``, ``.backward``, ``.total`` in elements.

    References
    ----------
    Dao et al. 2022, FlashAttention, Algorithms 0 and 3.

    Examples
    --------
    >>> standard_io(8192, 128).total
    750780416
    """
    N_q, N_k, d = _sizes(N, N_k, d)
    S, queries, keys = N_q * N_k, N_q * d, N_k * d
    return IO(forward=4 * S + 2 * queries + 2 * keys, backward=7 * S + 4 * queries + 4 * keys)


def flash_io(
    N: int,
    d: int,
    M: int | None = None,
    *,
    Br: int | None = None,
    Bc: int | None = None,
    blocks=None,
    N_k: int | None = None,
) -> IO:
    """FlashAttention in the paper's order: K, V blocks outside, Q blocks inside.

    With T_c column blocks and every tile visited: forward 2Nd + (Nd + 2N) + T_c (3Nd + 4N),
    backward 4Nd + Nd + T_c (5Nd + 2N).

    Parameters
    ----------
    N, d : int
        Queries (and keys, unless ``N_k`` is given); head dimension.
    M : int, optional
        On-chip capacity in elements, at least d; the paper's rule turns it into block sizes.
    Br, Bc : int, optional
        Block sizes, both, instead of ``M``.
    blocks : bool (Tr, Tc), optional
        Tiles that are visited (block-sparse attention; causal is one). All, if omitted.
    N_k : int, optional
        Keys, where they differ from the queries.

    Returns
    -------
    IO
        ``.forward``, ``.backward``, ``.total`` in elements.

    Raises
    ------
    ValueError
        For anything but M alone or Br and Bc together; for M below d.

    References
    ----------
    Dao et al. 2022, FlashAttention, Algorithms 1, 4 and 5, Theorem 2, Proposition 4.

    Examples
    --------
    >>> flash_io(8192, 128, 98_304).total
    371228672
    """
    N_q, N_k, d = _sizes(N, N_k, d)
    seen = _visits(N_q, N_k, d, M, Br, Bc, blocks)
    tile_rows, keys_read = seen.query_rows, seen.keys_seen * d
    return IO(
        forward=2 * keys_read + N_q * (d + 2) + tile_rows * (3 * d + 4),
        backward=2 * keys_read + 2 * N_k * d + N_q * d + tile_rows * (5 * d + 2),
    )


def flash2_io(
    N: int,
    d: int,
    M: int | None = None,
    *,
    Br: int | None = None,
    Bc: int | None = None,
    blocks=None,
    N_k: int | None = None,
) -> ForwardIO:
    """FlashAttention-2's order, forward: Q blocks outside, K, V blocks inside.

    Each Q block is read once, O and one LSE a row are written once, and each Q block reads all K, V
    blocks that it visits: 2Nd + N + T_r · 2Nd with every tile visited.

    Parameters and errors as :func:`flash_io`.

    References
    ----------
    Dao 2023, FlashAttention-2, Algorithm 1.

    Examples
    --------
    >>> flash2_io(4096, 64, Br=64, Bc=64).forward
    34082816
    """
    N_q, N_k, d = _sizes(N, N_k, d)
    seen = _visits(N_q, N_k, d, M, Br, Bc, blocks)
    return ForwardIO(forward=N_q * (2 * d + 1) + seen.key_rows * 2 * d)


def _sizes(N, N_k, d) -> tuple[int, int, int]:
    N = positive_int("N", N, 0)
    return N, N if N_k is None else positive_int("N_k", N_k, 0), positive_int("d", d)


class _Visits(NamedTuple):
    """Query rows and key rows summed over visited tiles; keys of columns with a visited tile."""

    query_rows: int
    key_rows: int
    keys_seen: int


def _visits(N_q, N_k, d, M, Br, Bc, blocks) -> _Visits:
    sizes = choose_block_sizes(d, M, Br, Bc)
    Tr, Tc = tile_count(N_q, sizes.Br), tile_count(N_k, sizes.Bc)
    if blocks is None:
        return _Visits(query_rows=Tc * N_q, key_rows=Tr * N_k, keys_seen=N_k if Tr else 0)
    visited = check_blocks(blocks, Tr, Tc)
    rows = np.array([r1 - r0 for r0, r1 in tile_ranges(N_q, sizes.Br)], dtype=np.int64)
    keys = np.array([c1 - c0 for c0, c1 in tile_ranges(N_k, sizes.Bc)], dtype=np.int64)
    return _Visits(
        query_rows=int(rows @ visited.sum(axis=1)),
        key_rows=int(keys @ visited.sum(axis=0)),
        keys_seen=int(keys @ visited.any(axis=0)),
    )
