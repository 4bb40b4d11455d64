"""`serve`, `join` and `status` from outside, as processes that talk over TLS: whole runs, stops, and what is refused."""

import base64
import contextlib
import inspect
import io
import json
import re
import shutil
import signal
import socket
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

import authorities
from authorities import Issuer
from fastlloyd.base.files import write_file
from fastlloyd.cli.commands.demo import make_identities
from fastlloyd.cli.commands.join import join as join_command
from fastlloyd.cli.commands.serve import serve as serve_command
from fastlloyd.cli.failures import run as run_command
from fastlloyd.federation.identity import identity
from fastlloyd.federation.identity.identity import PrivateIdentity
from fastlloyd.federation.identity.parties import Timeouts
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.federation.store import files as layout
from fastlloyd.federation.store import read
from fastlloyd.federation.store.events import ExchangeCharged, RunEnded
from fastlloyd.federation.store.head_file import head_path
from fastlloyd.federation.transport.grpc.tls import load_grpc
from fastlloyd.reports.result import EXACT, PLAN
from network_processes import DATASET, HANG, NAMES, SERVER, Site, cleared, make_site
from stores import copy_store

NO_RESULT, STOPPED, REFUSED, TURNED_AWAY = 3, 4, 2, 5
FAST = {"fast": True}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    make_site(folder)
    return folder


@pytest.fixture
def site(made: Path, tmp_path: Path) -> Iterator[Site]:
    with cleared(Site.make(made, tmp_path / "site")) as site:
        yield site


def tree(folder: Path) -> dict[str, bytes]:
    """Everything but logs of processes, locks and what SQLite keeps beside a store while it is read."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix not in (".out", ".err") and not path.name.endswith(("-lock", "-shm", "-wal"))
    }


def events(site: Site, name: str) -> int:
    return read(site.folder / f"{name}.store")[0].position.length


def here(site: Site, arguments: list[str]) -> tuple[int, str, str]:
    """As `Site.run`, in this process: what ends before it has begun needs none of its own, which takes a second or two."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.chdir(site.folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run_command(arguments)
    return code, out.getvalue(), err.getvalue()


def refused(site: Site, arguments: list[str], *fragments: str, new: tuple[str, ...] = ()) -> None:
    """Exit code 2, one sentence with the fragments, nothing on stdout; written is nothing, but for empty stores."""
    before = tree(site.folder)
    code, out, err = here(site, arguments)
    assert (code, out) == (REFUSED, "")
    *notes, sentence = err.splitlines()
    assert len(notes) == sum(name != SERVER for name in new)
    assert all(note.startswith("Note: made ") and "a new store" in note for note in notes)
    assert sentence.startswith("Error: ")
    for fragment in fragments:
        assert fragment in sentence
    after = tree(site.folder)
    for name in new:
        path = site.folder / after_name(name)
        assert read(path)[0].position.length == 0
        for file in (path, head_path(path)):
            after.pop(file.name)
    assert after == before


def after_name(name: str) -> str:
    return f"{name}.store"


# Whole runs


