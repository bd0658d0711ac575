"""The counted machine counts, holds, refuses and hides."""

import numpy as np
import pytest

from lecture_code.memory import HBM, SRAM, Event, SRAMOverflow, Traffic, accumulation_dtype


@pytest.fixture
def x():
    return np.arange(12.0).reshape(4, 3)


def test_loads_and_stores_are_counted_and_logged(x):
    hbm, chip = HBM(), SRAM()
    X, Y = hbm.array("X", x), hbm.empty("Y", (4, 3))
    tile = chip.load(X, 1, 3)
    chip.store(Y, tile + 1, 2)
    assert hbm.traffic == Traffic(loads=6, stores=6) and hbm.traffic.total == 12
    assert list(hbm.events) == [Event("load", "X", 1, 3, 6), Event("store", "Y", 2, 4, 6)]
    assert [(e.source, e.target) for e in hbm.events] == [("HBM", "SRAM"), ("SRAM", "HBM")]
    assert np.isnan(Y.copy_out()[:2]).all()
    assert np.array_equal(Y.copy_out()[2:], x[1:3] + 1)


def test_the_log_and_the_counters_agree(x):
    hbm, chip = HBM(), SRAM()
    X = hbm.array("X", x)
    for r in range(4):
        chip.store(X, chip.load(X, r, r + 1), r)
    assert sum(e.elems for e in hbm.events if e.op == "load") == hbm.loads == 12
    assert sum(e.elems for e in hbm.events if e.op == "store") == hbm.stores == 12
    assert hbm.events[-1] == hbm.events[len(hbm.events) - 1] == Event("store", "X", 3, 4, 3)
    assert len(hbm.events[2:6:2]) == 2
    with pytest.raises(IndexError):
        hbm.events[8]


def test_without_a_log_the_counts_are_the_same(x):
    hbm, chip = HBM(log=False), SRAM()
    chip.load(hbm.array("X", x))
    assert hbm.events is None and hbm.traffic == Traffic(12, 0)


def test_columns_of_a_tile(x):
    hbm, chip = HBM(), SRAM()
    tile = chip.load(hbm.array("X", x), 1, 3, columns=(0, 2))
    assert np.array_equal(tile, x[1:3, :2])
    assert hbm.loads == chip.used == 4
    Y = hbm.array("Y", np.zeros((4, 3)))
    chip.store(Y, tile, 2, columns=(1, 3))
    assert np.array_equal(Y.copy_out()[2:, 1:], tile) and Y.copy_out()[:, 0].sum() == 0
    assert hbm.stores == 4


def test_inputs_are_copied_in_and_out(x):
    hbm, chip = HBM(), SRAM()
    X = hbm.array("X", x)
    tile = chip.load(X)
    tile[:] = -1
    X.copy_out()[:] = -2
    assert np.array_equal(X.copy_out(), x) and x[0, 0] == 0


def test_numbers_in_hbm_are_out_of_reach(x):
    X = HBM().array("X", x)
    for reach in (
        lambda: np.asarray(X),
        lambda: X[0],
        lambda: X @ x.T,
        lambda: x.T @ X,
        lambda: X + 1,
        lambda: 1 + X,
        lambda: list(X),
        lambda: np.sum(X),
        lambda: X.__setitem__(0, 1),
    ):
        with pytest.raises(TypeError):
            reach()
    with pytest.raises(TypeError, match=r"sram.load\(X, start, stop\)"):
        X[0]


def test_counters_cannot_be_written():
    hbm, chip = HBM(), SRAM(10)
    for target, name in [(hbm, "loads"), (hbm, "stores"), (chip, "peak"), (chip, "used")]:
        with pytest.raises(AttributeError):
            setattr(target, name, 0)
    with pytest.raises(AttributeError):
        chip.capacity = 10**9


def test_peak_and_capacity(x):
    hbm, chip = HBM(), SRAM(capacity=12)
    X = hbm.array("X", x)
    a = chip.load(X, 0, 2)
    b = chip.alloc((2, 3))
    assert chip.used == chip.peak == 12
    with pytest.raises(SRAMOverflow, match=r"X\[2:3\] needs 3 elements, 12 of 12 are in use"):
        chip.load(X, 2, 3)
    assert hbm.loads == 6, "a refused load is not counted"
    chip.free(a, b)
    assert chip.used == 0 and chip.peak == 12
    with pytest.raises(SRAMOverflow, match=r"a tile of shape \(13,\) needs 13 elements"):
        chip.alloc(13)


def test_row_statistics_take_no_room(x):
    hbm, chip = HBM(), SRAM(capacity=1)
    assert chip.load(hbm.array("m", np.zeros(4)), hold=False).shape == (4,)
    assert hbm.loads == 4 and chip.peak == 0
    with pytest.raises(ValueError, match="hold=False is for row statistics"):
        chip.load(hbm.array("X", x), hold=False)


def test_free_wants_the_tile_itself_once(x):
    hbm, chip = HBM(), SRAM()
    tile = chip.load(hbm.array("X", x))
    with pytest.raises(ValueError, match="the very tile"):
        chip.free(tile[:2])
    chip.free(tile)
    with pytest.raises(ValueError, match="once"):
        chip.free(tile)


def test_a_forgotten_tile_keeps_its_room(x):
    hbm, chip = HBM(), SRAM(capacity=24)
    X = hbm.array("X", x)
    for _ in range(2):
        chip.load(X)
    with pytest.raises(SRAMOverflow):
        chip.load(X)


