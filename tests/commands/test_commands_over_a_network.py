"""`serve`, `join` and `status` as processes that talk over TLS: whole runs, stops, and who is
missing.
"""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import msgspec

import authorities
from authorities import Issuer
from fastlloyd.federation.identity.identity import PrivateIdentity
from fastlloyd.federation.identity.parties import Timeouts
from fastlloyd.federation.plan.plan import Masks, Plan
from fastlloyd.federation.store import read
from fastlloyd.federation.store.events import ExchangeCharged, RunEnded
from fastlloyd.federation.traffic import traffic
from fastlloyd.reports.run_result import EXACT, PLAN
from network_processes import DATASET, HANG, N_COMMITS, NAMES, SERVER, Site, cleared
from network_site import FAST, NO_RESULT, REFUSED, STOPPED, events, here, left, refused, tree


def test_a_log_that_nobody_reads_or_that_cannot_be_kept_fails_no_party(site: Site) -> None:
    """A full disk, a reader that has gone, and streams that were closed from the beginning."""
    reading, gone = os.pipe()
    os.close(reading)

    def begun(arguments: list[str], redirected: str) -> None:
        program = shlex.join([sys.executable, "-m", "fastlloyd", *arguments])
        # our own program
        site.processes.append(
            subprocess.Popen(
                ["/bin/sh", "-c", f"exec {program} {redirected}"], cwd=site.folder, stdin=gone
            )
        )

    begun(site.serve(), "2>/dev/full")
    begun(site.join("a"), ">&0 2>&0")
    begun(site.join("b", "--json"), ">/dev/full 2>/dev/full")
    begun(site.join("c"), ">&- 2>&-")
    assert [process.wait(HANG) for process in site.processes] == [0, 0, 0, 0]
    os.close(gone)
    assert set(site.centroids()) == set(NAMES)
    begun(site.join("b"), ">/dev/full 2>/dev/full")
    assert site.processes[-1].wait(HANG) == 0  # where its result is


def test_three_clients_and_a_server_end_with_one_result_that_status_and_ledger_show(
    site: Site,
) -> None:
    server = site.start(SERVER, site.serve("--json"))
    clients = {name: site.start(name, site.join(name)) for name in "ab"}
    site.wait_for(lambda: (site.folder / "b.store").exists() and events(site, "b") == 2)
    site.wait_for(lambda: all(f"client {name} is connected" in site.said(SERVER) for name in "ab"))
    site.wait_for(
        lambda: (
            [
                len(run.joined)
                for run in read(site.folder / f"{SERVER}.store")[0].history.runs.values()
            ]
            == [2]
        )
    )
    code, out, _ = here(site, ["status", f"{SERVER}.store"])
    assert code == 0
    assert {"joining;", "joined:"} <= set(out.split())
    code, out, _ = here(site, ["status", f"{SERVER}.store", "--json"])
    (run,) = json.loads(out)["runs"]
    assert (code, run["state"], run["client"], set(run["joined"])) == (
        0,
        "joining",
        None,
        {"a", "b"},
    )
    code, out, _ = site.run(["status", "b.store", "--json"])
    (run,) = json.loads(out)["runs"]
    assert (code, run["state"], run["client"]) == (0, "waiting for the keys of the run", "b")
    assert (run["rounds"], run["charged"]) == (0, [])
    code, out, _ = here(site, ["status", "b.identity.toml"])
    assert code == 0
    assert "the store of a client and has 2 events" in out
    assert f"b, data set {DATASET}; 0 rounds closed; waits for the" in out
    assert "; a process uses it" in out
    code, out, err = site.run(site.join("c", "--json", "--ledger", "of-c.store", "--new-dataset"))
    assert code == 0, err
    made = f"Note: made {site.folder / 'of-c.store'}, a new ledger without runs or limits."
    assert {made, "connected to " + site.plan.server.address} <= {
        json.loads(line)["message"] for line in err.splitlines()
    }
    assert [process.wait(HANG) for process in clients.values()] == [0, 0], site.said("a")
    assert server.wait(HANG) == 0, site.said(SERVER)
    said = json.loads(out)
    assert said["rounds"] == [{"round": n, "included": list(NAMES)} for n in (1, 2)]
    assert set(site.centroids()) == set(NAMES)
    assert len(set(site.centroids().values())) == 1
    assert "Round 1: a, b, c" in site.said("a", "out")
    *_, last = site.said("a").splitlines()
    sent, received, planned_sent, planned_received = map(int, re.findall(r"\d+", last))
    assert last.startswith("This process sent ")
    planned = traffic(site.plan, "a")
    assert (planned_sent, planned_received) == (planned.sent, planned.received)
    assert planned_sent <= sent < 2 * planned_sent
    assert planned_received <= received < 2 * planned_received
    assert "The run is over: 2 rounds" in site.said(SERVER)
    log = [json.loads(line) for line in site.said(SERVER).splitlines() if line.startswith("{")]
    assert {line["message"] for line in log} >= {f"client {name} is connected" for name in NAMES}
    rounds = [
        (line["round"], line["included"], line["missing"]) for line in log if line.get("round")
    ]
    assert rounds == [(1, list(NAMES), []), (2, list(NAMES), [])]
    _, out, _ = here(site, ["status", "a.store", "--json"])
    (run,) = json.loads(out)["runs"]
    assert (run["state"], run["charged"], run["rounds"]) == ("finished", [1, 2], 2)
    _, out, _ = here(site, ["status", f"{SERVER}.store", "--json"])
    (run,) = json.loads(out)["runs"]
    assert (run["state"], run["client"], run["rounds"]) == ("finished", None, 2)
    _, out, _ = here(site, ["ledger", "show", "a.identity.toml", "--json"])
    (account,) = json.loads(out)["data_sets"]
    assert account["data_set"] == DATASET
    assert [(r["charged"], r["released"]) for r in account["runs"]] == [([1, 2], [])]
    # a plan is good for one run
    refused(
        site,
        site.join("a", "--out", "again"),
        "has ended for this client",
    )
    assert here(site, site.serve()) == (
        0,
        "",
        "The run is over: 2 rounds; the results are with the clients.\n",
    )
    refused(site, site.join("a", "--dry-run"), "has ended for this client")
    check_that_the_next_plan_knows_the_stores(site)