def test_three_clients_and_a_server_end_with_one_result_that_status_and_ledger_show(site: Site) -> None:
    server = site.start(SERVER, site.serve("--json"))
    clients = {name: site.start(name, site.join(name)) for name in "ab"}
    site.wait_for(lambda: (site.folder / "b.store").exists() and events(site, "b") == 2)
    site.wait_for(lambda: all(f"client {name} is connected" in site.said(SERVER) for name in "ab"))
    site.wait_for(lambda: [len(run.joined) for run in read(site.folder / f"{SERVER}.store")[0].history.runs.values()] == [2])
    code, out, _ = here(site, ["status", f"{SERVER}.store"])
    assert code == 0
    assert {"joining,", "so", "far"} <= set(out.split())
    code, out, _ = here(site, ["status", f"{SERVER}.store", "--json"])
    (run,) = json.loads(out)["runs"]
    assert (code, run["state"], run["client"], set(run["joined"])) == (0, "joining", None, {"a", "b"})
    code, out, _ = site.run(["status", "b.store", "--json"])
    (run,) = json.loads(out)["runs"]
    assert (code, run["state"], run["client"], run["rounds"], run["charged"]) == (0, "waiting for the group key", "b", 0, [])
    code, out, _ = site.run(["status", "b.identity.toml"])
    assert code == 0
    assert "a client, 2 events" in out
    assert {"b,", "data", "set", DATASET} <= set(out.split())
    code, out, err = site.run(site.join("c", "--json"))
    assert code == 0, err
    assert {"connected to " + site.plan.server.address} <= {json.loads(line)["message"] for line in err.splitlines()}
    assert [process.wait(HANG) for process in clients.values()] == [0, 0], site.said("a")
    assert server.wait(HANG) == 0, site.said(SERVER)
    said = json.loads(out)
    assert said["rounds"] == [{"round": n, "included": list(NAMES)} for n in (1, 2)]
    assert set(site.centroids()) == set(NAMES)
    assert len(set(site.centroids().values())) == 1
    assert "Round 1: a, b, c" in site.said("a", "out")
    assert "The run is over: 2 rounds" in site.said(SERVER)
    log = [json.loads(line) for line in site.said(SERVER).splitlines() if line.startswith("{")]
    assert {line["message"] for line in log} >= {f"client {name} is connected" for name in NAMES}
    rounds = [(line["round"], line["included"], line["missing"]) for line in log if line.get("round")]
    assert rounds == [(1, list(NAMES), []), (2, list(NAMES), [])]
    _, out, _ = site.run(["status", "a.store", "--json"])
    (run,) = json.loads(out)["runs"]
    assert (run["state"], run["charged"], run["rounds"]) == ("finished", [1, 2], 2)
    _, out, _ = site.run(["status", f"{SERVER}.store", "--json"])
    (run,) = json.loads(out)["runs"]
    assert (run["state"], run["client"], run["rounds"]) == ("finished", None, 2)
    _, out, _ = site.run(["ledger", "show", "a.identity.toml", "--json"])
    (account,) = json.loads(out)["data_sets"]
    assert account["data_set"] == DATASET
    assert [(r["charged"], r["released"]) for r in account["runs"]] == [([1, 2], [])]
    # a plan is good for one run
    refused(site, site.join("a", "--out", "again"), "has ended for this client (it finished); a plan is good for one run")
    assert here(site, site.serve()) == (0, "", "The run is over: 2 rounds; the results are with the clients.\n")
    refused(site, site.join("a", "--dry-run"), "has ended for this client (it finished)")
    check_that_the_next_plan_knows_the_stores(site)


def check_that_the_next_plan_knows_the_stores(site: Site) -> None:
    """After a run: what the server saw of the clients goes into the next plan, under which a wiped store is refused."""
    positions = ["ledger", "positions", f"{SERVER}.store"]
    code, out, _ = here(site, [*positions, "--json"])
    seen = {row["client"]: row for row in json.loads(out)["clients"]}
    assert (code, set(seen)) == (0, set(NAMES))
    for name, row in seen.items():
        assert row["signed"]
        assert row["signing_key"] == site.plan.client(name).signing_key
        assert 5 < row["events"] <= events(site, name)
    refused(site, ["ledger", "positions", "a.store"], "is the store of a client")
    code, out, _ = here(site, [*positions, "--out", "positions.toml"])
    assert (code, "3 of 3 positions" in out) == (0, True)
    refused(site, [*positions, "--out", "positions.toml"], "exists already")
    assert here(site, ["plan", "renew", PLAN, "--positions", "positions.toml", "--out", "next.toml"])[0] == 0
    following = Plan.from_toml((site.folder / "next.toml").read_text())
    assert [c.store.length for c in following.clients if c.store] == [seen[name]["events"] for name in NAMES]
    for command in ("explain", "show", "digest"):
        code, out, _ = here(site, ["plan", command, "next.toml", *(["--page", "page.txt"] if command == "digest" else [])])
        text = out if command != "digest" else (site.folder / "page.txt").read_text()
        assert f"a store of at least {seen['a']['events']} events" in " ".join(text.split())

    def join(name: str, *more: str) -> list[str]:
        arguments = site.join(name, "--digest", following.digest.hex(), "--out", "next", *more)
        return ["next.toml" if part == PLAN else part for part in arguments]

    refused(site, join("b", "--dry-run"), "are as they must be, but nobody listens at")
    for path in site.folder.glob("b.store*"):
        path.unlink()
    for more in ([], ["--dry-run"]):
        refused(site, join("b", *more), "there is no store", f"the store of 'b' holds {seen['b']['events']} events")
    limit = ["ledger", "limit", "b.identity.toml", "--dataset", DATASET, "--new", "--epsilon", "9", "--delta", "1e-6"]
    assert here(site, limit)[0] == 0
    for more in ([], ["--dry-run"]):
        old_copy = f"is an old copy: the plan remembers {seen['b']['events']} events of it and it holds 1;"
        refused(site, join("b", *more), old_copy)
    forget = ["ledger", "forget", f"{SERVER}.store", "--client"]
    refused(site, [*forget, "d"], "client 'd' is unknown")
    code, out, _ = here(site, [*forget, "b"])
    assert (code, f"had {seen['b']['events']} events" in out) == (0, True)
    assert here(site, [*forget, seen["c"]["signing_key"]])[0] == 0
    assert [row["client"] for row in json.loads(here(site, [*positions, "--json"])[1])["clients"]] == ["a"]
    refused(site, [*forget, "b"], "client 'b' is unknown")


