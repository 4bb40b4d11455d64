"""The file of fingerprints: durable before a run counts, refused if it is not what was written, and
nothing of it elsewhere.
"""

import os
import stat
import threading
from pathlib import Path

import pytest

from fastlloyd.base.files import OTHERS
from fastlloyd.errors import NO_FINGERPRINTS, OPEN_TO_OTHERS, WRONG_FILE, BudgetError, StateError
from fastlloyd.federation import fingerprint_file
from fastlloyd.federation.fingerprint import Fingerprint
from fastlloyd.federation.fingerprint_file import FILE_NAME, FingerprintFile, Fingerprints
from refusals import raises_code

A, B, C = (bytes([number]) * 16 for number in range(3))
MINE, OTHERS_RECORDS = Fingerprint(b"f" * 32, b"p" * 32), Fingerprint(b"g" * 32)
POSIX = pytest.mark.skipif(os.name != "posix", reason="Windows has access lists and no links")


@pytest.fixture
def file(tmp_path: Path) -> FingerprintFile:
    return FingerprintFile(tmp_path / FILE_NAME)


def known(file: FingerprintFile) -> Fingerprints:
    found = file.read()
    assert found is not None
    return found


def test_what_is_kept_is_read_again_and_only_its_owner_can_read_it(file: FingerprintFile) -> None:
    made = file.opened({})
    assert file.opened({}) == made
    file.note(A, "patients", MINE, made.hash_key, {A})
    file.note(B, "visits", OTHERS_RECORDS, made.hash_key, {A, B})
    found = known(file)
    assert (found.key, [run.fingerprint for run in found.runs]) == (
        made.key,
        [MINE, OTHERS_RECORDS],
    )
    assert made.key not in repr(found)
    assert MINE.digest.hex() not in repr(found)
    assert {path.name for path in file.path.parent.iterdir()} == {FILE_NAME, f"{FILE_NAME}-lock"}
    if os.name == "posix":
        assert not stat.S_IMODE(file.path.stat().st_mode) & OTHERS


def test_records_are_refused_under_another_name_if_a_run_that_counts_used_them(
    file: FingerprintFile,
) -> None:
    key = file.opened({}).hash_key
    file.note(A, "patients", MINE, key, set())
    others = Fingerprint(MINE.digest)  # other ids are the same records
    with pytest.raises(BudgetError, match=r"'patients' before.*'others'"):
        file.note(B, "others", others, key, {A})
    assert len(known(file).runs) == 1
    file.note(B, "Patients", others, key, {A})  # the same name
    file.note(C, "others", OTHERS_RECORDS, key, {A, B})


def test_a_fingerprint_of_a_run_that_never_counted_locks_nobody_out(
    file: FingerprintFile,
) -> None:
    """Its process was killed in between; the name may have been a slip."""
    key = file.opened({}).hash_key
    file.note(A, "patiens", MINE, key, set())
    file.note(B, "patients", MINE, key, set())
    file.note(A, "patients", MINE, key, {B})  # the same run again, under the right name
    assert [run.dataset for run in known(file).runs] == ["patients", "patients"]


def test_a_run_goes_on_with_the_same_records_and_ids_only(file: FingerprintFile) -> None:
    file.note(A, "patients", MINE, file.opened({}).hash_key, set())
    known(file).check_same_records(A, "a", MINE)
    for other in (OTHERS_RECORDS, Fingerprint(MINE.digest), Fingerprint(MINE.digest, b"q" * 32)):
        with pytest.raises(StateError, match=r"begun.*other records"):
            known(file).check_same_records(A, "a", other)


# Missing


def test_runs_without_a_fingerprint_are_refused_until_their_owner_says_that_they_are_lost(
    file: FingerprintFile,
) -> None:
    runs = {A: "patients", B: "visits"}
    for said in ("there is no file", "has no fingerprint of a run"):
        with pytest.raises(StateError, match="--new-fingerprints") as refusal:
            file.opened(runs)
        assert said in str(refusal.value)
        assert refusal.value.code == NO_FINGERPRINTS
        file.note(A, "patients", MINE, file.opened({}).hash_key, set())
    made = file.opened(runs, are_lost=True)
    assert file.opened(runs) == made == known(file)
    with raises_code(StateError, NO_FINGERPRINTS):
        made.check_same_records(B, "b", MINE)
    made.check_same_records(A, "a", MINE)  # what was not lost still stands
    with pytest.raises(BudgetError, match=r"'patients' before.*'others'"):
        made.check_name("others", MINE, C, {A, B})


