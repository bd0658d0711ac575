"""Closed forms = counted runs = an independent count, as equal integers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lecture_code.attention import standard_attention_backward, standard_attention_forward
from lecture_code.blocks import block_mask, block_sizes, tile_count
from lecture_code.flash import flash2_forward, flash_attention_backward, flash_attention_forward
from lecture_code.io_model import IO, flash2_io, flash_io, standard_io


def starts(n, size):
    """Slices of the blocks, without the package's geometry."""
    return [range(start, min(start + size, n)) for start in range(0, n, size)]


def sees(i, j, N_q, N_k, causal, window):
    """Does query i see key j? From the definition: row i stands at key i + N_k - N_q."""
    own = i + N_k - N_q
    if window is not None:
        return own - window < j <= own
    return j <= own if causal else True


def seen_blocks(N_q, N_k, Br, Bc, causal=False, window=None):
    """Blocks with at least one visible pair, by looking at every pair."""
    return np.array(
        [
            [
                any(sees(i, j, N_q, N_k, causal, window) for i in rows for j in columns)
                for columns in starts(N_k, Bc)
            ]
            for rows in starts(N_q, Br)
        ],
        dtype=bool,
    ).reshape(len(starts(N_q, Br)), len(starts(N_k, Bc)))


def walk(N_q, N_k, d, Br, Bc, visited):
    """Elements moved by the three blocked algorithms, added up line by line as they are printed."""
    rows, columns = starts(N_q, Br), starts(N_k, Bc)

    forward = 0
    forward += N_q * d + N_q + N_q  # write O = 0, l = 0, m = -inf
    for j, keys in enumerate(columns):
        if not any(visited[i][j] for i in range(len(rows))):
            continue
        forward += len(keys) * d + len(keys) * d  # read K_j, V_j
        for i, queries in enumerate(rows):
            if visited[i][j]:
                forward += 2 * len(queries) * d + 2 * len(queries)  # read Q_i, O_i, l_i, m_i
                forward += len(queries) * d + 2 * len(queries)  # write O_i, l_i, m_i

    backward = 0
    backward += N_q * d  # write dQ = 0
    for j, keys in enumerate(columns):
        if any(visited[i][j] for i in range(len(rows))):
            backward += 2 * len(keys) * d  # read K_j, V_j
        for i, queries in enumerate(rows):
            if visited[i][j]:
                backward += 4 * len(queries) * d  # read Q_i, O_i, dO_i, dQ_i
                backward += 2 * len(queries)  # read l_i, m_i
                backward += len(queries) * d  # write dQ_i
        backward += 2 * len(keys) * d  # write dK_j, dV_j

    second = 0
    for i, queries in enumerate(rows):
        second += len(queries) * d  # read Q_i
        for j, keys in enumerate(columns):
            if visited[i][j]:
                second += 2 * len(keys) * d  # read K_j, V_j
        second += len(queries) * d + len(queries)  # write O_i, LSE_i
    return forward, backward, second


def paper_rule(M, d):
    """Block sizes of Algorithm 1, line 1, in exact arithmetic."""
    quotient, rest = divmod(M, 4 * d)
    Bc = quotient + (rest > 0)
    return (Bc if Bc < d else d), Bc


def inputs(N_q, N_k, d, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape) for shape in ((N_q, d), (N_k, d), (N_k, d), (N_q, d))]


def counted(N_q, N_k, d, **options):
    """Traffic of the three programs on the counted machine, and the blocks that they chose."""
    Q, K, V, dO = inputs(N_q, N_k, d)
    run = flash_attention_forward(Q, K, V, log=False, **options)
    back = flash_attention_backward(Q, K, V, run.O, dO, run.l, run.m, log=False, **options)
    second = flash2_forward(Q, K, V, log=False, **options)
    traffic = tuple(result.traffic.total for result in (run, back, second))
    return traffic, run.block_sizes


def closed(N_q, N_k, d, **options):
    io = flash_io(N_q, d, N_k=N_k, **options)
    return io.forward, io.backward, flash2_io(N_q, d, N_k=N_k, **options).forward


