"""The measuring script, as far as it goes without a GPU."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from lecture_code.record_files import parse_record

torch = pytest.importorskip("torch")
ROOT = Path(__file__).resolve().parents[1]
SCRIPT = ROOT / "tools" / "gpu.py"


@pytest.fixture(scope="module")
def pieces():
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        names = ("methods", "race", "counters", "machine")
        yield {name: importlib.import_module(f"gpu_records.{name}") for name in names}
    finally:
        sys.path.remove(str(ROOT / "tools"))


def call(*arguments):
    return subprocess.run(
        [sys.executable, SCRIPT, *map(str, arguments)], capture_output=True, text=True, timeout=300
    )


def test_a_smoke_run_writes_valid_records(tmp_path):
    done = call("--smoke", "--out", tmp_path, "--commit", "0" * 40)
    assert done.returncode == 0, done.stderr
    names = {path.stem for path in tmp_path.glob("*.json")}
    assert names == {
        "copy_bandwidth",
        "fusion",
        "gpt2_attention",
        "launch_overhead",
        "matmul_ceiling",
        "matmul_kernels",
        "matmul_one_tile",
        "matmul_wave",
        "memory",
        "numerics",
        "operator_roofline",
        "race",
        "race_edge",
        "small",
    }
    for path in tmp_path.glob("*.json"):
        record = parse_record(path.read_text(encoding="utf-8"), path.name)
        assert record.provenance["commit"] == "0" * 40
        assert any("status" not in row for row in record.rows)


def test_an_unknown_piece_is_refused():
    done = call("races", "--smoke")
    assert (
        done.returncode == 2 and "unknown piece races; known: test, copy_bandwidth" in done.stderr
    )


def test_without_a_gpu_it_says_so(tmp_path):
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    done = call("copy_bandwidth", "--out", tmp_path)
    assert done.returncode == 2 and "torch sees no CUDA device here" in done.stderr
    assert not list(tmp_path.iterdir())


def test_the_race_has_the_twelve_cells(pieces):
    cells = pieces["race"].race_cells()
    assert len(cells) == 12
    for cell in cells:
        assert cell["batch"] * cell["N"] == 16384 and cell["heads"] * cell["d"] == 2048


@pytest.mark.parametrize("causal", [False, True])
def test_plain_attention_is_attention(pieces, causal):
    q, k, v = (torch.randn(2, 3, 7, 4, dtype=torch.float64) for _ in "qkv")
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
    torch.testing.assert_close(pieces["methods"].plain_attention(q, k, v, causal), expected)


def test_the_wave_has_many_residues(pieces):
    sizes = pieces["machine"].wave_sizes()
    assert {1791, 1792, 1793, 2048, 2049, 2112, 2304, 4096, 4097} <= set(sizes)
    for divisor in (1, 2, 4, 8, 16, 32, 64):
        assert sum(n % divisor == 0 and n % (2 * divisor) != 0 for n in sizes) >= 10


def test_ncu_s_table_is_split_at_the_markers(pieces):
    counters = pieces["counters"]
    header = ["ID", "Kernel Name", "dram__bytes_read.sum", "lts__t_bytes.sum"]
    rows = [
        ["", "", "byte", "Kbyte"],
        ["0", "before(int)", "9", "9"],
        ["1", "cuda::<unnamed>::spin_kernel(long)", "1", "1"],
        ["2", "void a::gemm<float>(x)", "1,000", "2"],
        ["3", "void <unnamed>::soft(x)", "5", "0.5"],
        ["4", "cuda::<unnamed>::spin_kernel(long)", "1", "1"],
    ]
    lines = [",".join(f'"{cell}"' for cell in row) for row in [header, *rows]]
    text = "\n".join(["==PROF== Connected", *lines, "==PROF== Disconnected"])
    first, second = counters.parse_counters(text)
    assert [kernel["kernel"] for kernel in first] == ["a::gemm", "soft"]
    assert [kernel["dram__bytes_read.sum"] for kernel in first] == [1000, 5]
    assert [kernel["lts__t_bytes.sum"] for kernel in first] == [2000, 500]
    assert second == []
    with pytest.raises(ValueError, match="ncu printed no table: '==ERROR=="):
        counters.parse_counters("==ERROR== no permission")
