"""Look at a file of a stranger: no path makes the app wait, leave the machine or show a cell."""

import os
import socket
import sys
from pathlib import Path

import pytest

from fastlloyd.app.looking import FileLook, FileQuestion, seen_in_a_process


def look(path: object, seconds: float = 60.0, header: str = "yes") -> FileLook:
    return seen_in_a_process(FileQuestion(path=str(path), header=header), seconds)


def test_a_table_shows_names_and_kinds_of_columns_and_no_cell(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    rows = "".join(f"SECRET{n:05d};{n},5;Zebra{n % 3}\n" for n in range(50))
    file.write_text("who;dose;ward\n" + rows)
    seen = look(file)
    assert seen.fault == ""
    assert [each.name for each in seen.columns] == ["who", "dose", "ward"]
    assert seen.layout is not None
    assert (seen.layout.separator, seen.layout.decimal, seen.layout.header) == (";", ",", "yes")
    assert "SECRET" not in str(seen)
    assert "Zebra" not in str(seen)
    assert seen.files is not None
    assert seen.files.size == file.stat().st_size


def test_a_first_line_that_is_a_record_is_never_shown(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("Ann,1\n" + "".join(f"Name{n},{n}\n" for n in range(50)))
    seen = look(file, header="no")
    assert [each.name for each in seen.columns] == ["x1", "x2"]
    assert "Ann" not in str(seen)


def test_a_record_that_is_taken_for_names_is_not_shown(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("17.25,Ann\n" + "".join(f"{n}.5,Name{n}\n" for n in range(50)))
    seen = look(file)
    assert (seen.field, seen.columns) == ("header", ())
    assert "17.25" not in str(seen)
    assert "Ann" not in str(seen)
    file.write_text("2019,2020\n" + "".join(f"{n}.5,{n}\n" for n in range(50)))
    assert [each.name for each in look(file).columns] == ["2019", "2020"]


@pytest.mark.parametrize(
    "path",
    [
        "",
        "records.csv",
        "./records.csv",
        "//server/share/records.csv",
        r"\\server\share\records.csv",
        "s3://bucket/records.csv",
        "file:///etc/passwd",
        "http://localhost/x.csv",
        "-",
        "/dev/\0x",
    ],
)
def test_only_full_paths_of_this_machine_are_opened(path: str) -> None:
    seen = look(path)
    assert seen.fault
    assert seen.files is None


@pytest.mark.parametrize("kind", ["pipe", "socket", "device", "folder", "dangling", "none", "mode"])
def test_what_is_no_file_is_refused_at_once(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.csv"
    keep: socket.socket | None = None
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        keep = socket.socket(socket.AF_UNIX)
        monkeypatch.chdir(tmp_path)  # names of sockets are short
        keep.bind("x.csv")
    elif kind == "device":
        path = Path("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    elif kind == "dangling":
        path.symlink_to(tmp_path / "nowhere")
    elif kind == "mode":
        path.symlink_to("/dev/stdin")
    seen = look(path)
    assert seen.fault.endswith(".")
    assert seen.columns == ()
    if keep is not None:
        keep.close()


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are tested on Linux")
def test_a_line_of_a_gigabyte_ends_with_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    with path.open("wb") as file:
        file.truncate(1 << 30)  # takes no space on the disk
    seen = look(path, seconds=4.0)
    assert seen.fault
    assert seen.columns == ()
