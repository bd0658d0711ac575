"""Tiled products, bursts, waves: counts that follow from the shapes."""

import numpy as np
import pytest

from lecture_code.memory import SRAMOverflow
from lecture_code.tiling import (
    burst_count,
    tile_bursts,
    tile_count,
    tiled_matmul,
    walk_bursts,
    wave_efficiency,
    waves,
)


@pytest.mark.parametrize("tile", [1, 2, 3, 8, 50])
@pytest.mark.parametrize(("m", "k", "n"), [(1, 1, 1), (8, 8, 8), (7, 5, 11), (16, 4, 3)])
def test_values_and_counts(m, k, n, tile):
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((m, k)), rng.standard_normal((k, n))
    run = tiled_matmul(A, B, tile=tile)
    assert np.abs(run.C - A @ B).max() <= 8 * k * np.finfo(float).eps
    assert run.traffic.loads == -(-n // tile) * m * k + -(-m // tile) * k * n
    assert run.traffic.stores == m * n
    t = [min(tile, size) for size in (m, k, n)]
    assert run.peak_sram == t[0] * t[1] + t[1] * t[2] + t[0] * t[2]


def test_reads_fall_by_exactly_the_tile():
    x = np.ones((24, 24))
    loads = {t: tiled_matmul(x, x, tile=t).traffic.loads for t in (1, 2, 4, 8, 24)}
    assert all(loads[1] == t * count for t, count in loads.items())
    assert loads[24] == 2 * 24 * 24


def test_capacity():
    x = np.ones((16, 16))
    assert tiled_matmul(x, x, tile=4, capacity=48).peak_sram == 48
    with pytest.raises(SRAMOverflow):
        tiled_matmul(x, x, tile=4, capacity=47)


def test_a_warp_along_a_row_needs_one_burst_down_a_column_thirty_two():
    assert burst_count(4 * np.arange(32)) == 1
    assert burst_count(4 + 4 * np.arange(32)) == 2  # one element off: the warp straddles a border
    assert burst_count(4 * 1000 * np.arange(32)) == 32
    assert burst_count([0] * 32) == 1
    assert walk_bursts(64, 64, along="columns") == 32 * walk_bursts(64, 64, along="rows")


def test_one_column_more_doubles_the_bursts_of_a_tile():
    aligned, shifted = (sum(tile_bursts(n, tile=32, row=r) for r in range(32)) for n in (256, 257))
    assert (aligned, shifted) == (32, 63)  # row 0 still starts on a burst


def test_the_lectures_waves():
    tile = {"tile_m": 256, "tile_n": 128}
    assert tile_count(1792, 1792, **tile) == 98 and tile_count(1793, 1793, **tile) == 120
    assert (waves(98, 108), waves(120, 108)) == (1, 2)
    assert (waves(98, 132), waves(120, 132)) == (1, 1)
    assert tile_count(2048, 2048, **tile) == 128 and tile_count(2112, 2112, **tile) == 153
    assert (waves(128, 132), waves(153, 132)) == (1, 2)


def test_wave_efficiency_is_one_only_when_everything_fits():
    sizes = {"tile_m": 128, "tile_n": 128, "sm_count": 4}
    assert wave_efficiency(256, 256, **sizes) == 1
    assert wave_efficiency(257, 256, **sizes) < 0.51
    assert wave_efficiency(128, 128, **sizes) == 0.25


def test_errors_name_the_argument():
    x = np.ones((4, 4))
    with pytest.raises(TypeError, match="A must be a 2-D floating-point array, got int64"):
        tiled_matmul(np.ones((4, 4), np.int64), x, tile=2)
    with pytest.raises(ValueError, match=r"A and B must be \(m, k\) and \(k, n\)"):
        tiled_matmul(x, x[:3], tile=2)
    with pytest.raises(ValueError, match="tile must be at least 1"):
        tiled_matmul(x, x, tile=0)
    with pytest.raises(ValueError, match="addresses must be byte addresses"):
        burst_count([-4])
    with pytest.raises(ValueError, match='along must be "rows" or "columns"'):
        walk_bursts(4, 4, along="diagonal")
    with pytest.raises(TypeError, match="sm_count must be an integer"):
        waves(98, 108.0)


def test_narrow_numpy_integers_do_not_overflow():
    assert burst_count(np.uint8([200, 255]), burst_bytes=512) == 1
    assert burst_count(np.uint8([0, 127, 128, 255])) == 2
    sizes = {"tile_m": 128, "tile_n": 128, "sm_count": 108}
    n = np.int32(100_000)
    assert wave_efficiency(n, n, **sizes) == wave_efficiency(100_000, 100_000, **sizes) > 0.99


@pytest.mark.parametrize("argument", ["element_bytes", "burst_bytes"])
def test_bytes_of_a_tile_row_are_whole_and_positive(argument):
    with pytest.raises(ValueError, match=f"{argument} must be at least 1, got 0"):
        tile_bursts(8, tile=2, row=1, **{argument: 0})
