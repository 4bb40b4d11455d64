"""Disks that fail under real processes of both algorithms, a process that is stopped, and a long
run: `make campaign`.

Plain `pytest` does not collect it.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fastlloyd.federation.plan.plan import Masks, Timeouts
from fastlloyd.mechanisms.lloyd.algorithm import FASTLLOYD
from fastlloyd.mechanisms.moment_lloyd.rounds import MOMENTLLOYD
from network_processes import HANG, N_COMMITS, NAMES, SERVER, Death, Site, cleared, make_site
from soak import check_growth, soak

pytestmark = pytest.mark.campaign

FAST = {"fast": True}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    make_site(folder)
    return folder


@pytest.fixture(params=Masks)
def masks(request: pytest.FixtureRequest) -> Masks:
    found: Masks = request.param
    return found


@pytest.fixture(params=[FASTLLOYD, MOMENTLLOYD], ids=["fastlloyd", "momentlloyd"])
def site(
    made: Path, tmp_path: Path, masks: Masks, request: pytest.FixtureRequest
) -> Iterator[Site]:
    with cleared(Site.make(made, tmp_path / "site", algorithm=request.param, masks=masks)) as site:
        yield site


@contextlib.contextmanager
def small_disk(folder: Path, *options: str) -> Iterator[None]:
    """A disk of 1 MB, mounted for the test; only root may."""
    folder.mkdir(exist_ok=True)
    mount = shutil.which("mount")
    if mount is None or not sys.platform.startswith("linux") or os.geteuid() != 0:
        pytest.skip("nobody may mount a disk here")
    # our own words
    made = subprocess.run([mount, "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], check=False)
    if made.returncode:
        pytest.skip("this machine mounts nothing")
    try:
        yield
    finally:
        # what was mounted above
        subprocess.run(["umount", "-l", folder], check=True)  # noqa: S607


def fill(folder: Path) -> Path:
    """Leave no byte."""
    filler = folder / "filler"
    with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(1024))
    return filler


@pytest.mark.parametrize("name", N_COMMITS)
def test_a_party_finds_its_disk_full_at_every_commit(name: str, site: Site) -> None:
    """The system refuses every write to a file during the commit; each commit fails once, and so
    does a client's result.
    """
    n_commits = site.n_commits[name]
    faults: list[Death] = [(n, "full") for n in range(n_commits)]
    if name != SERVER:
        faults.insert(-1, (n_commits - 1, "result"))
    assert len(faults) - 1 <= site.run_to_the_end({name: faults}) <= len(faults)


@pytest.mark.parametrize("stopped", ["a", SERVER])
def test_a_process_that_is_stopped_for_longer_than_its_step_goes_on_when_it_wakes(
    stopped: str, made: Path, tmp_path: Path, masks: Masks
) -> None:
    """By SIGSTOP, as a machine that sleeps, while everyone waits for `c`. The one that is stopped
    would wait for 8 seconds.
    """
    times = Timeouts(
        joining=8 if stopped == SERVER else 3600, dealing=1, round=3600, confirming=3600
    )
    with cleared(Site.make(made, tmp_path / "site", timeouts=times, masks=masks)) as site:
        marks: dict[str, dict[str, Any]] = {
            "a": FAST | ({} if stopped == SERVER else {"joining": 8}),
            "b": FAST,
        }
        server = site.start(SERVER, site.serve())
        site.wait_for(lambda: "listening" in site.said(SERVER))
        clients = {name: site.start(name, site.join(name), marks[name]) for name in "ab"}
        site.wait_for(
            lambda: all(f"client {name} is connected" in site.said(SERVER) for name in "ab")
        )
        process = server if stopped == SERVER else clients[stopped]
        process.send_signal(signal.SIGSTOP)
        time.sleep(8 + 3)
        clients["c"] = site.start("c", site.join("c"), FAST)
        process.send_signal(signal.SIGCONT)
        ends = {name: client.wait(HANG) for name, client in clients.items()}
        assert set(ends.values()) == {0}, {
            name: site.said(name)[-400:] for name in (*NAMES, SERVER)
        }
        assert server.wait(HANG) == 0


@pytest.mark.parametrize("name", ["b", SERVER])
def test_a_genuine_disk_is_full_when_a_process_starts_and_in_the_midst_of_its_run(
    name: str, site: Site
) -> None:
    disk = site.folder / "disk"
    store = ["--store", f"disk/{name}.store"]
    command = site.serve(*store) if name == SERVER else site.join(name, *store)
    others = {other: site.command(other) for other in (*NAMES, SERVER) if other not in (name, "c")}
    with small_disk(disk):
        filler = fill(disk)
        code, out, err = site.run(command, FAST)
        assert (code, out) == (2, "")
        assert err.startswith("Error: ")
        assert len(err.splitlines()) == 1
        assert "full" in err
        filler.unlink()
        one = site.start(name, command, FAST)
        rest = [site.start(other, line, FAST) for other, line in others.items()]
        first = NAMES[0]
        site.wait_for(lambda: f"client {first} is connected" in site.said(SERVER))
        if name != SERVER:
            site.wait_for(lambda: f"client {name} is connected" in site.said(SERVER))
        filler = fill(disk)
        rest.append(site.start("c", site.join("c"), FAST))
        assert one.wait(HANG) == 2
        last = site.said(name).splitlines()[-1]
        assert last.startswith("Error: ")
        assert f"{name}.store" in last
        assert "the disk is full" in last
        assert "Traceback" not in site.said(name)
        filler.unlink()
        again = site.start(name, command, FAST)
        assert [process.wait(HANG) for process in (again, *rest)] == [0] * 4
    assert len(set(site.centroids().values())) == 1
    assert set(site.centroids()) == set(NAMES)


def test_a_genuine_disk_is_read_only_when_a_process_starts(site: Site) -> None:
    disk = site.folder / "disk"
    with small_disk(disk):
        command = site.join("b", "--store", "disk/b.store")
        process = site.start("b", command, FAST)
        site.wait_for(lambda: "nobody listens" in site.said("b"))
        assert site.end(process) == 4
        before = (disk / "b.store").read_bytes()
        # our own disk
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)  # noqa: S607
        for line in (command, site.join("c", "--store", "disk/new.store")):
            code, out, err = site.run(line, FAST)
            assert (code, out) == (2, "")
            assert "Read-only file system" in err or "read-only" in err
            assert len(err.splitlines()) == 1
        assert (disk / "b.store").read_bytes() == before
        # our own disk
        subprocess.run(["mount", "-o", "remount,rw", disk], check=True)  # noqa: S607
        running = [site.start(name, site.command(name), FAST) for name in ("a", "c", SERVER)]
        assert site.run(command, FAST)[0] == 0
        assert [process.wait(HANG) for process in running] == [0] * 3
    assert len(set(site.centroids().values())) == 1


def test_a_genuine_disk_is_full_when_the_result_is_written(site: Site) -> None:
    disk = site.folder / "disk"
    with small_disk(disk):
        command = site.join("b", "--out", "disk/result-b")
        running = [site.start(name, site.command(name), FAST) for name in ("a", "c", SERVER)]
        process = site.start("b", command, FAST)
        site.wait_for(
            lambda: "client b is connected" in site.said(SERVER) or process.poll() is not None
        )
        filler = fill(disk)
        assert process.wait(HANG) == 2
        assert (
            "No space left on device); no part of it was kept; the result is kept in"
            in site.said("b").splitlines()[-1]
        )
        assert sorted(path.name for path in disk.iterdir()) == ["filler"]
        filler.unlink()
        assert site.run(command, FAST)[0] == 0
        assert [process.wait(HANG) for process in running] == [0] * 3
        assert (disk / "result-b" / "centroids.json").read_bytes() == site.centroids()["a"]


def test_a_run_of_a_thousand_rounds_holds_no_more_at_its_end_than_its_rounds_must_cost(
    tmp_path: Path,
) -> None:
    seen, site, outcomes = soak(tmp_path, 1000, {100, 999})
    check_growth(seen[100], seen[999], n_rounds=899)
    site.check(outcomes)
    sys.stdout.write(f"\n{seen}\n")
