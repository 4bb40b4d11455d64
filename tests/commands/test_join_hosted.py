"""`join --serve`: one organisation takes part and also runs the server, with one command, in a
process of its own.
"""

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from fastlloyd.base.files import write_file
from fastlloyd.cli.hosting import Orders
from fastlloyd.federation.identity.identity import PrivateIdentity
from fastlloyd.federation.identity.parties import Timeouts
from fastlloyd.federation.plan.plan import Masks
from fastlloyd.reports.run_result import PLAN
from network_processes import HANG, NAMES, SERVER, Process, Site, cleared
from network_site import (
    FAST,
    NO_RESULT,
    REFUSED,
    STOPPED,
    TURNED_AWAY,
    events,
    here,
    left,
    other_site,
    refused,
)
from stores import copy_store

HOST = "a"
SERVE = ("--serve", f"{SERVER}.identity.toml")
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc")


@pytest.fixture
def site(made: Path, tmp_path: Path) -> Iterator[Site]:
    with cleared(Site.make(made, tmp_path / "site", masks=Masks.PAIRWISE, host=HOST)) as site:
        yield site


def host(site: Site, *more: str) -> list[str]:
    """The one command of the organisation that hosts."""
    return site.join(HOST, *SERVE, *more)


def known(name: str) -> dict[str, object]:
    """Marks of a client whose noise is known."""
    return FAST | {"noise": name}


