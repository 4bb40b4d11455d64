"""A store that lost steps, by one flipped bit or a cut, is refused, and an innocent crash is
not.
"""

import hashlib
import os
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from fastlloyd.errors import StateError
from fastlloyd.federation.store import LogPosition, Role, Store, head_file, read
from fastlloyd.federation.store import files as layout
from fastlloyd.federation.store.events import LimitSet
from fastlloyd.federation.store.head_file import SLOT_BYTES, SPACING, head_path
from stores import OWNER, Damage, copy_store, cuts, flips, killed, new_store, opened_or_refused

LIMIT = LimitSet(dataset="patients", epsilon=1.0, delta=1e-6)
OPENINGS = pytest.mark.parametrize("attempt", [Store.open, read])


def log_of(path: Path) -> Path:
    return layout.files(path)[1]


# Damage


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("kind", [flips, cuts])
def test_a_log_with_a_flipped_bit_or_cut_short_is_refused_or_holds_every_step(
    kind: Callable[[bytes, int], list[Damage]], role: Role, tmp_path: Path
) -> None:
    path, position = killed(tmp_path, role)
    content = log_of(path).read_bytes()
    found = [
        opened_or_refused(path, damage, tmp_path / "damaged") for damage in kind(content, 1)[::4]
    ]
    assert found.count(None) >= 15
    assert set(found) <= {None, position}
    assert (
        opened_or_refused(path, Damage(layout.files(path)[1].name, content), tmp_path / "damaged")
        == position
    )


@OPENINGS
@pytest.mark.parametrize("role", Role)
def test_a_store_without_its_log_is_refused(
    role: Role, attempt: Callable[[Path], object], tmp_path: Path
) -> None:
    path, position = killed(tmp_path, role)
    log_of(path).unlink()
    said = (
        r"damaged, or an old copy: it holds 0 events, and clinic-a\.store-head knows of"
        rf" {position.length}; .*ledger\.md$"
    )
    with pytest.raises(StateError, match=said):
        attempt(path)


@OPENINGS
def test_an_old_copy_beside_the_newest_head_file_is_refused(
    attempt: Callable[[Path], object], tmp_path: Path
) -> None:
    with new_store(tmp_path) as store:
        store.append([LIMIT])
        old = copy_store(store.path, tmp_path / "old")
        store.append([LIMIT])
    for file in layout.files(store.path)[:2]:
        file.unlink(missing_ok=True)
    for file in layout.files(old)[:2]:
        file.rename(store.path.with_name(file.name))
    with pytest.raises(
        StateError, match=r"an old copy: it holds 1 events, and clinic-a\.store-head knows of 2"
    ):
        attempt(store.path)


@OPENINGS
def test_other_events_of_the_same_number_are_refused(
    attempt: Callable[[Path], object], tmp_path: Path
) -> None:
    with new_store(tmp_path) as store:
        twin = copy_store(store.path, tmp_path / "twin")
        store.append([LIMIT])
    with Store.open(twin) as other:
        other.append([LimitSet(dataset="patients", epsilon=9.0, delta=1e-6)])
    head_path(twin).replace(head_path(store.path))
    with pytest.raises(
        StateError, match=r"it holds 1 events, and clinic-a\.store-head knows of others"
    ):
        attempt(store.path)