def check_that_the_next_plan_knows_the_stores(site: Site) -> None:
    """After a run: what the server saw of the clients goes into the next plan, under which a wiped
    store is refused.
    """
    positions = ["ledger", "positions", f"{SERVER}.store"]
    code, out, _ = here(site, [*positions, "--json"])
    seen = {row["client"]: row for row in json.loads(out)["clients"]}
    assert (code, set(seen)) == (0, set(NAMES))
    for name, row in seen.items():
        assert row["signing_key"] == site.plan.client(name).signing_key
        assert 5 < row["events"] <= events(site, name)
    refused(site, ["ledger", "positions", "a.store"], "is the store of a client")
    code, out, _ = here(site, [*positions, "--out", "positions.toml"])
    assert (code, ": 3 positions." in out) == (0, True)
    refused(site, [*positions, "--out", "positions.toml"], "exists already")
    assert (
        here(site, ["plan", "renew", PLAN, "--positions", "positions.toml", "--out", "next.toml"])[
            0
        ]
        == 0
    )
    following = Plan.from_toml((site.folder / "next.toml").read_text())
    assert [c.store.length for c in following.clients if c.store] == [
        seen[name]["events"] for name in NAMES
    ]
    for command in ("explain", "show", "digest"):
        code, out, _ = here(
            site,
            [
                "plan",
                command,
                "next.toml",
                *(["--page", "page.txt"] if command == "digest" else []),
            ],
        )
        text = out if command != "digest" else (site.folder / "page.txt").read_text()
        words = " ".join(text.replace("│", " ").split())  # a line of a table may be broken
        assert f"a store of at least {seen['a']['events']} events" in words

    def join(name: str, *more: str) -> list[str]:
        arguments = site.join(name, "--digest", following.digest.hex(), "--out", "next", *more)
        return ["next.toml" if part == PLAN else part for part in arguments]

    assert here(site, join("b", "--dry-run"))[0] == 0
    for path in site.folder.glob("b.store*"):
        path.unlink()
    for more in ([], ["--dry-run"]):
        refused(
            site,
            join("b", *more),
            "there is no store",
            f"the store of 'b' has {seen['b']['events']} events",
        )
    limit = [
        "ledger",
        "limit",
        "b.identity.toml",
        "--dataset",
        DATASET,
        "--new",
        "--epsilon",
        "9",
        "--delta",
        "1e-6",
    ]
    assert here(site, limit)[0] == 0
    for more in ([], ["--dry-run"]):
        old_copy = f"and the plan remembers {seen['b']['events']}"
        refused(site, join("b", *more), "is an old copy", old_copy)
    forget = ["ledger", "forget", f"{SERVER}.store", "--client"]
    refused(site, [*forget, "d"], "client 'd' is unknown")
    code, out, _ = here(site, [*forget, "b"])
    assert (code, f"had {seen['b']['events']} events" in out) == (0, True)
    assert here(site, [*forget, seen["c"]["signing_key"]])[0] == 0
    assert [
        row["client"] for row in json.loads(here(site, [*positions, "--json"])[1])["clients"]
    ] == ["a"]
    refused(site, [*forget, "b"], "client 'b' is unknown")


