"""What `join` keeps of records lies beside them and nowhere else, and guards what it guarded."""

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fastlloyd.base.files import write_file
from fastlloyd.errors import BudgetError, Problems, StateError
from fastlloyd.federation.admission import DataSet
from fastlloyd.federation.fingerprint_file import FILE_NAME, FingerprintFile, Fingerprints
from fastlloyd.federation.holder import place
from fastlloyd.federation.identity.identity import PrivateIdentity
from fastlloyd.federation.plan.design import renew
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.federation.store import Role, Store
from fastlloyd.federation.store.durable import read
from fastlloyd.jobs.account import BudgetAccount
from fastlloyd.jobs.client import ClientRequest
from fastlloyd.jobs.fingerprints import fingerprint_file
from network_processes import DATASET, Site
from network_site import refused


@pytest.fixture(autouse=True)
def _in_the_site(site: Site) -> Iterator[None]:
    with contextlib.chdir(site.folder):
        yield


def begin(plan: Plan, name: str = "a", dataset: str = DATASET, **changes: Any) -> None:
    """Join the run, as the command does, and stop before anything is sent."""
    identity = PrivateIdentity.load(Path(f"{name}.identity.toml"))
    account = BudgetAccount(DataSet(name=dataset, is_new=dataset != DATASET), by="join")
    request: dict[str, Any] = {"data": f"{name}.csv", "store": Path(f"{name}.store")} | changes
    client = ClientRequest(plan=plan, member=identity.public, account=account, **request).prepare()
    store, key = client.request.store, bytes.fromhex(identity.public.signing_key)
    make = Store.open if store.exists() else Store.create
    with make(store, role=Role.CLIENT, identity=key) as kept, client.joined(kept, identity):
        pass


def another(plan: Plan) -> Plan:
    """The plan of another run."""
    return renew(plan, run_id=bytes(16))


def kept(path: str = FILE_NAME) -> Fingerprints:
    found = FingerprintFile(Path(path)).read()
    assert found is not None
    return found


def test_no_byte_of_key_or_fingerprint_is_in_a_store_or_a_ledger(site: Site) -> None:
    begin(site.plan)
    content = kept()
    (run,) = content.runs
    assert run.dataset == DATASET
    assert run.records is not None
    others = [
        path
        for folder in (site.folder, place().parent)
        for path in folder.rglob("*")
        if path.is_file() and path.name != FILE_NAME
    ]
    assert place() in others
    assert Path("a.store").absolute() in others
    for path in others:
        written = path.read_bytes()
        for secret in (content.key, run.records):
            for form in (bytes.fromhex(secret), secret.encode(), secret.upper().encode()):
                for at in range(0, len(form) - 8, 4):  # no part of it either
                    assert form[at : at + 8] not in written, path


def test_the_same_records_are_refused_under_another_name_wherever_their_file_lies(
    site: Site,
) -> None:
    begin(site.plan)
    Path("copies").mkdir()
    shutil.copy("a.csv", "copies/other.csv")
    before = read(place())[0].position, kept()
    copied: dict[str, Any] = {"data": "copies/other.csv", "fingerprints": Path(FILE_NAME)}
    for changes in ({}, copied):
        with pytest.raises(BudgetError, match=f"used.*'{DATASET}' before"):
            begin(another(site.plan), dataset="others", **changes)
    with pytest.raises(StateError, match="--fingerprints FILE"):  # a second file knows nothing
        begin(another(site.plan), dataset="others", data="copies/other.csv")
    assert (read(place())[0].position, kept()) == before
    begin(another(site.plan))
    assert len(kept().runs) == 2


def test_a_run_is_taken_up_with_the_same_records_only(site: Site) -> None:
    begin(site.plan)
    begin(site.plan)
    content = Path("a.csv").read_text()
    lines = content.splitlines(keepends=True)
    Path("a.csv").write_text("".join([lines[0], *lines[:0:-1]]))  # the order is no matter
    begin(site.plan)
    Path("a.csv").write_text("".join(lines[:-1]))
    with pytest.raises(StateError, match=r"begun.*other records"):
        begin(site.plan)
    assert len(kept().runs) == 1


def test_a_lost_file_is_refused_and_the_owner_can_go_on_without_it(site: Site) -> None:
    begin(site.plan)
    Path(FILE_NAME).rename("elsewhere")
    refused(site, site.join("a"), "there is no file", "--fingerprints FILE", "--new-fingerprints")
    assert not Path(FILE_NAME).exists()
    begin(site.plan, fingerprints=Path("elsewhere"))
    Path("elsewhere").unlink()
    with pytest.raises(StateError, match="give the run"):
        begin(site.plan, are_fingerprints_lost=True)
    begin(another(site.plan), are_fingerprints_lost=True)
    begin(another(site.plan))
    assert [run.records is None for run in kept().runs] == [True, False]


