"""Transformer costs: counts from the shapes, and the lecture's ledger."""

import numpy as np
import pytest

from lecture_code.hardware import DEVICES
from lecture_code.io_model import flash_io
from lecture_code.transformer import (
    attention_flop_per_token,
    layer_ledger,
    layer_parameters,
    training_flop,
    training_flop_per_token,
)

A100 = DEVICES["A100-40GB"]
GPT2_MEDIUM = {"d_model": 1024, "heads": 16, "N": 1024, "batch": 8, "device": A100}
GPT3 = {"d_model": 12288, "heads": 96, "N": 2048, "batch": 1, "device": A100}


def rows(ledger):
    return {row.op: row for row in ledger.rows}


def test_gpt2_medium_ledger():
    plain, fused = layer_ledger(**GPT2_MEDIUM), layer_ledger(**GPT2_MEDIUM, fused=True)
    assert round(plain.time_s * 1e3, 3) == 2.279 and round(fused.time_s * 1e3, 3) == 0.837
    assert round(plain.time_s / fused.time_s, 2) == 2.72
    assert round(100 * plain.fraction_of_peak) == 34 and round(100 * fused.fraction_of_peak) == 93
    for op in ("scale", "mask", "softmax"):
        assert round(100 * plain.share(op)[1]) == 15
    other = [row.op for row in plain.rows if not row.is_matmul]
    without_norms = [op for op in other if not op.startswith("LN")]
    assert [round(100 * x, 2) for x in plain.share(*without_norms)] == [0.51, 52.07]
    assert [round(100 * x, 2) for x in plain.share(*other)] == [0.56, 53.97]


def test_gpt3_ledger():
    plain, fused = layer_ledger(**GPT3), layer_ledger(**GPT3, fused=True)
    assert round(plain.time_s / fused.time_s, 2) == 1.14
    shares = plain.share("QKV", "proj", "fc1", "fc2")
    assert [round(100 * x, 1) for x in shares] == [97.2, 83.0]


def test_linear_flop_of_a_layer_is_two_a_weight_and_token():
    plain = rows(layer_ledger(**GPT2_MEDIUM))
    linear = sum(plain[op].cost.flop for op in ("QKV", "proj", "fc1", "fc2"))
    assert linear == 2 * layer_parameters(1024) * 8 * 1024


def test_attention_rows_count_every_head():
    plain = rows(layer_ledger(**GPT2_MEDIUM))
    S = 8 * 16 * 1024 * 1024
    assert plain["QKᵀ"].cost.flop == plain["PV"].cost.flop == 2 * S * 64
    assert plain["softmax"].cost.bytes == 2 * 2 * S and plain["scale"].bound == "memory"
    flash = rows(layer_ledger(**GPT2_MEDIUM, fused=True))["flash"]
    assert flash.cost.bytes == 2 * 128 * flash_io(1024, 64, 98_304).forward


def test_fusion_keeps_the_flop_but_not_the_bytes():
    plain, fused = layer_ledger(**GPT2_MEDIUM), layer_ledger(**GPT2_MEDIUM, fused=True)
    assert fused.bytes < plain.bytes / 4
    assert plain.flop == fused.flop


def test_training_flop():
    assert training_flop_per_token(540.35e9) == pytest.approx(3.2421e12)
    palm = {"layers": 118, "heads": 48, "head_dim": 256, "context": 2048}
    assert attention_flop_per_token(**palm) == 12 * 118 * 48 * 256 * 2048
    assert training_flop(175e9, 300e9) == pytest.approx(3.15e23)


def test_errors_name_the_argument():
    with pytest.raises(ValueError, match="heads must divide d_model, got heads = 7"):
        layer_ledger(**GPT2_MEDIUM | {"heads": 7})
    with pytest.raises(TypeError, match="N must be an integer"):
        layer_ledger(**GPT2_MEDIUM | {"N": 1024.0})
    with pytest.raises(ValueError, match="M must lie in the paper's range"):
        layer_ledger(**GPT2_MEDIUM, fused=True, M=10)
    with pytest.raises(ValueError, match=r"ops not in the ledger: \['dropout'\]"):
        layer_ledger(**GPT2_MEDIUM).share("dropout")
    with pytest.raises(ValueError, match="parameters must be above 0, got 0"):
        training_flop_per_token(0)
    with pytest.raises(ValueError, match="tokens must be above 0"):
        training_flop(1e9, -1)
    with pytest.raises(ValueError, match="context must be at least 1"):
        attention_flop_per_token(layers=1, heads=1, head_dim=1, context=0)


def test_numpy_integers_do_not_overflow():
    assert training_flop(np.int64(175 * 10**9), np.int64(300 * 10**9)) == 315 * 10**21
    with pytest.raises(TypeError, match="parameters must be a number, got None"):
        training_flop(None, 1)


def test_the_ledger_takes_a_device_by_name():
    sizes = {"d_model": 64, "heads": 4, "N": 16, "batch": 1}
    by_name = layer_ledger(**sizes, device="A100-40GB")
    assert by_name == layer_ledger(**sizes, device=DEVICES["A100-40GB"])
