"""Numbers that a statement, a hint or an explanation mentions are what the solution returns."""

import math

import pytest

from lecture_code import exercises


def answer(name, *arguments):
    return exercises.exercise(name).solution(*arguments)


A100_40GB = (312 * 10**12, 1_555 * 10**9)
A100_80GB = (312e12, 2.039e12)


def mentioned():
    flop, moved, intensity = answer("arithmetic_intensity", 4096, 64, 4096, 2)
    square = answer("arithmetic_intensity", 4096, 4096, 4096, 2)[2]
    yield "arithmetic_intensity", [f"{flop:,}", f"{moved:,}", f"{intensity:.1f}", f"{square:.0f}"]
    ridge = A100_40GB[0] / A100_40GB[1]
    yield "arithmetic_intensity", [f"A100's {ridge:.0f}"]
    tokens = answer("batch_to_leave_the_slope", 12288, 49152, *A100_40GB)
    yield "batch_to_leave_the_slope", [f"is {tokens},", f"{ridge:.1f}"]
    one, other = (answer("tokens_per_second", n * 10**9, 2, 1, *A100_80GB) for n in (70, 7))
    yield "tokens_per_second", [f"{1e3 / one:.1f} ms", f"{one:.1f} tokens", f"about {other:.0f}"]
    yield "tokens_per_second", [f"{70 * 2} GB"]
    Br, Bc, elements = answer("block_size_rule", 98_304, 128)
    assert elements > 98_304 and (Br, Bc) == (128, 192)
    yield "block_size_rule", [f"{elements:,}"]
    total = sum(answer("flash_traffic", 8192, 128, 98_304))
    yield "flash_traffic", [f"{total:,}", f"{math.ceil(8192 / Bc)} column blocks"]
    ratios = [answer("head_dimension_ratio", 8192, d, 98_304) for d in (64, 128, 192, 256)]
    assert ratios[2] < 1 and ratios[3] < 1
    yield "head_dimension_ratio", [f"{ratios[0]:.2f} at", f"{ratios[1]:.2f} at 128"]
    token, card = (
        answer("kv_cache_size", 32, 32, 8, 128, 1, 2, 0, 0)[0],
        (80 * 10**9, 16_060 * 10**6),
    )
    (cache, fit), (_, unshared) = (
        answer("kv_cache_size", 32, 32, heads, 128, 8192, 2, *card) for heads in (8, 32)
    )
    yield (
        "kv_cache_size",
        [f"{token:,} bytes", f"{cache / 1e9:.2f} GB", f"; {fit} such", f"be {unshared}."],
    )
    at_128, at_64 = (answer("overlap_time", 128, 128, d, 4096, 16) for d in (128, 64))
    assert at_128[1] == at_128[2]
    yield "overlap_time", [f"{at_128[0]:,.0f} in series, {at_128[1]:,.0f} with either"]
    yield "overlap_time", [", ".join(f"{cycles:,.0f}" for cycles in at_64)]
    whole = answer("ring_steps", [[0], [1], [2], [3]])
    quarters = answer("ring_steps", [[0, 7], [1, 6], [2, 5], [3, 4]])
    assert quarters.sum() / 4 == 2
    yield "ring_steps", [", ".join(f"{w:g}" for w in whole), f"together {whole.sum():g} where"]
    yield "ring_steps", [", ".join(f"{w:g}" for w in quarters) + " in quarters"]
    assert answer("window_pairs", 96, 96) == answer("window_pairs", 96, 200)
    yield "window_pairs", [f"there are {answer('window_pairs', 96, 200):,} "]
    short, long = (answer("window_to_beat_exact", N, 64, 98_304) for N in (1024, 8192))
    assert 7.5 < 1024 / short < 8.5
    yield "window_to_beat_exact", [f"must be {short} or narrower", f"{long:,}: Flash"]


@pytest.mark.parametrize(("name", "numbers"), list(mentioned()), ids=lambda part: str(part)[:40])
def test_explanation_holds_the_computed_numbers(name, numbers):
    for number in numbers:
        assert number in exercises.exercise(name).explanation


def test_lecture_rows():
    x = [2, -1, 3, 0.5, 6, 1, -2, 5.5]
    case = next(c for c in exercises.exercise("online_softmax").cases if "eight" in c.label)
    assert case.make()["x"].tolist() == x
    m, l = answer("online_softmax", case.make()["x"], 3)
    assert (m, round(l, 6)) == (6, 1.686705)
    case = next(c for c in exercises.exercise("merge_two_blocks").cases if "[5, 2]" in c.label)
    m, l = answer("merge_two_blocks", *case.make().values())
    assert (m[0], round(l[0], 6)) == (5, 1.203438)
