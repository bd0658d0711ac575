"""Timers, peak memory, provenance, record files. No test depends on how long anything takes."""

import copy
import json
import stat
import subprocess
import sys

import numpy as np
import pytest

from lecture_code import measure, record_files
from lecture_code.measure import Timing

ROW = {"n": 4, "p20": 1.0, "p50": 2.0, "p80": 3.0}
ORIGIN = {
    "device": "NVIDIA H200",
    "driver": "580.1",
    "clocks": {"sm_mhz": 1980.0},
    "torch": "2.11.0",
    "triton": "3.6.0",
    "python": "3.12.3",
    "date": "2026-12-01T15:06Z",
    "commit": "0123456789abcdef-dirty",
}
TEXTS = {
    "description": "A test",
    "unit": "s",
    "convention": "none",
    "timer": "a stopwatch",
    "provenance": ORIGIN,
}


@pytest.fixture
def data(tmp_path):
    path = measure.write_record("toy", [ROW], folder=tmp_path, **TEXTS)
    return json.loads(path.read_text(encoding="utf-8"))


@pytest.fixture
def nvidia_smi(tmp_path, monkeypatch):
    """A stand-in for nvidia-smi that prints what it is told."""

    def install(*lines):
        script = tmp_path / "bin" / "nvidia-smi"
        script.parent.mkdir()
        body = "\n".join(f"echo '{line}'" for line in lines)
        script.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", str(script.parent), prepend=":")

    return install


# Timers


def test_percentiles_interpolate_between_samples():
    timing = Timing.from_samples([5, 1, 4, 2, 3, 0], "x")
    assert (timing.p20_s, timing.p50_s, timing.p80_s) == (1, 2.5, 4)
    expected = np.percentile(np.arange(6), [20, 50, 80])
    assert [timing.p20_s, timing.p50_s, timing.p80_s] == expected.tolist()
    assert timing.row() == {"p20": 1, "p50": 2.5, "p80": 4, "samples": 6}


def test_percentiles_stay_in_order_despite_rounding():
    rng = np.random.default_rng(0)
    for _ in range(200):
        timing = Timing.from_samples(rng.choice([0.1, 0.3, 0.7], 9) * rng.random(), "x")
        assert timing.p20_s <= timing.p50_s <= timing.p80_s
    one = Timing.from_samples([0.1], "x")
    assert (one.p20_s, one.p50_s, one.p80_s) == (0.1, 0.1, 0.1)


@pytest.mark.parametrize(
    "seconds, text",
    [
        (2.5, "⏱ 2.5 s (p20 2.5, p80 2.5, 1 samples)"),
        (1.5e-3, "⏱ 1.5 ms"),
        (4e-6, "⏱ 4 µs"),
        (7e-9, "⏱ 7 ns"),
        (0.0, "⏱ 0 ns"),
    ],
)
def test_a_printed_timing_is_marked(seconds, text):
    assert str(Timing.from_samples([seconds], "x")).startswith(text)


def test_no_sample_is_an_error():
    with pytest.raises(ValueError, match="seconds: expected at least one sample"):
        Timing.from_samples([], "x")


@pytest.mark.parametrize("sample", [-1.0, float("nan"), float("inf")])
def test_a_sample_that_is_no_time_is_an_error(sample):
    with pytest.raises(ValueError, match="seconds: expected finite samples of at least 0, got"):
        Timing.from_samples([1.0, sample], "a stopwatch")


def test_the_cpu_timer_warms_up_and_counts_its_calls():
    calls = []
    timing = measure.time_cpu(
        lambda: calls.append(1), warmup=3, budget_s=0, min_samples=4, max_samples=4
    )
    assert timing.samples == 4
    # warm-up, one call to plan by, and the same number of calls in each sample
    assert (len(calls) - 4) % 4 == 0 and len(calls) >= 8
    assert "wall clock" in timing.timer
    assert 0 <= timing.p20_s <= timing.p50_s <= timing.p80_s


def test_the_cpu_timer_stays_between_its_bounds():
    assert measure.time_cpu(lambda: None, budget_s=1e9, max_samples=6).samples == 6
    assert measure.time_cpu(lambda: None, budget_s=0, min_samples=5).samples == 5


def test_the_cuda_timer_refuses_a_machine_without_a_gpu():
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    with pytest.raises(RuntimeError, match="needs a CUDA device"):
        measure.time_cuda(lambda: None)


@pytest.mark.gpu
@pytest.mark.parametrize("options", [{}, {"graph": True}, {"cold": True}])
def test_the_cuda_timer(options):
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    x = torch.zeros(1024, device="cuda")
    timing = measure.time_cuda(lambda: x.add_(1), budget_s=0.01, **options)
    assert 0 < timing.p20_s <= timing.p50_s <= timing.p80_s
    assert ("graph" in timing.timer) == bool(options.get("graph"))
    assert x[0].item() > 7


