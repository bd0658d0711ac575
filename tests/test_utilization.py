"""MFU, HFU and days: PaLM's own numbers, and the ways to get them wrong."""

import numpy as np
import pytest

from lecture_code.hardware import DEVICES
from lecture_code.utilization import (
    days_for_flop,
    hfu,
    mfu,
    model_flop_per_token,
    recomputed_flop_per_token,
    train_days,
)

PALM = {"layers": 118, "heads": 48, "head_dim": 256, "context": 2048}
RUN = {"tokens_per_s": 238.3e3, "devices": 6144, "device": "TPUv4", "dtype": "bfloat16"}


def test_palm():
    flop = model_flop_per_token(540.35e9, **PALM)
    assert round(flop / 1e12, 2) == 3.28
    assert round(100 * mfu(flop_per_token=6 * 540.35e9, **RUN), 1) == 45.7
    assert round(100 * mfu(flop_per_token=flop, **RUN), 1) == 46.2
    assert round(100 * hfu(hardware_flop_per_token=4.10e12, **RUN), 1) == 57.8
    assert round(train_days(tokens=780e9, tokens_per_s=238.3e3), 1) == 37.9


def test_full_recomputation_is_eight_sixths():
    assert recomputed_flop_per_token(540.35e9) == pytest.approx(8 * 540.35e9)
    assert recomputed_flop_per_token(3.0, 0) == 18
    assert round(46.2 * recomputed_flop_per_token(1) / 6, 1) == 61.6


def test_the_causal_half_is_stated():
    full = model_flop_per_token(1e9, **PALM)
    half = model_flop_per_token(1e9, **PALM, causal="half")
    assert full - 6e9 == 2 * (half - 6e9) == 12 * 118 * 48 * 256 * 2048


def test_opt():
    flop = 6 * 175e9 * 300e9
    assert round(days_for_flop(flop, devices=992, achieved_flop_per_s=147e12), 1) == 25.0
    assert round(days_for_flop(flop, devices=1024, achieved_flop_per_s=147e12), 1) == 24.2


def test_mfu_does_not_change_when_run_and_machine_double():
    one = mfu(flop_per_token=1e12, **RUN)
    two = mfu(flop_per_token=1e12, **RUN | {"tokens_per_s": 2 * 238.3e3, "devices": 2 * 6144})
    assert one == pytest.approx(two)


@pytest.mark.parametrize("name", ["H100-SXM", "H200-SXM"])
def test_the_sparse_peak_is_refused(name):
    run = {"tokens_per_s": 1e4, "flop_per_token": 1e10, "devices": 1, "device": name}
    dense = DEVICES[name].peak_flop_per_s("float16")
    assert mfu(**run) == mfu(**run, peak_flop_per_s=dense)
    with pytest.raises(ValueError, match="sparse peak is twice the dense one"):
        mfu(**run, peak_flop_per_s=1979e12)


def test_errors_name_the_argument():
    run = {"flop_per_token": 1e12, **RUN}
    with pytest.raises(ValueError, match="A900"):
        mfu(**run | {"device": "A900"})
    with pytest.raises(ValueError, match="dtype"):
        mfu(**run | {"dtype": "float12"})
    with pytest.raises(ValueError, match=r"utilisation would be 866.55, above 1"):
        mfu(**run | {"devices": 1})
    with pytest.raises(ValueError, match="causal must be one of"):
        model_flop_per_token(1e9, **PALM, causal="exact")
    with pytest.raises(ValueError, match="fraction must lie between 0 and 1, got 2"):
        recomputed_flop_per_token(1e9, 2)
    with pytest.raises(ValueError, match="tokens must be above 0, got 0"):
        train_days(tokens=0, tokens_per_s=1)
    with pytest.raises(ValueError, match="achieved_flop_per_s must be above 0"):
        days_for_flop(1e20, devices=1, achieved_flop_per_s=0)
    with pytest.raises(ValueError, match="tokens_per_s must be above 0, got 0"):
        mfu(**run | {"tokens_per_s": 0})
    with pytest.raises(ValueError, match="devices must be at least 1"):
        mfu(**run | {"devices": 0})


def test_numpy_integers_do_not_overflow():
    rate, flop = np.int32(10**9), np.int64(10**15)
    assert days_for_flop(flop, devices=10**6, achieved_flop_per_s=rate) == 1 / 86_400
    run = {"flop_per_token": np.int64(10**18), "tokens_per_s": np.int64(100)}
    run |= {"devices": 10**6, "device": "TPUv4", "dtype": "bfloat16"}
    assert mfu(**run) == pytest.approx(1e20 / (1e6 * 275e12))
    with pytest.raises(TypeError, match="tokens_per_s must be a number, got '5'"):
        mfu(**run | {"tokens_per_s": "5"})
