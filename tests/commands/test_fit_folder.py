"""`fastlloyd fit`: the folder a result goes to, and pictures in it."""

import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from command_line import FIT, PUBLIC, Command, refused, tree
from fastlloyd.errors import OutputError
from fastlloyd.mechanisms import central
from fastlloyd.reports import picture, pictures


def test_records_are_drawn_only_on_request_and_then_the_picture_is_marked(
    fastlloyd: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[bool] = []
    original = pictures.draw

    def watch(picture: picture.Picture) -> bytes:
        drawn.append(picture.records is not None)
        return original(picture)

    monkeypatch.setattr(pictures, "draw", watch)
    assert "NOT PRIVATE" not in fastlloyd("fit", "data.csv", *PUBLIC, "--out", "without").err
    assert (
        "NOT PRIVATE" in fastlloyd("fit", "data.csv", *PUBLIC, "--out", "with", "--plot-data").err
    )
    assert drawn == [False, True]
    assert b"NOT PRIVATE" in Path("with/clusters.png").read_bytes()
    assert b"NOT PRIVATE" not in Path("without/clusters.png").read_bytes()


def test_without_matplotlib_everything_else_is_written(
    fastlloyd: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(_: picture.Picture) -> bytes:
        raise OutputError("clusters.png was left out because matplotlib is not installed")

    monkeypatch.setattr(pictures, "draw", missing)
    code, _, err = fastlloyd("fit", "data.csv", *PUBLIC, "--out", "result")
    assert code == 0
    assert err.splitlines() == [
        "Warning: clusters.png was left out because matplotlib is not installed"
    ]
    assert {p.name for p in Path("result").iterdir()} == {
        "centroids.csv",
        "centroids.json",
        "privacy.json",
        "mechanism.toml",
        "result.html",
    }


@pytest.mark.parametrize(
    "command", [("fit",), ("simulate", "--clients", "2")], ids=["fit", "simulate"]
)
def test_without_a_folder_a_run_makes_a_new_one_and_never_the_same_twice(
    fastlloyd: Command, here: Path, monkeypatch: pytest.MonkeyPatch, command: Sequence[str]
) -> None:
    """The clock stands still, so that all runs would have one name."""
    monkeypatch.setattr(time, "strftime", lambda _: "2025-01-31-120000")
    name, *more = command
    first, second = (fastlloyd(name, "data.csv", *more, *PUBLIC) for _ in range(2))
    assert (first.code, second.code) == (0, 0)
    made = [here / "data-k3-2025-01-31-120000", here / "data-k3-2025-01-31-120000-2"]
    assert sorted(path for path in here.iterdir() if path.is_dir()) == made
    for outcome, folder in zip((first, second), made, strict=True):
        assert f"Written to {folder.name}: centroids.csv, " in outcome.out
        assert {"centroids.csv", "centroids.json", "privacy.json", "clusters.png"} <= {
            path.name for path in folder.iterdir()
        }
    assert (made[0] / "centroids.json").read_bytes() != (made[1] / "centroids.json").read_bytes()
    assert fastlloyd("assign", made[0].name, "data.csv").code == 0


def test_a_folder_that_is_taken_at_the_last_moment_costs_no_result(
    fastlloyd: Command, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "strftime", lambda _: "now")
    genuine = Path.rename

    def overtaken(self: Path, target: Path) -> Path:
        if target.name == "data-k3-now":
            target.mkdir()
            (target / "mine.txt").write_text("of another process")
        return genuine(self, target)

    monkeypatch.setattr(Path, "rename", overtaken)
    outcome = fastlloyd("fit", "data.csv", *PUBLIC)
    assert outcome.code == 0
    assert "Written to data-k3-now-2: " in outcome.out
    assert [path.name for path in (here / "data-k3-now").iterdir()] == ["mine.txt"]


def test_a_working_directory_that_cannot_be_written_is_refused_before_anything_is_spent(
    fastlloyd: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(central, "cluster", lambda *_: pytest.fail("spent"))
    monkeypatch.setattr(Path, "mkdir", refuse)
    refused(fastlloyd(*FIT), "Permission denied", "data-k3-")


@pytest.mark.parametrize(
    "command", [("fit",), ("simulate", "--clients", "2")], ids=["fit", "simulate"]
)
def test_nothing_is_kept_only_where_that_is_asked_for(
    fastlloyd: Command, here: Path, command: Sequence[str]
) -> None:
    name, *more = command
    before = tree(here)
    code, out, _ = fastlloyd(name, "data.csv", *more, *PUBLIC, "--no-out")
    assert code == 0
    assert "Nothing was written" in out
    assert tree(here) == before


def test_force_replaces_an_earlier_result(fastlloyd: Command) -> None:
    fastlloyd("simulate", "data.csv", *PUBLIC, "--clients", "2", "--out", "result")
    code, _, _ = fastlloyd("fit", "data.csv", *PUBLIC, "--out", "result", "--force")
    assert code == 0
    assert not Path("result/rounds.json").exists()