# M from d (one row a block) to far beyond 4 d (N - 1) (one block)
RANDOM = [
    (1, 1, 1, 1),
    (1, 9, 3, 7),
    (9, 1, 3, 12),
    (37, 37, 5, 5),
    (41, 41, 12, 500),
    (53, 29, 7, 100),
    (29, 53, 7, 101),
    (64, 64, 16, 1024),
    (67, 67, 20, 81),
    (60, 71, 11, 3_000),
    (71, 60, 48, 193),
    (50, 50, 9, 4 * 9 * 49),
    (50, 50, 9, 4 * 9 * 49 + 1),
    (45, 31, 6, 10**9),
]


@pytest.mark.parametrize(("N_q", "N_k", "d", "M"), RANDOM)
def test_counted_is_closed_is_walked(N_q, N_k, d, M):
    Br, Bc = paper_rule(M, d)
    everything = np.ones((len(starts(N_q, Br)), len(starts(N_k, Bc))), bool)
    expected = walk(N_q, N_k, d, Br, Bc, everything)
    run, sizes = counted(N_q, N_k, d, M=M)
    assert (sizes.Br, sizes.Bc) == (Br, Bc)
    assert run == expected
    assert closed(N_q, N_k, d, M=M) == expected
    assert closed(N_q, N_k, d, Br=Br, Bc=Bc) == expected


@pytest.mark.parametrize(("Br", "Bc"), [(1, 1), (3, 8), (8, 3), (16, 16), (100, 7), (7, 100)])
@pytest.mark.parametrize(("N_q", "N_k"), [(33, 33), (21, 40), (40, 21), (1, 30)])
@pytest.mark.parametrize(
    "mask",
    [{"causal": True}, {"window": 1}, {"window": 9}, {"window": 1000}],
    ids=["causal", "window1", "window9", "window1000"],
)
def test_masks_skip_the_blocks_that_nobody_sees(N_q, N_k, Br, Bc, mask):
    d = 5
    visited = seen_blocks(N_q, N_k, Br, Bc, **mask)
    expected = walk(N_q, N_k, d, Br, Bc, visited)
    assert np.array_equal(block_mask(N_q, N_k, Br, Bc, **mask), visited)
    assert counted(N_q, N_k, d, Br=Br, Bc=Bc, **mask)[0] == expected
    assert closed(N_q, N_k, d, Br=Br, Bc=Bc, blocks=visited) == expected


@pytest.mark.parametrize("fill", [0.0, 0.2, 0.7, 1.0])
@pytest.mark.parametrize(("N_q", "N_k", "d", "Br", "Bc"), [(40, 40, 4, 8, 8), (35, 50, 6, 8, 9)])
def test_any_block_mask(N_q, N_k, d, Br, Bc, fill):
    shape = (len(starts(N_q, Br)), len(starts(N_k, Bc)))
    blocks = np.random.default_rng(7).random(shape) < fill
    expected = walk(N_q, N_k, d, Br, Bc, blocks)
    assert counted(N_q, N_k, d, Br=Br, Bc=Bc, blocks=blocks)[0] == expected
    assert closed(N_q, N_k, d, Br=Br, Bc=Bc, blocks=blocks) == expected


def test_an_empty_row_and_an_empty_column_of_blocks():
    blocks = np.ones((4, 4), bool)
    blocks[1], blocks[:, 2] = False, False
    expected = walk(32, 32, 3, 8, 8, blocks)
    assert counted(32, 32, 3, Br=8, Bc=8, blocks=blocks)[0] == expected
    assert closed(32, 32, 3, Br=8, Bc=8, blocks=blocks) == expected


def test_a_block_mask_and_a_causal_mask_together():
    blocks = np.random.default_rng(3).random((5, 7)) < 0.6
    visited = blocks & seen_blocks(38, 50, 8, 8, causal=True)
    expected = walk(38, 50, 4, 8, 8, visited)
    assert counted(38, 50, 4, Br=8, Bc=8, blocks=blocks, causal=True)[0] == expected
    assert closed(38, 50, 4, Br=8, Bc=8, blocks=visited) == expected


