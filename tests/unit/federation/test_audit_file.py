"""Audit files: a flipped byte is found and placed, and a file that was cut, put in another order,
joined or signed by someone else is refused.
"""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastlloyd.errors import CHANGED_FILE, WRONG_FILE, StateError
from fastlloyd.federation import audit
from fastlloyd.federation.audit import Audit, audit_file, read_audit
from fastlloyd.federation.positions import KnownStore, SignedPosition
from fastlloyd.federation.secagg.keys import Identity
from fastlloyd.federation.store import Role, Store, read
from fastlloyd.federation.store.contents import Contents
from fastlloyd.federation.store.events import (
    Event,
    ExchangeCharged,
    LimitSet,
    Outcome,
    first_head,
)
from refusals import raises_code
from stores import reserved, run_id, upload

MINE, OTHER = (Identity.from_private_bytes(bytes([n]) * 32) for n in (1, 2))
APPROVALS = [{"approved_by": "Dr. Ä", "document": "DPO 17/26"}]
MADE = 1_800_000_000


class Site(NamedTuple):
    """A store of two runs, one of them open, and its audit file."""

    contents: Contents
    events: list[Event]
    file: bytes


def made(folder: Path, identity: Identity = MINE) -> Site:
    path = folder / "clinic-a.store"
    with Store.create(path, role=Role.CLIENT, identity=identity.public) as store:
        store.append([LimitSet(dataset="patients", epsilon=float("inf"), delta=1e-6)])
        for run in map(run_id, (1, 2)):
            store.append([reserved(run, n_exchanges=2)])
            event, message = upload(run, 1)
            store.append([event, ExchangeCharged(run_id=run, number=1)], messages=[message])
            if run == run_id(1):
                store.append([store.history.open_run(run).end(Outcome.ABORTED, 'it said "stop"')])
    contents, events = read(path)
    return Site(contents, events, audit_file(contents, events, APPROVALS, identity, MADE))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    return made(tmp_path_factory.mktemp("a"))


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """Another store of the same identity."""
    return made(tmp_path_factory.mktemp("b"))


def verified(content: bytes, expected: Identity = MINE) -> Audit:
    return read_audit(content, expected.public, "'clinic-a'")


def line_at_fault(content: bytes) -> int | None:
    """The line that the refusal names, None if it names none."""
    with pytest.raises(StateError) as refusal:
        verified(content)
    found = re.search(r"line ([0-9]+)", str(refusal.value))
    return int(found[1]) if found else None


def rehashed(lines: list[bytes]) -> bytes:
    """The file with the hashes of an opponent who has no key, around other lines."""
    before, found = audit._LABEL, list[bytes]()
    for line in lines:
        new, before = audit._line(json.loads(line[: -audit._HASH_BYTES] + b"}"), before)
        found.append(new)
    return b"\n".join(found) + b"\n"


def test_a_file_says_what_the_store_has_and_has_no_private_value(site: Site) -> None:
    found = verified(site.file)
    assert (found.role, found.identity) == (Role.CLIENT, MINE.public)
    assert list(found.approvals) == APPROVALS
    assert found.made == "2027-01-15T08:00:00Z"
    assert found.heads[-1] == site.contents.position.head
    assert [event["event"] for event in found.events] == [
        type(event).__name__ for event in site.events
    ]
    _, joined, sent, charged, ended, *_ = found.events
    assert (joined["plan"], joined["epsilon"]) == (site.events[1].plan_digest.hex(), 1.0)  # type: ignore[union-attr]
    assert (sent["message"], sent["direction"], charged["round"]) == ("Upload", "sent", 1)
    assert ended["reason"] == 'it said "stop"'
    assert b"sixteen bytes" not in site.file  # of the message
    assert site.file.isascii()


@given(data=st.data())
def test_a_flipped_byte_is_found_and_its_line_is_named(site: Site, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(site.file) - 1))
    flipped = bytearray(site.file)
    flipped[at] ^= data.draw(st.integers(1, 255))
    line = site.file[:at].count(b"\n") + 1
    if at < len(audit.BEGINNING):
        with raises_code(StateError, WRONG_FILE):
            verified(bytes(flipped))
    else:
        # a line break in place of another byte, or the other way round, changes that line
        assert line_at_fault(bytes(flipped)) == line


@given(data=st.data())
def test_a_file_that_is_cut_is_refused(site: Site, data: st.DataObject) -> None:
    end = data.draw(st.integers(0, len(site.file) - 1))
    with raises_code(StateError, WRONG_FILE if end < len(audit.BEGINNING) else CHANGED_FILE):
        verified(site.file[:end])
    lines = site.file.splitlines()
    n = data.draw(st.integers(1, len(lines) - 1))
    with pytest.raises(StateError, match=f"cut.*after line {n}"):
        verified(b"\n".join(lines[:n]) + b"\n")
    gone = data.draw(st.integers(1, len(lines) - 2))
    assert line_at_fault(b"\n".join(lines[:gone] + lines[gone + 1 :]) + b"\n") == gone + 1


