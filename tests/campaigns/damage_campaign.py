"""Damaged stores of processes that were killed: `make campaign`, 8,000 of them, or as many as
DAMAGES says.

Plain `pytest` does not collect it. What is damaged where follows from a damage's number.
"""

import datetime as dt
import os
import signal
import sqlite3
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import campaign_page
from fastlloyd.errors import StateError
from fastlloyd.federation.store import LogPosition, Role, Store, read
from fastlloyd.federation.store import files as layout
from fastlloyd.federation.store.key_file import SLOT_BYTES, _Slot, keys_path
from network_processes import HANG, NAMES, SERVER, Site, cleared, make_site
from stores import Damage, copy_store, opened_or_refused, places, upload

pytestmark = pytest.mark.campaign

FULL_SIZE = 8_000
N_DAMAGES = int(os.environ.get("DAMAGES", str(FULL_SIZE)))
LAST = "the log's last bytes are gone"
ROLES = {Role.CLIENT: "a", Role.SERVER: SERVER}
COLUMNS = (
    "damage",
    *(
        f"{role.value}: {what}"
        for role in ROLES
        for what in ("damaged", "refused", "whole", "older")
    ),
)
TEXT = """\
{measured}
The server and the dealer of a run of three clients are processes that are killed (SIGKILL) in the middle of the run. One thing
in the files of their stores is then changed, as a drive or a person might, and the store is opened and read.

{table}

- *refused*: every command that uses or reads the store says in one sentence that it is damaged or older. Where the keys
  are damaged: the events are read as ever, and the run, whose key is lost, is not taken up and gets no new key.
- *whole*: the store is as it was; the damage hit a part not in use, or one of two copies.
- *older*: a store that has lost steps is accepted, or a lost key is replaced, which breaks the rule.

Not shown: two damages at once; damage done while a process works with the store."""


def flipped(content: bytes, at: int, bit: int) -> bytes:
    return content[:at] + bytes([content[at] ^ 1 << bit]) + content[at + 1 :]


def header_of_log(path: Path, rng: np.random.Generator) -> Damage:
    """A bit of a number in SQLite's headers."""
    log = layout.files(path)[1]
    content = log.read_bytes()
    return Damage(
        log.name, flipped(content, int(rng.choice(places(len(content), 0))), int(rng.integers(8)))
    )


def bit_of(number: int) -> Callable[[Path, np.random.Generator], Damage]:
    """Any bit of one of the store's files."""

    def damage(path: Path, rng: np.random.Generator) -> Damage:
        file = layout.files(path)[number]
        content = file.read_bytes()
        return Damage(
            file.name, flipped(content, int(rng.integers(len(content))), int(rng.integers(8)))
        )

    return damage


def cut(path: Path, rng: np.random.Generator) -> Damage:
    """The log ends somewhere."""
    log = layout.files(path)[1]
    content = log.read_bytes()
    return Damage(log.name, content[: rng.integers(len(content))])


def bit_of_the_slot(path: Path, rng: np.random.Generator) -> Damage:
    """A bit of the slot of the run's key."""
    keys = keys_path(path)
    at = int(rng.integers(SLOT_BYTES))
    return Damage(keys.name, flipped(keys.read_bytes(), at, int(rng.integers(8))))


def torn_slot(path: Path, rng: np.random.Generator) -> Damage:
    """The slot of the run's key holds a part of it, and zeros from there or up to there."""
    keys, at = keys_path(path), int(rng.integers(1, SLOT_BYTES - 1))
    content = keys.read_bytes()
    torn = content[:at] + bytes(SLOT_BYTES - at)
    if rng.integers(2):
        torn = bytes(at) + content[at:SLOT_BYTES]
    return Damage(keys.name, torn + content[SLOT_BYTES:])


def lost_keys(path: Path, rng: np.random.Generator) -> Damage:
    """The file of keys ends somewhere in the slot, or is empty."""
    keys = keys_path(path)
    return Damage(keys.name, keys.read_bytes()[: rng.integers(SLOT_BYTES)])


def foreign_keys(path: Path, rng: np.random.Generator) -> Damage:
    """The file of keys is that of the other party of the same run, or of another run."""
    keys = keys_path(path)
    (other,) = (each for each in path.parent.parent.glob("*/*-keys") if each.parent != path.parent)
    content = bytearray(other.read_bytes())
    if rng.integers(2):
        slot = _Slot(rng.bytes(16), rng.bytes(32)).encoded()
        content[: len(slot)] = slot
    return Damage(keys.name, bytes(content))