@OPENINGS
def test_the_head_file_of_another_store_that_holds_nothing_is_refused(
    attempt: Callable[[Path], object], tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    with new_store(tmp_path) as store, new_store(tmp_path / "other") as other:
        pass
    head_path(other.path).replace(head_path(store.path))
    with pytest.raises(
        StateError, match=r"it holds 0 events, and clinic-a\.store-head knows of others"
    ):
        attempt(store.path)


@OPENINGS
def test_a_head_file_that_is_gone_or_unreadable_is_said_and_nothing_is_done(
    attempt: Callable[[Path], object], tmp_path: Path
) -> None:
    with new_store(tmp_path) as store:
        store.append([LIMIT])
    head = head_path(store.path)
    content = head.read_bytes()
    for damaged in (
        b"",
        bytes(len(content)),
        content[: SLOT_BYTES - 1],
        b"x" + content[1:SPACING] + b"y" + content[1:],
    ):
        head.write_bytes(damaged)
        with pytest.raises(
            StateError, match=r"clinic-a\.store-head is damaged, so nobody can tell"
        ):
            attempt(store.path)
        assert head.read_bytes() == damaged
    head.unlink()
    with pytest.raises(
        StateError, match=r"clinic-a\.store-head is missing, so nobody can tell .*; bring it back"
    ):
        attempt(store.path)
    assert not head.exists()


def test_one_damaged_slot_is_no_damage_to_the_store_and_is_mended(tmp_path: Path) -> None:
    """A power cut can spoil the slot that is being written, and no other."""
    with new_store(tmp_path) as store:
        for n in (1, 2):
            store.append([LIMIT])
            content = head_path(store.path).read_bytes()
            for at in (
                0,
                24,
                31,
                40,
                SLOT_BYTES - 1,
                SLOT_BYTES,
                SPACING,
                SPACING + 31,
                SPACING + 95,
            ):
                copy = copy_store(store.path, tmp_path / "copy")
                head_path(copy).write_bytes(
                    content[:at] + bytes([content[at] ^ 4]) + content[at + 1 :]
                )
                assert read(copy)[0].position.length == n
                Store.open(copy).close()
                assert head_file.remembered(copy) == store.position


# Crashes that are nobody's fault


def test_a_step_whose_note_was_cut_off_by_a_crash_is_there_and_is_noted_at_the_next_opening(
    tmp_path: Path,
) -> None:
    with new_store(tmp_path) as store:
        store.append([LIMIT])
        before = head_path(store.path).read_bytes()
        store.append([LIMIT, LIMIT])
        copy = copy_store(store.path, tmp_path / "copy")
    head_path(copy).write_bytes(before)
    assert read(copy)[0].position == store.position
    assert head_path(copy).read_bytes() == before
    Store.open(copy).close()
    assert head_file.remembered(copy) == store.position


def test_a_step_that_cannot_be_noted_is_not_taken_by_this_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise OSError(5, "Input/output error")

    with new_store(tmp_path) as store:
        store.append([LIMIT])
        position = store.position
        with monkeypatch.context() as patch:
            patch.setattr(head_file, "_sync", fails)
            with pytest.raises(
                StateError, match=r"clinic-a\.store cannot be used \(Input/output error\)"
            ):
                store.append([LIMIT])
        with pytest.raises(StateError, match=r"no further step after a failure"):
            store.append([LIMIT])
        assert store.position == position
    with Store.open(store.path) as store:
        assert store.position.length == 2  # it was on disk; nothing followed from it


def test_every_step_is_noted_and_synced_before_append_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[LogPosition | None] = []
    genuine = head_file._sync

    def sync(descriptor: int) -> None:
        genuine(descriptor)
        synced.append(head_file.remembered(tmp_path / "clinic-a.store"))

    monkeypatch.setattr(head_file, "_sync", sync)
    with new_store(tmp_path) as store:
        for n in range(1, 6):
            store.append([LIMIT] * n)
            assert synced[-1] == store.position
            assert len(synced) == n


def test_making_a_store_that_was_interrupted_is_begun_again(tmp_path: Path) -> None:
    head_file.create(tmp_path / "clinic-a.store", LogPosition(0, bytes(32)))
    with new_store(tmp_path) as store:
        assert head_file.remembered(store.path) == store.position


def test_a_store_that_is_gone_is_not_made_anew_while_its_head_file_tells_of_it(
    tmp_path: Path,
) -> None:
    with new_store(tmp_path) as store:
        store.append([LIMIT])
    for file in layout.files(store.path)[:3]:
        file.unlink(missing_ok=True)
    with pytest.raises(
        StateError,
        match=r"there is no store .*clinic-a\.store-head says that it held 1 events; bring",
    ):
        Store.create(store.path, role=Role.CLIENT, identity=OWNER)
    assert not store.path.exists()


@OPENINGS
def test_who_looks_for_a_store_that_is_gone_hears_what_its_head_file_tells(
    attempt: Callable[[Path], object], tmp_path: Path
) -> None:
    with new_store(tmp_path) as store:
        store.append([LIMIT])
    for file in layout.files(store.path)[:3]:
        file.unlink(missing_ok=True)
    with pytest.raises(
        StateError,
        match=r"there is no store .*clinic-a\.store-head says that it held 1 events; bring",
    ):
        attempt(store.path)
    head_path(store.path).unlink()
    with pytest.raises(StateError, match=r"there is no store .*: correct the path"):
        attempt(store.path)


def test_a_head_file_that_a_full_disk_cuts_short_is_not_taken_into_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a store of an earlier version would be refused as damaged from its first opening on."""
    path = older(tmp_path)
    genuine = os.write
    with monkeypatch.context() as patch:
        patch.setattr(
            os, "write", lambda descriptor, data: genuine(descriptor, data[: SLOT_BYTES - 1])
        )
        with pytest.raises(StateError, match="No space left"):
            Store.open(path)
    assert not head_path(path).exists()
    with Store.open(path) as store:
        assert store.position.length == 1


# Stores of before there were head files


def older(folder: Path) -> Path:
    """A store as earlier versions made it."""
    with new_store(folder) as store:
        store.append([LIMIT])
    with closing(sqlite3.connect(store.path)) as connection:
        connection.execute(f"PRAGMA user_version = {layout.FORMAT_WITHOUT_HEAD}")
    head_path(store.path).unlink()
    return store.path


def test_a_store_of_an_earlier_version_is_read_and_left_as_it_is(tmp_path: Path) -> None:
    path = older(tmp_path)
    content = path.read_bytes()
    assert read(path)[1] == [LIMIT]
    assert path.read_bytes() == content
    assert not head_path(path).exists()


def test_it_is_worked_with_once_without_a_head_file_and_never_again(tmp_path: Path) -> None:
    path = older(tmp_path)
    Store.open(path).close()
    assert head_file.remembered(path) == read(path)[0].position
    head_path(path).unlink()
    for attempt in (Store.open, read):
        with pytest.raises(StateError, match=r"clinic-a\.store-head is missing"):
            attempt(path)


def test_a_crash_between_its_first_head_file_and_the_mark_changes_nothing(tmp_path: Path) -> None:
    path = older(tmp_path)
    head_file.create(path, read(path)[0].position)
    with Store.open(path) as store:
        store.append([LIMIT])
    assert read(path)[0].position == store.position == head_file.remembered(path)


# Readers


CHECKS = ("_check_layout", "_follow_chain", "_check_newest", "_check_messages", "_check_secrets")


def test_a_reader_of_a_store_that_takes_steps_meanwhile_finds_no_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever happens between its looks at the two files: the store it sees is never behind the
    head file it saw.
    """
    with new_store(tmp_path) as store:
        looks = (
            (head_file, "remembered"),
            (layout, "verified"),
            *((layout, name) for name in CHECKS),
        )
        for module, name in looks:
            genuine = getattr(module, name)

            def before(*given: object, genuine: Callable[..., object] = genuine) -> object:
                store.append([LIMIT])
                found = genuine(*given)
                store.append([LIMIT])
                return found

            with monkeypatch.context() as patch:
                patch.setattr(module, name, before)
                assert read(store.path)[0].position.length <= store.position.length
        assert read(store.path)[0].position == store.position


def test_a_reader_that_meets_both_slots_half_written_looks_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with new_store(tmp_path) as store:
        looks, genuine = [0], head_file._slots

        def slots(content: bytes) -> list[LogPosition | None]:
            looks[0] += 1
            return genuine(content) if looks[0] > 2 else [None, None]

        monkeypatch.setattr(head_file, "_slots", slots)
        assert read(store.path)[0].position == store.position
        assert looks == [3]


@pytest.mark.skipif(os.name != "posix", reason="Windows has access lists in place of modes")
def test_a_head_file_is_its_owners_and_holds_two_positions_and_nothing_else(tmp_path: Path) -> None:
    with new_store(tmp_path) as store:
        for _ in range(2):
            before = store.position
            store.append([LIMIT])
    content = head_path(store.path).read_bytes()
    assert stat.S_IMODE(head_path(store.path).stat().st_mode) == 0o600
    assert len(content) == 2 * SPACING
    for at, position in ((0, store.position), (SPACING, before)):
        said = b"fastlloyd/v1/store-head\0" + position.length.to_bytes(8, "big") + position.head
        assert content[at : at + SPACING] == (said + hashlib.sha256(said).digest()).ljust(
            SPACING, b"\0"
        )