@given(data=st.data())
def test_lines_in_another_order_are_refused_even_with_new_hashes(
    site: Site, data: st.DataObject
) -> None:
    lines = site.file.splitlines()
    other = data.draw(st.permutations(lines).filter(lambda found: found != lines))
    with raises_code(StateError, CHANGED_FILE if other[0] == lines[0] else WRONG_FILE):
        verified(b"\n".join(other) + b"\n")
    inner = data.draw(st.permutations(lines[1:-1]).filter(lambda found: found != lines[1:-1]))
    with raises_code(StateError, CHANGED_FILE):
        verified(rehashed([lines[0], *inner, lines[-1]]))


@given(data=st.data())
def test_files_that_are_joined_are_refused_even_with_new_hashes(
    site: Site, other: Site, data: st.DataObject
) -> None:
    mine, theirs = site.file.splitlines(), other.file.splitlines()
    n = len(mine)
    assert line_at_fault(site.file + other.file) == n + 1
    assert line_at_fault(site.file + site.file.splitlines()[-1] + b"\n") == n + 1
    at = data.draw(st.integers(1, n - 1))
    for lines in ([*mine[:at], *theirs[at:]], [*mine[:at], theirs[at], *mine[at:]]):
        with raises_code(StateError, CHANGED_FILE):
            verified(b"\n".join(lines) + b"\n")
        with raises_code(StateError, CHANGED_FILE):
            verified(rehashed(lines))


def test_a_file_of_another_identity_is_refused_and_both_keys_are_named(site: Site) -> None:
    by_other = audit_file(owned_by(site.contents, OTHER), site.events, APPROVALS, OTHER, MADE)
    assert verified(by_other, OTHER).identity == OTHER.public
    with pytest.raises(StateError) as refusal:
        verified(by_other)
    assert MINE.public.hex() in str(refusal.value)
    assert OTHER.public.hex() in str(refusal.value)


def owned_by(contents: Contents, identity: Identity) -> Contents:
    """The same events as the store of another identity has them."""
    first = first_head(contents.role, identity.public, contents.salt)
    return replace(contents, identity=identity.public, first_head=first)


def test_a_file_with_my_name_that_another_key_signed_is_refused(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Identity, "public", MINE.public)
    forged = audit_file(site.contents, site.events, APPROVALS, OTHER, MADE)
    monkeypatch.undo()
    with pytest.raises(StateError, match=r"signature.*not.*'clinic-a'") as refusal:
        verified(forged)
    assert MINE.public.hex() in str(refusal.value)


def test_fields_for_people_that_contradict_the_event_are_refused_though_signed(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The owner's own key signs them: only what is encoded counts."""
    honest = audit._facts
    monkeypatch.setattr(audit, "_facts", lambda *given: {**honest(*given), "epsilon": 0.1})
    lying = audit_file(site.contents, site.events, APPROVALS, MINE, MADE)
    monkeypatch.undo()
    assert line_at_fault(lying) == 2


def test_events_that_no_store_could_have_are_refused_though_signed(site: Site) -> None:
    """A charge of a run that was never joined."""
    impossible = [site.events[0], *site.events[2:]]
    contents = replace(site.contents, seconds=site.contents.seconds[1:])
    assert line_at_fault(audit_file(contents, impossible, [], MINE, MADE)) == 3


def test_an_approval_is_text_alone(site: Site) -> None:
    values: list[Any] = [1, None, [], {}, float("nan")]
    for value in values:
        made = audit_file(site.contents, site.events, [{"by": value}], MINE, MADE)
        assert line_at_fault(made) == len(site.events) + 2


def test_a_history_that_hides_what_its_owner_signed_before_is_found(
    site: Site, other: Site
) -> None:
    found, n = verified(site.file), len(site.events)
    for length, head in enumerate(found.heads):
        found.check_position(KnownStore.of(SignedPosition.of(length, head, MINE)))
    later = SignedPosition.of(n + 1, bytes(32), MINE)
    replaced = SignedPosition.of(n, verified(other.file).heads[-1], MINE)
    for position in (later, replaced):
        with pytest.raises(StateError, match="signed another history"):
            found.check_position(KnownStore.of(position))


def test_a_ledger_has_no_audit_file(tmp_path: Path) -> None:
    with Store.create(tmp_path / "x.store", role=Role.HOLDER, identity=MINE.public):
        pass
    with pytest.raises(StateError, match=r"ledger.*no identity"):
        audit_file(*read(tmp_path / "x.store"), [], MINE, MADE)
