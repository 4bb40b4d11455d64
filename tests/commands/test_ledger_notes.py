"""What a ledger keeps of a run for its owner: files without content, command, date and purpose."""

import json
import os
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from command_line import FIT, SIMULATE, Command, refused
from fastlloyd.errors import BudgetError
from fastlloyd.federation.holder import HoldersLedger, place
from fastlloyd.federation.store.noted import DataFiles, checked_purpose
from fastlloyd.jobs.data_files import files_of
from ledgers import knowing

SHORT = ("--algorithm", "fastlloyd", "--iterations", "2", "--no-out")
BY_FIT = (*FIT, *SHORT, "--dataset", "patients")
pytestmark = pytest.mark.usefixtures("here")


@pytest.fixture(autouse=True)
def ledger(ledger_of_its_own: Path) -> HoldersLedger:
    return knowing(ledger_of_its_own)


def notes() -> list[Any]:
    return [run.noted for run in HoldersLedger(place()).history().runs.values()]


def told(err: str) -> str:
    (found,) = [line for line in err.splitlines() if "unchanged" in line]
    return found


def data() -> Path:
    return Path(FIT[1])


def test_a_run_notes_its_file_command_and_purpose(fastlloyd: Command) -> None:
    found = data().stat()
    assert fastlloyd(*BY_FIT, "--purpose", "yearly report, in März").code == 0
    (noted,) = notes()
    assert (noted.command, noted.purpose) == ("fit", "yearly report, in März")
    assert noted.files == DataFiles(
        path=str(data().absolute()),
        n_files=1,
        size=found.st_size,
        changed=found.st_mtime_ns,
        inode=found.st_ino,
        device=found.st_dev,
    )


def test_an_unchanged_file_is_known_again_whatever_name_its_data_set_has(
    fastlloyd: Command,
) -> None:
    first = fastlloyd(*BY_FIT)
    assert "unchanged" not in first.err
    second = fastlloyd(*BY_FIT)
    assert "used in 1 earlier run, counted on 'patients': together epsilon 1 at" in told(second.err)
    data().rename("renamed.csv")
    Path("renamed.csv").rename(data())
    other = fastlloyd(*FIT, *SHORT, "--dataset", "others", "--new-dataset")
    sentence = told(other.err)
    assert "used in 2 earlier runs, counted on 'patients': together epsilon 1.4" in sentence
    third = told(fastlloyd(*SIMULATE, *SHORT, "--dataset", "patients").err)
    assert "used in 3 earlier runs, counted on 'others', 'patients': together" in third
    for said in (first, second, other):
        assert "unchanged" not in said.out


def test_a_changed_file_is_another_one(fastlloyd: Command) -> None:
    assert fastlloyd(*BY_FIT).code == 0
    found = data().stat()
    os.utime(data(), ns=(found.st_atime_ns, found.st_mtime_ns + 1))
    assert "unchanged" not in fastlloyd(*BY_FIT).err


def test_a_run_whose_noise_was_never_drawn_is_no_earlier_use(
    fastlloyd: Command, ledger: HoldersLedger
) -> None:
    bad = (*BY_FIT, "--outside", "refuse", "--bounds", "0:0.001")
    assert fastlloyd(*bad).code != 0
    assert "unchanged" not in fastlloyd(*BY_FIT).err


def test_nothing_of_a_files_content_is_in_the_ledger(fastlloyd: Command) -> None:
    assert fastlloyd(*BY_FIT, "--purpose", "a test").code == 0
    with closing(sqlite3.connect(place())) as connection:
        (kept,) = connection.execute("SELECT COUNT(*) FROM secrets").fetchone()
    assert kept == 0
    written = place().read_bytes()
    for line in data().read_text().splitlines()[1:]:
        for cell in line.split(","):
            assert len(cell) < 5 or cell.encode() not in written


def test_commands_of_the_ledger_show_date_command_and_purpose(fastlloyd: Command) -> None:
    assert fastlloyd(*BY_FIT, "--purpose", "[bold]for the board[/bold]").code == 0
    assert fastlloyd(*SIMULATE, *SHORT, "--dataset", "patients").code == 0
    shown = fastlloyd("ledger", "show", "--dataset", "patients").out
    assert "[bold]for the board[/bold]" in shown
    assert "simulate" in shown
    log = fastlloyd("ledger", "log").out
    assert (
        f"by fit, purpose: [bold]for the board[/bold], 1 file, {data().stat().st_size} bytes" in log
    )
    assert "by simulate, no purpose given" in log
    first, second = json.loads(fastlloyd("ledger", "show", "--json").out)["data_sets"][0]["runs"]
    assert (first["command"], first["purpose"]) == ("fit", "[bold]for the board[/bold]")
    assert (second["command"], second["purpose"]) == ("simulate", None)
    assert first["files"]["path"] == str(data().absolute())
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", first["date"])


@pytest.mark.parametrize("purpose", ["", "  ", "x" * 201, "two\nlines", "\x1b[31mred", "a\u202eb"])
def test_a_purpose_is_one_printable_line(fastlloyd: Command, purpose: str) -> None:
    with pytest.raises(BudgetError, match="expected one line"):
        checked_purpose(purpose)
    refused(fastlloyd(*BY_FIT, "--purpose", purpose), "purpose")
    assert notes() == []


def test_a_purpose_without_a_data_set_has_no_effect_and_is_refused(fastlloyd: Command) -> None:
    refused(fastlloyd(*FIT, *SHORT, "--purpose", "why"), "pass --dataset NAME")


def test_what_is_in_no_file_of_this_machine_is_noted_visibly_as_none(
    fastlloyd: Command, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in ("s3://bucket/visits.csv", "/dev/stdin", str(tmp_path / "pipe"), "none.csv", ""):
        assert files_of(name) is None
    run = fastlloyd(*BY_FIT, "--purpose", "x")
    assert run.code == 0


def test_a_folder_is_known_by_number_size_and_newest_change(tmp_path: Path) -> None:
    folder = tmp_path / "visits"
    folder.mkdir()
    for number in range(300):
        (folder / f"part-{number}.csv").write_text("a,b\n1,2\n")
    newest = max(path.stat().st_mtime_ns for path in folder.iterdir())
    whole, pattern = files_of(str(folder)), files_of(f"{folder}/*.csv")
    assert whole == DataFiles(path=str(folder), n_files=300, size=300 * 8, changed=newest)
    assert pattern is not None
    assert not pattern.is_unchanged(whole)  # of several files the path decides
    (folder / "_fastlloyd.fingerprints").write_text("")
    assert files_of(str(folder)) == whole
    (folder / "part-0.csv").unlink()
    after = files_of(str(folder))
    assert after is not None
    assert not after.is_unchanged(whole)


def test_a_moved_file_is_known_by_its_inode_and_a_copy_is_not(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a,b\n1,2\n")
    before = files_of(str(path))
    assert before is not None
    path.rename(tmp_path / "moved.csv")
    moved = files_of(str(tmp_path / "moved.csv"))
    assert moved is not None
    assert moved.is_unchanged(before)
    path.write_text("a,b\n1,2\n")
    copied = files_of(str(path))
    assert copied is not None
    assert not copied.is_unchanged(before)


def test_a_name_that_no_terminal_may_show_is_kept_printable(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/\xff\x1b[31m.csv"
    with open(path, "wb") as file:  # noqa: PTH123 - of bytes
        file.write(b"a,b\n1,2\n")
    found = files_of(os.fsdecode(path))
    assert found is not None
    assert found.path.isprintable()