def test_parties_with_issued_certificates_and_self_signed_ones_run_together(made: Path, tmp_path: Path) -> None:
    authority = Issuer()
    shutil.copytree(made, tmp_path / "keys")
    for name in ("a", SERVER):
        key = tmp_path / "keys" / f"{name}.identity.toml"
        private = PrivateIdentity.load(key)
        private.certified([authorities.text(authority.issue(private.request()))]).save(key, replace=True)
    with cleared(Site.make(tmp_path / "keys", tmp_path / "site")) as site:
        assert site.run_to_the_end() == 0
        # whoever reads a plan that asks for the authority checks it, whoever made the plan
        asking = site.plan.to_toml().replace("\n[", f'\nauthority = "{authority.text}"\n[', 1)
        (site.folder / PLAN).write_text(asking)
        for arguments in (site.serve(), site.join("b")):
            refused(site, arguments, "the certificate of 'b' was not issued by the plan's authority 'CN=Clinic CA'")


def test_a_run_over_grpc_with_known_noise_is_the_run_by_plain_integers(site: Site) -> None:
    assert site.run_to_the_end() == 0


# Stops


def test_sigterm_stops_either_side_and_the_same_command_goes_on(site: Site) -> None:
    server = site.start(SERVER, site.serve())
    client = site.start("b", site.join("b"), FAST)
    site.wait_for(lambda: "client b is connected" in site.said(SERVER))
    assert site.end(client) == STOPPED
    assert site.said("b").splitlines()[-1] == "Stopped. The same command takes the run up again."
    site.wait_for(lambda: "client b is gone" in site.said(SERVER))
    assert site.end(server) == STOPPED
    assert site.said(SERVER).splitlines()[-1] == "Stopped. The same command takes the run up again."
    client = site.start("b alone", site.join("b"), FAST)  # a log of its own: the first may have come before the server, too
    site.wait_for(lambda: "nobody listens at" in site.said("b alone"))
    client.send_signal(signal.SIGINT)
    assert client.wait(HANG) == STOPPED
    n_events = events(site, "b")
    server = site.start(SERVER, site.serve())
    clients = [site.start(name, site.join(name), FAST) for name in NAMES]
    assert [process.wait(HANG) for process in clients] == [0, 0, 0], site.said("b")
    assert server.wait(HANG) == 0
    assert n_events == 2
    assert len(set(site.centroids().values())) == 1


def test_a_server_that_is_stopped_while_somebody_may_ask_for_the_end_goes_on_answering(site: Site) -> None:
    """`b` dies after it confirmed; the others finish, the server is stopped and started again, and `b` gets its result."""
    server = site.start(SERVER, site.serve())
    # b commits Hello, an upload with the keys, a sum, an upload, a sum, its confirmation; then the others'
    clients = {
        name: site.start(name, site.join(name), FAST | ({"die": [6, "before"]} if name == "b" else {})) for name in NAMES
    }
    assert [clients[name].wait(HANG) for name in NAMES] == [0, -signal.SIGKILL, 0]
    assert site.end(server) == STOPPED
    _, out, _ = site.run(["status", f"{SERVER}.store", "--json"])
    assert json.loads(out)["runs"][0]["state"] == "confirmed"
    _, out, _ = site.run(["status", "b.store", "--json"])
    assert json.loads(out)["runs"][0]["state"] == "waiting for the others' confirmations"
    server = site.start(SERVER, site.serve())
    assert site.run(site.join("b"), FAST)[0] == 0
    assert len(set(site.centroids().values())) == 1
    assert len(site.centroids()) == 3
    assert site.end(server) in (0, STOPPED)