def test_parties_with_issued_certificates_and_self_signed_ones_run_together(
    made: Path, tmp_path: Path
) -> None:
    authority = Issuer()
    shutil.copytree(made, tmp_path / "keys")
    for name in ("a", SERVER):
        key = tmp_path / "keys" / f"{name}.identity.toml"
        private = PrivateIdentity.load(key)
        private.certified([authorities.text(authority.issue(private.request()))]).save(
            key, replace=True
        )
    with cleared(Site.make(tmp_path / "keys", tmp_path / "site")) as site:
        assert site.run_to_the_end() == 0
        # whoever reads a plan that asks for the authority checks it, whoever made the plan
        asking = site.plan.to_toml().replace("\n[", f'\nauthority = "{authority.text}"\n[', 1)
        (site.folder / PLAN).write_text(asking)
        for arguments in (site.serve(), site.join("b")):
            refused(
                site,
                arguments,
                "the certificate of 'b' was not issued by the plan's authority 'CN=Clinic CA'",
            )


def test_a_run_over_grpc_with_known_noise_is_the_run_by_plain_integers(site: Site) -> None:
    assert site.run_to_the_end() == 0


def test_sigterm_stops_either_side_and_the_same_command_goes_on(site: Site) -> None:
    server = site.start(SERVER, site.serve())
    client = site.start("b", site.join("b"), FAST)
    site.wait_for(lambda: "client b is connected" in site.said(SERVER))
    assert site.end(client) == STOPPED
    assert site.said("b").splitlines()[-1].startswith("Stopped. ")
    site.wait_for(lambda: "client b is gone" in site.said(SERVER))
    assert site.end(server) == STOPPED
    assert site.said(SERVER).splitlines()[-1].startswith("Stopped. ")
    client = site.start(
        "b alone", site.join("b"), FAST
    )  # a log of its own: the first may have come before the server, too
    site.wait_for(lambda: "nobody listens at" in site.said("b alone"))
    client.send_signal(signal.SIGINT)
    assert client.wait(HANG) == STOPPED
    n_events = events(site, "b")
    server = site.start(SERVER, site.serve(), FAST)
    clients = [site.start(name, site.join(name), FAST) for name in NAMES]
    assert [process.wait(HANG) for process in clients] == [0, 0, 0], site.said("b")
    assert server.wait(HANG) == 0
    assert n_events == 2
    assert len(set(site.centroids().values())) == 1


def test_a_server_that_is_stopped_while_somebody_may_ask_for_the_end_goes_on_answering(
    site: Site,
) -> None:
    """`b` dies after it confirmed; the others finish, the server is stopped and started again, and
    `b` gets its result.
    """
    server = site.start(SERVER, site.serve(), FAST)
    # b commits Hello, a Deal, the keys, an upload, a sum, an upload, a sum, its confirmation;
    # then the others'
    clients = {
        name: site.start(
            name, site.join(name), FAST | ({"die": [8, "before"]} if name == "b" else {})
        )
        for name in NAMES
    }
    assert [clients[name].wait(HANG) for name in NAMES] == [0, -signal.SIGKILL, 0]
    site.wait_for(lambda: left(site) == {"a", "c"})
    assert site.end(server) == STOPPED
    _, out, _ = here(site, ["status", f"{SERVER}.store", "--json"])
    assert json.loads(out)["runs"][0]["state"] == "confirmed"
    _, out, _ = here(site, ["status", "b.store", "--json"])
    assert json.loads(out)["runs"][0]["state"] == "waiting for the others' confirmations"
    server = site.start(SERVER, site.serve(), FAST)
    assert site.run(site.join("b"), FAST)[0] == 0
    assert len(set(site.centroids().values())) == 1
    assert len(site.centroids()) == 3
    assert server.wait(HANG) == 0  # it knows who has taken the end before


