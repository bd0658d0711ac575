"""Devices: the lecture's ratios, the whitepapers' consistency, and refusals."""

import dataclasses
import re
from pathlib import Path

import pytest

from lecture_code import device_table
from lecture_code.hardware import (
    DEVICES,
    DTYPE_BYTES,
    Device,
    dtype_bytes,
    find_device,
    ridge_flop_per_byte,
)
from lecture_code.record_files import load_record

TABLE_SOURCE = Path(device_table.__file__).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "name, dtype, ridge",
    [
        ("V100", "float16", 139),
        ("A100-40GB", "float16", 201),
        ("A100-80GB", "float16", 153),
        ("H100-SXM", "float16", 295),
        ("H100-PCIe", "float16", 378),
        ("H200-SXM", "float16", 206),
        ("B200", "float16", 281),
        ("T4", "float16", 203),
        ("L4", "float16", 403),
        ("TPUv4", "bfloat16", 229),
        ("TPUv5e", "bfloat16", 241),
        ("TPUv5p", "bfloat16", 166),
    ],
)
def test_ridge_points(name, dtype, ridge):
    assert round(ridge_flop_per_byte(name, dtype)) == ridge
    assert ridge_flop_per_byte(DEVICES[name], dtype) == ridge_flop_per_byte(name, dtype)


def test_the_lectures_growth_from_v100_to_h100():
    v100, h100 = DEVICES["V100"], DEVICES["H100-SXM"]
    assert round(h100.peak_flop_per_s("float16") / v100.peak_flop_per_s("float16"), 1) == 7.9
    assert round(h100.memory_bytes_per_s / v100.memory_bytes_per_s, 1) == 3.7


def test_a100_chip():
    a100 = DEVICES["A100-40GB"]
    assert a100.on_chip_bytes == 108 * 192 * 1024
    assert a100.on_chip_bytes / 2**20 == 20.25
    assert round(a100.memory_bytes / a100.on_chip_bytes) == 1884
    assert a100.peak_flop_per_s("float16") == 16 * a100.peak_flop_per_s("float32", unit="vector")


def test_h200_is_an_h100_with_more_memory():
    h100, h200 = DEVICES["H100-SXM"], DEVICES["H200-SXM"]
    for dtype in h100.dtypes("matrix"):
        assert h200.peak_flop_per_s(dtype) == h100.peak_flop_per_s(dtype)
    assert h200.memory_bytes_per_s > h100.memory_bytes_per_s
    assert ridge_flop_per_byte(h200) < ridge_flop_per_byte(h100)
    # the FlashAttention-3 estimates were made for the H100 alone
    assert h200.shared_bytes_per_s is None and h200.l2_bytes_per_s is None


def test_peaks_are_dense():
    # the figures that vendors print "with sparsity" for 16 bits
    sparse_tflop_per_s = {"H100-SXM": 1979, "H200-SXM": 1979, "A100-80GB": 624, "L4": 242}
    for name, sparse in sparse_tflop_per_s.items():
        assert DEVICES[name].peak_flop_per_s("float16") / 1e12 == pytest.approx(
            sparse / 2, rel=1e-3
        )


@pytest.mark.parametrize("name", list(DEVICES))
def test_records_hang_together(name):
    device = DEVICES[name]
    assert device.name == name and device.source and device.kind in ("GPU", "TPU")
    for field in dataclasses.fields(device):
        value = getattr(device, field.name)
        if isinstance(value, int | float):
            assert value > 0, field.name
    assert 1e11 < device.memory_bytes_per_s < 1e13
    assert 1e9 < device.memory_bytes < 1e12
    # more levels on chip than that would mean a slipped unit
    if device.shared_bytes_per_sm and device.l1_bytes_per_sm:
        assert device.shared_bytes_per_sm <= device.l1_bytes_per_sm <= 256 * 1024
    if "bfloat16" in device.dtypes() and "float16" in device.dtypes():
        assert device.peak_flop_per_s("bfloat16") == device.peak_flop_per_s("float16")
    if "float8" in device.dtypes():
        ratio = device.peak_flop_per_s("float8") / device.peak_flop_per_s("float16")
        assert ratio == pytest.approx(2, rel=0.01)
    for unit in ("matrix", "vector"):
        for dtype in device.dtypes(unit):
            assert ridge_flop_per_byte(device, dtype, unit=unit) > 0


def test_every_rate_of_the_table_stands_under_a_source():
    block, has_source, checked = None, False, 0
    for line in TABLE_SOURCE.splitlines():
        if re.match(r"[A-Z]\w* = .*\{$", line):
            block, has_source = line, False
        elif re.match(r"    # ", line):
            has_source = True
        elif block and re.match(r'\s+"(\w+_(per_s|bytes|per_sm)|sm_count)":', line):
            assert has_source, f"{block}: {line.strip()}"
            checked += 1
    assert checked > 100


def test_records_are_frozen_and_hashable():
    with pytest.raises(dataclasses.FrozenInstanceError):
        DEVICES["A100-40GB"].sm_count = 128
    assert len(set(DEVICES.values())) == len(DEVICES)
    assert dataclasses.asdict(DEVICES["H100-SXM"])["sm_count"] == 132


@pytest.mark.parametrize("name", ["H100", "a100-40gb", "", None, 90])
def test_an_unknown_device_is_refused_by_name(name):
    with pytest.raises(ValueError, match=r"device: unknown .*known: K20, P100, V100"):
        find_device(name)
    with pytest.raises(ValueError, match="device: unknown"):
        ridge_flop_per_byte(name)


def test_an_unknown_peak_is_refused_and_names_the_known_ones():
    with pytest.raises(
        ValueError, match=r"T4 has no known matrix peak for 'bfloat16'; known: float16"
    ):
        ridge_flop_per_byte("T4", "bfloat16")
    with pytest.raises(
        ValueError, match=r"K20 has no known matrix peak for 'float16'; known: none"
    ):
        ridge_flop_per_byte("K20")
    with pytest.raises(ValueError, match=r"TPUv4 .*vector peak for 'float32'; known: none"):
        ridge_flop_per_byte("TPUv4", "float32", unit="vector")
    with pytest.raises(ValueError, match="no known matrix peak for 'fp16'"):
        ridge_flop_per_byte("V100", "fp16")
    with pytest.raises(ValueError, match='unit: expected "matrix" or "vector", got .tensor.'):
        DEVICES["V100"].peak_flop_per_s("float16", unit="tensor")


def test_dtype_bytes():
    assert [dtype_bytes(name) for name in ("float64", "tf32", "float16", "float8")] == [8, 4, 2, 1]
    assert set(DTYPE_BYTES) >= {"float32", "bfloat16", "int8"}
    for bad in ("fp16", None, float):
        with pytest.raises(ValueError, match="dtype: unknown .*known: float64, float32"):
            dtype_bytes(bad)


def test_a_device_can_be_made_by_hand():
    toy = Device("toy", 2026, "a blackboard", "HBM", 10**9, 1e9, float16_matrix_flop_per_s=1e11)
    assert find_device(toy) is toy
    assert ridge_flop_per_byte(toy) == 100


def test_the_h200_of_the_records_is_the_one_described():
    origin = load_record("operator_roofline").provenance
    described = DEVICES["H200-SXM"]
    assert origin["device"] == "NVIDIA H200"
    assert origin["l2_bytes"] == described.l2_bytes
    assert origin["sm_count"] == described.sm_count
    assert origin["capability"] == described.compute_capability
    # the driver shows 6 % more bytes: the datasheet's 141 GB are nearly GiB
    assert 0 <= origin["memory_bytes"] / described.memory_bytes - 1 < 0.1