def test_matmul_counts_flop():
    chip = SRAM()
    a, b = np.ones((2, 3)), np.ones((3, 5))
    assert np.array_equal(chip.matmul(a, b), a @ b)
    out = np.empty((2, 5))
    assert chip.matmul(a, b, out=out) is out
    assert chip.matmul_flop == 2 * (2 * 2 * 3 * 5)


@pytest.mark.parametrize(
    ("dtype", "accumulate", "result"),
    [
        ("float16", None, "float32"),
        ("float16", "float16", "float16"),
        ("float32", None, "float32"),
        ("float32", "float64", "float64"),
        ("float64", None, "float64"),
    ],
)
def test_accumulation_dtype(dtype, accumulate, result):
    a = np.ones((2, 2), dtype)
    assert accumulation_dtype(dtype, accumulate) == np.dtype(result)
    assert SRAM(accumulate=accumulate).matmul(a, a).dtype == np.dtype(result)


def test_float16_sums_stick_where_float32_sums_do_not():
    a, b = np.ones((1, 4096), np.float16), np.ones((4096, 1), np.float16)
    assert SRAM(accumulate="float16").matmul(a, b)[0, 0] == 2048  # 2048 + 1 rounds to 2048
    assert SRAM().matmul(a, b)[0, 0] == 4096


def test_a_store_to_16_bits_saturates_to_inf():
    hbm, chip = HBM(), SRAM()
    y = hbm.empty("y", 1, np.float16)
    chip.store(y, np.array([7e4]))
    assert np.isinf(y.copy_out()[0])


def test_errors_name_the_argument(x):
    hbm, chip = HBM(), SRAM()
    X, v = hbm.array("X", x), hbm.array("v", np.zeros(4))
    cases = [
        (ValueError, "rows 2:9 do not lie in X, which has 4 rows", lambda: chip.load(X, 2, 9)),
        (ValueError, "rows 3:2 do not lie in X", lambda: chip.load(X, 3, 2)),
        (TypeError, "start must be an integer, got 1.0", lambda: chip.load(X, 1.0, 2)),
        (ValueError, "start must be at least 0, got -1", lambda: chip.load(X, -1, 2)),
        (ValueError, "columns 0:4 do not lie in X", lambda: chip.load(X, 0, 1, columns=(0, 4))),
        (ValueError, "v has one dimension", lambda: chip.load(v, 0, 1, columns=(0, 1))),
        (TypeError, "load needs an array in HBM, got ndarray", lambda: chip.load(x)),
        (TypeError, "store needs an array in HBM, got ndarray", lambda: chip.store(x, x)),
        (ValueError, r"X have shape \(2, 3\), got \(2, 2\)", lambda: chip.store(X, x[:2, :2])),
        (ValueError, "X must have 2 dimensions", lambda: chip.store(X, x[0])),
        (ValueError, "rows 3:5 do not lie in X", lambda: chip.store(X, x[:2], 3)),
        (ValueError, "must be 1-D or 2-D", lambda: hbm.array("Z", np.zeros((1, 1, 1)))),
        (ValueError, "capacity must be at least 1, got 0", lambda: SRAM(0)),
        (TypeError, "capacity must be an integer", lambda: SRAM(1e5)),
        (ValueError, r"cannot multiply tiles of shape \(4, 3\)", lambda: chip.matmul(x, x)),
        (ValueError, "accumulate must be a float at least as wide as float64",
         lambda: SRAM(accumulate="float32").matmul(x, x.T)),
    ]  # fmt: skip
    for error, message, call in cases:
        with pytest.raises(error, match=message):
            call()


def test_matmul_takes_the_wider_of_two_dtypes():
    chip, half = SRAM(), np.full((2, 2), 0.5)
    assert np.array_equal(chip.matmul(np.ones((2, 2), int), half), np.ones((2, 2)))
    third = np.full((2, 2), 1 / 3)
    assert np.array_equal(chip.matmul(np.eye(2, dtype=np.float16), third), third)


def test_matmul_does_not_spread_a_product_over_a_larger_tile():
    with pytest.raises(ValueError, match=r"out must have shape \(1, 2\), got \(3, 2\)"):
        SRAM().matmul(np.ones((1, 2)), np.ones((2, 2)), out=np.zeros((3, 2)))


def test_a_store_loses_no_fraction_and_no_imaginary_part():
    hbm, chip = HBM(), SRAM()
    whole = hbm.array("whole", np.arange(2))
    with pytest.raises(TypeError, match="whole holds int64, got values of float64"):
        chip.store(whole, np.full(2, 0.5))
    with pytest.raises(TypeError, match="x holds float64, got values of complex128"):
        chip.store(hbm.empty("x", 2), np.ones(2) * 1j)
    chip.store(hbm.empty("narrow", 2, np.float16), np.ones(2))
    assert hbm.traffic.stores == 2
    with pytest.raises(TypeError, match="values of names must be real numbers"):
        hbm.array("names", ["a", "b"])


def test_an_array_in_hbm_cannot_be_compared():
    x = HBM().array("x", np.zeros(3))
    for call in (lambda: x == 0, lambda: x != 0, lambda: bool(x)):
        with pytest.raises(TypeError, match="x lives in HBM"):
            call()
    assert {x: 1}[x] == 1


@pytest.mark.parametrize("accumulate", ["abc", int, complex])
def test_accumulate_is_refused_by_name(accumulate):
    with pytest.raises(ValueError, match="accumulate must be a float dtype, got"):
        SRAM(accumulate=accumulate)
