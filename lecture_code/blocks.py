"""Block sizes, tile counts and the geometry of masks.

The one thing that the counted algorithms and the closed forms both import. Everything here
is about indices; no number of an attention problem is ever touched.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real

import numpy as np


def positive_int(name: str, value, least: int = 1) -> int:
    """Return ``value`` as an int, or refuse it by name.

    Raises
    ------
    TypeError
        If ``value`` is not an integer (a bool or a float is not one).
    ValueError
        If it is below ``least``.
    """
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name} must be an integer, got {value!r} ({type(value).__name__})")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, got {value}")
    return int(value)


def positive_number(name: str, value) -> int | float:
    """Return ``value`` as a Python number, which cannot overflow as numpy's do, or refuse it by
    name.

    Raises
    ------
    TypeError
        If ``value`` is not a real number (a bool is not one).
    ValueError
        If it is not above 0.
    """
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, got {value!r} ({type(value).__name__})")
    if not value > 0:
        raise ValueError(f"{name} must be above 0, got {value}")
    return value.item() if isinstance(value, np.generic) else value


def check_causal(causal) -> bool:
    """Causal is a bool: a word such as "none", true in Python, would hide half of the keys."""
    if not isinstance(causal, bool | np.bool_):
        raise TypeError(f"causal must be True or False, got {causal!r}")
    return bool(causal)


@dataclass(frozen=True)
class BlockSizes:
    """Rows of a Q block (``Br``) and rows of a K, V block (``Bc``)."""

    Br: int
    Bc: int

    def __post_init__(self):
        for name in ("Br", "Bc"):
            object.__setattr__(self, name, positive_int(name, getattr(self, name)))

    def on_chip_elems(self, d: int, *, backward: bool = False) -> int:
        """Elements that full tiles hold on chip at once; row statistics are not counted.

        Forward: K, V, Q, O and S (P overwrites S), 2 Bc d + 2 Br d + Br Bc. Backward: K, V, dK, dV,
        Q, O, dO, dQ, P and dP, twice as much.

        >>> sizes = BlockSizes(Br=64, Bc=384)
        >>> sizes.on_chip_elems(64), sizes.on_chip_elems(64, backward=True)
        (81920, 163840)
        """
        d = positive_int("d", d)
        forward = 2 * self.Bc * d + 2 * self.Br * d + self.Br * self.Bc
        return 2 * forward if backward else forward


def block_sizes(M: int, d: int) -> BlockSizes:
    """The paper's rule: Bc = ceil(M / 4d), Br = min(Bc, d).

    The rule promises that the tiles take a constant times ``M`` elements, not at most ``M``
    (see :func:`fitting_block_sizes`).

    Parameters
    ----------
    M : int
        On-chip capacity in elements, at least ``d``.
    d : int
        Head dimension.

    Raises
    ------
    ValueError
        If ``M < d``, below the range d <= M <= Nd of the paper's Theorem 2.

    References
    ----------
    Dao et al. 2022, FlashAttention, Algorithm 1, line 1.

    Examples
    --------
    >>> block_sizes(98_304, 64)
    BlockSizes(Br=64, Bc=384)
    """
    d, M = positive_int("d", d), positive_int("M", M)
    if M < d:
        raise ValueError(f"M must lie in the paper's range d <= M <= N d, got M = {M} < d = {d}")
    Bc = tile_count(M, 4 * d)
    return BlockSizes(Br=min(Bc, d), Bc=Bc)


def fitting_block_sizes(M: int, d: int, backward: bool = False) -> BlockSizes:
    """The largest Bc with Br = min(Bc, d) whose tiles really fit in ``M`` elements.

    Parameters
    ----------
    M, d : int
        On-chip capacity in elements; head dimension.
    backward : bool
        Fit the ten tiles of the backward instead of the five of the forward.

    Raises
    ------
    ValueError
        If not even Br = Bc = 1 fits.

    Examples
    --------
    >>> fitting_block_sizes(98_304, 64), fitting_block_sizes(98_304, 64, backward=True)
    (BlockSizes(Br=64, Bc=469), BlockSizes(Br=64, Bc=213))
    """
    d, M = positive_int("d", d), positive_int("M", M)

    def elems(Bc):
        return BlockSizes(min(Bc, d), Bc).on_chip_elems(d, backward=backward)

    if elems(1) > M:
        raise ValueError(
            f"M must hold at least one row of every tile, {elems(1)} elements at d = {d}, "
            f"got M = {M}"
        )
    fits, too_large = 1, M + 1
    while too_large - fits > 1:
        middle = (fits + too_large) // 2
        fits, too_large = (middle, too_large) if elems(middle) <= M else (fits, middle)
    return BlockSizes(Br=min(fits, d), Bc=fits)


def choose_block_sizes(d: int, M: int | None, Br: int | None, Bc: int | None) -> BlockSizes:
    """Block sizes from ``M`` by the paper's rule, or from both ``Br`` and ``Bc``.

    Raises
    ------
    ValueError
        For anything but M alone, or Br and Bc together.
    """
    if M is not None and Br is None and Bc is None:
        return block_sizes(M, d)
    if M is None and Br is not None and Bc is not None:
        return BlockSizes(positive_int("Br", Br), positive_int("Bc", Bc))
    raise ValueError(f"give M, or both Br and Bc; got M = {M}, Br = {Br}, Bc = {Bc}")


def tile_count(n: int, size: int) -> int:
    """Tiles of ``size`` that cover ``n``: the ceiling of n / size.

    >>> tile_count(1792, 256), tile_count(1793, 256)
    (7, 8)
    """
    return -(-positive_int("n", n, 0) // positive_int("size", size))


def tile_ranges(n: int, size: int) -> list[tuple[int, int]]:
    """Start and stop of each tile; the last one may be short.

    >>> tile_ranges(10, 4)
    [(0, 4), (4, 8), (8, 10)]
    """
    n, size = positive_int("n", n, 0), positive_int("size", size)
    return [(start, min(start + size, n)) for start in range(0, n, size)]


def check_window(window) -> int | None:
    """A window is None or at least one key wide."""
    return None if window is None else positive_int("window", window)


def key_bounds(rows: np.ndarray, N_q: int, N_k: int, causal: bool, window: int | None):
    """First visible key and one past the last, for each row; bottom-right aligned.

    Row i stands at key i + N_k - N_q. Causal: it sees no key after that. A window of W: it sees
    that key and the W - 1 before it, and none after, so a window implies causal.
    """
    own = np.asarray(rows) + (N_k - N_q)
    window = None if window is None else min(window, N_k)
    stop = np.minimum(own + 1, N_k) if causal or window is not None else np.full_like(own, N_k)
    start = own - window + 1 if window is not None else np.zeros_like(own)
    return np.maximum(start, 0), np.maximum(stop, 0)


def visible_tile(rows, columns, N_q: int, N_k: int, causal: bool, window: int | None):
    """Which keys of a tile each row sees: bool (rows, columns), or None when all of them.

    Parameters
    ----------
    rows, columns : (int, int)
        Start and stop of the tile's rows and columns.
    """
    (r0, r1), (c0, c1) = rows, columns
    start, stop = key_bounds(np.arange(r0, r1), N_q, N_k, causal, window)
    if r1 > r0 and start[-1] <= c0 and stop[0] >= c1:
        return None
    keys = np.arange(c0, c1)
    return (keys >= start[:, None]) & (keys < stop[:, None])


def visible_mask(N_q: int, N_k: int, *, causal: bool = False, window: int | None = None):
    """The whole mask, bool (N_q, N_k): True where row i sees key j; bottom-right aligned.

    Examples
    --------
    >>> visible_mask(2, 5, causal=True).sum(axis=1)
    array([4, 5])
    >>> visible_mask(6, 6, window=2).sum(axis=1)
    array([1, 2, 2, 2, 2, 2])
    """
    N_q, N_k = positive_int("N_q", N_q, 0), positive_int("N_k", N_k, 0)
    causal, window = check_causal(causal), check_window(window)
    visible = visible_tile((0, N_q), (0, N_k), N_q, N_k, causal, window)
    return np.ones((N_q, N_k), bool) if visible is None else visible


def block_mask(
    N_q: int, N_k: int, Br: int, Bc: int, *, causal: bool = False, window: int | None = None
) -> np.ndarray:
    """Which tiles hold at least one visible pair: bool (Tr, Tc).

    Examples
    --------
    >>> int(block_mask(256, 256, 16, 16, causal=True).sum())
    136
    """
    causal, window = check_causal(causal), check_window(window)
    rows, columns = tile_ranges(N_q, Br), tile_ranges(N_k, Bc)
    if not rows or not columns:
        return np.zeros((len(rows), len(columns)), bool)
    first, last = np.array(rows)[:, 0], np.array(rows)[:, 1] - 1
    c0, c1 = np.array(columns).T
    start, _ = key_bounds(first, N_q, N_k, causal, window)
    _, stop = key_bounds(last, N_q, N_k, causal, window)
    # Bounds only grow with the row, by at most one key a row: a block's keys are one interval.
    return (c0 < stop[:, None]) & (c1 > start[:, None])


def check_blocks(blocks, Tr: int, Tc: int) -> np.ndarray:
    """A block mask as a bool (Tr, Tc) array, or refused by name."""
    blocks = np.asarray(blocks)
    if blocks.dtype != bool:
        raise TypeError(f"blocks must be a boolean array, got dtype {blocks.dtype}")
    if blocks.shape != (Tr, Tc):
        raise ValueError(f"blocks must have shape (Tr, Tc) = ({Tr}, {Tc}), got {blocks.shape}")
    return blocks
