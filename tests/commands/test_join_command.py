"""`fastlloyd join`: what it refuses before anything is spent or sent."""

import base64
import shutil
import signal
import socket
import ssl

import msgspec
import pytest

from fastlloyd.base.files import write_file
from fastlloyd.cli.failures import run as run_command
from fastlloyd.errors import NetworkError
from fastlloyd.federation.holder import place
from fastlloyd.federation.identity import identity
from fastlloyd.federation.store import files as layout
from fastlloyd.federation.store import read
from fastlloyd.federation.store.events import RunEnded
from fastlloyd.federation.transport.grpc.tls import load_grpc
from fastlloyd.jobs.client import Endpoint
from fastlloyd.reports.run_result import PLAN
from network_processes import DATASET, HANG, SERVER, Site
from network_site import FAST, REFUSED, STOPPED, TURNED_AWAY, events, here, other_site, refused
from stores import copy_store


def test_join_refuses_what_is_not_what_was_agreed_on(site: Site) -> None:
    other_site(site, "a")
    other_site(site, "stranger")
    digest = site.plan.digest.hex()
    wrong = digest[32:] + digest[:32]
    refused(
        site, site.join("a", "--digest", wrong), "is not the plan that was agreed on", digest, wrong
    )
    refused(site, site.join("a", "--digest", "abc"), "expected the 64 hex digits")
    refused(site, site.join("a", "--key", "others/stranger.identity.toml"), "stranger")
    refused(
        site,
        site.join("a", "--key", "others/a.identity.toml"),
        "is not the identity of client 'a'",
    )
    refused(site, site.join("a", "--key", f"{SERVER}.identity.toml"), SERVER)
    refused(site, site.join("a", "--key", "a.public.toml"), "a.public.toml")
    refused(site, site.join("a", "--key", "none.toml"), "none.toml")
    refused(
        site,
        site.join("a", "--engine", "dask://192.0.2.7:1"),
        "run code in this command, which holds your keys",
    )
    refused(site, site.join("a", "--server", "nonsense"), "is not HOST:PORT")
    refused(site, site.join("a", without=["--out"]), "--out")
    (site.folder / "result-a").mkdir()
    (site.folder / "result-a/of-the-owner.txt").write_text("kept")
    refused(site, site.join("a"), "result-a exists already")


def test_join_refuses_records_it_cannot_use(site: Site) -> None:
    (site.folder / "text.csv").write_text("age,dose\n1,Zebra\n")
    (site.folder / "columns.csv").write_text("age,weight\n1,2\n")
    (site.folder / "many.csv").write_text("age,dose\n" + "1,2\n" * 51)
    refused(site, site.join("a", "--data", "none.csv"), "no such file")
    refused(
        site,
        site.join("a", "--data", "text.csv"),
        "or name its text with --missing-words",
    )
    assert (
        "--columns" not in site.run(site.join("a", "--data", "text.csv"), FAST)[2]
    )  # the plan has chosen them
    refused(site, site.join("a", "--outside", "refuze"), "did you mean 'refuse'")
    for fault in ("did you mean 'refuse'", "none.csv: there is no such file"):
        _, _, err = site.run(site.join("a", "--data", "none.csv", "--outside", "refuze"), FAST)
        assert [line for line in err.splitlines() if fault in line]
    refused(site, site.join("a", "--data", "columns.csv"), "dose")
    refused(
        site,
        site.join("a", "--data", "many.csv"),
        "more records than its cap, max_records 50",
        new=("a",),
    )
    refused(site, site.join("a", "--dataset", "a b"), "dataset")


def test_an_empty_passphrase_file_is_not_called_a_wrong_passphrase(site: Site) -> None:
    known = identity.PrivateIdentity.load(site.folder / "a.identity.toml")
    # of no other identity
    known.save(site.folder / "sealed.identity.toml", passphrase="correct horse battery")  # noqa: S106
    (site.folder / "empty").touch()
    for more in (("--passphrase-file", "empty"), ("--dry-run", "--passphrase-file", "empty")):
        refused(
            site,
            site.join("a", "--key", "sealed.identity.toml", *more),
            "the first line of empty is empty",
        )


