"""The tools that judge the book must themselves find what they look for."""

import base64
import io
import json

import nbformat
import numpy as np
import pytest
from PIL import Image, ImageDraw

from tools import check_files, mutate, notebooks, vendor
from tools.book import Address, notebook_paths

NOWHERE = Address("", "v1")


def chapter(*cells):
    """A notebook in memory."""
    return nbformat.v4.new_notebook(cells=list(cells))


def code(source="", *tags, **metadata):
    """A code cell."""
    return nbformat.v4.new_code_cell(source, metadata={"tags": list(tags), **metadata})


class TestGeneratedCells:
    def test_drift_is_found_and_mended_once(self):
        notebook = chapter(code("old", "setup"), code("x = 1"))
        assert notebooks.sync(notebook, NOWHERE) == [0]
        assert notebooks.sync(notebook, NOWHERE) == []
        assert notebook.cells[1].source == "x = 1"

    def test_exercise_cells_come_from_the_exercise(self):
        notebook = chapter(
            code("", "skeleton", exercise="online_softmax"),
            nbformat.v4.new_markdown_cell(
                "", metadata={"tags": ["solution"], "exercise": "online_softmax"}
            ),
        )
        notebooks.sync(notebook, NOWHERE)
        skeleton, solution = notebook.cells
        assert "raise NotImplementedError" in skeleton.source
        assert "def online_softmax" in solution.source
        assert "<details><summary>Solution</summary>\n\n" in solution.source

    def test_a_skeleton_without_a_name_is_refused(self):
        with pytest.raises(ValueError, match='needs "exercise"'):
            notebooks.sync(chapter(code("", "skeleton")), NOWHERE)


class TestCanonicalForm:
    def test_timings_and_editors_notes_are_removed(self):
        cell = code("1", "check", exercise="a", execution={"started": "now"}, collapsed=True)
        notebook = chapter(cell)
        notebook.metadata["vscode"] = {"x": 1}
        clean = notebooks.canonical(notebook, "01_a")
        assert set(clean.cells[0].metadata) == {"tags", "exercise"}
        assert set(clean.metadata) == {"kernelspec", "language_info"}

    def test_pieces_of_one_stream_are_joined(self):
        cell = code("1")
        cell.outputs = [
            nbformat.v4.new_output("stream", name=name, text=text)
            for name, text in [("stdout", "a\n"), ("stdout", "b\n"), ("stderr", "c\n")]
        ]
        joined = notebooks.canonical(chapter(cell), "01_a").cells[0].outputs
        assert [output.text for output in joined] == ["a\nb\n", "c\n"]

    def test_random_ids_of_widgets_become_the_same_each_time(self):
        texts = set()
        for model in ("0" * 32, "f" * 32):
            cell = code("w")
            view = {"application/vnd.jupyter.widget-view+json": {"model_id": model}}
            cell.outputs = [nbformat.v4.new_output("display_data", data=view)]
            cell.id = "w"
            notebook = chapter(cell)
            notebook.metadata["widgets"] = {
                "application/vnd.jupyter.widget-state+json": {"state": {model: {"state": {}}}}
            }
            texts.add(nbformat.writes(notebooks.canonical(notebook, "01_a")))
        assert len(texts) == 1

    def test_saving_twice_changes_nothing(self, tmp_path):
        path = tmp_path / "01_a.ipynb"
        assert notebooks.save(chapter(code("1")), path)
        assert not notebooks.save(nbformat.read(path, as_version=4), path)


class TestPictures:
    @staticmethod
    def encoded(picture):
        written = io.BytesIO()
        picture.save(written, "PNG")
        return base64.b64encode(written.getvalue()).decode()

    def test_a_drawing_loses_weight_and_no_colour(self):
        drawing = Image.new("RGBA", (400, 300), "white")
        ImageDraw.Draw(drawing).ellipse((50, 50, 350, 250), fill="#0072B2", outline="#D55E00")
        light = notebooks.lighter(self.encoded(drawing))
        again = Image.open(io.BytesIO(base64.b64decode(light)))
        assert again.mode == "P"
        assert again.convert("RGB").tobytes() == drawing.convert("RGB").tobytes()
        assert notebooks.lighter(light) == light

    def test_what_would_change_is_left_alone(self):
        rng = np.random.default_rng(0)
        noise = self.encoded(Image.fromarray(rng.integers(0, 256, (64, 64, 3), dtype=np.uint8)))
        holes = self.encoded(Image.new("RGBA", (8, 8), (255, 255, 255, 0)))
        assert notebooks.lighter(noise) == noise
        assert notebooks.lighter(holes) == holes


