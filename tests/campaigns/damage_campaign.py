"""Damaged stores of processes that were killed: `make campaign`, 4,000 of them, or as many as
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
from pathlib import Path

import numpy as np
import pytest

import campaign_page
from fastlloyd.federation.store import LogPosition, Role, read
from fastlloyd.federation.store import files as layout
from network_processes import HANG, NAMES, SERVER, Site, cleared, make_site
from stores import Damage, copy_store, opened_or_refused, places

pytestmark = pytest.mark.campaign

FULL_SIZE = 4_000
N_DAMAGES = int(os.environ.get("DAMAGES", str(FULL_SIZE)))
LAST = "the log's last bytes are gone"
ROLES = {Role.CLIENT: "a", Role.SERVER: SERVER}
COLUMNS = (
    "damage",
    *(
        f"{role.value}: {what}"
        for role in Role
        for what in ("damaged", "refused", "whole", "older")
    ),
)
TEXT = """\
{measured}
The server and the dealer of a run of three clients are processes that are killed (SIGKILL) in the middle of the run. One thing
in the files of their stores is then changed, as a drive or a person might, and the store is opened and read.

{table}

- *refused*: every command that uses or reads the store says in one sentence that it is damaged or older.
- *whole*: the store is as it was; the damage hit a part not in use, or one of two copies.
- *older*: a store that has lost steps is accepted, which breaks the rule.

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


KINDS: dict[str, Callable[[Path, np.random.Generator], Damage]] = {
    "a bit of a number in the log's headers": header_of_log,
    "a bit anywhere in the log": bit_of(1),
    LAST: cut,
    "a bit anywhere in the file itself": bit_of(0),
    "a bit anywhere in the head file": bit_of(3),
}


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
    for number in range(N_DAMAGES):
        role, kind = tuple(ROLES)[number % 2], tuple(KINDS)[number // 2 % len(KINDS)]
        damage = KINDS[kind](killed[role], np.random.default_rng(number))
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
