"""The file of progress of a fit: it follows the events, tells no secret number, and goes at the end."""

import json
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fastlloyd.jobs import live, live_job
from fastlloyd.jobs.live import Live, live_path, read_live
from fastlloyd.jobs.live_job import LiveJob
from fastlloyd.jobs.watching import (
    Event,
    PassProgressed,
    RoundAnswered,
    RunBegan,
    StepBegan,
    StepEnded,
)
from federation import make_plan


def _now(out: Path) -> Live:
    found = read_live(live_path(out))
    assert found is not None
    return found


def test_each_event_reaches_the_file_and_the_watch_and_no_number_of_records_does(
    tmp_path: Path,
) -> None:
    out, heard = tmp_path / "result.v2", list[Event]()
    mechanism = make_plan(3, n_clusters=1, n_features=1, n_iterations=2).mechanism
    n = mechanism.n_rounds
    with closing(LiveJob("fit", out, "ab" * 16)) as job:
        assert not live_path(out).exists()  # nothing before the work begins
        watch = job.telling(heard.append)
        assert live_path(out) == tmp_path / "result.v2.live.json"
        assert live_path(out).stat().st_mode & 0o077 == 0
        first = _now(out)
        assert (first.sight.name, first.sight.role) == ("result.v2", "fit")
        assert (first.sight.run_id, first.sight.can_go_on) == ("ab" * 16, False)
        steps = [
            (StepBegan(what="placing 200 initial centroids"), 0, "placing 200 initial centroids"),
            (RunBegan(mechanism=mechanism), 0, f"round 1 of {n}"),
            (PassProgressed(number=1, n_records=987_654), 0, f"round 1 of {n}"),
            (PassProgressed(number=1, n_pieces=77, n_all_pieces=7777), 0, f"round 1 of {n}"),
            (RoundAnswered(number=1, n_rounds=n), 1, f"round 2 of {n}"),
            (RoundAnswered(number=n, n_rounds=n), n, "the last round is answered"),
            (StepEnded(), n, "the last round is answered"),
        ]
        for event, n_closed, step in steps:
            watch(event)
            sight = _now(out).sight
            assert (sight.n_closed, sight.step) == (n_closed, step)
            told = json.dumps(msgspec.to_builtins(sight))  # without times
            assert not any(number in told for number in ("987654", "7777", "77"))
        assert heard == [event for event, *_ in steps]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_job_that_fails_or_is_interrupted_leaves_no_file(
    tmp_path: Path, error: type[BaseException]
) -> None:
    def failing(_: object) -> None:
        assert live_path(tmp_path / "result").exists()
        raise error

    with pytest.raises(error), closing(LiveJob("fit", tmp_path / "result")) as job:
        job.telling(failing)(StepBegan(what="x"))
    assert list(tmp_path.iterdir()) == []


def test_a_file_of_somebody_else_is_neither_replaced_nor_removed(tmp_path: Path) -> None:
    mine = tmp_path / "result.live.json"
    mine.write_text("my notes")
    with closing(LiveJob("fit", tmp_path / "result")) as job:
        job.telling(lambda _: None)(StepBegan(what="x"))
    assert mine.read_text() == "my notes"


def test_a_file_that_a_killed_job_left_is_replaced(tmp_path: Path) -> None:
    out = tmp_path / "result"
    killed = LiveJob("fit", out, "00")
    killed.telling(lambda _: None)
    killed._over.set()
    with closing(LiveJob("fit", out, "11")) as job:
        job.telling(lambda _: None)
        assert _now(out).sight.run_id == "11"
    assert not live_path(out).exists()


def test_the_file_is_written_again_while_no_event_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_job, "_PAUSE", 0.001)
    monkeypatch.setattr(live, "PERIOD", 0.0)
    with closing(LiveJob("fit", tmp_path / "result")) as job:
        job.telling(lambda _: None)
        first = _now(tmp_path / "result").written
        for _ in range(10_000):
            if _now(tmp_path / "result").written > first:
                return
            threading.Event().wait(0.001)
    raise AssertionError("the file is not written again")


def test_a_job_without_a_folder_keeps_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    heard = list[Any]()
    with closing(LiveJob("fit", None)) as job:
        job.telling(heard.append)(StepBegan(what="x"))
    assert len(heard) == 1
    assert list(tmp_path.iterdir()) == []
