"""The KV cache: sizes, split attention, pages."""

import numpy as np
import pytest
from oracle import attention, head

from lecture_code.attention import standard_attention_forward
from lecture_code.decoding import (
    PagedKV,
    admit,
    decode_step_cost,
    kv_cache_bytes,
    split_kv_attention,
)
from lecture_code.hardware import DEVICES
from lecture_code.roofline import attention_flop, time_bound


def test_cache_shrinks_with_the_key_value_heads():
    sizes = {"layers": 32, "head_dim": 128, "context": 4096, "batch": 3}
    mha, gqa, mqa = (kv_cache_bytes(kv_heads=h, **sizes) for h in (32, 8, 1))
    assert mha == 2 * 32 * 32 * 128 * 4096 * 3 * 2
    assert (mha // gqa, mha // mqa) == (4, 32)
    assert kv_cache_bytes(kv_heads=32, dtype="float8", **sizes) == mha // 2


def test_the_lectures_tokens_per_second():
    step = decode_step_cost(70e9, batch=1, cache_bytes=0)
    seconds = time_bound(step, DEVICES["A100-80GB"])
    assert round(seconds * 1e3, 1) == 68.7
    assert step.intensity == 1
    small = time_bound(decode_step_cost(7e9, batch=1, cache_bytes=0), DEVICES["A100-80GB"])
    assert round(1 / small) == 146
    four_bits = decode_step_cost(7e9, batch=1, cache_bytes=0, weight_bytes=0.5)
    assert time_bound(four_bits, DEVICES["A100-80GB"]) == pytest.approx(small / 4)


def test_intensity_of_the_cache_is_the_number_of_queries_that_share_it():
    sizes = {"layers": 3, "head_dim": 16, "context": 50, "batch": 2}
    for heads in (8, 4, 1):
        cache = kv_cache_bytes(kv_heads=heads, **sizes)
        step = decode_step_cost(1e3, batch=2, cache_bytes=cache, queries_per_kv=8 // heads)
        attention = 3 * 2 * attention_flop(1, 16, N_k=50, heads=8)
        assert step.flop == 2 * 1e3 * 2 + attention


@pytest.mark.parametrize("splits", [1, 2, 3, 7, 20])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("N_q", [1, 5, 25])
def test_split_attention_is_attention(N_q, causal, splits):
    Q, K, V, _ = head(N_q, 20, 4)
    O, lse, _ = attention(Q, K, V, causal=causal)
    got_O, got_lse = split_kv_attention(Q, K, V, splits=splits, causal=causal)
    assert np.abs(got_O - O).max() < 1e-14
    assert np.array_equal(np.isneginf(got_lse), np.isneginf(lse))
    alive = np.isfinite(lse)
    assert np.abs(got_lse[alive] - lse[alive]).max() < 1e-14


def test_pages_hold_what_was_put_in_whatever_the_order():
    rng = np.random.default_rng(0)
    cache = PagedKV(pages=20, page_size=4, head_dim=3)
    rows = {name: (rng.standard_normal((n, 3)), rng.standard_normal((n, 3)))
            for name, n in (("a", 9), ("b", 17), ("c", 4))}  # fmt: skip
    for step in range(17):
        for name, (K, V) in rows.items():
            if step < len(K):
                cache.append(name, K[step], V[step])
    for name, (K, V) in rows.items():
        assert np.array_equal(cache.gather(name)[0], K)
        assert np.array_equal(cache.gather(name)[1], V)
        assert len(cache.table[name]) == -(-len(K) // 4)
    assert cache.table["b"] != sorted(range(len(cache.table["b"])))  # not contiguous
    cache.release("b")
    assert cache.free_pages == 20 - 3 - 1
    Q = rng.standard_normal((1, 3))
    assert np.array_equal(attention(Q, *cache.gather("a"))[0], attention(Q, *rows["a"])[0])


def test_a_full_pool_says_so_and_loses_nothing():
    cache = PagedKV(pages=1, page_size=2, head_dim=1)
    cache.append("a", [1], [1])
    with pytest.raises(MemoryError, match="no free page for sequence 'b'"):
        cache.append("b", [2], [2])
    assert "b" not in cache.table and cache.gather("a")[0].tolist() == [[1]]
    with pytest.raises(ValueError, match=r"no sequence 'b'; there are \['a'\]"):
        cache.gather("b")


def test_admission():
    lengths = [100, 30, 512, 7] * 20
    whole = admit(lengths, 4096, max_length=512)
    paged = admit(lengths, 4096, max_length=512, page_size=16)
    assert whole.served == 8 and whole.reserved == 4096
    assert whole.waste == 1 - whole.used / 4096
    assert paged.served == 3 * whole.served == 24
    assert paged.reserved - paged.used < 16 * paged.served
    assert admit(lengths, 4096, max_length=512, page_size=1).waste == 0


def test_errors_name_the_argument():
    Q, K, V, _ = head(1, 8, 4)
    with pytest.raises(ValueError, match="splits must lie between 1 and N_k = 8, got 9"):
        split_kv_attention(Q, K, V, splits=9)
    with pytest.raises(ValueError, match="kv_heads must be at least 1"):
        kv_cache_bytes(layers=1, kv_heads=0, head_dim=1, context=1)
    with pytest.raises(ValueError, match="lengths must be at most max_length = 4, got 5"):
        admit([5], 100, max_length=4)
    with pytest.raises(ValueError, match="parameters must be above 0, got 0"):
        decode_step_cost(0, batch=1, cache_bytes=0)
    with pytest.raises(TypeError, match="cache_bytes must be an integer"):
        decode_step_cost(1e9, batch=1, cache_bytes=1.5)
    with pytest.raises(ValueError, match="queries_per_kv must be at least 1"):
        decode_step_cost(1e9, batch=1, cache_bytes=1, queries_per_kv=0)


@pytest.mark.parametrize("N_k", [0, 1, 5, 7])
def test_as_many_pieces_as_asked_for(N_k, monkeypatch):
    Q, K, V, _ = head(0, N_k, 4)
    rows = standard_attention_forward(K, K, V)
    pieces = []

    def spy(q, k, v, **options):
        pieces.append(len(k))
        return standard_attention_forward(q, k, v, **options)

    monkeypatch.setattr("lecture_code.decoding.standard_attention_forward", spy)
    for splits in range(1, max(N_k, 1) + 1):
        pieces.clear()
        O, lse = split_kv_attention(K, K, V, splits=splits)
        assert len(pieces) == splits and sum(pieces) == N_k
        assert max(pieces) - min(pieces) <= 1
        assert np.allclose(O, rows.O) and np.allclose(lse, rows.lse)


def test_splits_keep_the_dtype_and_refuse_what_attention_refuses():
    x = np.random.default_rng(0).standard_normal((6, 4))
    half = x.astype(np.float16)
    assert split_kv_attention(half, half, half, splits=2)[0].dtype == np.float16
    O, lse = split_kv_attention(x, x[:0], x[:0], splits=1)
    assert not O.any() and np.isneginf(lse).all()
    with pytest.raises(ValueError, match="K and V must have one shape"):
        split_kv_attention(x, x[:5], x, splits=2)
    with pytest.raises(TypeError, match="causal must be True or False"):
        split_kv_attention(x, x, x, splits=2, causal="none")


def test_a_refused_token_leaves_the_pages_as_they_were():
    cache = PagedKV(pages=2, page_size=2, head_dim=2)
    for bad in ([1, 2, 3], 5, [[1, 2]]):
        with pytest.raises(ValueError, match=r"k and v must have shape \(2,\)"):
            cache.append("a", bad, [1, 2])
    assert cache.free_pages == 2 and cache.table == {}
    cache.append("a", [1, 2], [3, 4])
    assert [x.tolist() for x in cache.gather("a")] == [[[1, 2]], [[3, 4]]]


def test_numpy_integers_do_not_overflow():
    cost = decode_step_cost(np.int32(2 * 10**9), batch=4, cache_bytes=0)
    assert (cost.flop, cost.bytes) == (16 * 10**9, 4 * 10**9)