class Killed(BaseException):
    """The process is gone."""


@pytest.mark.parametrize("at", ["file", "ledger", "store"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_process_may_die_around_each_step_and_neither_guard_nor_way_on_is_lost(
    site: Site, monkeypatch: pytest.MonkeyPatch, at: str, when: str
) -> None:
    """Whatever counts has a fingerprint, and the same command goes on."""
    append, note = Store.append, FingerprintFile.note

    def dying(step: str, go: Any) -> Any:
        if step == at and when == "before":
            raise Killed
        done = go()
        if step == at:
            raise Killed
        return done

    def mortal_append(store: Store, *events: Any, **more: Any) -> None:
        step = "ledger" if store.role is Role.HOLDER else "store"
        dying(step, lambda: append(store, *events, **more))

    def mortal_note(file: FingerprintFile, *given: Any) -> None:
        dying("file", lambda: note(file, *given))

    with monkeypatch.context() as patch:
        patch.setattr(Store, "append", mortal_append)
        patch.setattr(FingerprintFile, "note", mortal_note)
        with pytest.raises(Killed):
            begin(site.plan)
    counted = {run_id.hex() for run_id in read(place())[0].history.runs}
    assert counted <= {run.run for run in kept().runs}
    if counted:
        with pytest.raises(BudgetError, match=r"used.*data set name"):
            begin(another(site.plan), dataset="others")
    else:  # the name may have been a slip
        begin(another(site.plan), dataset="others")
        return
    begin(site.plan)
    begin(another(site.plan))
    assert len(kept().runs) == 2


def test_two_clients_of_one_holder_cannot_use_the_same_records_under_two_names(site: Site) -> None:
    shutil.copy("a.csv", "b.csv")
    begin(site.plan, "a")
    with pytest.raises(BudgetError, match=f"used.*'{DATASET}' before"):
        begin(site.plan, "b", dataset="others")
    begin(site.plan, "b")


def test_a_refused_run_keeps_no_fingerprint(site: Site) -> None:
    write_file(Path("many.csv"), "age,dose\n" + "1,2\n" * 51)
    refused(site, site.join("a", "--data", "many.csv"), "more records than its cap", new=("a",))
    assert kept().runs == ()


@pytest.mark.parametrize(
    ("data", "named", "said"),
    [
        ("s3://bucket/visits.csv", None, "is on another machine"),
        ("/dev/null", None, "is a pipe or a device"),
        ("/dev/stdin", None, "is a pipe or a device"),
        ("a.csv", "s3://bucket/file", "expected a file on this machine"),
        ("a.csv", ".", "expected a file on this machine"),
        ("a.csv", "a.csv", "would be read as records"),
        ("folder", "folder/fingerprints", "would be read as records"),
        ("*.csv", "other.csv", "would be read as records"),
    ],
)
def test_where_no_file_can_lie_the_option_is_named(
    site: Site, data: str, named: str | None, said: str
) -> None:
    Path("folder").mkdir()
    with pytest.raises(StateError, match=said) as refusal:
        fingerprint_file(data, None if named is None else Path(named))
    assert "--fingerprints" in str(refusal.value)
    assert refusal.value.field == "fingerprints"


@pytest.mark.parametrize(
    ("data", "place"),
    [
        ("a.csv", "."),
        ("folder", "."),
        ("folder/", "."),
        ("folder/part-*.csv", "folder"),
        ("fold*/part.csv", "."),
    ],
)
def test_the_file_lies_beside_the_records_and_is_none_of_them(
    site: Site, data: str, place: str
) -> None:
    Path("folder").mkdir()
    assert fingerprint_file(data, None).path == site.folder / place / FILE_NAME
    assert fingerprint_file("folder", Path("folder/_mine")).path == site.folder / "folder/_mine"


def test_a_file_of_another_kind_is_refused_before_the_records_are_read(site: Site) -> None:
    write_file(Path(FILE_NAME), "age,dose\n1,2\n")
    Path(FILE_NAME).chmod(0o600)
    refused(site, site.join("a"), "is damaged, or is not a file of fingerprints")
    with pytest.raises((StateError, Problems)):
        begin(site.plan)