def test_rounds_take_turns_in_random_order():
    order = []

    def timer(function):
        order.append(function())
        return Timing.from_samples([float(len(order))], "count")

    rivals = {"a": lambda: "a", "b": lambda: "b", "c": lambda: "c"}
    medians = measure.interleave(rivals, timer, rounds=6, seed=1)
    assert [len(medians[name]) for name in "abc"] == [6, 6, 6]
    turns = [tuple(order[i : i + 3]) for i in range(0, 18, 3)]
    assert all(sorted(turn) == ["a", "b", "c"] for turn in turns)
    assert len(set(turns)) > 1
    # the median of each turn is kept under its own name, in the order of the rounds
    for name in "abc":
        assert medians[name] == [float(i + 1) for i in range(18) if order[i] == name]


# Memory


def test_peak_memory_sees_what_is_freed_again():
    def function():
        big = np.ones(10**6)
        del big
        return np.ones(10**5)

    peak = measure.peak_memory(function)
    assert 8 * 10**6 <= peak < 8 * 10**6 + 8 * 10**5
    assert measure.peak_memory(lambda: None) < 10**4


def test_peak_memory_leaves_a_trace_running():
    import tracemalloc

    tracemalloc.start()
    try:
        assert measure.peak_memory(lambda: bytearray(10**6)) >= 10**6
        assert tracemalloc.is_tracing()
    finally:
        tracemalloc.stop()
    with pytest.raises(ZeroDivisionError):
        measure.peak_memory(lambda: 1 / 0)
    assert not tracemalloc.is_tracing()


def test_an_unknown_memory_is_refused():
    with pytest.raises(ValueError, match='device: expected "cpu" or "cuda", got .mps.'):
        measure.peak_memory(lambda: None, device="mps")


# Provenance


def test_importing_the_timers_does_not_import_torch():
    code = "import sys, lecture_code.measure; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_provenance_names_every_field_that_a_record_needs():
    origin = measure.provenance(commit="abc", sources=[__file__])
    assert set(origin) >= set(ORIGIN)
    assert origin["commit"] == "abc"
    blob = subprocess.run(["git", "hash-object", __file__], capture_output=True, text=True)
    if blob.returncode == 0:
        assert list(origin["sources"].values()) == [blob.stdout.strip()]


def test_the_commit_is_git_s_and_a_changed_tree_is_marked(tmp_path, monkeypatch):
    monkeypatch.delenv("LECTURE_COMMIT", raising=False)
    tracked, other = tmp_path / "tracked.py", tmp_path / "other.py"

    def git(*arguments):
        identity = [
            "-c",
            "user.name=n",
            "-c",
            "user.email=e@example.org",
            "-c",
            "commit.gpgsign=false",
        ]
        return subprocess.run(
            ["git", *identity, *arguments], cwd=tmp_path, capture_output=True, text=True, check=True
        ).stdout.strip()

    git("init", "-q")
    tracked.write_text("1", encoding="utf-8")
    git("add", ".")
    git("commit", "-q", "--no-verify", "-m", "first")
    head = git("rev-parse", "HEAD")
    assert measure.provenance(sources=[tracked])["commit"] == head
    # a file that did not measure does not make the measurement dirty
    other.write_text("1", encoding="utf-8")
    assert measure.provenance(sources=[tracked])["commit"] == head
    tracked.write_text("2", encoding="utf-8")
    assert measure.provenance(sources=[tracked])["commit"] == f"{head}-dirty"
    monkeypatch.setenv("LECTURE_COMMIT", "given")
    assert measure.provenance(sources=[tracked])["commit"] == "given"


def test_no_commit_is_an_error(tmp_path, monkeypatch):
    monkeypatch.delenv("LECTURE_COMMIT", raising=False)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    source = tmp_path / "alone.py"
    source.write_text("1", encoding="utf-8")
    with pytest.raises(ValueError, match="commit: git knows none here"):
        measure.provenance(sources=[source])


def test_clocks_are_watched_while_the_block_runs(nvidia_smi):
    nvidia_smi("345, 3201, 80.5", "1980, 3201, 700.25", "1500, 3201, 650.0", "garbled, 1", "")
    with measure.ClockWatch() as watch:
        watch._process.wait()
    assert watch.seen == {
        "sm_mhz_median": 1500.0,
        "sm_mhz_min": 345.0,
        "sm_mhz_max": 1980.0,
        "memory_mhz": 3201.0,
        "power_w_max": 700.25,
        "samples": 3,
    }


