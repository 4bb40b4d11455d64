"""Record the vectors anew and say what changed: `python tests/vectors/record.py`, and why it
changed in the commit.
"""

import os
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

# as `all_tests.py` has it: which library of linear algebra runs in how many threads may decide about
# the last bit of a number
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

import clustering_vectors
import command_vectors
from recorded import HERE, as_written, differences, read, write


def everything(folder: Path) -> dict[str, dict[str, Any]]:
    """All vectors, by the name of their file."""
    return {
        "central": {
            name: clustering_vectors.central_answer(name, case)
            for name, case in clustering_vectors.central_cases()
        },
        "federated": {
            name: clustering_vectors.federated_answer(name, case)
            for name, case in clustering_vectors.federated_cases()
        },
        "commands": {
            group: command_vectors.answers(group, made(folder / group))
            for group in command_vectors.GROUPS
        },
    }


def made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def main() -> None:
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        for name, found in everything(Path(folder)).items():
            before = read(name) if (HERE / f"{name}.json.gz").exists() else {}
            changes = list(differences(before, as_written(found)))
            write(name, found)
            # what it is for
            print(f"{name}: {len(found)} cases, {len(changes)} differences", *changes, sep="\n  ")  # noqa: T201


if __name__ == "__main__":
    main()
