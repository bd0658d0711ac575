"""Whatever an answer does, there is a verdict in time, and the process lives on."""

import sys
import threading
import time
import warnings

import numpy as np
import pytest

from lecture_code import exercises
from lecture_code.exercises._check import judge
from lecture_code.exercises._run import run

EXERCISE = exercises.exercise("online_softmax")
LIMIT_S = 0.3


class UnspeakableError(Exception):
    def __str__(self):
        raise RuntimeError("not even this")


class Liar:
    """Says that it equals everything."""

    __module__ = "__main__"

    def __eq__(self, other):
        return True

    __hash__ = None

    def __repr__(self):
        raise RuntimeError("no")


class LiarArray(np.ndarray):
    __module__ = "__main__"

    def __sub__(self, other):
        return np.zeros(1)


def endless(x, block):
    while True:
        pass


def endless_and_deaf(x, block):
    while True:
        try:
            while True:
                pass
        except BaseException:
            pass


def endless_and_deaf_once(x, block):
    try:
        while True:
            pass
    except BaseException:
        return 1.0, 2.0


def endless_print(x, block):
    while True:
        print("and on")


def sleeper(x, block):
    time.sleep(3)


def recursion(x, block):
    return recursion(x, block)


def prints_much(x, block):
    print("line\n" * 100_000)
    return 1.0, 1.0


def warns(x, block):
    warnings.warn("careful", stacklevel=1)
    np.log(np.zeros(1))
    return 1.0, 1.0


def raises(x, block):
    return x.no_such_attribute


def unspeakable(x, block):
    raise UnspeakableError


def leaves(x, block):
    raise SystemExit(3)


def interrupts(x, block):
    raise KeyboardInterrupt


def stops_iteration(x, block):
    raise StopIteration


def nothing(x, block):
    pass


def changes_input(x, block):
    x[0] += 1
    return float(x.max()), 1.0


def wrong_number(x, block):
    return 1.0


def three(x, block):
    return 1.0, 2.0, 3.0


def strings(x, block):
    return "1", "2"


def bools(x, block):
    return True, True


def arrays(x, block):
    return x, x


def complex_numbers(x, block):
    return 1j, 1j


def nan(x, block):
    return np.nan, np.nan


def liar(x, block):
    return Liar(), Liar()


def liar_array(x, block):
    return np.zeros(()).view(LiarArray), np.zeros(()).view(LiarArray)


def generator(x, block):
    yield 1.0
    yield 2.0


async def coroutine(x, block):
    return 1.0, 2.0


def one_argument(x):
    return 1.0, 1.0


def no_such_name(x, block):
    return undefined_name  # noqa: F821


ENDLESS = [endless, endless_and_deaf, endless_and_deaf_once, endless_print, sleeper]
WRONG_AT_ONCE = {
    recursion: "the function calls itself without end",
    prints_much: "line",
    warns: "expected",
    raises: "has no attribute 'no_such_attribute'",
    unspeakable: "its message cannot be shown",
    leaves: "a call to exit",
    interrupts: "KeyboardInterrupt",
    stops_iteration: "StopIteration",
    nothing: "is a `return` missing",
    changes_input: "changed its input x",
    wrong_number: "Return 2 values, (m, l)",
    three: "Return 2 values, (m, l)",
    strings: "should be one number",
    bools: "should be one number",
    arrays: "should be one number",
    complex_numbers: "should be one number",
    nan: "holds NaN",
    liar: "should be one number",
    liar_array: "expected m = 3",
    generator: "Return 2 values, (m, l)",
    coroutine: "Return 2 values, (m, l)",
    one_argument: "takes 1 positional argument but 2 were given",
    no_such_name: "NameError",
}


@pytest.mark.parametrize("answer", ENDLESS, ids=lambda f: f.__name__)
def test_endless_answer_is_stopped(answer):
    start = time.monotonic()
    verdict = judge(EXERCISE, answer, LIMIT_S)
    assert time.monotonic() - start < LIMIT_S + 5
    assert verdict.status == "wrong" and "no answer within the time limit" in verdict.text
    assert verdict.text == judge(EXERCISE, answer, LIMIT_S).text


