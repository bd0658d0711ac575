"""Ways around the counted machine, and that each of them is refused."""

import tracemalloc

import numpy as np
import pytest

from lecture_code import exercises
from lecture_code.exercises._check import judge
from lecture_code.exercises._machine import Machine
from lecture_code.memory import SRAM, SRAMOverflow

EXERCISE = exercises.exercise("flash_forward")
SMALL, LARGE = EXERCISE.cases[0], EXERCISE.cases[-1]


def outcome(answer, case=LARGE):
    """What one case says, without reading the answer first."""
    return case.attempt(EXERCISE, answer, 30.0, salt=5)


def flash2(chip, Q, K, V, O, l, m, Br, Bc, causal):
    """FlashAttention-2's order, as a student would write it."""
    (N_q, d), N_k = Q.shape, len(K)
    for r0 in range(0, N_q, Br):
        r1 = min(r0 + Br, N_q)
        Qi, Oi = chip.load(Q, r0, r1), chip.alloc((r1 - r0, d))
        mi, li = np.full(r1 - r0, -np.inf), np.zeros(r1 - r0)
        for c0 in range(0, N_k, Bc):
            c1 = min(c0 + Bc, N_k)
            Kj, Vj, S = chip.load(K, c0, c1), chip.load(V, c0, c1), chip.alloc((r1 - r0, c1 - c0))
            S[:] = chip.matmul(Qi, Kj.T) / np.sqrt(d)
            if causal:
                S[np.arange(c0, c1) > (np.arange(r0, r1) + N_k - N_q)[:, None]] = -np.inf
            new = np.maximum(mi, S.max(axis=1))
            base = np.where(np.isinf(new), 0, new)
            P = np.exp(S - base[:, None])
            r = np.exp(mi - base)
            li, mi = r * li + P.sum(axis=1), new
            Oi *= r[:, None]
            Oi += chip.matmul(P, Vj)
            chip.free(Kj, Vj, S)
        Oi /= np.where(li == 0, 1, li)[:, None]
        chip.store(O, Oi, r0)
        chip.store(l, li, r0)
        chip.store(m, mi, r0)
        chip.free(Qi, Oi)


def hoards_inputs(chip, Q, K, V, O, l, m, Br, Bc, causal):
    whole = {}
    for x in (Q, K, V):
        rows = []
        for start in range(0, len(x), Br):
            tile = chip.load(x, start, min(start + Br, len(x)))
            rows.append(tile.copy())
            chip.free(tile)
        whole[x.name] = np.concatenate(rows)
    q, k, v = whole["Q"], whole["K"], whole["V"]
    for r0 in range(0, len(q), Br):
        S = chip.matmul(q[r0 : r0 + Br], k.T) / np.sqrt(q.shape[1])
        mi = S.max(axis=1)
        P = np.exp(S - mi[:, None])
        chip.store(O, chip.matmul(P, v) / P.sum(axis=1)[:, None], r0)
        chip.store(l, P.sum(axis=1), r0)
        chip.store(m, mi, r0)


def keeps_one_input(chip, Q, K, V, O, l, m, Br, Bc, causal):
    kept = []
    for start in range(0, len(K), Bc):
        tile = chip.load(K, start, min(start + Bc, len(K)))
        kept.append(tile.copy())
        chip.free(tile)
    flash2(chip, Q, K, V, O, l, m, Br, Bc, causal)
    assert kept


def keeps_the_output(chip, Q, K, V, O, l, m, Br, Bc, causal):
    kept = np.zeros(O.shape)
    flash2(chip, Q, K, V, O, l, m, Br, Bc, causal)
    kept += 1


@pytest.mark.parametrize("case", EXERCISE.cases, ids=lambda case: case.label.split(":")[0])
def test_other_loop_order_passes(case):
    found = outcome(flash2, case)
    assert found.kind == "right", found


@pytest.mark.parametrize(
    "answer", [hoards_inputs, keeps_the_output, keeps_one_input], ids=lambda f: f.__name__
)
def test_numbers_kept_beside_the_chip_are_refused(answer):
    assert outcome(answer).kind == "memory"


