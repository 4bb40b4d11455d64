"""`status` in the midst of a run: whom it waits for, and whether a process works with the store, at
every width of a terminal.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from command_line import PUBLIC, Command, refused
from fastlloyd.federation.protocol.actions import SERVER
from fastlloyd.federation.protocol.messages import Broadcast, Upload, decode
from fastlloyd.federation.store import lock
from fastlloyd.jobs.live import LiveFile, Sight, live_path
from fastlloyd.mechanisms import central
from fastlloyd.reports.page.document import document
from fastlloyd.reports.status import look
from federation import make_federation, make_plan
from mortal_parties import World
from stores import copy_store

FEDERATION = make_federation(make_plan(3, n_clusters=1, n_features=1, n_iterations=2), seed=4)


def carried(world: World, until: Callable[[str, str, object], bool]) -> None:
    """Deliver what is on its way until somebody would get such a message."""
    world._revive()
    world.queue.clear()
    for name in world.plan.names:
        world.connect(name)
    while world.queue:
        sender, to, data = world.queue[0]
        if until(sender, to, decode(data, world.limits)):
            return
        world.queue.popleft()
        world._deliver(sender, to, data)
    raise AssertionError("nobody gets such a message")


def test_status_names_who_has_not_been_heard_from_since_the_last_step(
    fastlloyd: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def upload_of_the_last(sender: str, _to: str, message: object) -> bool:
        return sender == "c2" and isinstance(message, Upload) and message.round == 2

    with World(FEDERATION.plan, FEDERATION.X, tmp_path) as world:
        carried(world, upload_of_the_last)
        stores = {}
        for name in (SERVER, "c0", "c2"):
            store = world.parties[name].store
            assert store is not None
            stores[name] = str(store.path)
            code, out, _ = fastlloyd("status", stores[name], "--json")
            told = json.loads(out)
            (run,) = told["runs"]
            assert (code, told["in_use"], run["rounds"]) == (0, True, 1)
            # the server's store has heard of an upload that was taken, and not of one on its way
            waits = {SERVER: ["c2"], "c0": "the others", "c2": "the others"}
            assert run["waits_for"] == waits[name]
        for columns in ("80", "40", "200"):
            monkeypatch.setenv("COLUMNS", columns)
            code, out, _ = fastlloyd("status", stores[SERVER])
            first, *rows = out.splitlines()
            assert first.endswith("; a process uses it")
            assert len(rows) == 2
            assert rows[0].startswith(f"run {world.plan.run_id}: 1 rounds closed")
            assert rows[1].endswith("; 1 round closed; not heard from since then: c2")
        code, out, _ = fastlloyd("status", stores["c0"])
        assert out.endswith("see which clients\n")
        copy = copy_store(Path(stores[SERVER]), tmp_path / "copy")
    code, out, _ = fastlloyd("status", str(copy))
    assert "no process uses it" in out
    assert json.loads(fastlloyd("status", str(copy), "--json").out)["in_use"] is False


def test_a_client_that_owes_the_next_answer_says_that_it_is_waited_for(
    fastlloyd: Command, tmp_path: Path
) -> None:
    def broadcast(_sender: str, to: str, message: object) -> bool:
        return to == "c1" and isinstance(message, Broadcast) and message.round == 1

    with World(FEDERATION.plan, FEDERATION.X, tmp_path) as world:
        carried(world, broadcast)
        store = world.parties["c1"].store
        assert store is not None
        assert "waits for the" in fastlloyd("status", str(store.path)).out


def test_looking_whether_a_store_is_used_keeps_nobody_from_using_it(tmp_path: Path) -> None:
    path = tmp_path / "a.store"
    assert lock.is_held(path) is False
    for _ in range(3):
        held = lock.Lock(path)
        assert lock.is_held(path) is True
        held.release()
        assert lock.is_held(path) is False
    assert sorted(tmp_path.iterdir()) == [tmp_path / "a.store-lock"]


def test_a_page_replaces_a_page_and_never_a_store(fastlloyd: Command, tmp_path: Path) -> None:
    def broadcast(_sender: str, _to: str, message: object) -> bool:
        return isinstance(message, Broadcast)

    with World(FEDERATION.plan, FEDERATION.X, tmp_path) as world:
        carried(world, broadcast)
        mine = world.parties["c1"].store
        assert mine is not None
        store, other = str(mine.path), copy_store(mine.path, tmp_path / "other")
        before = other.read_bytes()
        code, _, err = fastlloyd("status", "--html", str(other), store)
        assert code != 0
        assert str(other) in err
        assert other.read_bytes() == before
        page = str(tmp_path / "page.html")
        for _ in range(2):
            assert fastlloyd("status", store, "--html", page).code == 0
        Path(page).write_bytes(document("Result", []))
        code, _, err = fastlloyd("status", "--html", page, store)
        assert (code, "another kind" in err) == (2, True)


@pytest.mark.skipif(os.name != "posix", reason="there are no named pipes")
def test_a_pipe_beside_the_store_does_not_hold_status_up(
    fastlloyd: Command, tmp_path: Path
) -> None:
    def broadcast(_sender: str, _to: str, message: object) -> bool:
        return isinstance(message, Broadcast)

    with World(FEDERATION.plan, FEDERATION.X, tmp_path) as world:
        carried(world, broadcast)
        mine = world.parties["c1"].store
        assert mine is not None
        live_path(mine.path).unlink(missing_ok=True)
        os.mkfifo(live_path(mine.path))
        (run,) = json.loads(fastlloyd("status", str(mine.path), "--json").out)["runs"]
        assert run["live"] is None


@pytest.fixture
def told(fastlloyd: Command, here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a file of progress as a fit leaves it that is killed after its first round."""
    original = central.cluster

    def watched(*arguments: Any) -> Any:
        done = original(*arguments)
        (here / "killed.live.json").write_bytes((here / "result.live.json").read_bytes())
        return done

    monkeypatch.setattr(central, "cluster", watched)
    assert fastlloyd("fit", "data.csv", *PUBLIC, "--out", "result").code == 0
    return here