def test_a_result_that_was_written_right_before_a_kill_is_found_again(site: Site) -> None:
    server = site.start(SERVER, site.serve())
    others = [site.start(name, site.join(name), FAST) for name in "ac"]
    dying = site.start("b", site.join("b"), FAST | {"die": [7, "before"]})  # the wipe, after the folder was written
    assert [process.wait(HANG) for process in (*others, dying)] == [0, 0, -signal.SIGKILL]
    assert server.wait(HANG) == 0
    before = tree(site.folder / "result-b")
    code, out, err = site.run(site.join("b"), FAST)
    assert (code, err) == (0, "")
    assert "Written to result-b: privacy.json, centroids.csv" in out
    assert tree(site.folder / "result-b") == before


def test_a_client_that_is_killed_right_after_the_wipe_has_finished_all_the_same(site: Site) -> None:
    """The same command says so while the folder holds its result, and with --json it prints the result."""
    server = site.start(SERVER, site.serve())
    others = [site.start(name, site.join(name), FAST) for name in "ac"]
    dying = site.start("b", site.join("b"), FAST | {"die": [7, "after"]})
    assert [process.wait(HANG) for process in (*others, dying)] == [0, 0, -signal.SIGKILL]
    assert server.wait(HANG) == 0
    code, out, err = here(site, site.join("b"))
    before = tree(site.folder)
    assert (code, err) == (0, "")
    assert f"Run {site.plan.run_id} has finished before, and this is its result." in " ".join(out.split())
    assert "Written to result-b: privacy.json, centroids.csv" in out
    code, out, _ = here(site, site.join("b", "--json"))
    assert code == 0
    clusters = json.loads((site.folder / "result-b" / EXACT).read_text())["clusters"]
    assert json.loads(out)["clusters"] == clusters
    refused(
        site, site.join("b", "--out", "elsewhere"), "has ended for this client (it finished)", "elsewhere does not", "--out"
    )
    assert tree(site.folder) == before


def test_a_server_that_is_killed_right_after_the_wipe_has_finished_and_so_have_its_clients(site: Site) -> None:
    server = site.start(SERVER, site.serve(), {"die": [5, "after"]})
    clients = [site.start(name, site.join(name), FAST) for name in NAMES]
    assert [process.wait(HANG) for process in (*clients, server)] == [0, 0, 0, -signal.SIGKILL]
    code, out, err = here(site, site.serve())
    assert (code, out, err.splitlines()) == (0, "", ["The run is over: 2 rounds; the results are with the clients."])
    assert here(site, site.join("b"))[0] == 0
    kept = site.folder / "result-b"
    for name, content in [  # what is there is not the result of this very run
        (EXACT, "{}"),
        (EXACT, (kept / EXACT).read_text().replace('"noisy_count"', '"count"')),
        ("privacy.json", (kept / "privacy.json").read_text().replace(site.plan.run_id, "0" * 32)),
        ("privacy.json", "[]"),
        ("rounds.json", "[]"),
        (PLAN, msgspec.structs.replace(site.plan, run_id="0" * 32).to_toml()),
    ]:
        genuine = (kept / name).read_text()
        (kept / name).write_text(content)
        code, out, err = here(site, site.join("b"))
        assert (code, out) == (REFUSED, ""), name
        assert "has ended for this client (it finished)" in err or "exists already" in err
        (kept / name).write_text(genuine)
    assert here(site, site.join("b"))[0] == 0


def test_a_folder_that_only_looks_like_the_result_is_no_reason_to_lose_the_result(site: Site) -> None:
    """The plan may lie where the result is to go; a result of another run may, too."""
    (site.folder / "mine").mkdir()
    shutil.copy(site.folder / PLAN, site.folder / "mine" / PLAN)
    refused(site, site.join("a", "--out", "mine"), "mine exists already")
    (site.folder / "result-b").mkdir()
    for name in (PLAN, EXACT, "rounds.json", "privacy.json"):
        (site.folder / "result-b" / name).write_text((site.folder / PLAN).read_text() if name == PLAN else "{}")
    server = site.start(SERVER, site.serve())
    clients = [site.start(name, site.join(name), FAST) for name in NAMES]
    assert [process.wait(HANG) for process in clients] == [0, REFUSED, 0]
    assert server.wait(HANG) == 0
    assert "result-b exists already" in site.said("b")
    assert site.run(site.join("b", "--out", "elsewhere"), FAST)[0] == 0
    assert (site.folder / "elsewhere" / EXACT).read_bytes() == site.centroids()["a"]


# Who is missing