def test_memory_message_names_what_was_as_large():
    text = judge(EXERCISE, EXERCISE.wrong["N × N in numpy"]).text
    assert "the whole N × N (495,616 elements)" in text


def test_memory_taken_before_the_check_does_not_count():
    tracemalloc.start()
    try:
        np.zeros(10**6)
        assert outcome(EXERCISE.solution).kind == "right"
        assert tracemalloc.is_tracing()
    finally:
        tracemalloc.stop()


def reaches(getter):
    """An answer that first reaches for the numbers of K, hides the error, then is right."""

    def answer(chip, Q, K, V, *rest):
        try:
            getter(chip, K)
        except TypeError:
            pass
        EXERCISE.solution(chip, Q, K, V, *rest)

    return answer


@pytest.mark.parametrize(
    "getter",
    [
        lambda chip, K: K.copy_out(),
        lambda chip, K: K._HBMArray__values,
        lambda chip, K: K._numbers(),
        lambda chip, K: K._load((slice(0, len(K)),)),
        lambda chip, K: SRAM().load(K),
        lambda chip, K: SRAM.load(SRAM(), K, 0, 1),
    ],
    ids=["copy_out", "mangled", "numbers", "load", "own chip", "own chip, one row"],
)
def test_reaching_past_the_chip_is_seen(getter):
    found = outcome(reaches(getter), SMALL)
    assert found.kind == "breach"


@pytest.mark.parametrize(
    "getter",
    [
        lambda K: np.asarray(K),
        lambda K: K[0],
        lambda K: K @ K,
        lambda K: list(K),
        lambda K: 2 * K,
        lambda K: np.exp(K),
    ],
)
def test_numbers_in_hbm_cannot_be_used(getter):
    def answer(chip, Q, K, *rest):
        return getter(K)

    found = outcome(answer, SMALL)
    assert found.kind == "raised" and "TypeError" in found.detail


def test_capacity_taken_off_the_chip_is_seen():
    def answer(chip, Q, K, V, O, l, m, Br, Bc, causal):
        chip._capacity = None
        EXERCISE.wrong["N × N on chip"](chip, Q, K, V, O, l, m, Br, Bc, causal)

    assert outcome(answer).kind == "breach"


def test_overwritten_counters_change_nothing():
    def answer(chip, *rest):
        EXERCISE.wrong["never frees"](chip, *rest)

    def tampers(chip, *rest):
        chip._used = -10_000
        try:
            answer(chip, *rest)
        finally:
            chip._peak = 0

    assert outcome(tampers, EXERCISE.cases[1]).kind == "breach"


def test_tile_is_gone_after_free():
    hbm = {"x": np.arange(4.0)}
    with Machine(4, hbm, {"y": (4,)}) as machine:
        x, y = machine.arrays
        tile = machine.chip.load(x)
        view = tile[1:]
        machine.chip.free(tile)
        assert np.isnan(view).all()
        machine.chip.store(y, np.ones(2), 1)
        assert machine.outputs["y"].stored.tolist() == [False, True, True, False]
        machine.chip.free(machine.chip.alloc(3))
        assert (machine.books.used, machine.books.peak) == (0, 4)
        machine.chip.alloc(4)
        assert machine.books.used == 4
        with pytest.raises(SRAMOverflow):
            machine.chip.alloc(1)


def test_traffic_is_counted_apart_from_the_chip():
    with Machine(8, {"x": np.ones((4, 2))}, {"y": (4, 2)}) as machine:
        x, y = machine.arrays
        tile = machine.chip.load(x, 1, 3, columns=(0, 1))
        machine.chip.store(y, tile, 0, columns=(1, 2))
        books = machine.books
        assert (books.loads, books.stores, books.peak, books.used) == (2, 2, 2, 2)
        assert machine.inputs["x"].loaded.sum() == 2
        assert machine.outputs["y"].stored[:, 1].tolist() == [True, True, False, False]


def test_reading_less_than_the_inputs_is_refused():
    def answer(chip, Q, K, V, O, l, m, Br, Bc, causal):
        chip.store(O, np.zeros(O.shape))
        chip.store(l, np.ones(len(l)))
        chip.store(m, np.ones(len(m)))

    found = outcome(answer, SMALL)
    assert found.kind == "unread" and "Q were never loaded" in dict(found.fields)["got"]