def test_without_nvidia_smi_no_clock_is_seen(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with measure.ClockWatch() as watch:
        pass
    assert watch.seen == {}


def test_nvidia_smi_s_fields(nvidia_smi):
    nvidia_smi("580.159.04, 1980, [N/A]")
    assert record_files._nvidia_smi(["driver_version", "clocks.sm", "x"]) == [
        "580.159.04",
        "1980",
        "[N/A]",
    ]
    assert record_files._number("1980") == 1980.0 and record_files._number("[N/A]") == "[N/A]"


# Record files


def test_a_record_comes_back_as_it_was_written(tmp_path):
    rows = [ROW, ROW | {"n": 5, "p50": 2.123456789}, {"n": 6, "value": 7}, {"status": "no memory"}]
    path = measure.write_record("toy", rows, folder=tmp_path / "new", settings={"d": 64}, **TEXTS)
    record = record_files.parse_record(path.read_text(encoding="utf-8"))
    assert record.name == "toy" and record.unit == "s" and record.settings == {"d": 64}
    assert record.rows == (ROW, ROW | {"n": 5, "p50": 2.1235}, {"n": 6, "value": 7}, rows[3])
    assert record.select(p20=1.0) == [rows[0], record.rows[1]]
    assert record.one(n=6) == {"n": 6, "value": 7}
    assert record.source == (
        "NVIDIA H200, driver 580.1, torch 2.11.0, triton 3.6.0, 2026-12-01, commit 0123456789-dirty"
    )
    # a row is a line, so that a change of one number is a change of one line
    assert sum('"p20"' in line for line in path.read_text(encoding="utf-8").splitlines()) == 2
    for where in ({"n": 99}, {"p20": 1.0}):
        with pytest.raises(ValueError, match=r"record toy: expected one row with .* got (0|2)"):
            record.one(**where)


@pytest.mark.parametrize(
    "path, value, message",
    [
        (["schema"], 2, "schema: expected 1, got 2"),
        (["unit"], "", "unit: expected a text, got ''"),
        (["timer"], None, "timer: expected a text, got None"),
        (["name"], "Toy record", "name: expected a-z, 0-9, _"),
        (["settings"], [], "settings: expected an object"),
        (["provenance"], None, "provenance: expected an object"),
        (["provenance", "driver"], "", "provenance: driver is missing"),
        (["provenance", "clocks"], "fast", "provenance: clocks: expected an object"),
        (["provenance", "commit"], 5, "provenance: commit: expected a text, got 5"),
        (["provenance", "clocks"], {"sm_mhz": float("nan")}, "settings, provenance: expected fin"),
        (["settings"], {"n": float("inf")}, "settings, provenance: expected finite"),
        (["provenance", "date"], "yesterday", "provenance: date: expected YYYY-MM-DDTHH:MM"),
        (["rows"], [], "rows: expected at least one"),
        (["rows", 0], 3, r"rows\[0\]: expected an object"),
        (["rows", 0, "p20"], 2.5, r"rows\[0\]: expected p20 <= p50 <= p80, got \[2.5, 2.0, 3.0\]"),
        (["rows", 0, "p80"], 1.5, r"rows\[0\]: expected p20 <= p50 <= p80"),
        (["rows", 0, "p50"], None, r"rows\[0\]: p20, p50, p80 go together"),
        (["rows", 0, "p50"], True, r"rows\[0\]: p20, p50, p80 go together"),
        (["rows", 0, "n"], [4], r"rows\[0\].n: expected a plain value"),
        (["rows", 0, "n"], float("nan"), r"rows\[0\].n: not finite"),
        (["rows", 0], {"n": 4}, r"rows\[0\]: expected p20, p50, p80, or value, or status"),
    ],
)
def test_a_malformed_record_is_refused_by_field(data, path, value, message):
    broken = copy.deepcopy(data)
    target = broken
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = value
    with pytest.raises(ValueError, match=f"^toy.json: {message}"):
        measure.validate_record(broken, "toy.json")
    measure.validate_record(data)


@pytest.mark.parametrize("field", list(ORIGIN))
def test_every_field_of_the_provenance_is_needed(data, field):
    del data["provenance"][field]
    with pytest.raises(ValueError, match=f"provenance: {field} is missing"):
        measure.validate_record(data)


def test_nothing_is_written_that_would_not_load(tmp_path):
    with pytest.raises(ValueError, match="record toy: rows"):
        measure.write_record("toy", [{"p50": 1.0}], folder=tmp_path, **TEXTS)
    assert list(tmp_path.iterdir()) == []


def test_text_that_is_not_json_is_refused():
    with pytest.raises(ValueError, match="^records/x.json: not JSON: Expecting"):
        record_files.parse_record("{", "records/x.json")


def test_an_unknown_record_is_refused_and_the_known_ones_named():
    names = measure.record_names()
    assert "copy_bandwidth" in names
    for bad in ("races", "../records/race", ""):
        with pytest.raises(ValueError, match=r"name: no record .*there are: .*copy_bandwidth"):
            measure.load_record(bad)


@pytest.mark.parametrize("name", measure.record_names())
def test_every_record_of_the_package(name):
    record = measure.load_record(name)
    assert record.name == name
    origin = record.provenance
    # from a real GPU, with a driver and clocks, from a revision that git can find
    assert not origin["device"].startswith("CPU") and origin["driver"] != "none"
    assert origin["clocks"] and origin["triton"] != "none"
    assert len(origin["commit"].removesuffix("-dirty")) == 40
    assert origin["sources"]
    measured = [row for row in record.rows if "status" not in row]
    assert measured
    for row in measured:
        if "p50" in row:
            assert 0 < row["p20"] <= row["p50"] <= row["p80"]
            # FLOP and bytes over time stay under any device's peak
            assert row.get("flop", 0) / row["p50"] < 2e15
            assert row.get("bytes", 0) / row["p50"] < 2e13
    assert all("dtype" in record.settings or "dtype" in row for row in measured)
