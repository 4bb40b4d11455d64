"""The notebooks run from their first cells to their last, and what is stored in them may be passed
on.
"""

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from clone import ROOT

NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))
PICTURES = {"a-year-of-questions": 2, "central": 3, "several-rows": 3, "unknown-bounds": 2}
AS_NEW = (  # no name is left for the next notebook; modules stay loaded, which is what takes time
    "%reset -f"
)

each_notebook = pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)


def _notebook(path: Path) -> Any:
    read: Any = nbformat.read  # has no types
    return read(path, as_version=4)


def _code_cells(path: Path) -> list[Any]:
    return [cell for cell in _notebook(path).cells if cell.cell_type == "code"]


def _text(output: Any) -> str:
    """Everything that an output shows, but pictures."""
    data = output.get("data", {})
    return "\n".join(
        [
            output.get("text", ""),
            *(str(data[kind]) for kind in data if not kind.startswith("image/")),
        ]
    )


@pytest.mark.filterwarnings(
    "default"
)  # what the machinery of notebooks warns of is not ours to mend
def test_every_cell_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cell that raises ends the run with its traceback; in the notebooks' own process a warning
    is no error.
    """
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("FASTLLOYD_LEDGER", str(tmp_path / "ledger.store"))
    own = tmp_path / "run"
    own.mkdir()
    new: Any = nbformat.v4
    nb = new.new_notebook()
    for path in NOTEBOOKS:
        nb.cells += [*_code_cells(path), new.new_code_cell(AS_NEW)]
    NotebookClient(
        nb, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(own)}}
    ).execute()
    assert all(cell.execution_count for cell in nb.cells)
    assert list(tmp_path.iterdir()) == [
        own
    ]  # a notebook that charges a ledger charges one of its own
    assert list(own.iterdir()) == []


@each_notebook
def test_the_stored_outputs_are_those_of_one_complete_run(notebook: Path) -> None:
    cells = _code_cells(notebook)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell.outputs]
    assert {output.output_type for output in outputs} <= {
        "execute_result",
        "display_data",
    }  # no error, nothing on stderr
    assert sum("image/png" in output.data for output in outputs) == PICTURES[notebook.stem]


@each_notebook
def test_the_stored_outputs_hold_no_labels_and_nothing_of_the_machine_they_were_made_on(
    notebook: Path,
) -> None:
    for cell in _code_cells(notebook):
        assert "execution" not in cell.metadata  # times
        for text in map(_text, cell.outputs):
            assert "labels_" not in text
            assert not re.search(r"(?<![\w.:/<])/\w+/|[A-Z]:\\\\|ipykernel", text), text