def test_a_result_that_was_written_right_before_a_kill_is_found_again(site: Site) -> None:
    server = site.start(SERVER, site.serve(), FAST)
    others = [site.start(name, site.join(name), FAST) for name in "ac"]
    dying = site.start(
        "b", site.join("b"), FAST | {"die": [9, "before"]}
    )  # the wipe, after the folder was written
    assert [process.wait(HANG) for process in (*others, dying)] == [0, 0, -signal.SIGKILL]
    assert server.wait(HANG) == 0
    before = tree(site.folder / "result-b")
    code, out, err = site.run(site.join("b"), FAST)
    assert (code, err) == (0, "")
    assert "Written to result-b: privacy.json, centroids.csv" in out
    assert tree(site.folder / "result-b") == before


def test_a_client_that_is_killed_right_after_the_wipe_has_finished_all_the_same(site: Site) -> None:
    """The same command says so while the folder holds its result, and with --json it prints the
    result.
    """
    server = site.start(SERVER, site.serve(), FAST)
    others = [site.start(name, site.join(name), FAST) for name in "ac"]
    dying = site.start("b", site.join("b"), FAST | {"die": [9, "after"]})
    assert [process.wait(HANG) for process in (*others, dying)] == [0, 0, -signal.SIGKILL]
    assert server.wait(HANG) == 0
    code, out, err = here(site, site.join("b"))
    before = tree(site.folder)
    assert (code, err) == (0, "")
    assert f"Run {site.plan.run_id} had already finished; this is its result." in " ".join(
        out.split()
    )
    assert "Written to result-b: privacy.json, centroids.csv" in out
    code, out, _ = here(site, site.join("b", "--json"))
    assert code == 0
    clusters = json.loads((site.folder / "result-b" / EXACT).read_text())["clusters"]
    assert json.loads(out)["clusters"] == clusters
    refused(
        site,
        site.join("b", "--out", "elsewhere"),
        "has ended for this client",
        "elsewhere does not",
        "--out",
    )
    assert tree(site.folder) == before


def test_a_server_that_is_killed_right_after_the_wipe_has_finished_and_so_have_its_clients(
    site: Site,
) -> None:
    server = site.start(SERVER, site.serve(), {"die": [N_COMMITS[SERVER] - 1, "after"]})
    clients = [site.start(name, site.join(name), FAST) for name in NAMES]
    assert [process.wait(HANG) for process in (*clients, server)] == [0, 0, 0, -signal.SIGKILL]
    code, out, err = here(site, site.serve())
    assert (code, out, err.splitlines()) == (
        0,
        "",
        ["The run is over: 2 rounds; the results are with the clients."],
    )
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
        assert "has ended for this client" in err or "exists already" in err
        (kept / name).write_text(genuine)
    assert here(site, site.join("b"))[0] == 0


def test_a_folder_that_only_looks_like_the_result_is_no_reason_to_lose_the_result(
    site: Site,
) -> None:
    """The plan may lie where the result is to go; a result of another run may, too."""
    (site.folder / "mine").mkdir()
    shutil.copy(site.folder / PLAN, site.folder / "mine" / PLAN)
    refused(site, site.join("a", "--out", "mine"), "mine exists already")
    (site.folder / "result-b").mkdir()
    for name in (PLAN, EXACT, "rounds.json", "privacy.json"):
        (site.folder / "result-b" / name).write_text(
            (site.folder / PLAN).read_text() if name == PLAN else "{}"
        )
    server = site.start(SERVER, site.serve(), FAST)
    clients = [site.start(name, site.join(name), FAST) for name in NAMES]
    assert [process.wait(HANG) for process in clients] == [0, REFUSED, 0]
    assert server.wait(HANG) == 0
    assert "result-b exists already" in site.said("b")
    assert site.run(site.join("b", "--out", "elsewhere"), FAST)[0] == 0
    assert (site.folder / "elsewhere" / EXACT).read_bytes() == site.centroids()["a"]