@pytest.mark.parametrize(
    "answer", [endless, endless_and_deaf_once, endless_print], ids=lambda f: f.__name__
)
def test_stopped_thread_ends(answer):
    before = set(threading.enumerate())
    assert run(answer, (1, 1), 0.05).timed_out
    end = time.monotonic() + 5
    while set(threading.enumerate()) - before and time.monotonic() < end:
        time.sleep(0.01)
    assert not set(threading.enumerate()) - before


@pytest.mark.parametrize("answer", WRONG_AT_ONCE, ids=lambda f: f.__name__)
def test_hostile_answer_gets_a_verdict(answer, capsys):
    verdict = judge(EXERCISE, answer, 5.0)
    assert verdict.status == "wrong"
    assert WRONG_AT_ONCE[answer] in " ".join(verdict.text.split()), verdict.text
    assert "0x" not in verdict.text.replace("0x…", "")
    assert len(verdict.text) < 4000
    assert capsys.readouterr() == ("", "")


def digs(x, block):
    sys.setrecursionlimit(sys.getrecursionlimit() + 500)
    return 1.0, 1.0


def test_streams_and_limits_are_put_back():
    stack_bytes = threading.stack_size(2**20)
    try:
        before = sys.stdout, sys.stderr, sys.getrecursionlimit()
        for answer in (prints_much, endless_print, raises, leaves, digs):
            run(answer, (np.zeros(2), 1), 0.1)
            assert (sys.stdout, sys.stderr, sys.getrecursionlimit()) == before
            assert threading.stack_size(2**20) == 2**20
    finally:
        threading.stack_size(stack_bytes)


def test_interrupt_from_the_keyboard_stops_the_answer_and_is_passed_on(monkeypatch):
    def interrupted(done, seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr("lecture_code.exercises._run.wait", interrupted)
    before = sys.stdout
    with pytest.raises(KeyboardInterrupt):
        run(endless, (1, 1), 1.0)
    assert sys.stdout is before


def test_time_limit_holds_for_all_cases_together():
    def slow(x, block):
        time.sleep(0.15)
        return EXERCISE.solution(x, block)

    start = time.monotonic()
    assert "no answer within the time limit" in judge(EXERCISE, slow, 0.4).text
    assert time.monotonic() - start < 3


def test_not_implemented_in_one_branch_is_wrong():
    def half(x, block):
        if block > 1:
            raise NotImplementedError
        return EXERCISE.solution(x, block)

    verdict = judge(EXERCISE, half)
    assert verdict.status == "wrong" and "not handled yet" in verdict.text


@pytest.mark.parametrize("thing", [3.0, None, (1.0, 2.0), "online_softmax"])
def test_something_that_is_no_function(thing):
    with pytest.raises(TypeError, match="function must be your function itself"):
        exercises.check("online_softmax", thing)


def calls_the_package(x, block):
    from lecture_code.softmax import statistics

    return statistics(x)


def calls_the_package_by_a_helper(x, block):
    return calls_the_package(x, block)


def exits_the_kernel(x, block):
    exit()  # noqa: PLR1722


def asks(x, block):
    return input("m?"), 1.0


def reads_the_stack(x, block):
    import sys

    return sys._getframe(1).f_locals


@pytest.mark.parametrize(
    ("answer", "what"),
    [
        (calls_the_package, "lecture_code.softmax"),
        (calls_the_package_by_a_helper, "lecture_code.softmax"),
        (exits_the_kernel, "exit()"),
        (asks, "input()"),
        (reads_the_stack, "sys"),
    ],
    ids=lambda part: getattr(part, "__name__", ""),
)
def test_answer_that_is_refused_unread(answer, what):
    verdict = judge(EXERCISE, answer)
    assert verdict.status == "wrong" and f"an answer that uses {what}" in verdict.text
