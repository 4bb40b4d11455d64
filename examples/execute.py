"""Run the notebook from its first cell to its last, and store what it shows."""

from pathlib import Path

import nbformat
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parent / "central.ipynb"

nb = nbformat.read(NOTEBOOK, as_version=4)
NotebookClient(nb, timeout=300, kernel_name="python3", record_timing=False).execute()  # times would change with every run
nbformat.write(nb, NOTEBOOK)