sizes = st.integers(1, 90)


@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(N_q=sizes, N_k=sizes, d=st.integers(1, 70), times=st.floats(1, 400), seed=st.integers(0, 99))
def test_closed_is_walked(N_q, N_k, d, times, seed):
    M = int(d * times)
    Br, Bc = paper_rule(M, d)
    shape = (len(starts(N_q, Br)), len(starts(N_k, Bc)))
    blocks = np.random.default_rng(seed).random(shape) < 0.5
    assert block_sizes(M, d).Br == Br and block_sizes(M, d).Bc == Bc
    assert closed(N_q, N_k, d, M=M) == walk(N_q, N_k, d, Br, Bc, np.ones(shape, bool))
    assert closed(N_q, N_k, d, M=M, blocks=blocks) == walk(N_q, N_k, d, Br, Bc, blocks)


@settings(max_examples=25, deadline=None, derandomize=True, database=None)
@given(
    N_q=st.integers(1, 40),
    N_k=st.integers(1, 40),
    d=st.integers(1, 20),
    Br=st.integers(1, 50),
    Bc=st.integers(1, 50),
    causal=st.booleans(),
    window=st.one_of(st.none(), st.integers(1, 30)),
)
def test_counted_is_walked(N_q, N_k, d, Br, Bc, causal, window):
    visited = seen_blocks(N_q, N_k, Br, Bc, causal, window)
    run, _ = counted(N_q, N_k, d, Br=Br, Bc=Bc, causal=causal, window=window)
    assert run == walk(N_q, N_k, d, Br, Bc, visited)


@pytest.mark.parametrize(("N_q", "N_k", "d"), [(1, 1, 1), (17, 17, 5), (12, 31, 4), (31, 12, 4)])
def test_standard(N_q, N_k, d):
    Q, K, V, dO = inputs(N_q, N_k, d)
    S, queries, keys = N_q * N_k, N_q * d, N_k * d
    # forward: each of three kernels reads its operands and writes its result
    forward = (queries + keys + S) + (S + S) + (S + keys + queries)
    # backward: dV, dP, dS, dQ, dK
    backward = (S + queries + keys) + (queries + keys + S) + 3 * S
    backward += (S + keys + queries) + (S + queries + keys)
    run = standard_attention_forward(Q, K, V, log=False)
    back = standard_attention_backward(Q, K, V, run.P, dO, log=False)
    assert (run.traffic.total, back.traffic.total) == (forward, backward)
    assert standard_io(N_q, d, N_k=N_k) == IO(forward, backward)


def test_the_formulas_of_the_book():
    for N, d, M in [(8192, 128, 98_304), (1000, 40, 5_000), (77, 3, 77), (10, 64, 64)]:
        Tc = tile_count(N, block_sizes(M, d).Bc)
        io = flash_io(N, d, M)
        assert io.forward == 2 * N * d + (N * d + 2 * N) + Tc * (3 * N * d + 4 * N)
        assert io.backward == 4 * N * d + N * d + Tc * (5 * N * d + 2 * N)
        assert standard_io(N, d).forward == 4 * N * N + 4 * N * d
        assert standard_io(N, d).backward == 7 * N * N + 8 * N * d


def test_the_lectures_figures():
    M = 98_304
    standard, flash = standard_io(8192, 128).total, flash_io(8192, 128, M).total
    assert (standard, flash) == (750_780_416, 371_228_672)
    assert (block_sizes(M, 128).Br, block_sizes(M, 128).Bc) == (128, 192)
    assert tile_count(8192, 192) == 43
    ratio = {
        d: standard_io(8192, d).total / flash_io(8192, d, M).total for d in (64, 128, 192, 256)
    }
    assert (round(ratio[64], 2), round(ratio[128], 2)) == (7.63, 2.02)
    assert ratio[192] < 1 and ratio[256] < 1
    causal = block_mask(256, 256, 16, 16, causal=True)
    part = flash_io(256, 32, Br=16, Bc=16, blocks=causal).forward
    assert int(causal.sum()) == 136
    assert round(part / flash_io(256, 32, Br=16, Bc=16).forward, 3) == 0.558


