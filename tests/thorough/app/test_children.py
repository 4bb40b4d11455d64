"""Runs in child processes: killed at any time, each is charged at most once, and its page says the
truth.
"""

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from app_process import write_patients
from fastlloyd.app.children import ChildRuns
from fastlloyd.app.run_state import RunState
from fastlloyd.federation.holder import HoldersLedger
from fastlloyd.federation.store.lock import Lock
from fastlloyd.jobs.data_files import files_of
from fastlloyd.jobs.fit_file import FitFile

RUN = "ab" * 16
RECIPE = """
[privacy]
epsilon = 1.0
n_records = 5000
[clustering]
n_clusters = 3
[features.age]
bounds = [0, 110]
[features.bmi]
bounds = [10, 60]
[here]
dataset = "ward-7"
header = "yes"
"""


def request(here: Path, **changed: Any) -> FitFile:
    records = here / "patients.csv"
    if not records.exists():
        write_patients(records)
    files = files_of(str(records))
    assert files is not None
    fields: dict[str, Any] = {"run_id": RUN, "records": str(records), "files": files}
    fields |= {"recipe": RECIPE, "out": str(here / "result"), "new_dataset": True}
    fields |= {"ledger": str(here / "ledger.store")}
    return FitFile(**fields | changed)


def ended(runs: ChildRuns, name: str = RUN) -> RunState:
    """The state of a run after its process has ended."""
    for _ in range(1200):
        if (look := runs.look(name)).state is not RunState.RUNNING:
            return look.state
        threading.Event().wait(0.05)
    raise AssertionError("the run does not end")


def counted(here: Path) -> int:
    return len(HoldersLedger(here / "ledger.store").history().runs)


def test_a_run_ends_with_its_result_and_a_new_app_finds_it(tmp_path: Path) -> None:
    runs = ChildRuns(tmp_path / "runs")
    runs.start(request(tmp_path))
    assert ended(runs) is RunState.DONE
    again = ChildRuns(tmp_path / "runs")
    look = again.look(RUN)
    assert look.state is RunState.DONE
    assert look.live is None
    assert not (tmp_path / "result.live.json").exists()
    assert look.digests.keys() == {path.name for path in (tmp_path / "result").iterdir()}
    assert again.names() == [RUN]
    assert counted(tmp_path) == 1
    for path in (tmp_path / "runs").rglob("*"):
        assert path.stat().st_mode & 0o077 == 0


def test_a_run_that_is_stopped_ends_and_is_charged_at_most_once(tmp_path: Path) -> None:
    runs = ChildRuns(tmp_path / "runs")
    runs.start(request(tmp_path))
    runs.stop(RUN)  # the process may not have its lock yet: then nothing is stopped
    while runs.look(RUN).state is RunState.RUNNING:
        runs.stop(RUN)
        threading.Event().wait(0.05)
    assert ended(runs) in (RunState.NOT_SPENT, RunState.REFUNDED, RunState.SPENT)
    assert counted(tmp_path) <= 1
    assert not (tmp_path / "result").exists()


def test_a_run_that_is_removed_leaves_its_result_and_its_entry(tmp_path: Path) -> None:
    runs = ChildRuns(tmp_path / "runs")
    runs.start(request(tmp_path))
    runs.remove(RUN)  # it is running
    assert runs.names() == [RUN]
    assert ended(runs) is RunState.DONE
    runs.remove(RUN)
    assert runs.names() == []
    assert (tmp_path / "result" / "privacy.json").exists()
    assert counted(tmp_path) == 1
    runs.start(request(tmp_path, out=str(tmp_path / "again"), new_dataset=False))
    assert ended(runs) is not RunState.DONE  # the ledger has this id
    assert counted(tmp_path) == 1


def test_many_presses_of_the_button_start_one_run(tmp_path: Path) -> None:
    runs, file = ChildRuns(tmp_path / "runs"), request(tmp_path)
    presses = [threading.Thread(target=runs.start, args=(file,)) for _ in range(8)]
    for press in presses:
        press.start()
    for press in presses:
        press.join()
    assert ended(runs) is RunState.DONE
    runs.start(file)
    assert len(runs._children) == 1
    assert counted(tmp_path) == 1