@pytest.mark.parametrize("named", ["killed", "killed.live.json"])
def test_status_tells_of_a_fit_and_of_one_that_was_killed(
    fastlloyd: Command, told: Path, named: str
) -> None:
    (run,) = json.loads(fastlloyd("status", named, "--json").out)["runs"]
    assert not run["has_stopped"]
    assert run["rounds"] == run["live"]["sight"]["n_rounds"] > 0
    assert "now: " in fastlloyd("status", named).out
    file = told / "killed.live.json"
    content = json.loads(file.read_text())
    file.write_text(json.dumps(content | {"written": content["written"] - 60}))
    code, out, _ = fastlloyd("status", named)
    assert code == 0
    assert "last heard 1 min ago" in out
    assert "now: " not in out
    assert "cannot go on" in out
    assert json.loads(fastlloyd("status", named, "--json").out)["runs"][0]["has_stopped"]
    assert fastlloyd("status", named, "--html", "page.html").code == 0
    page = (told / "page.html").read_text()
    assert "last heard 1 min ago" in page
    assert "The run cannot go on" in page
    assert "start it again" not in page


def test_a_fit_that_ended_leaves_its_result_alone(fastlloyd: Command, told: Path) -> None:
    assert not live_path(told / "result").exists()
    assert fastlloyd("status", "result").out == "result: finished\n"
    (run,) = json.loads(fastlloyd("status", "result", "--json").out)["runs"]
    assert (run["state"], run["live"], run["rounds"]) == ("finished", None, None)
    assert fastlloyd("status", "result", "--html", "page.html").code == 0
    assert ": finished" in (told / "page.html").read_text()


def test_a_folder_without_a_result_and_a_run_is_refused(fastlloyd: Command, here: Path) -> None:
    (here / "empty").mkdir()
    for named in ("empty", "none.live.json", "none"):
        refused(fastlloyd("status", named), named, "NAME.live.json", "result")
    refused(fastlloyd("status", "none.store"), "none.identity.toml")


def test_a_watch_shows_changes_once_and_the_end_of_a_fit_and_its_kill(
    fastlloyd: Command, told: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = told / "killed.live.json"
    content = json.loads(file.read_text())

    def written(seconds: float) -> Callable[[], object]:
        return lambda: file.write_text(
            json.dumps(content | {"written": content["written"] - seconds})
        )

    # nothing new, a later write, a kill, and an end without a result
    changes = [lambda: None, written(1), written(60), file.unlink]

    def pause(_seconds: float) -> None:
        if not changes:
            raise KeyboardInterrupt
        changes.pop(0)()

    monkeypatch.setattr("fastlloyd.cli.commands.status.time.sleep", pause)
    told_ = fastlloyd("status", "killed", "--watch").out
    assert told_.count("now: ") == 1
    assert told_.count("last heard") == 1
    assert told_.splitlines()[-1] == "killed: over, without a result"


@pytest.mark.parametrize(
    ("command", "role"),
    [
        (("fit", "data.csv", *PUBLIC), "fit"),
        (("simulate", "data.csv", "--clients", "2", *PUBLIC), "simulation"),
        (
            (
                "bounds",
                "estimate",
                "data.csv",
                "--range",
                "age=0:1000,dose=0:100",
                "--n-records",
                "2000",
            ),
            "search for bounds",
        ),
    ],
)
def test_every_job_on_ones_own_records_tells_of_its_progress(
    fastlloyd: Command,
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: tuple[str, ...],
    role: str,
) -> None:
    seen = list[str]()
    original = LiveFile.see

    def see(file: LiveFile, sight: Sight) -> None:
        original(file, sight)
        seen.append(look(here / "out.toml")["role"])

    monkeypatch.setattr(LiveFile, "see", see)
    assert fastlloyd(*command, "--out", "out.toml").code == 0
    assert set(seen) == {role}
    assert not list(here.glob("*.live.json"))