def test_the_others_finish_without_a_client_that_comes_too_late_and_the_statement_says_so(
    made: Path, tmp_path: Path
) -> None:
    with cleared(Site.make(made, tmp_path / "site", max_dropouts=1, masks=Masks.PAIRWISE)) as site:
        server = site.start(SERVER, site.serve(), {"hurry": 2})
        clients = [site.start(name, site.join(name), FAST) for name in "ac"]
        assert [process.wait(HANG) for process in clients] == [0, 0], site.said("a")
        before = {name: tree(site.folder / f"result-{name}") for name in "ac"}
        # b comes when the group key has long been dealt: it is told, spends nothing, and nobody
        # else notices
        code, out, err = site.run(site.join("b"), FAST)
        assert (code, out) == (NO_RESULT, "")
        assert (
            "without a result: the server ended the run: the run began without client b"
            in err.splitlines()[-1]
        )
        assert not any(
            isinstance(event, ExchangeCharged) for event in read(site.folder / "b.store")[1]
        )
        assert {name: tree(site.folder / f"result-{name}") for name in "ac"} == before
        assert server.wait(HANG) == 0  # nobody is left who might still ask
        rounds = json.loads((site.folder / "result-a" / "rounds.json").read_text())
        assert [r["included"] for r in rounds] == [["a", "c"]] * 2
        assert "Round 1: a, c; without b" in site.said("a", "out")
        assert site.centroids()["a"] == site.centroids()["c"]


def test_too_few_clients_end_the_run_with_a_reason_on_every_side(
    made: Path, tmp_path: Path
) -> None:
    """The server does not wait for `c`, which never comes, as long as it would with a result: for
    an hour.
    """
    with cleared(Site.make(made, tmp_path / "site")) as site:
        server = site.start(SERVER, site.serve(), {"hurry": 2, "silence": 0.5})
        clients = {name: site.start(name, site.join(name), FAST) for name in "ab"}
        assert [process.wait(HANG) for process in clients.values()] == [
            NO_RESULT,
            NO_RESULT,
        ], site.said("a")
        assert server.wait(HANG) == NO_RESULT
        for log in ("a", "b", SERVER):
            sentence = site.said(log).splitlines()[-1]
            assert sentence.startswith("The run ended without a result: ")
            assert "at least 3 are needed" in sentence
            assert "Traceback" not in site.said(log)
        assert site.centroids() == {}
        (ended,) = [
            event for event in read(site.folder / "a.store")[1] if isinstance(event, RunEnded)
        ]
        assert ended.released == (1, 2)
        assert not any(
            isinstance(event, ExchangeCharged) for event in read(site.folder / "a.store")[1]
        )
        # nothing was spent, so the same commands begin the run again
        server = site.start("again", site.serve(), FAST)
        clients = {name: site.start(name, site.join(name), FAST) for name in NAMES}
        assert [process.wait(HANG) for process in clients.values()] == [0, 0, 0], site.said("a")
        assert server.wait(HANG) == 0
        assert len(set(site.centroids().values())) == 1


def test_a_client_that_reaches_no_server_gives_up_at_its_deadline_and_says_why(
    made: Path, tmp_path: Path
) -> None:
    times = Timeouts(joining=1, dealing=1, round=1, confirming=1)
    with cleared(Site.make(made, tmp_path / "site", timeouts=times)) as site:
        code, out, err = site.run(site.join("a"), {"grace": 0})
        assert (code, out) == (NO_RESULT, "")
        sentence = err.splitlines()[-1]
        assert sentence.startswith(
            "The run ended without a result: nothing came from the server in time"
        )
        assert f"nobody listens at {site.plan.server.address}" in sentence
        assert "Traceback" not in err
        (ended,) = [
            event for event in read(site.folder / "a.store")[1] if isinstance(event, RunEnded)
        ]
        assert ended.released == (1, 2)
