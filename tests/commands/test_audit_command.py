"""`fastlloyd audit`: what a site did in a run, exported, verified, and compared with what a server
remembers.
"""

import json
from pathlib import Path

import pytest

from fastlloyd.errors import CHANGED_FILE, WRONG_FILE, StateError
from fastlloyd.federation.store import read
from fastlloyd.jobs.approvals import Approval, note_approval
from fastlloyd.jobs.audits import verified
from network_processes import DATASET, NAMES, SERVER, Site
from network_site import FAST, here, other_site, refused
from network_site import made as made  # noqa: PLC0414 - a fixture
from network_site import site as site  # noqa: PLC0414 - a fixture
from refusals import raises_code

EXPORT = ("audit", "a.store", "--export", "a.audit.jsonl")
VERIFY = ("audit", "a.audit.jsonl", "--verify", "a.public.toml")


def test_what_a_site_did_in_a_run_is_exported_and_verified(site: Site) -> None:
    approval = Approval(by="Dr. A. Keeper", on="2026-11-27")
    processes = [site.start(name, site.command(name), FAST) for name in (SERVER, *NAMES)]
    assert [process.wait(120) for process in processes] == [0] * 4, site.said("a")
    note_approval(approval, site.plan, DATASET, site.folder / "a.store")
    code, out, err = here(site, [*EXPORT])
    assert (code, err) == (0, ""), err
    assert (site.folder / "a.audit.jsonl").stat().st_mode & 0o077 == 0
    code, out, err = here(site, [*VERIFY])
    assert (code, err) == (0, "")
    for words in ("is whole and signed by 'a', a client", "approved_by Dr. A. Keeper", "Upload"):
        assert words in out
    code, out, err = here(site, [*VERIFY, "--json"])
    said = json.loads(out)
    joined = next(event for event in said["events"] if event["event"] == "RunReserved")
    assert joined["plan"] == site.plan.digest.hex() == said["approvals"][0]["plan"]
    rounds = [event["round"] for event in said["events"] if event["event"] == "ExchangeCharged"]
    assert rounds == list(range(1, site.plan.mechanism.n_rounds + 1))
    assert said["events"][-1]["outcome"] == "finished"
    assert len(said["events"]) == read(site.folder / "a.store")[0].position.length
    assert here(site, ["audit", "sums.store", "--export", "s.jsonl"])[0] == 0
    assert here(site, ["audit", "s.jsonl", "--verify", "sums.public.toml"])[0] == 0
    uploads = of_kind(site, "a.audit.jsonl", "a", "Broadcast")
    assert uploads == of_kind(site, "s.jsonl", SERVER, "Broadcast")  # both have the same sums
    code, _, _ = here(site, ["ledger", "positions", "sums.store", "--out", "positions.toml"])
    assert code == 0
    assert here(site, [*VERIFY, "--positions", "positions.toml"])[0] == 0
    of_server = ["audit", "s.jsonl", "--verify", "sums.public.toml"]
    refused(site, [*of_server, "--positions", "positions.toml"], "has no position that 'sums'")


def of_kind(site: Site, file: str, name: str, kind: str) -> list[str]:
    """Digests of the messages of a kind, as an audit file has them."""
    found, _ = verified(site.folder / file, site.folder / f"{name}.public.toml")
    return [event["sha256"] for event in found.events if event.get("message") == kind]


def test_refusals_name_the_line_and_the_key(site: Site) -> None:
    a_store(site)
    assert here(site, [*EXPORT])[0] == 0
    before = (site.folder / "a.audit.jsonl").read_bytes()
    refused(site, [*EXPORT], "exists already")
    assert (site.folder / "a.audit.jsonl").read_bytes() == before
    assert here(site, [*EXPORT, "--force"])[0] == 0
    refused(site, ["audit", "a.store"], "pass one of --export OUT and --verify PUBLIC")
    refused(site, [*VERIFY[:3], "b.public.toml"], "is of another identity")
    other_site(site, "a")
    refused(site, [*EXPORT[:3], "b.jsonl", "--key", "others/a.identity.toml"], "another identity")
    path = site.folder / "a.audit.jsonl"
    path.write_bytes(path.read_bytes().replace(DATASET.encode(), b"patientz", 1))
    refused(site, [*VERIFY], "a.audit.jsonl: line 2 (event 1): the line was changed")
    refused(site, ["audit", "a.csv", "--verify", "a.public.toml"], "is not an audit file")


def test_a_file_that_is_no_audit_file_or_not_there_is_refused(site: Site, tmp_path: Path) -> None:
    for content, code in [
        *((other, WRONG_FILE) for other in (b"", b"{}", bytes(99))),
        (b'{"fastlloyd_audit":1}\n', CHANGED_FILE),
    ]:
        (tmp_path / "x").write_bytes(content)
        with raises_code(StateError, code):
            verified(tmp_path / "x", site.folder / "a.public.toml")
    with pytest.raises(StateError, match="cannot be read"):
        verified(tmp_path / "y", site.folder / "a.public.toml")


@pytest.mark.parametrize("name", ["no.store", "no.identity.toml", "", ".", "/", "empty.store"])
def test_a_wrong_store_is_named_before_the_identity(site: Site, name: str) -> None:
    (site.folder / "empty.store").touch(mode=0o600)
    refused(
        site,
        ["audit", name, "--export", "o.jsonl"],
        "there is no store" if name != "empty.store" else "is not a store",
        name,
    )
    assert not (site.folder / "o.jsonl").exists()


def test_a_missing_identity_and_a_wrong_output_are_named_with_a_remedy(site: Site) -> None:
    a_store(site)
    audit = ["audit", "a.store", "--export"]
    refused(site, [*audit, "no/o.jsonl"], "there is no folder no")
    refused(site, [*audit, "a.identity.toml", "--force"], "a file of another kind")
    refused(site, [*audit, "o.jsonl", "--key", "no.toml"], "no.toml cannot be read")
    (site.folder / "a.identity.toml").rename(site.folder / "elsewhere.toml")
    refused(site, [*audit, "o.jsonl"], "--key FILE")
    assert here(site, [*audit, "o.jsonl", "--key", "elsewhere.toml"])[0] == 0


def test_codes_of_a_terminal_in_an_audit_file_are_not_printed(site: Site) -> None:
    note_approval(Approval(by="Dr. \x1b[2J", on="2026-11-27"), site.plan, DATASET, a_store(site))
    assert here(site, [*EXPORT])[0] == 0
    code, out, _ = here(site, [*VERIFY])
    assert (code, "\x1b" in out, "approved_by Dr. ?[2J" in out) == (0, False, True)


def a_store(site: Site) -> Path:
    budget = ["--epsilon", "9", "--delta", "1e-6", "--new"]
    assert here(site, ["ledger", "limit", "a.identity.toml", "--dataset", DATASET, *budget])[0] == 0
    return site.folder / "a.store"