def test_the_others_finish_without_a_client_that_comes_too_late_and_the_statement_says_so(made: Path, tmp_path: Path) -> None:
    with cleared(Site.make(made, tmp_path / "site", max_dropouts=1)) as site:
        server = site.start(SERVER, site.serve(), {"hurry": 2})
        clients = [site.start(name, site.join(name), FAST) for name in "ac"]
        assert [process.wait(HANG) for process in clients] == [0, 0], site.said("a")
        before = {name: tree(site.folder / f"result-{name}") for name in "ac"}
        # b comes when the group key has long been dealt: it is told, spends nothing, and nobody else notices
        code, out, err = site.run(site.join("b"), FAST)
        assert (code, out) == (NO_RESULT, "")
        assert err.splitlines()[-1].endswith("without a result: the server ended it: the run began without client b")
        assert not any(isinstance(event, ExchangeCharged) for event in read(site.folder / "b.store")[1])
        assert {name: tree(site.folder / f"result-{name}") for name in "ac"} == before
        assert server.wait(HANG) == 0  # nobody is left who might still ask
        rounds = json.loads((site.folder / "result-a" / "rounds.json").read_text())
        assert [r["included"] for r in rounds] == [["a", "c"]] * 2
        assert "Round 1: a, c; without b" in site.said("a", "out")
        assert site.centroids()["a"] == site.centroids()["c"]


def test_too_few_clients_end_the_run_with_a_reason_on_every_side(made: Path, tmp_path: Path) -> None:
    """The server does not wait for `c`, which never comes, as long as it would with a result: for an hour."""
    with cleared(Site.make(made, tmp_path / "site")) as site:
        server = site.start(SERVER, site.serve(), {"hurry": 2, "silence": 0.5})
        clients = {name: site.start(name, site.join(name), FAST) for name in "ab"}
        assert [process.wait(HANG) for process in clients.values()] == [NO_RESULT, NO_RESULT], site.said("a")
        assert server.wait(HANG) == NO_RESULT
        for log in ("a", "b", SERVER):
            sentence = site.said(log).splitlines()[-1]
            assert sentence.startswith("The run ended without a result: ")
            assert "at least 3 are needed" in sentence
            assert "Traceback" not in site.said(log)
        assert site.centroids() == {}
        (ended,) = [event for event in read(site.folder / "a.store")[1] if isinstance(event, RunEnded)]
        assert ended.released == (1, 2)
        assert not any(isinstance(event, ExchangeCharged) for event in read(site.folder / "a.store")[1])
        refused(site, site.join("a"), "has ended for this client (the server ended it", "renew it")
        refused(site, site.serve(), "at least 3 are needed); a plan is good for one run")


def test_a_client_that_reaches_no_server_gives_up_at_its_deadline_and_says_why(made: Path, tmp_path: Path) -> None:
    times = Timeouts(joining=1, dealing=1, round=1, confirming=1)
    with cleared(Site.make(made, tmp_path / "site", timeouts=times)) as site:
        code, out, err = site.run(site.join("a"), {"grace": 0})
        assert (code, out) == (NO_RESULT, "")
        sentence = err.splitlines()[-1]
        assert sentence.startswith("The run ended without a result: nothing came from the server in time")
        assert f"nobody listens at {site.plan.server.address}" in sentence
        assert "Traceback" not in err
        (ended,) = [event for event in read(site.folder / "a.store")[1] if isinstance(event, RunEnded)]
        assert ended.released == (1, 2)


# What is refused


def other_site(site: Site, name: str) -> dict[str, Any]:
    folder = site.folder / "others"
    folder.mkdir(exist_ok=True)
    return dict(make_identities(folder, (name,)))


def test_join_refuses_what_is_not_what_was_agreed_on(site: Site) -> None:
    other_site(site, "a")
    other_site(site, "stranger")
    digest = site.plan.digest.hex()
    wrong = ("0" if digest[0] != "0" else "1") + digest[1:]
    refused(site, site.join("a", "--digest", wrong), "is not the plan that was agreed on", digest, wrong)
    refused(site, site.join("a", "--digest", "abc"), "expected the 64 hex digits")
    refused(site, site.join("a", "--key", "others/stranger.identity.toml"), "stranger")
    refused(site, site.join("a", "--key", "others/a.identity.toml"), "is not the identity that the plan names as client 'a'")
    refused(site, site.join("a", "--key", f"{SERVER}.identity.toml"), SERVER)
    refused(site, site.join("a", "--key", "a.public.toml"), "a.public.toml")
    refused(site, site.join("a", "--key", "none.toml"), "none.toml")
    refused(site, site.join("a", "--server", "nonsense"), "is not HOST:PORT")
    refused(site, site.join("a", without=["--out"]), "--out")
    (site.folder / "result-a").mkdir()
    refused(site, site.join("a"), "result-a exists already")