@pytest.mark.parametrize("line", ["", '"charged"', '"round 2 of'])
def test_a_killed_run_is_charged_at_most_once_and_its_page_says_the_truth(
    tmp_path: Path, line: str
) -> None:
    write_patients(tmp_path / "patients.csv", 60_000)
    recipe = RECIPE.replace("n_records = 5000", "n_records = 100000")
    recipe = recipe.replace("n_clusters = 3", "n_clusters = 40")
    runs = ChildRuns(tmp_path / "runs")
    runs.start(request(tmp_path, recipe=recipe))
    child, out = runs._children[RUN], tmp_path / "runs" / RUN / "stdout"
    live = tmp_path / "result.live.json"
    while not any(line in path.read_text() for path in (out, live) if path.exists()):
        if child.poll() is not None:
            break
        time.sleep(0)
    child.send_signal(signal.SIGKILL)
    child.wait()
    os.utime(tmp_path / "runs" / RUN / "request.json", (0, 0))  # nobody waits for it any more
    state = ended(ChildRuns(tmp_path / "runs"))
    there = (tmp_path / "ledger.store").exists()
    if line == "":
        assert (state, there) == (RunState.NOT_SPENT, False)
    else:
        has_result = (tmp_path / "result" / "privacy.json").exists()
        assert state is (RunState.DONE if has_result else RunState.SPENT)
        assert counted(tmp_path) == 1
    runs.start(request(tmp_path, recipe=recipe))  # a later press starts nothing
    assert ended(runs) is state
    assert len(runs._children) == 1


def test_a_request_whose_process_never_came_is_void_and_spends_nothing_later(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "runs" / RUN
    folder.mkdir(parents=True, mode=0o700)
    request(tmp_path).write(folder / "request.json")
    runs = ChildRuns(tmp_path / "runs")
    assert runs.look(RUN).state is RunState.RUNNING  # it may still come
    os.utime(folder / "request.json", (0, 0))
    assert runs.look(RUN).state is RunState.NOT_SPENT
    assert not (folder / "request.json").exists()
    runs.start(request(tmp_path))
    assert runs._children == {}


def test_a_run_that_lives_in_another_app_is_running(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / RUN
    folder.mkdir(parents=True, mode=0o700)
    request(tmp_path).write(folder / "request.json")
    os.utime(folder / "request.json", (0, 0))
    lock = Lock(folder / "request.json")
    try:
        assert ChildRuns(tmp_path / "runs").look(RUN).state is RunState.RUNNING
    finally:
        lock.release()


def test_a_refused_run_spends_nothing_and_its_reason_is_shown(tmp_path: Path) -> None:
    runs = ChildRuns(tmp_path / "runs")
    (tmp_path / "result").mkdir()
    (tmp_path / "result" / "mine.txt").write_text("x")
    runs.start(request(tmp_path))
    assert ended(runs) is RunState.NOT_SPENT
    assert any("result" in fault for fault in runs.look(RUN).faults)
    assert (tmp_path / "result" / "mine.txt").read_text() == "x"
    assert not (tmp_path / "ledger.store").exists()


def test_no_code_or_key_is_in_the_files_or_arguments_of_a_run(tmp_path: Path) -> None:
    runs = ChildRuns(tmp_path / "runs")
    runs.start(request(tmp_path))
    child = runs._children[RUN]
    _python, *arguments = child.args  # type: ignore[misc]
    assert arguments[:-1] == ["-P", "-m", "fastlloyd", "fit", "--request"]
    assert arguments[-1] == str(tmp_path / "runs" / RUN / "request.json")
    assert ended(runs) is RunState.DONE
    names = {path.name for path in (tmp_path / "runs" / RUN).iterdir()}
    expected = {"request.json", "request.json-lock", "stdout", "stderr", "recipe.toml"}
    assert names == expected
    assert (tmp_path / "runs" / RUN / "stderr").read_text() == ""
    assert "P00001" not in (tmp_path / "runs" / RUN / "stdout").read_text()