def test_a_rehearsal_writes_nothing(file: FingerprintFile) -> None:
    assert file.complete({}, are_lost=False) is None
    assert file.complete({A: "patients"}, are_lost=True) is not None
    assert list(file.path.parent.iterdir()) == []


# Files that are refused


def test_whatever_was_not_written_so_is_refused_in_one_sentence(
    file: FingerprintFile, tmp_path: Path
) -> None:
    file.note(A, "patients", MINE, file.opened({}).hash_key, set())
    content = file.path.read_bytes()
    swapped = content.replace(MINE.digest.hex().encode(), b"0" * 64)
    assert swapped != content
    damaged = [content[:at] for at in range(0, len(content) - 1, 37)]
    damaged += [swapped, b"\xff" * 40, b"a,b\n1,2\n", content.replace(b"format = 1", b"format = 2")]
    for other in damaged:
        file.path.write_bytes(other)
        with raises_code(StateError, WRONG_FILE) as refusal:
            file.opened({})
        assert "\n" not in str(refusal.value)
        assert MINE.digest.hex() not in str(refusal.value)
        assert file.path.read_bytes() == other
    file.path.write_bytes(content)
    assert len(known(file).runs) == 1


@POSIX
def test_links_pipes_folders_and_files_open_to_others_are_refused(
    file: FingerprintFile, tmp_path: Path
) -> None:
    file.opened({})
    others = FingerprintFile(tmp_path / "others")
    others.path.symlink_to(file.path)
    with pytest.raises(StateError, match="a symbolic link"):
        others.opened({})
    others.path.unlink()
    others.path.hardlink_to(file.path)
    with pytest.raises(StateError, match="has hard links"):
        file.opened({})
    others.path.unlink()
    os.mkfifo(others.path)
    with pytest.raises(StateError, match="not a file"):
        others.opened({})
    file.path.chmod(0o640)
    with raises_code(StateError, OPEN_TO_OTHERS):
        file.opened({})


@POSIX
@pytest.mark.skipif(os.name == "posix" and os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_refused_with_the_option(file: FingerprintFile) -> None:
    file.path.parent.chmod(0o500)
    try:
        with pytest.raises(StateError, match="--fingerprints FILE"):
            file.check()
    finally:
        file.path.parent.chmod(0o700)


def test_a_folder_that_is_said_not_to_be_writable_is_refused_with_the_option(
    file: FingerprintFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(StateError, match="--fingerprints FILE"):
        file.opened({})
    with pytest.raises(StateError, match="is no folder"):
        FingerprintFile(file.path / "sub" / FILE_NAME).check()
    assert list(file.path.parent.iterdir()) == []


# Deaths, and several at once


class Killed(BaseException):
    """The process is gone."""


@pytest.mark.parametrize("step", ["fsync", "replace", "sync_folder"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_process_may_die_at_each_step_of_a_write(
    file: FingerprintFile, monkeypatch: pytest.MonkeyPatch, step: str, when: str
) -> None:
    key = file.opened({}).hash_key
    file.note(A, "patients", MINE, key, set())
    before = known(file)
    holder = {"fsync": os, "replace": Path, "sync_folder": fingerprint_file}[step]
    genuine = getattr(holder, step)

    def die(*arguments: object) -> None:
        if when == "after":
            genuine(*arguments)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(holder, step, die)
        with pytest.raises(Killed):
            file.note(B, "visits", OTHERS_RECORDS, key, {A})
    assert known(file).runs[:1] == before.runs
    assert known(file).key == before.key
    file.note(B, "visits", OTHERS_RECORDS, key, {A})
    assert [run.fingerprint for run in known(file).runs] == [MINE, OTHERS_RECORDS]
    assert {path.name for path in file.path.parent.iterdir()} == {FILE_NAME, f"{FILE_NAME}-lock"}


def test_a_file_that_was_replaced_meanwhile_is_not_written_over(file: FingerprintFile) -> None:
    key = file.opened({}).hash_key
    file.path.unlink()
    for _ in range(2):
        with pytest.raises(StateError, match="removed or replaced"):
            file.note(A, "patients", MINE, key, set())
        file.opened({})
    assert known(file).runs == ()


def test_several_processes_that_join_at_once_lose_nothing(file: FingerprintFile) -> None:
    ids = [bytes([number]) * 16 for number in range(12)]

    def join(run_id: bytes) -> None:
        own = FingerprintFile(file.path)
        own.note(run_id, "patients", MINE, own.opened({}).hash_key, set())

    threads = [threading.Thread(target=join, args=(run_id,)) for run_id in ids]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {run.run for run in known(file).runs} == {run_id.hex() for run_id in ids}
