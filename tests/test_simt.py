"""A warp that diverges, counted."""

import numpy as np
import pytest

from lecture_code.simt import Branch, run_warp


def test_a_straight_program_keeps_every_lane_busy():
    run = run_warp(["a", "b", "c"])
    assert (run.issued, run.active, run.efficiency) == (3, 96, 1.0)


@pytest.mark.parametrize("split", [1, 4, 16, 31])
def test_if_else_halves_the_throughput_wherever_it_splits(split):
    run = run_warp([Branch(lambda t: t < split, ["A"] * 5, ["X"] * 5)])
    assert (run.issued, run.active, run.efficiency) == (10, 160, 0.5)


@pytest.mark.parametrize("split", [0, 32])
def test_a_warp_that_agrees_pays_nothing(split):
    assert run_warp([Branch(lambda t: t < split, ["A"], ["X"])]).issued == 1


def test_nested_branches_cost_a_pass_for_every_path():
    inner = Branch(lambda t: t % 2 == 0, ["A"], ["B"])
    outer = Branch(lambda t: t < 16, [inner], [Branch(lambda t: t % 4 == 0, ["C"], ["D"])])
    run = run_warp([outer])
    assert run.issued == 4 and run.efficiency == 0.25
    assert [name for name, _ in run.trace] == ["A", "B", "C", "D"]


def test_every_lane_runs_its_own_path_once():
    run = run_warp(["in", Branch(lambda t: t % 3 == 0, ["A", "A2"], ["B"]), "out"])
    for lane in range(32):
        mine = [name for name, lanes in run.trace if lanes[lane]]
        assert mine == (["in", "A", "A2", "out"] if lane % 3 == 0 else ["in", "B", "out"])


def test_branching_on_the_warp_index_is_free():
    programs = [Branch(lambda t: t // 32 == 0, ["A"], ["B"])]
    runs = [run_warp(programs, threads=np.arange(32) + 32 * w) for w in range(2)]
    assert [r.efficiency for r in runs] == [1, 1]


def test_an_if_without_else():
    run = run_warp([Branch(lambda t: t == 0, ["A"])])
    assert run.issued == 1 and run.efficiency == 1 / 32
    assert run_warp([]).efficiency == 1.0


def test_errors_name_the_argument():
    with pytest.raises(ValueError, match="threads must be 32 thread indices, got shape"):
        run_warp(["a"], threads=range(8))
    with pytest.raises(TypeError, match="a program is a list of instructions"):
        run_warp("abc")
    with pytest.raises(TypeError, match="an instruction is a name or a Branch, got int"):
        run_warp([3])
    with pytest.raises(ValueError, match="condition must give 32 booleans"):
        run_warp([Branch(lambda t: t, ["A"])])


def test_a_condition_that_writes_to_its_argument_changes_nothing_else():
    def even(t):
        t %= 2
        return t == 0

    threads = np.arange(32)
    run = run_warp([Branch(even, ["A"]), Branch(lambda t: t < 4, ["B"], ["C"])], threads=threads)
    assert [int(lanes.sum()) for _, lanes in run.trace] == [16, 4, 28]
    assert np.array_equal(threads, np.arange(32))