def test_join_refuses_records_it_cannot_use(site: Site) -> None:
    (site.folder / "text.csv").write_text("age,dose\n1,Zebra\n")
    (site.folder / "columns.csv").write_text("age,weight\n1,2\n")
    (site.folder / "many.csv").write_text("age,dose\n" + "1,2\n" * 51)
    refused(site, site.join("a", "--data", "none.csv"), "no such file")
    refused(
        site, site.join("a", "--data", "text.csv"), "not a number; empty it if it stands for a missing value (--missing drop"
    )
    assert "--columns" not in site.run(site.join("a", "--data", "text.csv"))[2]  # the plan has chosen them
    refused(site, site.join("a", "--data", "none.csv", "--outside", "refuze"), "did you mean 'refuse'")
    refused(site, site.join("a", "--data", "columns.csv"), "dose")
    refused(site, site.join("a", "--data", "many.csv"), "more records than its cap, max_records 50", new=("a",))
    refused(site, site.join("a", "--dataset", "a b"), "dataset")


def test_an_empty_passphrase_file_is_not_called_a_wrong_passphrase(site: Site) -> None:
    known = identity.PrivateIdentity.load(site.folder / "a.identity.toml")
    known.save(site.folder / "sealed.identity.toml", passphrase="correct horse battery")  # noqa: S106 - of no other identity
    (site.folder / "empty").touch()
    for more in (("--passphrase-file", "empty"), ("--dry-run", "--passphrase-file", "empty")):
        refused(site, site.join("a", "--key", "sealed.identity.toml", *more), "the first line of empty is empty")


def test_what_is_no_plan_is_called_by_its_name(site: Site) -> None:
    for file, what in (("a.identity.toml", "is a private identity"), ("a.public.toml", "is the public file of an identity")):
        for arguments in (
            site.join("a"),
            site.serve(),
            ["plan", "show", PLAN],
            ["plan", "digest", PLAN],
            ["plan", "renew", PLAN],
        ):
            refused(site, [file if part == PLAN else part for part in arguments], f"{file} {what}", "expected a plan, such as")
    refused(site, ["status", "a.csv"], "a.csv is not a store", "expected a file such as clinic-a.store")


def test_serve_refuses_what_is_not_its_own(site: Site) -> None:
    other_site(site, SERVER)
    refused(site, site.serve("--key", f"others/{SERVER}.identity.toml"), "is not the identity of the server")
    refused(site, site.serve("--key", "a.identity.toml"), "is not the identity of the server")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        refused(site, site.serve("--listen", address), f"cannot listen at {address}", new=(SERVER,))
    for nowhere in ("127.0.0.1:99999", "127.0.0.1:0", "127.0.0.1", ":8443"):
        refused(site, site.serve("--listen", nowhere), f"--listen '{nowhere}' is not HOST:PORT")
    simulated = msgspec.structs.replace(site.plan, server=type(site.plan.server)())
    write_file(site.folder / "simulated.toml", simulated.to_toml())
    arguments = [part if part != PLAN else "simulated.toml" for part in site.serve()]
    refused(site, arguments, "has no certificate of the server")


