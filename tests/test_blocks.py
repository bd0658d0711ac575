"""Block sizes, tile counts and mask geometry."""

import numpy as np
import pytest

from lecture_code.blocks import (
    BlockSizes,
    block_mask,
    block_sizes,
    check_blocks,
    choose_block_sizes,
    fitting_block_sizes,
    key_bounds,
    positive_number,
    tile_count,
    tile_ranges,
    visible_mask,
    visible_tile,
)


def seen(i, j, N_q, N_k, causal, window):
    """The convention, one pair at a time."""
    own = i + N_k - N_q
    if window is not None:
        return own - window < j <= own
    return j <= own if causal else True


MASKS = [(False, None), (True, None), (False, 1), (True, 3), (False, 200)]
SIZES = [(1, 1), (6, 6), (2, 5), (5, 2), (1, 5), (17, 17), (129, 1), (13, 29)]


@pytest.mark.parametrize(("causal", "window"), MASKS)
@pytest.mark.parametrize(("N_q", "N_k"), SIZES)
def test_visible_mask_is_the_convention(N_q, N_k, causal, window):
    expected = [[seen(i, j, N_q, N_k, causal, window) for j in range(N_k)] for i in range(N_q)]
    assert np.array_equal(visible_mask(N_q, N_k, causal=causal, window=window), expected)


@pytest.mark.parametrize(("causal", "window"), MASKS)
@pytest.mark.parametrize(("N_q", "N_k"), SIZES)
@pytest.mark.parametrize(("Br", "Bc"), [(1, 1), (4, 4), (3, 7), (64, 2), (256, 256)])
def test_block_mask_holds_the_tiles_with_a_visible_pair(N_q, N_k, causal, window, Br, Bc):
    visible = visible_mask(N_q, N_k, causal=causal, window=window)
    expected = [
        [visible[r0:r1, c0:c1].any() for c0, c1 in tile_ranges(N_k, Bc)]
        for r0, r1 in tile_ranges(N_q, Br)
    ]
    assert np.array_equal(block_mask(N_q, N_k, Br, Bc, causal=causal, window=window), expected)


@pytest.mark.parametrize(("causal", "window"), MASKS)
@pytest.mark.parametrize("tile", [((0, 4), (0, 4)), ((4, 8), (0, 4)), ((9, 13), (20, 29))])
def test_visible_tile_is_a_cut_of_the_mask(causal, window, tile):
    rows, columns = tile
    whole = visible_mask(13, 29, causal=causal, window=window)
    cut = whole[slice(*rows), slice(*columns)]
    got = visible_tile(rows, columns, 13, 29, causal, window)
    assert cut.all() if got is None else np.array_equal(got, cut)


def test_a_full_tile_needs_no_mask():
    assert visible_tile((4, 8), (0, 4), 8, 8, True, None) is None
    assert visible_tile((4, 8), (0, 5), 8, 8, True, None) is None
    assert visible_tile((4, 8), (0, 6), 8, 8, True, None) is not None


def test_known_counts():
    assert visible_mask(2, 5, causal=True).sum(axis=1).tolist() == [4, 5]
    assert visible_mask(5, 2, causal=True).sum(axis=1).tolist() == [0, 0, 0, 1, 2]
    assert visible_mask(1, 5, causal=True).sum() == 5
    assert visible_mask(6, 6, window=2).sum(axis=1).tolist() == [1, 2, 2, 2, 2, 2]
    assert visible_mask(4, 4, causal=True).sum() == 10
    assert block_mask(256, 256, 16, 16, causal=True).sum() == 136


def test_key_bounds_never_go_below_zero():
    start, stop = key_bounds(np.arange(5), 5, 2, True, 2)
    assert (start >= 0).all() and (stop >= 0).all()


@pytest.mark.parametrize("empty", [(0, 5), (5, 0), (0, 0)])
def test_empty_block_mask(empty):
    assert block_mask(*empty, 4, 4, causal=True).size == 0


@pytest.mark.parametrize(
    ("M", "d", "expected"),
    [
        (98_304, 64, (64, 384)),
        (98_304, 128, (128, 192)),
        (98_304, 256, (96, 96)),
        (64, 64, (1, 1)),
        (257, 64, (2, 2)),
        (7, 7, (1, 1)),
    ],
)
def test_block_sizes_rule(M, d, expected):
    assert block_sizes(M, d) == BlockSizes(*expected)


