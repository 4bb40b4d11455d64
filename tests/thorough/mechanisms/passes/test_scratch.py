"""What waits on disk: nobody else reads it, no file is left behind, and a full disk is said in one
sentence.
"""

import errno
import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastlloyd.errors import DataError
from fastlloyd.mechanisms.passes.scratch import Scratch
from fastlloyd.mechanisms.passes.spread import count_persons
from fastlloyd.records.ids import TextIds
from small_parts import small_parts

NUMBERS = np.arange(2000, dtype=np.uint64)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@given(st.lists(st.integers(0, 50), min_size=1, max_size=6), st.data())
def test_what_was_written_is_read_from_any_byte_on(sizes: list[int], data: st.DataObject) -> None:
    scratch = Scratch()
    written = [NUMBERS[: size + 1] + np.uint64(size) for size in sizes]
    sheets = [scratch.write(numbers) for numbers in written]
    for sheet, numbers in zip(sheets, written, strict=True):
        first = data.draw(st.integers(0, numbers.nbytes))
        assert (
            scratch.read(sheet, first, numbers.nbytes - first).tobytes()
            == numbers.tobytes()[first:]
        )


def opened(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The temporary files that are opened from now on."""
    files: list[Any] = []
    genuine = tempfile.TemporaryFile

    def noted(**options: Any) -> Any:
        files.append(genuine(**options))
        return files[-1]

    monkeypatch.setattr(tempfile, "TemporaryFile", noted)
    return files


@pytest.mark.skipif(
    sys.platform == "win32", reason="there the file has a name as long as it is open"
)
def test_only_the_owner_may_read_a_file_that_has_no_name_and_is_encrypted(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = opened(monkeypatch)
    scratch = Scratch()
    scratch.write(NUMBERS)
    state = os.fstat(files[0].fileno())
    assert (stat.S_IMODE(state.st_mode), state.st_nlink) == (0o600, 0)
    assert list(folder.iterdir()) == []
    on_disk = os.pread(files[0].fileno(), NUMBERS.nbytes, 0)
    assert len(on_disk) == NUMBERS.nbytes
    assert (
        sum(a == b for a, b in zip(on_disk, NUMBERS.tobytes(), strict=True)) < 1000
    )  # of 16,000; by chance 62.5 and 8 of spread
    again = scratch.write(NUMBERS)
    assert os.pread(files[0].fileno(), NUMBERS.nbytes, again.start) != on_disk


@pytest.mark.skipif(
    sys.platform == "win32", reason="there the file has a name as long as it is open"
)
def test_a_process_that_is_killed_in_the_middle_of_a_pass_leaves_no_file_behind(
    tmp_path: Path,
) -> None:
    program = (
        "import numpy as np, sys\n"
        "from fastlloyd.mechanisms.passes.spread import count_persons\n"
        "from fastlloyd.mechanisms.passes import scratch\n"
        "from fastlloyd.records.ids import IntegerIds\n"
        "scratch.HELD_ROWS = 100\n"
        "def ids():\n"
        "    yield IntegerIds(np.arange(1000))\n"
        "    print('written', flush=True)\n"
        "    sys.stdin.read()\n"
        "    yield IntegerIds(np.arange(1000))\n"
        "count_persons(ids())\n"
    )
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-c", program],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "written\n"
        assert list(tmp_path.iterdir()) == []
        process.kill()
    assert list(tmp_path.iterdir()) == []


def on_full_disk(**_: Any) -> Any:
    return Path("/dev/full").open("r+b", buffering=0)


@pytest.mark.skipif(
    not Path("/dev/full").exists(), reason="this system has no device that is always full"
)
def test_a_full_disk_is_one_sentence_that_names_the_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "TemporaryFile", on_full_disk)
    with small_parts(10, 2, 10), pytest.raises(DataError) as refused:
        count_persons([TextIds.of([b"SECRET", b"b", b"c"])])
    assert str(refused.value).startswith(f"{folder} is full, and")
    assert "\n" not in str(refused.value)
    assert "SECRET" not in str(refused.value)


def test_a_folder_that_cannot_be_used_is_one_sentence(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(**_: Any) -> Any:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(tempfile, "TemporaryFile", denied)
    with pytest.raises(DataError, match=r"cannot be used.*TMPDIR"):
        Scratch()


def test_a_file_that_was_cut_short_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    files = opened(monkeypatch)
    scratch = Scratch()
    sheet = scratch.write(NUMBERS)
    files[0].truncate(100)
    with pytest.raises(DataError, match="cannot be used"):
        scratch.read(sheet, 0, NUMBERS.nbytes)