def test_serve_is_refused_where_the_system_lets_it_open_too_few_files(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(resource, "getrlimit", lambda _: (60, 60))
    refused(site, site.serve(), "lets this process open 60 files", "LimitNOFILE=70")


def test_an_expired_identity_is_refused_on_both_sides(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    earlier = datetime.now(UTC) - timedelta(days=30)
    monkeypatch.setattr(identity, "datetime", SimpleNamespace(now=lambda _: earlier))
    old = identity.PrivateIdentity.make("a", earlier.date() + timedelta(days=1))
    old.save(site.folder / "old.identity.toml")
    plan = msgspec.structs.replace(site.plan, clients=(old.public.client(50), *site.plan.clients[1:]))
    write_file(site.folder / "old.toml", plan.to_toml())
    for arguments in (site.serve(), site.join("a", "--digest", plan.digest.hex(), "--key", "old.identity.toml")):
        refused(site, [part if part != PLAN else "old.toml" for part in arguments], "expired on")


def test_a_limit_and_known_records_are_refused_before_anything_is_spent(site: Site) -> None:
    limit = ["ledger", "limit", "a.identity.toml", "--dataset", DATASET, "--delta", "1e-6", "--epsilon"]
    assert site.run([*limit, "0.1", "--new"])[0] == 0
    refused(site, site.join("a"), "has the limit epsilon 0.1")
    refused(site, site.join("a", "--dry-run"), "has the limit epsilon 0.1")
    assert site.run([*limit, "inf"])[0] == 0
    client = site.start("a", site.join("a"))
    site.wait_for(lambda: "nobody listens" in site.said("a"))
    refused(site, site.join("a", "--out", "other"), "in use by another process")
    assert site.end(client) == STOPPED
    refused(site, site.join("a", "--dataset", DATASET[:-1]), f"did you mean '{DATASET}'")
    others = ("--dataset", "others", "--new-dataset")
    refused(site, site.join("a", *others), f"was begun with --dataset {DATASET}")
    refused(site, site.join("a", "--data", "b.csv"), "was begun with other records")
    # the same records in another run, under another name
    next_plan = msgspec.structs.replace(site.plan, run_id="0" * 32)
    write_file(site.folder / "next.toml", next_plan.to_toml())
    arguments = site.join("a", "--digest", next_plan.digest.hex(), *others)
    refused(site, [part if part != PLAN else "next.toml" for part in arguments], f"used under the data set name '{DATASET}'")


def test_a_rehearsal_spends_nothing_with_a_server_or_without(site: Site) -> None:
    refused(site, site.join("a", "--dry-run", without=["--out"]), "are as they must be, but nobody listens at")
    server = site.start(SERVER, site.serve())
    site.wait_for(lambda: reachable(site))
    code, out, err = site.run(site.join("a", "--dry-run"))
    assert (code, err) == (0, "")
    for said in ("Everything is ready", "Nothing was spent", f"'{DATASET}' has no limit. To set one before the run"):
        assert said in out
    code, out, err = site.run(site.join("a", "--dry-run", "--json"))
    assert (code, err) == (0, "")
    ready = {"ready": True, "run_id": site.plan.run_id, "client": "a", "server": site.plan.server.address, "limit": None}
    assert json.loads(out) == ready
    assert not (site.folder / "a.store").exists()  # a rehearsal makes none
    limit = ["ledger", "limit", "a.identity.toml", "--dataset", DATASET, "--delta", "1e-6", "--epsilon"]
    refused(site, [*limit, "9"], "say --new")
    code, out, err = here(site, [*limit, "9", "--new"])
    assert (code, out.count("\n"), err.count("Note: made")) == (0, 1, 1)
    code, out, err = site.run(site.join("a", "--dry-run"))
    assert (code, err) == (0, "")
    assert f"Data set '{DATASET}' has the limit epsilon 9 at delta 1e-06; the run fits." in out
    assert json.loads(here(site, site.join("a", "--dry-run", "--json"))[1])["limit"] == {"epsilon": 9.0, "delta": 1e-6}
    assert events(site, "a") == 1
    assert here(site, [*limit, "0.1"])[0] == 0
    refused(site, site.join("a", "--dry-run"), "has the limit epsilon 0.1")
    assert events(site, "a") == 2
    assert not (site.folder / "result-a").exists()
    assert health_by_pem(site, "a") == health_by_pem(site, SERVER) == b"\x08\x01"  # SERVING
    assert site.end(server) == STOPPED
    assert events(site, SERVER) == 0


def health_by_pem(site: Site, name: str) -> bytes:
    """What a monitor of this identity is told, as `docs/how-to/firewalls-and-proxies.md` has it: PEM files, and bare gRPC."""
    assert run_command(["pem", "--key", str(site.folder / f"{name}.identity.toml"), "--out", str(site.folder / "pem")]) == 0
    grpc = load_grpc()
    server = site.folder / "server.pem"
    server.write_text(ssl.DER_cert_to_PEM_cert(base64.b64decode(site.plan.server.certificate)))
    credentials = grpc.ssl_channel_credentials(
        server.read_bytes(),
        (site.folder / "pem" / f"{name}.key").read_bytes(),
        (site.folder / "pem" / f"{name}.pem").read_bytes(),
    )
    options = [("grpc.ssl_target_name_override", f"{SERVER}.fastlloyd.internal")]
    with grpc.secure_channel(site.plan.server.address, credentials, options=options) as channel:
        said: bytes = channel.unary_unary("/grpc.health.v1.Health/Check")(b"", timeout=HANG)
        return said


def reachable(site: Site) -> bool:
    host, _, port = site.plan.server.address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=1).close()
    except OSError:
        return False
    return True


def test_a_server_with_another_certificate_is_none(site: Site) -> None:
    """Whoever listens at the address: without the plan's certificate nothing is said to it but a handshake."""
    impostor = other_site(site, SERVER)[SERVER]
    plan = msgspec.structs.replace(site.plan, server=impostor.public.server(site.plan.server.address))
    write_file(site.folder / "false.toml", plan.to_toml())
    arguments = site.serve("--key", f"others/{SERVER}.identity.toml")
    server = site.start(SERVER, [part if part != PLAN else "false.toml" for part in arguments])
    site.wait_for(lambda: reachable(site))
    refused(site, site.join("a", "--dry-run"), "does not have the plan's certificate")
    assert site.end(server) == STOPPED


def test_a_client_that_the_server_turns_away_is_told_that_its_run_is_not_over(site: Site) -> None:
    """At the plan's address another plan is served: by mistake, for a while."""
    other = msgspec.structs.replace(site.plan, run_id="0" * 32)
    write_file(site.folder / "other.toml", other.to_toml())
    server = site.start(SERVER, [part if part != PLAN else "other.toml" for part in site.serve("--store", "other.store")])
    code, out, err = site.run(site.join("a"), FAST)
    assert (code, out) == (TURNED_AWAY, "")
    assert err.splitlines()[-1].startswith("Not taken part: the server refuses this client: your plan has digest ")
    assert "The run is not over for this client" in err.splitlines()[-1]
    assert not any(isinstance(event, RunEnded) for event in read(site.folder / "a.store")[1])
    assert site.end(server) == STOPPED
    assert site.run_to_the_end() == 0


def test_an_old_copy_of_a_clients_store_is_refused(site: Site) -> None:
    server = site.start(SERVER, site.serve())
    client = site.start("b", site.join("b"), FAST)
    site.wait_for(lambda: "client b is connected" in site.said(SERVER))
    assert site.end(client) == STOPPED
    old = copy_store(site.folder / "b.store", site.folder / "old")
    others = [site.start(name, site.join(name), FAST | {"die": [3, "after"]}) for name in "ac"]
    dying = site.start("b", site.join("b"), FAST | {"die": [2, "after"]})  # a sum and an upload further
    assert dying.wait(HANG) == -signal.SIGKILL
    assert events(site, "b") > read(old)[0].position.length
    newest = copy_store(site.folder / "b.store", site.folder / "newest")
    for file in layout.files(site.folder / "b.store")[:3]:  # first without its head file, which was left where it is
        file.unlink(missing_ok=True)
    shutil.copy(old, site.folder)
    refused(site, site.join("b"), "b.store is damaged, or an old copy", "b.store-head knows of")
    for command in (["status"], ["ledger", "verify"], ["ledger", "show"]):
        refused(site, [*command, "b.store"], "b.store is damaged, or an old copy")
    copy_store(old, site.folder)
    code, out, err = site.run(site.join("b"), FAST)
    assert (code, out) in ((REFUSED, ""), (TURNED_AWAY, ""))
    assert "is an old copy" in err.splitlines()[-1]
    assert "Traceback" not in err
    assert events(site, "b") < read(newest)[0].position.length
    for process in (*others, server):
        process.kill()


# Noise


def test_nothing_on_the_command_line_or_around_it_makes_noise_that_can_be_repeated() -> None:
    """No option, no variable, and no word of the testing sources in anything that a command imports.

    But for experiments on public records, which nothing else imports.
    """
    package = Path(inspect.getfile(serve_command)).parents[2]
    sources = {path: path.read_text() for path in package.rglob("*.py") if path.name != "testing.py"}
    methods = package / "evaluation" / "experiments" / "methods.py"
    for path, text in sources.items():
        assert path == methods or not re.search(r"fastlloyd\.testing import|SeededNoise|InjectedNoise", text), path
        if not {"experiments", "pictures"} & set(path.parts) and not path.name.startswith("experiment"):
            assert "fastlloyd.evaluation.experiments" not in text, path
    variables = {name for text in sources.values() for name in re.findall(r"FASTLLOYD_[A-Z_]+", text)}
    assert variables <= {"FASTLLOYD_DATA", "FASTLLOYD_DEBUG", "FASTLLOYD_PASSPHRASE_FILE"}
    for command in (join_command, serve_command):
        assert not [name for name in inspect.signature(command).parameters if re.search("noise|seed|random", name)]
    for path in (package / "cli" / "commands" / "join.py", package / "cli" / "commands" / "serve.py"):
        assert re.findall(r"noise=(\w+\(\))", sources[path]) == ["SystemNoise()"]
