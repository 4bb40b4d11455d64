"""The file of progress: what changes is written at once, and what has stopped is seen to be old."""

import json
import stat
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastlloyd.jobs import live
from fastlloyd.jobs.live import LiveFile, Sight, live_path, read_live

SIGHT = Sight(
    name="server",
    role="server",
    run_id="00",
    step="joining",
    n_rounds=2,
    n_clients=3,
    awaited=("a",),
    connected=("b", "c"),
)


class _Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_change_of_step_or_parties_is_written_at_once_and_bytes_after_a_while(
    tmp_path: Path,
) -> None:
    path, clock = tmp_path / "server.live.json", _Clock()
    file = LiveFile(path, clock)
    assert read_live(path) is None
    file.see(SIGHT)
    first = read_live(path)
    assert first is not None
    assert (first.sight, first.since, first.written) == (SIGHT, 1000.0, 1000.0)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    clock.now += live.PERIOD / 2
    file.see(msgspec.structs.replace(SIGHT, sent=5))
    assert read_live(path) == first
    clock.now += live.PERIOD / 2
    file.see(msgspec.structs.replace(SIGHT, sent=6))
    second = read_live(path)
    assert second is not None
    assert (second.sight.sent, second.since) == (6, 1000.0)
    file.see(msgspec.structs.replace(SIGHT, awaited=()))
    clock.now += 1
    file.see(msgspec.structs.replace(SIGHT, step="round 1 of 2"))
    third = read_live(path)
    assert third is not None
    assert third.steps == (("joining", live.PERIOD + 1),)
    assert third.since == third.written == clock.now
    clock.now -= 7200  # a clock that jumps back does not stop the file
    file.see(msgspec.structs.replace(SIGHT, step="round 1 of 2", sent=9))
    fourth = read_live(path)
    assert fourth is not None
    assert fourth.sight.sent == 9
    file.end("The run is over.")
    last = read_live(path)
    assert last is not None
    assert last.end == "The run is over."
    assert not last.is_old(clock.now + 1e6)


def test_a_process_that_was_killed_is_old_within_ten_seconds(tmp_path: Path) -> None:
    clock = _Clock()
    file = LiveFile(tmp_path / "a.live.json", clock)
    file.see(SIGHT)
    left = read_live(tmp_path / "a.live.json")
    assert left is not None
    assert not left.is_old(clock.now + live.PERIOD)
    assert left.is_old(clock.now + 10)
    assert live.PERIOD + 1 < live.OLD < 10  # a write may take a second


def test_a_file_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    file = LiveFile(tmp_path / "no folder" / "a.live.json")
    file.see(SIGHT)
    file.end("over")
    LiveFile(None).see(SIGHT)
    assert list(tmp_path.iterdir()) == []


@given(st.binary(max_size=200))
def test_anything_that_is_no_file_of_progress_is_none(content: bytes) -> None:
    assert _read(content) is None


def _read(content: bytes) -> object:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.live.json"
        path.write_bytes(content)
        return read_live(path)


def test_the_file_lies_beside_the_store_or_the_result() -> None:
    assert live_path(Path("x/clinic-a.store")) == Path("x/clinic-a.live.json")
    assert live_path(Path("x/result.v2/")) == Path("x/result.v2.live.json")
    assert live_path(Path("x/result.live.json")) == Path("x/result.live.json")
    here = Path.cwd()
    assert live_path(Path()) == here.with_name(f"{here.name}.live.json")


@pytest.mark.parametrize(
    "changed",
    [
        {"since": 1e300},
        {"written": -1e300},
        {"end": "\x1b]0;title\x07"},
        {"sight": {"step": "\x1b[31m"}},
        {"sight": {"n_rounds": -5}},
        {"sight": {"sent": 10**30}},
        {"sight": {"seconds_left": 1e308}},
        {"sight": {"awaited": ["a\x9b"]}},
    ],
)
def test_a_file_with_times_without_a_date_or_commands_for_a_terminal_is_not_used(
    tmp_path: Path, changed: dict[str, Any]
) -> None:
    path = tmp_path / "server.live.json"
    LiveFile(path).see(SIGHT)
    content = json.loads(path.read_text())
    assert read_live(path) is not None
    sight = content["sight"] | changed.pop("sight", {})
    path.write_text(json.dumps(content | changed | {"sight": sight}))
    assert read_live(path) is None


def test_content_of_the_future_is_old_as_content_of_the_past_is(tmp_path: Path) -> None:
    path, clock = tmp_path / "server.live.json", _Clock()
    LiveFile(path, clock).see(SIGHT)
    found = read_live(path)
    assert found is not None
    assert not found.is_old(clock.now - live.OLD)
    assert found.is_old(clock.now - 2 * live.OLD)  # the clock was set back, and nothing was written
    assert found.is_old(clock.now + 2 * live.OLD)