def test_rows_never_stored_are_named():
    def answer(chip, Q, K, V, O, l, m, Br, Bc, causal):
        chip.store(O, np.zeros((1, 2)))

    found = outcome(answer, SMALL)
    assert found.kind == "unstored" and found.detail == "row 1 of O was"


def test_writing_to_an_input_is_refused():
    def answer(chip, Q, *rest):
        EXERCISE.solution(chip, Q, *rest)
        chip.store(Q, np.zeros(Q.shape))

    assert outcome(answer, SMALL).kind == "overwrote"


def test_more_traffic_than_allowed_is_refused():
    def answer(chip, Q, *rest):
        EXERCISE.solution(chip, Q, *rest)
        chip.free(chip.load(Q, 0, 1))

    found = outcome(answer, EXERCISE.cases[3])
    assert found.kind == "traffic" and "loaded" in found.detail


def test_products_past_the_matrix_unit_are_refused():
    plain = exercises.edited(
        flash2,
        "numpy multiplied",
        {"chip.matmul(Qi, Kj.T)": "Qi @ Kj.T", "chip.matmul(P, Vj)": "P @ Vj"},
    )
    assert outcome(plain, SMALL).kind == "flop"


def test_large_case_draws_new_numbers_each_time():
    one = LARGE.inputs_again(1)["Q"]
    assert not np.array_equal(one, LARGE.inputs_again(2)["Q"])
    assert np.array_equal(one, LARGE.inputs_again(1)["Q"])
    assert np.array_equal(SMALL.inputs_again(1)["Q"], SMALL.inputs_again(2)["Q"])


def imports_torch(chip, Q, K, V, O, l, m, Br, Bc, causal):
    import torch

    return torch.zeros(1)


def calls_the_package(chip, Q, K, V, O, l, m, Br, Bc, causal):
    from lecture_code import flash

    return flash.flash_attention_forward(Q, K, V, Br=Br, Bc=Bc)


def private(chip, Q, K, V, O, l, m, Br, Bc, causal):
    return K._numbers()


def copies_out(chip, Q, K, V, O, l, m, Br, Bc, causal):
    return K.copy_out()


def by_name(chip, Q, K, V, O, l, m, Br, Bc, causal):
    return getattr(K, "_num" + "bers")()


def sets_capacity(chip, Q, K, V, O, l, m, Br, Bc, causal):
    chip.load = lambda *_: np.zeros((Br, 2))


def in_a_closure(chip, Q, K, V, O, l, m, Br, Bc, causal):
    return [K.copy_out() for _ in range(1)]


def by_a_helper(chip, Q, K, V, O, l, m, Br, Bc, causal):
    return private(chip, Q, K, V, O, l, m, Br, Bc, causal)


def evaluates(chip, Q, K, V, O, l, m, Br, Bc, causal):
    return eval("K.copy_out()")


SCRATCH = np.zeros(4096)


def scratch(chip, Q, K, V, O, l, m, Br, Bc, causal):
    return SCRATCH


def stores_in_a_default(chip, Q, K, V, O, l, m, Br, Bc, causal, pool=SCRATCH):
    return pool


@pytest.mark.parametrize(
    ("answer", "what"),
    [
        (imports_torch, "torch"),
        (calls_the_package, "lecture_code"),
        (private, "._numbers"),
        (copies_out, ".copy_out"),
        (by_name, "getattr()"),
        (sets_capacity, "an assignment to .load"),
        (in_a_closure, ".copy_out"),
        (by_a_helper, "._numbers"),
        (evaluates, "eval()"),
        (scratch, "the array SCRATCH from outside the function"),
        (stores_in_a_default, "the array a default argument from outside the function"),
    ],
    ids=lambda part: getattr(part, "__name__", ""),
)
def test_answer_that_is_refused_unread(answer, what):
    verdict = judge(EXERCISE, answer)
    assert verdict.status == "wrong" and f"an answer that uses {what}" in verdict.text, verdict.text