def kept(store: Store) -> list[object]:
    """All that the store keeps of its open runs. StateError if it cannot be read."""
    runs = [run.run_id for run in store.history.runs.values() if run.is_open]
    return [(store.messages(run), store.secrets(run)) for run in runs]


def kept_or_refused(path: Path, damage: Damage, folder: Path, whole: list[object]) -> str:
    """What a store whose keys are damaged says of its open run: all of it, or that it is lost."""
    copy = copy_store(path, folder)
    (folder / damage.file).write_bytes(damage.content)
    assert read(copy)[0].position == read(path)[0].position
    with Store.open(copy) as store:
        with suppress(StateError):
            return "whole" if kept(store) == whole else "older"
        (run,) = store.history.runs.values()
        event, message = upload(run.run_id, 1)
        try:
            store.append([event], messages=[message])
        except StateError:
            return "refused"
        return "older"  # a key was drawn anew


OF_KEYS: dict[str, Callable[[Path, np.random.Generator], Damage]] = {
    "a bit of the key's slot": bit_of_the_slot,
    "a key's slot that is half written": torn_slot,
    "a file of keys that is cut off": lost_keys,
    "another party's file of keys, or another run's": foreign_keys,
    "a bit anywhere in the file of keys": bit_of(4),
}
KINDS: dict[str, Callable[[Path, np.random.Generator], Damage]] = {
    "a bit of a number in the log's headers": header_of_log,
    "a bit anywhere in the log": bit_of(1),
    LAST: cut,
    "a bit anywhere in the file itself": bit_of(0),
    "a bit anywhere in the head file": bit_of(3),
} | OF_KEYS


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> dict[Role, Path]:
    """The stores of a run whose dealer was killed after a commit, and then its server."""
    folder = tmp_path_factory.mktemp("made")
    make_site(folder)
    with cleared(Site.make(folder, tmp_path_factory.mktemp("site"))) as site:
        server = site.start(SERVER, site.serve(), {"fast": True})
        dealer = site.start("a", site.join("a"), {"fast": True, "die": [3, "after"]})
        for name in NAMES[1:]:
            site.start(name, site.join(name), {"fast": True})
        assert dealer.wait(HANG) == -signal.SIGKILL
        server.kill()
        server.wait()
        return {
            role: copy_store(site.folder / f"{name}.store", folder / "killed" / role.value)
            for role, name in ROLES.items()
        }


def test_no_damage_makes_a_store_older(
    killed: dict[Role, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    started, counts, broken = dt.datetime.now(dt.UTC), Counter[tuple[str, str]](), []
    whole: dict[Role, LogPosition] = {role: read(path)[0].position for role, path in killed.items()}
    kept_whole: dict[Role, list[object]] = {}
    for role, path in killed.items():
        with Store.open(copy_store(path, tmp_path / f"whole-{role.value}")) as store:
            kept_whole[role] = kept(store)
    for number in range(N_DAMAGES):
        role, kind = tuple(ROLES)[number % 2], tuple(KINDS)[number // 2 % len(KINDS)]
        damage = KINDS[kind](killed[role], np.random.default_rng(number))
        found: LogPosition | None = None
        if kind in OF_KEYS:
            what = kept_or_refused(killed[role], damage, tmp_path / "damaged", kept_whole[role])
        else:
            found = opened_or_refused(killed[role], damage, tmp_path / "damaged")
            what = "refused" if found is None else "whole" if found == whole[role] else "older"
        for name in ("damaged", what):
            counts[kind, f"{role.value}: {name}"] += 1
        if what == "older":
            broken.append(f"number {number}, {kind} of a {role.value}: {found}")
    rows = [(kind, *(f"{counts[kind, column]:,}" for column in COLUMNS[1:])) for kind in KINDS]
    with capsys.disabled():
        sys.stdout.write(f"\n{campaign_page.aligned([COLUMNS, *rows])}\n")
    assert broken == []
    text = TEXT.format(
        measured=campaign_page.measured(started, SQLite=sqlite3.sqlite_version),
        table=campaign_page.table(COLUMNS, rows),
    )
    campaign_page.write_section("Damaged stores", text, is_full_size=N_DAMAGES >= FULL_SIZE)