class TestExecution:
    def test_outputs_are_saved_and_counted(self, tmp_path, capsys):
        path = tmp_path / "01_a.ipynb"
        notebooks.save(chapter(code("print(6 * 7)"), code("1 + 1")), path)
        assert notebooks.run(path, NOWHERE) is None
        saved = nbformat.read(path, as_version=4)
        assert [cell.execution_count for cell in saved.cells] == [1, 2]
        assert saved.cells[0].outputs[0].text == "42\n"
        assert "execution" not in saved.cells[0].metadata

    def test_a_failing_notebook_says_where_and_is_not_saved(self, tmp_path, capsys):
        path = tmp_path / "01_a.ipynb"
        notebooks.save(chapter(code("x = 0"), code("1 / x")), path)
        before = path.read_text()
        message = notebooks.run(path, NOWHERE)
        assert "cell 1 failed: ZeroDivisionError: division by zero" in message
        assert "1 / x" in message
        assert path.read_text() == before

    def test_an_unknown_chapter_is_refused(self):
        with pytest.raises(SystemExit, match="No chapter 99"):
            notebook_paths(["99"])


class TestMutants:
    MUTANT = {"name": "plus", "file": "code.py", "old": "+", "new": "-", "test": "test_code.py"}

    @pytest.fixture
    def folder(self, tmp_path):
        (tmp_path / "code.py").write_text("def add(a, b):\n    return a + b\n")
        (tmp_path / "test_code.py").write_text(
            "from code import add\n\ndef test_add():\n    assert add(1, 2) == 3\n"
        )
        (tmp_path / "test_weak.py").write_text(
            "from code import add\n\ndef test_add():\n    assert add(1, 0) == 1\n"
        )
        for path in (tmp_path / "test_code.py", tmp_path / "test_weak.py"):
            path.write_text(path.read_text().replace("from code", "from mutated"))
        (tmp_path / "code.py").rename(tmp_path / "mutated.py")
        return tmp_path

    def test_a_fault_that_a_test_sees_is_caught(self, folder):
        assert mutate.judge(folder, self.MUTANT | {"file": "mutated.py"}) == "caught"
        assert "a + b" in (folder / "mutated.py").read_text()

    def test_a_fault_that_no_test_sees_survives(self, folder):
        weak = self.MUTANT | {"file": "mutated.py", "test": "test_weak.py"}
        assert mutate.judge(folder, weak) == "SURVIVED"

    def test_a_test_that_cannot_run_catches_nothing(self, folder):
        with pytest.raises(ValueError, match="pytest could not run"):
            mutate.judge(folder, self.MUTANT | {"file": "mutated.py", "test": "test_none.py"})

    @pytest.mark.parametrize("old, times", [("a", 3), ("absent", 0)])
    def test_a_fault_must_fit_once(self, old, times):
        with pytest.raises(ValueError, match=f"is {times} times in code.py, not once"):
            mutate.faulty("a, a, a", self.MUTANT | {"old": old})


class TestFiles:
    def test_faults_are_found(self, tmp_path):
        (tmp_path / "large.bin").write_bytes(b"0" * 500_001)
        (tmp_path / "merged.md").write_text("<<<<<<< one\n")
        (tmp_path / "cut.py").write_text("x = 1")
        (tmp_path / "dos.md").write_bytes(b"a\r\n")
        found = check_files.faults(tmp_path, sorted(tmp_path.iterdir()), allowed=["gone.js"])
        assert len(found) == 5
        for name in ("large.bin", "merged.md", "cut.py", "dos.md", "gone.js"):
            assert any(line.startswith(name) for line in found)

    def test_a_listed_file_may_be_large(self, tmp_path):
        (tmp_path / "large.bin").write_bytes(b"0" * 500_001)
        assert check_files.faults(tmp_path, [tmp_path / "large.bin"], ["large.bin"]) == []


class TestThirdParty:
    @pytest.fixture
    def folder(self, tmp_path):
        (tmp_path / "lib").mkdir()
        (tmp_path / "lib" / "lib.js").write_text("1")
        (tmp_path / "lib" / "LICENSE").write_text("free")
        package = {"name": "lib", "version": "1", "folder": "lib", "licence_file": "lib/LICENSE"}
        (tmp_path / vendor.LIST).write_text(json.dumps({"packages": [package]}))
        vendor.write(tmp_path)
        assert vendor.faults(tmp_path) == []
        return tmp_path

    def test_a_changed_file_is_found(self, folder):
        (folder / "lib" / "lib.js").write_text("2")
        assert vendor.faults(folder) == ["lib/lib.js: differs from version 1 as listed"]

    def test_an_unlisted_file_is_found(self, folder):
        (folder / "lib" / "more.js").write_text("2")
        assert vendor.faults(folder) == ["lib/more.js: not listed in VENDOR.json"]

    def test_an_absent_file_is_found(self, folder):
        (folder / "lib" / "LICENSE").unlink()
        assert vendor.faults(folder) == ["lib/LICENSE: listed and absent"]
