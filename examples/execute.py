"""Run every notebook from its first cell to its last, and store what it shows; with names, only
those.
"""

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

NOTEBOOKS = sorted(Path(__file__).parent.glob("*.ipynb"))

for notebook in map(Path, sys.argv[1:] or NOTEBOOKS):
    nb = nbformat.read(notebook, as_version=4)
    NotebookClient(
        nb, timeout=300, kernel_name="python3", record_timing=False
    ).execute()  # times would change with every run
    nbformat.write(nb, notebook)
