"""In a real Jupyter kernel: what a check shows, and that the kernel lives on."""

from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

ROOT = Path(__file__).resolve().parents[2]
CHECK = 'check("online_softmax", online_softmax, limit_s=0.5)'
ANSWERS = {
    "    raise NotImplementedError": "not attempted",
    "    while True:\n        pass": "no answer within the time limit",
    "    exit()": "an answer that uses exit()",
    "    raise SystemExit": "a call to exit",
    "    raise KeyboardInterrupt": "KeyboardInterrupt",
    "    return x.nothing": "in the line: return x.nothing",
    "    print('so far', x.size)": "printed   so far 2",
    "    return np.log(-x), 0.0": "m should be one number",
}


def test_kernel_shows_the_verdict_once_and_lives_on():
    cells = ["import numpy as np\nfrom lecture_code.exercises import check"]
    for body in ANSWERS:
        cells += [f"def online_softmax(x, block):\n{body}", CHECK]
    cells.append("print('alive')")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in cells])
    resources = {"metadata": {"path": str(ROOT)}}
    nbclient.NotebookClient(notebook, timeout=60, resources=resources).execute()
    shown = [cell.outputs for cell in notebook.cells if cell.source == CHECK]
    for outputs, expected in zip(shown, ANSWERS.values(), strict=True):
        assert {output.output_type for output in outputs} == {"stream"}
        assert {output.name for output in outputs} == {"stdout"}
        text = "".join(output.text for output in outputs)
        assert expected in text and text.count("online_softmax: ") == 1
        assert "ipykernel" not in text
    assert notebook.cells[-1].outputs[0].text == "alive\n"
