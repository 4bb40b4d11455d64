"""A store that lost steps, by one flipped bit or a cut, is refused, and an innocent crash is
not.
"""

import os
from collections.abc import Callable
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
        r"damaged or an old copy: it has 0 events, and clinic-a\.store-head counts"
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
    with pytest.raises(StateError, match=r"1 event,.*head counts.*2"):
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
    with pytest.raises(StateError, match="events do not"):
        attempt(store.path)


@OPENINGS
def test_the_head_file_of_another_store_that_holds_nothing_is_refused(
    attempt: Callable[[Path], object], tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    with new_store(tmp_path) as store, new_store(tmp_path / "other") as other:
        pass
    head_path(other.path).replace(head_path(store.path))
    with pytest.raises(StateError, match="events do not"):
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
        with pytest.raises(StateError, match=r"store-head is damaged"):
            attempt(store.path)
        assert head.read_bytes() == damaged
    head.unlink()
    with pytest.raises(StateError, match=r"clinic-a\.store-head is missing"):
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
            with pytest.raises(StateError, match=r"cannot be used:.*\(EIO\)"):
                store.append([LIMIT])
        with pytest.raises(StateError, match="no further step"):
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
        match=r"clinic-a\.store-head.*held 1 event",
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
        match=r"clinic-a\.store-head.*held 1 event",
    ):
        attempt(store.path)
    head_path(store.path).unlink()
    with pytest.raises(StateError, match=r"no store.*correct.*path"):
        attempt(store.path)


def test_a_head_file_that_a_full_disk_cuts_short_is_not_taken_into_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a new store would be refused as damaged from its first opening on."""
    genuine = os.write
    with monkeypatch.context() as patch:
        patch.setattr(
            os, "write", lambda descriptor, data: genuine(descriptor, data[: SLOT_BYTES - 1])
        )
        with pytest.raises(StateError, match="ENOSPC"):
            new_store(tmp_path)
    with new_store(tmp_path) as store:
        assert store.position.length == 0


def test_a_store_without_its_head_file_is_refused(tmp_path: Path) -> None:
    with new_store(tmp_path) as store:
        store.append([LIMIT])
    head_path(store.path).unlink()
    for attempt in (Store.open, read):
        with pytest.raises(StateError, match=r"clinic-a\.store-head is missing"):
            attempt(store.path)