def test_what_is_no_plan_is_called_by_its_name(site: Site) -> None:
    for file, what in (
        ("a.identity.toml", "is a private identity"),
        ("a.public.toml", "is the public file of an identity"),
    ):
        for arguments in (
            site.join("a"),
            site.serve(),
            ["plan", "show", PLAN],
            ["plan", "digest", PLAN],
            ["plan", "renew", PLAN],
        ):
            refused(
                site,
                [file if part == PLAN else part for part in arguments],
                f"{file} {what}",
                "expected a plan, such as",
            )
    refused(
        site,
        ["status", "a.csv"],
        "a.csv is not a store",
        "expected a store, such as clinic-a.store",
    )


def test_a_limit_and_known_records_are_refused_before_anything_is_spent(site: Site) -> None:
    limit = [
        "ledger",
        "limit",
        "a.identity.toml",
        "--dataset",
        DATASET,
        "--delta",
        "1e-6",
        "--epsilon",
    ]
    assert here(site, [*limit, "0.1", "--new"])[0] == 0
    refused(site, site.join("a"), "has the limit epsilon 0.1")
    refused(site, site.join("a", "--dry-run"), "has the limit epsilon 0.1")
    assert here(site, [*limit, "inf"])[0] == 0
    client = site.start("a", site.join("a"))
    site.wait_for(lambda: "nobody listens" in site.said("a"))
    assert site.said("a").count(f"Counted in the ledger {place()}; this is its first run.") == 1
    refused(site, site.join("a", "--out", "other"), "in use by another process", running=("a",))
    assert site.end(client) == STOPPED
    refused(site, site.join("a", "--dataset", DATASET[:-1]), f"was begun with --dataset {DATASET}")
    others = ("--dataset", "others", "--new-dataset")
    refused(site, site.join("a", *others), f"was begun with --dataset {DATASET}")
    refused(site, site.join("a", "--data", "b.csv"), "was begun with other records")
    # the same records in another run, under another name
    next_plan = msgspec.structs.replace(site.plan, run_id="0" * 32)
    write_file(site.folder / "next.toml", next_plan.to_toml())
    arguments = site.join("a", "--digest", next_plan.digest.hex(), *others)
    refused(
        site,
        [part if part != PLAN else "next.toml" for part in arguments],
        f"used under the data set name '{DATASET}'",
    )


def test_a_limit_of_the_ledger_counts_what_fit_and_other_clients_spent(site: Site) -> None:
    """Client b is of the same holder, who says that its records are of the same data set."""
    limit = ["ledger", "limit", "--dataset", DATASET, "--delta", "1e-6", "--epsilon", "3", "--new"]
    assert here(site, limit)[0] == 0
    fit = [
        "fit",
        "a.csv",
        "--bounds",
        "0:100",
        "--n-records",
        "500",
        "-k",
        "2",
        "--no-out",
        "--dataset",
        DATASET,
    ]
    assert here(site, [*fit, "--epsilon", "2.5", "--delta", "1e-6"])[0] == 0
    said = f"data set '{DATASET}' has the limit epsilon 3 at delta 1e-06. All runs"
    refused(site, site.join("a", "--dry-run"), said)
    refused(site, site.join("a"), said)
    refused(site, site.join("a", "--dataset", DATASET[:-1]), f"did you mean '{DATASET}'")


def test_a_limit_of_the_ledger_for_patients_holds_a_client_whose_every_record_is_one(
    site: Site,
) -> None:
    limit = [
        "ledger",
        "limit",
        "--dataset",
        DATASET,
        "--delta",
        "1e-6",
        "--epsilon",
        "9",
        "--new",
        "--unit",
        "patient",
    ]
    assert here(site, limit)[0] == 0
    refused(site, site.join("a", "--dry-run"), "this run does not protect every patient as a whole")
    assert here(site, site.join("a", "--dry-run", "--rows-are", "patient"))[0] == 0


def test_a_server_says_whether_it_serves_the_plan_and_keeps_nothing_of_it(site: Site) -> None:
    server = site.start(SERVER, site.serve(), FAST)
    site.wait_for(lambda: reachable(site))
    Endpoint(site.plan.server.address).check(site.plan, identity_of(site, "a"))
    assert health_by_pem(site, "a") == health_by_pem(site, SERVER) == b"\x08\x01"  # SERVING
    assert site.end(server) == STOPPED
    assert events(site, SERVER) == 0
    with pytest.raises(NetworkError, match="nobody listens at"):
        Endpoint(site.plan.server.address).check(site.plan, identity_of(site, "a"))


def identity_of(site: Site, name: str) -> identity.PrivateIdentity:
    return identity.PrivateIdentity.load(site.folder / f"{name}.identity.toml")