def test_the_rule_promises_a_constant_times_M_not_M():
    assert block_sizes(98_304, 128).on_chip_elems(128) == 106_496
    assert block_sizes(98_304, 64).on_chip_elems(64, backward=True) == 163_840


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("d", [1, 7, 64, 111, 256])
@pytest.mark.parametrize("M", [10, 500, 4096, 98_304, 1_000_003])
def test_fitting_block_sizes_fit_and_are_the_largest(M, d, backward):
    if (4 * d + 1) * (2 if backward else 1) > M:
        with pytest.raises(ValueError, match="M must hold at least one row"):
            fitting_block_sizes(M, d, backward)
        return
    sizes = fitting_block_sizes(M, d, backward)
    larger = BlockSizes(min(sizes.Bc + 1, d), sizes.Bc + 1)
    assert sizes.Br == min(sizes.Bc, d)
    assert sizes.on_chip_elems(d, backward=backward) <= M
    assert larger.on_chip_elems(d, backward=backward) > M


def test_on_chip_elems_is_the_sum_of_the_tiles():
    assert BlockSizes(3, 5).on_chip_elems(7) == 2 * 5 * 7 + 2 * 3 * 7 + 15
    assert BlockSizes(3, 5).on_chip_elems(7, backward=True) == 4 * 5 * 7 + 4 * 3 * 7 + 30


@pytest.mark.parametrize(("n", "size", "expected"), [(0, 4, 0), (1, 4, 1), (4, 4, 1), (5, 4, 2)])
def test_tile_count(n, size, expected):
    assert tile_count(n, size) == expected == len(tile_ranges(n, size))


@pytest.mark.parametrize(
    ("M", "Br", "Bc"),
    [(None, None, None), (64, 4, 4), (64, 4, None), (None, 4, None), (None, None, 4)],
)
def test_M_or_both_blocks(M, Br, Bc):
    with pytest.raises(ValueError, match="give M, or both Br and Bc"):
        choose_block_sizes(8, M, Br, Bc)


def test_errors_name_the_argument():
    with pytest.raises(ValueError, match=r"d <= M <= N d, got M = 63 < d = 64"):
        block_sizes(63, 64)
    with pytest.raises(TypeError, match="M must be an integer, got 100.0"):
        block_sizes(100.0, 64)
    with pytest.raises(TypeError, match="M must be an integer, got True"):
        block_sizes(True, 1)
    with pytest.raises(ValueError, match="Br must be at least 1, got 0"):
        BlockSizes(0, 4)
    with pytest.raises(ValueError, match="window must be at least 1, got 0"):
        visible_mask(4, 4, window=0)
    with pytest.raises(TypeError, match="blocks must be a boolean array"):
        check_blocks(np.ones((2, 2)), 2, 2)
    with pytest.raises(ValueError, match=r"shape \(Tr, Tc\) = \(2, 3\), got \(2, 2\)"):
        check_blocks(np.ones((2, 2), bool), 2, 3)


def test_narrow_numpy_integers_count_like_python_ones():
    assert BlockSizes(np.int8(100), np.int8(100)).on_chip_elems(64) == 2 * 6400 + 2 * 6400 + 10_000
    assert tile_count(np.uint8(5), np.uint8(2)) == 3
    assert tile_ranges(np.int8(127), np.int8(100)) == [(0, 100), (100, 127)]
    assert positive_number("x", np.int32(2**31 - 1)) * 6 == 12_884_901_882


@pytest.mark.parametrize("window", [5, 2**63, 10**30])
@pytest.mark.parametrize(("N_q", "N_k"), [(4, 4), (2, 5), (5, 2), (3, 0)])
def test_a_window_of_any_size_is_causal_at_most(window, N_q, N_k):
    causal = visible_mask(N_q, N_k, causal=True)
    assert np.array_equal(visible_mask(N_q, N_k, window=window), causal)


def test_sizes_and_causal_are_refused_by_name():
    refused = [
        (lambda: tile_count(4.5, 2), TypeError, "n must be an integer"),
        (lambda: tile_count(-1, 2), ValueError, "n must be at least 0"),
        (lambda: tile_count(4, 0), ValueError, "size must be at least 1, got 0"),
        (lambda: tile_ranges(4, -1), ValueError, "size must be at least 1, got -1"),
        (lambda: visible_mask(-1, 4), ValueError, "N_q must be at least 0"),
        (lambda: visible_mask(4, 4, causal="none"), TypeError, "causal must be True or False"),
        (lambda: block_mask(4, 4, 2, 2, causal="none"), TypeError, "causal must be True or False"),
        (lambda: block_mask(4, 4, 2, 0), ValueError, "size must be at least 1"),
        (lambda: BlockSizes(2, 2).on_chip_elems(-3), ValueError, "d must be at least 1, got -3"),
        (lambda: positive_number("x", "7"), TypeError, "x must be a number, got '7'"),
        (lambda: positive_number("x", True), TypeError, "x must be a number, got True"),
        (lambda: positive_number("x", np.nan), ValueError, "x must be above 0, got nan"),
    ]
    for call, error, message in refused:
        with pytest.raises(error, match=message):
            call()
