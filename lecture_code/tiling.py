"""Matrix products in tiles on the counted machine, and how memory and SMs are cut into pieces."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lecture_code.blocks import positive_int, tile_ranges
from lecture_code.blocks import tile_count as tiles_along
from lecture_code.memory import HBM, SRAM, Traffic

WARP_SIZE = 32


@dataclass(frozen=True)
class TiledMatmul:
    """The product, the elements it moved, and the most it held on chip."""

    C: np.ndarray
    traffic: Traffic
    peak_sram: int


def tiled_matmul(A, B, *, tile: int, capacity: int | None = None) -> TiledMatmul:
    """C = A B with square tiles: load a tile of A and of B, use each number ``tile`` times.

    Parameters
    ----------
    A : ndarray (m, k)
    B : ndarray (k, n)
        Floating point, of one dtype.
    tile : int
        Side T of the tiles; 1 is the product without tiling.
    capacity : int, optional
        What the chip enforces, in elements; 3 T² are needed.

    Returns
    -------
    TiledMatmul
        ``.C`` (m, n), ``.traffic``, ``.peak_sram``

    Notes
    -----
    Cost: 2 m k n FLOP; ceil(n / T) m k + ceil(m / T) k n loads and m n stores, in elements.

    Examples
    --------
    >>> x = np.ones((8, 8))
    >>> [tiled_matmul(x, x, tile=t).traffic.loads for t in (1, 2, 4)]
    [1024, 512, 256]
    """
    for name, x in (("A", A), ("B", B)):
        if not isinstance(x, np.ndarray) or x.ndim != 2 or x.dtype.kind != "f":
            got = f"{x.dtype} {x.shape}" if isinstance(x, np.ndarray) else type(x).__name__
            raise TypeError(f"{name} must be a 2-D floating-point array, got {got}")
    if A.shape[1] != B.shape[0] or A.dtype != B.dtype:
        raise ValueError(
            f"A and B must be (m, k) and (k, n) of one dtype, got {A.shape} {A.dtype} "
            f"and {B.shape} {B.dtype}"
        )
    tile = positive_int("tile", tile)
    (m, k), n = A.shape, B.shape[1]
    hbm, chip = HBM(log=False), SRAM(capacity)
    A, B, C = hbm.array("A", A), hbm.array("B", B), hbm.empty("C", (m, n), A.dtype)
    for r0, r1 in tile_ranges(m, tile):
        for c0, c1 in tile_ranges(n, tile):
            acc = chip.alloc((r1 - r0, c1 - c0), C.dtype)
            for k0, k1 in tile_ranges(k, tile):
                a = chip.load(A, r0, r1, columns=(k0, k1))
                b = chip.load(B, k0, k1, columns=(c0, c1))
                acc += chip.matmul(a, b)
                chip.free(a, b)
            chip.store(C, acc, r0, columns=(c0, c1))
            chip.free(acc)
    return TiledMatmul(C.copy_out(), hbm.traffic, chip.peak)


def burst_count(addresses, *, burst_bytes: int = 128) -> int:
    """How many bursts a warp's accesses touch: distinct aligned pieces of memory.

    DRAM hands over a whole aligned burst for any byte of it; a warp's load is one transaction for
    each burst that its 32 threads touch.

    Parameters
    ----------
    addresses : array_like of int
        Byte addresses, one a thread.
    burst_bytes : int
        Size of a burst.

    Examples
    --------
    >>> burst_count(4 * np.arange(32)), burst_count(4 * 1024 * np.arange(32))
    (1, 32)
    """
    addresses = np.asarray(addresses)
    if addresses.dtype.kind not in "iu" or (addresses < 0).any():
        raise ValueError("addresses must be byte addresses, whole numbers of at least 0")
    burst = positive_int("burst_bytes", burst_bytes)
    return len(np.unique(addresses.astype(np.uint64) // burst))


def walk_bursts(
    rows: int, columns: int, *, along: str, element_bytes: int = 4, burst_bytes: int = 128
) -> int:
    """Transactions of warps that read a whole row-major matrix.

    Parameters
    ----------
    rows, columns : int
        Shape of the matrix.
    along : {"rows", "columns"}
        Where the 32 neighbouring threads of a warp stand: "rows", next to each other in one row
        (coalesced), or "columns", below each other in one column.

    Examples
    --------
    >>> walk_bursts(64, 64, along="rows"), walk_bursts(64, 64, along="columns")
    (128, 4096)
    """
    if along not in ("rows", "columns"):
        raise ValueError(f'along must be "rows" or "columns", got {along!r}')
    index = np.arange(positive_int("rows", rows) * positive_int("columns", columns))
    order = index if along == "rows" else index.reshape(rows, columns).T.ravel()
    addresses = positive_int("element_bytes", element_bytes) * order
    return sum(
        burst_count(addresses[a:b], burst_bytes=burst_bytes)
        for a, b in tile_ranges(len(addresses), WARP_SIZE)
    )


def tile_bursts(
    columns: int, *, tile: int, row: int, element_bytes: int = 4, burst_bytes: int = 128
) -> int:
    """Bursts that hold one row of a tile in a row-major matrix with ``columns`` columns.

    With a width that is a multiple of the burst every row of every tile starts on a burst. One
    column more and almost none does: a row of the tile then lies in two bursts.

    Parameters
    ----------
    columns : int
        Width of the whole matrix.
    tile : int
        Elements in a row of the tile (the leftmost tile).
    row : int
        Which row.

    Examples
    --------
    >>> [sum(tile_bursts(n, tile=32, row=r) for r in range(32)) for n in (256, 257)]
    [32, 63]
    """
    element_bytes = positive_int("element_bytes", element_bytes)
    burst_bytes = positive_int("burst_bytes", burst_bytes)
    start = positive_int("row", row, 0) * positive_int("columns", columns) * element_bytes
    stop = start + positive_int("tile", tile) * element_bytes
    return tiles_along(stop, burst_bytes) - start // burst_bytes


def tile_count(m: int, n: int, *, tile_m: int, tile_n: int) -> int:
    """Tiles that cover an (m, n) result.

    >>> [tile_count(n, n, tile_m=256, tile_n=128) for n in (1792, 1793)]
    [98, 120]
    """
    m, n = positive_int("m", m), positive_int("n", n)
    tile_m, tile_n = positive_int("tile_m", tile_m), positive_int("tile_n", tile_n)
    return tiles_along(m, tile_m) * tiles_along(n, tile_n)


def waves(tiles: int, sm_count: int) -> int:
    """Rounds that ``sm_count`` SMs need for ``tiles`` equal tiles, one tile on an SM at a time.

    >>> waves(98, 108), waves(120, 108), waves(120, 132)
    (1, 2, 1)
    """
    return tiles_along(positive_int("tiles", tiles), positive_int("sm_count", sm_count))


def wave_efficiency(m: int, n: int, *, tile_m: int, tile_n: int, sm_count: int) -> float:
    """Useful work over the work of full tiles on all SMs in whole waves, between 0 and 1.

    Two losses in one number: tiles that stick out over the edge of the result, and SMs with
    nothing to do in the last wave.

    >>> sizes = dict(tile_m=256, tile_n=128, sm_count=108)
    >>> [round(wave_efficiency(n, n, **sizes), 2) for n in (1792, 1793)]
    [0.91, 0.45]
    """
    tiles = tile_count(m, n, tile_m=tile_m, tile_n=tile_n)
    m, n, tile_m, tile_n, sm_count = (int(x) for x in (m, n, tile_m, tile_n, sm_count))
    return m * n / (waves(tiles, sm_count) * sm_count * tile_m * tile_n)