def parents() -> dict[int, int]:
    """The parent of every process that runs."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = path.read_text().rpartition(")")[2].split()[:2]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if state != "Z":
            found[int(path.parent.name)] = int(parent)
    return found


def server_of(process: Process) -> int:
    """The process that a hosting command has started."""
    (child,) = [pid for pid, parent in parents().items() if parent == process.pid]
    return child


def listens(site: Site, log: str = HOST) -> bool:
    return "server: listening at" in site.said(log)


def test_one_of_three_hosts_and_all_end_with_the_result_by_plain_integers(site: Site) -> None:
    others = [site.start(name, site.join(name), known(name)) for name in "bc"]
    code, out, err = site.run(host(site, "--json"), known(HOST))
    assert (code, [process.wait(HANG) for process in others]) == (0, [0, 0]), err
    site.check_results()
    assert json.loads(out)["rounds"] == [{"round": n, "included": list(NAMES)} for n in (1, 2)]
    log = [json.loads(line) for line in err.splitlines()]
    servers = [line for line in log if line.get("party") == "server"]
    assert all(line["message"].startswith("server: ") == (line in servers) for line in log)
    assert {f"server: client {name} is connected" for name in NAMES} <= {
        line["message"] for line in servers
    }
    for lines in (
        servers,
        [line for line in log if line not in servers],
    ):  # both halves saw every step
        assert [line["step"] for line in lines if "step" in line] == [
            "joined",
            "round 1 of 2",
            "round 2 of 2",
            "confirmed",
        ]
    for name, role in ((HOST, "client"), (SERVER, "server")):
        status = json.loads(here(site, ["status", f"{name}.store", "--json"])[1])
        assert (status["role"], status["runs"][0]["state"]) == (role, "finished")
    # the same command says so again, and both halves find nothing left to do
    code, _, err = here(site, host(site))
    assert (code, err.count("The run is over: 2 rounds")) == (0, 1)


@on_linux
def test_the_servers_process_sees_no_record_and_no_passphrase_but_its_own(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (HOST, SERVER):
        identity = PrivateIdentity.load(site.folder / f"{name}.identity.toml")
        passphrase = f"correct horse battery {name}"
        identity.save(site.folder / f"{name}.identity.toml", passphrase=passphrase, replace=True)
        (site.folder / f"{name}.passphrase").write_text(passphrase)
    monkeypatch.setenv("FASTLLOYD_PASSPHRASE_FILE", f"{HOST}.passphrase")
    refused(site, host(site), "no terminal", "--server-passphrase-file")
    wrong = ("--server-passphrase-file", f"{HOST}.passphrase")
    refused(
        site,
        host(site, *wrong),
        f"the server did not start: the passphrase of {SERVER}.identity.toml is wrong",
    )
    process = site.start(HOST, host(site, "--server-passphrase-file", f"{SERVER}.passphrase"), FAST)
    site.wait_for(lambda: listens(site) and "connected to localhost:" in site.said(HOST))
    server = Path(f"/proc/{server_of(process)}")
    said = server.joinpath("cmdline").read_bytes() + server.joinpath("environ").read_bytes()
    for hidden in (
        b"correct horse",
        f"{HOST}.passphrase".encode(),
        f"{HOST}.csv".encode(),
        site.plan.digest.hex().encode(),
    ):
        assert hidden not in said
    opened = {Path(str(file.readlink())).name for file in server.joinpath("fd").iterdir()}
    assert f"{SERVER}.store" in opened
    assert not [name for name in opened if name.startswith(f"{HOST}.")]
    assert set(Orders.__struct_fields__) == {"plan", "key", "store", "address", "passphrase"}
    assert "correct" not in repr(
        Orders(plan="", key="", store="", address="", passphrase="correct")  # noqa: S106
    )
    assert site.end(process) == STOPPED


@on_linux
def test_a_hosting_command_that_is_killed_takes_both_halves_up_again_and_nothing_is_lost(
    site: Site,
) -> None:
    """Each life of the client half is killed two commits further, the last one before it wipes the
    run, and with it the server's process, wherever that is.
    """
    others = [site.start(name, site.join(name), known(name)) for name in "bc"]
    for life, die in enumerate(([1, "after"], [2, "before"], [1, "after"], [3, "before"])):
        process = site.start(f"life-{life}", host(site), known(HOST) | {"die": die})
        assert process.wait(HANG) == -signal.SIGKILL
    assert site.run(host(site), known(HOST))[0] == 0
    assert [other.wait(HANG) for other in others] == [0, 0]
    site.check_results()


@on_linux
def test_if_the_servers_process_is_killed_the_command_says_so_and_goes_on_when_it_is_given_again(
    site: Site,
) -> None:
    process = site.start(HOST, host(site), known(HOST))
    site.wait_for(lambda: "server: client a is connected" in site.said(HOST))
    subprocess.run(["kill", "-9", str(server_of(process))], check=True)  # noqa: S607
    assert process.wait(HANG) == REFUSED
    assert (
        "Error: the server failed: signal 9 ended it; run the same command again to continue"
        in site.said(HOST).splitlines()[-1]
    )
    # the other way round: whoever kills the command alone, its server is gone as well, and the port
    # and the store are free
    process = site.start("again", host(site), known(HOST))
    site.wait_for(lambda: listens(site, "again"))
    server = server_of(process)
    process.kill()
    process.wait()
    site.wait_for(lambda: server not in parents())
    others = [site.start(name, site.join(name), known(name)) for name in "bc"]
    assert site.run(host(site), known(HOST))[0] == 0
    assert [other.wait(HANG) for other in others] == [0, 0]
    site.check_results()


def test_sigterm_in_a_round_stops_both_halves_and_the_same_command_goes_on(site: Site) -> None:
    process = site.start(HOST, host(site), known(HOST))
    other = site.start("b", site.join("b"), known("b"))
    dying = site.start(
        "c", site.join("c"), known("c") | {"die": [4, "before"]}
    )  # the server waits for its upload
    assert dying.wait(HANG) == -signal.SIGKILL
    site.wait_for(lambda: "server: client c is gone" in site.said(HOST))
    assert "server: joined: 3 of 3 clients" in site.said(HOST)
    assert site.end(process) == STOPPED
    assert site.said(HOST).splitlines()[-1].startswith("Stopped. ")
    assert not (site.folder / f"result-{HOST}").exists()
    with socket.create_server(("127.0.0.1", int(site.plan.server.address.rpartition(":")[2]))):
        pass  # nobody listens any more
    processes = [
        site.start("again", host(site), known(HOST)),
        site.start("c", site.join("c"), known("c")),
    ]
    assert [each.wait(HANG) for each in (*processes, other)] == [0, 0, 0]
    site.check_results()


def test_the_server_stays_for_whoever_has_not_got_the_end_yet_and_ctrl_c_loses_nothing(
    site: Site,
) -> None:
    process = site.start(HOST, host(site), known(HOST))
    other = site.start("b", site.join("b"), known("b"))
    dying = site.start(
        "c", site.join("c"), known("c") | {"die": [8, "before"]}
    )  # with the others' confirmations
    assert [dying.wait(HANG), other.wait(HANG)] == [-signal.SIGKILL, 0]
    site.wait_for(lambda: "The server runs until" in site.said(HOST))
    site.wait_for(lambda: left(site) == {HOST, "b"})
    assert set(site.centroids()) == {HOST, "b"}
    process.send_signal(signal.SIGINT)
    assert process.wait(HANG) == STOPPED
    assert site.said(HOST).splitlines()[-1].startswith("Stopped. ")
    process = site.start("again", host(site), known(HOST))
    assert site.run(site.join("c"), known("c"))[0] == 0
    assert process.wait(HANG) == 0, site.said("again")
    assert "had already finished" in site.said("again", "out")
    site.check_results()


def test_a_run_without_a_result_is_told_to_all_also_after_a_kill(
    made: Path, tmp_path: Path
) -> None:
    """`c` never comes. `b` is killed when it has joined, the host when its own part is over and `b`
    has not been told.
    """
    times = Timeouts(joining=4, dealing=3600, round=3600, confirming=8)
    with cleared(
        Site.make(made, tmp_path / "site", masks=Masks.PAIRWISE, host=HOST, timeouts=times)
    ) as site:
        process = site.start(HOST, host(site), FAST)
        dying = site.start("b", site.join("b"), FAST)
        site.wait_for(lambda: "server: client b is connected" in site.said(HOST))
        dying.kill()
        site.wait_for(lambda: "This client is done" in site.said(HOST))
        process.kill()
        process.wait()
        assert "at least 3 are needed" in site.said(HOST)
        process = site.start("again", host(site), FAST)
        site.wait_for(lambda: listens(site, "again"))
        code, _, err = site.run(site.join("b"), FAST)
        assert (code, "at least 3 are needed" in err) == (NO_RESULT, True)
        # nothing was spent, so the host began the run again, and it ended in the same way
        assert process.wait(HANG) == NO_RESULT
        assert "at least 3 are needed" in site.said("again")
        for name in (HOST, SERVER):
            run = json.loads(here(site, ["status", f"{name}.store", "--json"])[1])["runs"][0]
            assert (run["state"], run["charged"]) == ("aborted", [])


def test_an_old_copy_of_the_hosts_own_store_is_turned_away_and_stops_its_server(site: Site) -> None:
    process = site.start(HOST, host(site), known(HOST))
    site.wait_for(lambda: "server: client a is connected" in site.said(HOST))
    site.wait_for(lambda: events(site, HOST) >= 2)
    assert site.end(process) == STOPPED
    old = copy_store(site.folder / f"{HOST}.store", site.folder / "old")
    others = [site.start(name, site.join(name), known(name)) for name in "bc"]
    dying = site.start("dying", host(site), known(HOST) | {"die": [4, "after"]})
    assert dying.wait(HANG) == -signal.SIGKILL
    newest = copy_store(site.folder / f"{HOST}.store", site.folder / "newest")
    copy_store(old, site.folder)
    code, out, err = site.run(host(site), known(HOST))
    assert (code, out) == (TURNED_AWAY, "")
    assert "is an old copy" in err
    copy_store(newest, site.folder)
    assert site.run(host(site), known(HOST))[0] == 0
    assert [other.wait(HANG) for other in others] == [0, 0]
    site.check_results()


def test_a_second_ctrl_c_ends_both_halves_at_once(site: Site) -> None:
    process = site.start(HOST, host(site), FAST)
    site.wait_for(lambda: "server: client a is connected" in site.said(HOST))
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    assert process.wait(HANG) in (STOPPED, 130)
    process = site.start("again", host(site), FAST)
    site.wait_for(lambda: "server: client a is connected" in site.said("again"))
    assert site.end(process) == STOPPED


def test_only_the_host_hosts_and_only_the_plans_server(site: Site) -> None:
    other_site(site, SERVER)
    refused(
        site,
        site.join("b", *SERVE),
        f"names '{HOST}' as the host, and you are 'b'",
        "leave out --serve",
    )
    refused(site, host(site, "--server", "localhost:1"), "exclude each other", "pass one")
    for key in (f"others/{SERVER}.identity.toml", f"{HOST}.identity.toml"):
        refused(site, site.join(HOST, "--serve", key), f"{key} is not the identity of the server")
    refused(site, site.join(HOST, "--serve", "none.toml"), "none.toml")
    for option in ("--listen", "--server-store", "--server-passphrase-file"):
        refused(
            site,
            site.join(HOST, option, "localhost:1"),
            f"{option} has no effect",
            "--serve",
        )
    refused(site, host(site, "--listen", "nowhere"), "--listen 'nowhere' is not HOST:PORT")
    nobody = msgspec.structs.replace(site.plan, host=None)
    write_file(site.folder / "nobody.toml", nobody.to_toml())
    arguments = [
        "nobody.toml" if part == PLAN else part
        for part in host(site, "--digest", nobody.digest.hex())
    ]
    refused(site, arguments, "nobody.toml names no host", f"--masks pairwise --host {HOST}")


def test_nothing_is_spent_while_the_server_cannot_listen_and_no_server_is_left_when_the_client_is_refused(
    site: Site,
) -> None:
    port = int(site.plan.server.address.rpartition(":")[2])
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        refused(
            site,
            host(site, "--listen", address),
            f"the server did not start: cannot listen at {address}",
            new=(SERVER,),
        )
    assert not (site.folder / f"{HOST}.store").exists()
    (site.folder / "many.csv").write_text("age,dose\n" + "1,2\n" * 51)
    code, out, err = here(site, host(site, "--data", "many.csv"))
    assert (code, out) == (REFUSED, "")
    assert "more records than its cap, max_records 50" in err.splitlines()[-1]
    assert events(site, HOST) == 0
    with socket.create_server(("127.0.0.1", port)):
        pass
    server = site.start(SERVER, site.serve(), FAST)
    site.wait_for(lambda: "listening at" in site.said(SERVER))
    code, _, err = here(site, host(site))
    assert (code, f"{SERVER}.store is in use by another process" in err.splitlines()[-1]) == (
        REFUSED,
        True,
    )
    assert site.end(server) == STOPPED


def test_a_rehearsal_of_the_host_starts_no_server_and_makes_no_store(site: Site) -> None:
    before = set(site.folder.iterdir())
    code, out, err = here(site, host(site, "--dry-run"))
    assert (code, err) == (0, "")
    assert "Everything is ready" in out
    wrong = ("--dry-run", "--serve", f"{HOST}.identity.toml")
    refused(site, site.join(HOST, *wrong), "is not the identity of the server")
    assert set(site.folder.iterdir()) == before


def test_the_servers_half_alone_can_be_rehearsed_with_and_is_no_command_to_type(site: Site) -> None:
    code, out, err = site.run(["hosted"], FAST)
    assert (code, out) == (REFUSED, "")
    assert "`fastlloyd join --serve FILE`" in err
    assert "hosted" not in here(site, ["--help"])[1]
    assert here(site, site.join("b", "--dry-run"))[0] == 0
    code, out, err = here(site, site.join(HOST, "--dry-run"))
    assert code == 0
    assert "names you as the host" in err
    assert "--serve FILE" in err
