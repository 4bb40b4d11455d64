"""Commands from outside: run in this process, or in one of their own, in a folder with records."""

import importlib
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from fastlloyd.cli.failures import run
from fastlloyd.cli.option_names import as_options
from fastlloyd.reports import picture, pictures

SECRET_NUMBER, SECRET_TEXT = "271828.18", "Zebra"
SECRETS = ("271828", "2.7182", SECRET_TEXT)
BOUNDS = ("--bounds", "age=0:100,dose=0:5")
PAPERS = ("--algorithm", "fastlloyd")
PUBLIC = (*BOUNDS, "--n-records", "500", "-k", "3")
FROM_DATA = ("--bounds", "from-data", "--n-records", "from-data")
# From this start every record of data.csv is nearest to its own cluster's centroid, by 0.4 half
# widths of the domain, and stays so: at epsilon 10 noise moves a centroid by 0.01. From one start
# in ten a run ends in another local minimum.
START = ("--public-seed", "8")
HANG = 300  # seconds after which a process counts as hung; one that works needs a few
FIT = ("fit", "data.csv", *PUBLIC)
SIMULATE = ("simulate", "data.csv", *PUBLIC, "--clients", "3")
NEW = (
    "plan",
    "new",
    "--simulation",
    "--client",
    "a:50",
    "--client",
    "b:50",
    "--features",
    "age,dose",
    *BOUNDS,
    "-k",
    "2",
)


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


Command = Callable[..., Outcome]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder with 300 records in data.csv, in three clusters."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("FASTLLOYD_DEBUG", raising=False)
    rng = np.random.default_rng(2)
    X = np.array([[20, 1], [50, 4], [80, 2]])[rng.integers(0, 3, 300)] + rng.normal(
        0, [3, 0.2], (300, 2)
    )
    np.savetxt(tmp_path / "data.csv", X, delimiter=",", header="age,dose", comments="")
    return tmp_path


DRAWN: dict[tuple[object, ...], bytes] = {}


def drawn_once(
    picture: picture.Picture, draw: Callable[[picture.Picture], bytes] = pictures.draw
) -> bytes:
    """The first picture of those features and names that is as private: drawing takes most of a
    command's time, and few tests look.
    """
    names = picture.names.title, *sorted(picture.names.clusters.items())
    subject = picture.name.rpartition(", ")[2] == "NOT PRIVATE", *picture.features, *names
    if subject not in DRAWN:
        DRAWN[subject] = draw(picture)
    return DRAWN[subject]


@pytest.fixture
def fastlloyd(
    capsys: pytest.CaptureFixture[str], here: Path, monkeypatch: pytest.MonkeyPatch
) -> Command:
    """Run the command line in this process."""
    monkeypatch.setattr(pictures, "draw", drawn_once)

    def command(*arguments: str) -> Outcome:
        capsys.readouterr()
        return Outcome(run(arguments), *capsys.readouterr())

    return command


def started(*arguments: str, **options: Any) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "fastlloyd", *arguments]
    # our own program
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, **options)


def tree(folder: Path) -> dict[str, bytes | None]:
    return {
        str(p.relative_to(folder)): p.read_bytes() if p.is_file() else None
        for p in sorted(folder.rglob("*"))
    }


def refused(outcome: Outcome, *fragments: str) -> None:
    """Exit code 2, nothing on stdout, a sentence on stderr for each fault. They hold the fragments,
    with settings named as options, and no secret.
    """
    assert outcome.code == 2
    assert outcome.out == ""
    sentences = outcome.err.splitlines()
    assert sentences
    assert all(sentence.startswith("Error: ") for sentence in sentences)
    for fragment in fragments:
        assert fragment in outcome.err or as_options(fragment) in outcome.err
    assert "Traceback" not in outcome.err
    for secret in SECRETS:
        assert secret not in outcome.err


def strict(text: str) -> Any:
    def refuse(constant: str) -> float:
        raise AssertionError(constant)

    return json.loads(text, parse_constant=refuse)


def write_arrow(path: Path, columns: dict[str, Any]) -> None:
    pa = importlib.import_module("pyarrow")
    table = pa.table(columns)
    if path.suffix == ".parquet":
        importlib.import_module("pyarrow.parquet").write_table(table, path)
    else:
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table)