def health_by_pem(site: Site, name: str) -> bytes:
    """What a monitor of this identity is told, as `docs/how-to/server-as-a-service.md` has it:
    PEM files, and bare gRPC.
    """
    assert (
        run_command(
            [
                "pem",
                "--key",
                str(site.folder / f"{name}.identity.toml"),
                "--out",
                str(site.folder / "pem"),
            ]
        )
        == 0
    )
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
    """Whoever listens at the address: without the plan's certificate nothing is said to it but a
    handshake.
    """
    impostor = other_site(site, SERVER)[SERVER]
    plan = msgspec.structs.replace(
        site.plan, server=impostor.public.server(site.plan.server.address)
    )
    write_file(site.folder / "false.toml", plan.to_toml())
    arguments = site.serve("--key", f"others/{SERVER}.identity.toml")
    server = site.start(SERVER, [part if part != PLAN else "false.toml" for part in arguments])
    site.wait_for(lambda: reachable(site))
    with pytest.raises(NetworkError, match="the plan's certificate"):
        Endpoint(site.plan.server.address).check(site.plan, identity_of(site, "a"))
    assert site.end(server) == STOPPED


def test_a_client_that_the_server_turns_away_is_told_that_its_run_is_not_over(site: Site) -> None:
    """At the plan's address another plan is served: by mistake, for a while."""
    other = msgspec.structs.replace(site.plan, run_id="0" * 32)
    write_file(site.folder / "other.toml", other.to_toml())
    server = site.start(
        SERVER,
        [part if part != PLAN else "other.toml" for part in site.serve("--store", "other.store")],
    )
    site.wait_for(lambda: reachable(site))
    code, out, _ = here(site, ["check", PLAN, "--key", "a.identity.toml"])
    assert code == REFUSED
    assert "ask the server's operator for its plan" in " ".join(out.split())
    code, out, err = site.run(site.join("a"), FAST)
    assert (code, out) == (TURNED_AWAY, "")
    assert err.splitlines()[-1].startswith(
        "This client did not take part: the server refuses this client: your plan has digest "
    )
    assert "The run is still open" in err.splitlines()[-1]
    assert f"a.store --run {site.plan.run_id}" in err.splitlines()[-1]
    assert not any(isinstance(event, RunEnded) for event in read(site.folder / "a.store")[1])
    assert site.end(server) == STOPPED
    assert site.run_to_the_end() == 0


def test_an_old_copy_of_a_clients_store_is_refused(site: Site) -> None:
    server = site.start(SERVER, site.serve(), FAST)
    client = site.start("b", site.join("b"), FAST)
    site.wait_for(lambda: "client b is connected" in site.said(SERVER))
    assert site.end(client) == STOPPED
    old = copy_store(site.folder / "b.store", site.folder / "old")
    others = [site.start(name, site.join(name), FAST | {"die": [4, "after"]}) for name in "ac"]
    dying = site.start(
        "b", site.join("b"), FAST | {"die": [4, "after"]}
    )  # a sum and an upload further
    assert dying.wait(HANG) == -signal.SIGKILL
    assert events(site, "b") > read(old)[0].position.length
    newest = copy_store(site.folder / "b.store", site.folder / "newest")
    for file in layout.files(site.folder / "b.store")[
        :3
    ]:  # first without its head file, which was left where it is
        file.unlink(missing_ok=True)
    shutil.copy(old, site.folder)
    running = ("a", "c", SERVER)
    refused(
        site,
        site.join("b"),
        "b.store is damaged or an old copy",
        "b.store-head counts",
        running=running,
    )
    for command in (["status"], ["ledger", "verify"], ["ledger", "show"]):
        refused(site, [*command, "b.store"], "b.store is damaged or an old copy", running=running)
    copy_store(old, site.folder)
    code, out, err = site.run(site.join("b"), FAST)
    assert (code, out) in ((REFUSED, ""), (TURNED_AWAY, ""))
    assert "is an old copy" in err.splitlines()[-1]
    assert "Traceback" not in err
    assert events(site, "b") < read(newest)[0].position.length
    for process in (*others, server):
        process.kill()


def test_in_the_place_of_a_store_that_is_lost_no_new_one_is_made(site: Site) -> None:
    client = site.start("a", site.join("a"))
    site.wait_for(lambda: "nobody listens" in site.said("a"))
    assert site.end(client) == STOPPED
    for file in layout.files(site.folder / "a.store"):
        file.unlink(missing_ok=True)
    refused(
        site,
        site.join("a"),
        "there is no store",
        "correct the path, bring back the newest copy",
    )