@pytest.mark.parametrize(("N", "d"), [(2, 1), (50, 9), (4096, 64)])
def test_one_block_once_M_is_large_enough(N, d):
    enough = 4 * d * (N - 1) + 1
    assert tile_count(N, block_sizes(enough, d).Bc) == 1
    assert tile_count(N, block_sizes(enough - 1, d).Bc) == 2
    assert flash_io(N, d, enough) == flash_io(N, d, 10 * enough)
    assert flash_io(N, d, enough).forward == 6 * N * d + 6 * N


def test_large_sizes_cost_no_memory_and_do_not_overflow():
    N, d = 10**7, 128
    Tc = tile_count(N, 192)
    assert flash_io(N, d, 98_304).total == 8 * N * d + 2 * N + Tc * (8 * N * d + 6 * N)
    assert flash2_io(N, d, Br=1, Bc=1).forward == N * (2 * d + 1) + N * 2 * N * d
    assert type(flash_io(N, d, 98_304).total) is int
    assert standard_io(10**10, d).total == 11 * 10**20 + 12 * 10**10 * d


def test_nothing_to_move():
    assert standard_io(0, 4) == IO(0, 0)
    assert flash_io(0, 4, 16) == IO(0, 0)
    assert flash2_io(0, 4, 16).forward == 0
    assert flash_io(3, 4, 16, N_k=0) == IO(3 * 4 + 2 * 3, 3 * 4)
    # without queries K and V stay where they are, and dK = dV = 0 are written
    assert flash_io(0, 4, 16, N_k=7) == IO(0, 2 * 7 * 4)
    for N_q, N_k in [(0, 7), (3, 0), (0, 0)]:
        assert closed(N_q, N_k, 4, M=16) == counted(N_q, N_k, 4, M=16)[0]


@pytest.mark.parametrize("function", [flash_io, flash2_io])
@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        ((64, 8, 7), {}, ValueError, r"range d <= M <= N d, got M = 7 < d = 8"),
        ((64, 8, 0), {}, ValueError, "M must be at least 1, got 0"),
        ((64, 8), {}, ValueError, "give M, or both Br and Bc"),
        ((64, 8, 99), {"Br": 4, "Bc": 4}, ValueError, "give M, or both Br and Bc"),
        ((64, 8), {"Br": 4}, ValueError, "give M, or both Br and Bc; got M = None, Br = 4"),
        ((64, 8), {"Br": 4, "Bc": 0}, ValueError, "Bc must be at least 1, got 0"),
        ((-1, 8, 99), {}, ValueError, "N must be at least 0, got -1"),
        ((64, 0, 99), {}, ValueError, "d must be at least 1, got 0"),
        ((64.0, 8, 99), {}, TypeError, r"N must be an integer, got 64.0 \(float\)"),
        ((64, 8, 1e5), {}, TypeError, r"M must be an integer, got 100000.0 \(float\)"),
        ((64, True, 99), {}, TypeError, r"d must be an integer, got True \(bool\)"),
        ((64, 8, 99), {"N_k": -2}, ValueError, "N_k must be at least 0, got -2"),
        (
            (64, 8),
            {"Br": 32, "Bc": 16, "blocks": np.ones((4, 2), bool)},
            ValueError,
            r"blocks must have shape \(Tr, Tc\) = \(2, 4\), got \(4, 2\)",
        ),
        (
            (64, 8),
            {"Br": 32, "Bc": 32, "blocks": np.ones((2, 2))},
            TypeError,
            "blocks must be a boolean array, got dtype float64",
        ),
    ],
)
def test_bad_input_is_refused_by_name(function, arguments, options, error, message):
    with pytest.raises(error, match=message):
        function(*arguments, **options)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((-1, 4), ValueError, "N must be at least 0, got -1"),
        ((4, 0), ValueError, "d must be at least 1, got 0"),
        ((4.5, 4), TypeError, "N must be an integer, got 4.5"),
    ],
)
def test_standard_io_refuses_by_name(arguments, error, message):
    with pytest.raises(error, match=message):
        standard_io(*arguments)
