"""The notebook runs from its first cell to its last, and what is stored in it may be passed on."""

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[2] / "examples/central.ipynb"


def _notebook() -> Any:
    read: Any = nbformat.read  # has no types
    return read(NOTEBOOK, as_version=4)


def _code_cells() -> list[Any]:
    return [cell for cell in _notebook().cells if cell.cell_type == "code"]


def _text(output: Any) -> str:
    """Everything that an output shows, but pictures."""
    data = output.get("data", {})
    return "\n".join([output.get("text", ""), *(str(data[kind]) for kind in data if not kind.startswith("image/"))])


@pytest.mark.filterwarnings("default")  # what the machinery of notebooks warns of is not ours to mend
def test_every_cell_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cell that raises ends the run with its traceback; in the notebook's own process a warning is no error."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    nb = _notebook()
    NotebookClient(nb, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert all(cell.execution_count for cell in nb.cells if cell.cell_type == "code")


def test_the_stored_outputs_are_those_of_one_complete_run() -> None:
    cells = _code_cells()
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell.outputs]
    assert {output.output_type for output in outputs} <= {"execute_result", "display_data"}  # no error, nothing on stderr
    assert sum("image/png" in output.data for output in outputs) == 3


def test_the_stored_outputs_hold_no_labels_and_nothing_of_the_machine_they_were_made_on() -> None:
    for cell in _code_cells():
        assert "execution" not in cell.metadata  # times
        for text in map(_text, cell.outputs):
            assert "labels_" not in text
            assert not re.search(r"(?<![\w.:/<])/\w+/|[A-Z]:\\\\|ipykernel", text), text
