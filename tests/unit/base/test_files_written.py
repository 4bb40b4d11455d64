"""Files and folders: complete or absent, and never in the place of something else."""

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from fastlloyd.base import files
from fastlloyd.errors import OutputError
from fastlloyd.reports.run_result import FILES

CONTENTS = {"centroids.csv": b"a,b\n", "privacy.json": b"{}\n"}


def _tree(folder: Path) -> dict[str, bytes | None]:
    return {
        str(p.relative_to(folder)): p.read_bytes() if p.is_file() else None
        for p in sorted(folder.rglob("*"))
    }


def test_a_folder_is_made_with_its_parents_and_the_usual_modes(tmp_path: Path) -> None:
    umask = os.umask(0o022)
    try:
        paths = files.write_folder(tmp_path / "new" / "run", CONTENTS, force=False)
    finally:
        os.umask(umask)
    assert [p.name for p in paths] == list(CONTENTS)
    assert {p.name: p.read_bytes() for p in paths} == CONTENTS
    assert stat.S_IMODE((tmp_path / "new" / "run").stat().st_mode) == 0o755
    assert all(stat.S_IMODE(p.stat().st_mode) == 0o644 for p in paths)
    assert [p.name for p in (tmp_path / "new").iterdir()] == ["run"]


def test_what_exists_is_refused_without_force(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "privacy.json").write_text("mine")
    (tmp_path / "file").write_text("mine")
    before = _tree(tmp_path)
    for name in ("full", "file", "file/below"):
        with pytest.raises(OutputError, match=name):
            files.check_destination(tmp_path / name, force=False)
        with pytest.raises(OutputError, match=name):
            files.write_folder(tmp_path / name, CONTENTS, force=False)
    assert _tree(tmp_path) == before


def test_an_empty_folder_is_filled_without_force_and_keeps_its_permissions(tmp_path: Path) -> None:
    out = tmp_path / "run"
    out.mkdir(mode=0o700)
    files.check_destination(out, force=False)
    assert not list(out.iterdir())
    files.write_folder(out, CONTENTS, force=False)
    assert {p.name: p.read_bytes() for p in out.iterdir()} == CONTENTS
    assert stat.S_IMODE(out.stat().st_mode) == 0o700
    assert [p.name for p in tmp_path.iterdir()] == ["run"]


def test_a_folder_that_cannot_be_replaced_is_refused_beforehand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "is_mount", lambda path: path == tmp_path / "run")
    (tmp_path / "run").mkdir()
    with pytest.raises(OutputError, match="mount point"):
        files.check_destination(tmp_path / "run", force=False)
    files.check_destination(tmp_path / "run" / "result", force=False)


def test_force_replaces_results_and_empty_folders_whole(tmp_path: Path) -> None:
    out = tmp_path / "run"
    out.mkdir()
    files.write_folder(out, CONTENTS | {"rounds.json": b"[]"}, force=True, files=FILES)
    files.write_folder(out, CONTENTS, force=True, files=FILES)
    assert {p.name for p in out.iterdir()} == set(CONTENTS)
    assert [p.name for p in tmp_path.iterdir()] == ["run"]


@pytest.mark.parametrize("mine", ["notes.txt", "centroids.csv.bak", "plan.toml/inside", ".hidden"])
def test_force_never_deletes_what_fastlloyd_did_not_write(tmp_path: Path, mine: str) -> None:
    files.write_folder(tmp_path / "run", CONTENTS, force=False)
    (tmp_path / "run" / mine).parent.mkdir(exist_ok=True)
    (tmp_path / "run" / mine).write_text("mine")
    before = _tree(tmp_path)
    with pytest.raises(OutputError, match="not replaced"):
        files.write_folder(tmp_path / "run", CONTENTS, force=True, files=FILES)
    assert _tree(tmp_path) == before


def test_force_leaves_a_folder_alone_that_merely_uses_the_same_names(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "plan.toml").write_text("a plan of my own")
    with pytest.raises(OutputError, match=r"privacy\.json"):
        files.check_destination(tmp_path / "mine", force=True, files=FILES)
    (tmp_path / "file").write_text("mine")
    with pytest.raises(OutputError, match="is a file"):
        files.check_destination(tmp_path / "file", force=True, files=FILES)


def test_a_link_to_a_result_is_followed_and_stays_a_link(tmp_path: Path) -> None:
    files.write_folder(tmp_path / "real", CONTENTS, force=False)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    files.write_folder(tmp_path / "link", {"privacy.json": b"new"}, force=True, files=FILES)
    assert (tmp_path / "link").is_symlink()
    assert _tree(tmp_path / "real") == {"privacy.json": b"new"}


def test_a_folder_one_cannot_write_to_is_refused_beforehand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(OutputError, match="Permission denied"):
        files.check_destination(tmp_path / "run", force=False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "failure", [OSError(28, "No space left on device"), KeyboardInterrupt(), MemoryError()]
)
@pytest.mark.parametrize("earlier", [True, False])
@pytest.mark.parametrize("step", ["fsync", "rename"])
def test_whatever_goes_wrong_while_writing_leaves_everything_as_it_was(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    failure: BaseException,
    earlier: bool,
    step: str,
) -> None:
    """At the second file, and at the moment of putting the new folder in place."""
    out = tmp_path / "run"
    if earlier:
        files.write_folder(out, CONTENTS | {"rounds.json": b"earlier"}, force=False)
    before = _tree(tmp_path)
    patched: Any = os if step == "fsync" else Path
    original, calls = getattr(patched, step), []

    def fail(*given: Any) -> Any:
        calls.append(given)
        last = (
            len(calls) == 2
            if step == "fsync"
            else given[1] == out.resolve() and len(calls) == 1 + earlier
        )
        if last:
            raise failure
        return original(*given)

    monkeypatch.setattr(patched, step, fail)
    expected = OutputError if isinstance(failure, OSError) else type(failure)
    with pytest.raises(expected):
        files.write_folder(out, CONTENTS, force=True, files=FILES)
    monkeypatch.undo()
    assert len(calls) >= 1 + (step == "fsync")
    assert _tree(tmp_path) == before


def test_a_file_is_replaced_only_by_force_and_only_if_it_is_of_the_same_kind(
    tmp_path: Path,
) -> None:
    path = tmp_path / "plan.toml"
    files.check_file(path, heading="# kind", force=False)
    files.write_file(path, "# kind 1")
    with pytest.raises(OutputError, match="--force"):
        files.check_file(path, heading="# kind", force=False)
    files.check_file(path, heading="# kind", force=True)
    files.write_file(path, "# kind 2")
    assert _tree(tmp_path) == {"plan.toml": b"# kind 2"}
    with pytest.raises(OutputError, match="not replaced"):
        files.check_file(path, heading="# another kind", force=True)
    with pytest.raises(OutputError):
        files.check_file(tmp_path, heading="# kind", force=True)
    with pytest.raises(OutputError, match="missing"):
        files.write_file(tmp_path / "missing" / "plan.toml", "# kind")
    assert _tree(tmp_path) == {"plan.toml": b"# kind 2"}


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_what_has_no_end_is_not_read_to_see_whether_it_may_be_replaced(
    tmp_path: Path, kind: str
) -> None:
    path = (
        Path(os.devnull) if kind == "device" else tmp_path / "pipe"
    )  # as /dev/full, but harmless to read
    if kind == "pipe":
        os.mkfifo(path)
    with pytest.raises(OutputError, match="can be replaced"):
        files.check_file(path, heading="# kind", force=True)


def test_a_file_put_into_the_folder_at_the_last_moment_survives_force(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "result"
    files.write_folder(out, CONTENTS, force=False)
    rename = Path.rename

    def interfere(self: Path, target: Path) -> Path:
        if self == out.resolve() and not (out / "thesis.txt").exists():
            (out / "thesis.txt").write_text("mine")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", interfere)
    files.write_folder(out, CONTENTS, force=True, files=FILES)
    assert (out / "thesis.txt").read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["result"]


@pytest.mark.skipif(os.name != "posix", reason="there are no named pipes")
def test_a_pipe_is_read_if_something_writes_and_refused_at_once_if_nothing_does(
    tmp_path: Path,
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="nothing writes"):
        files.read_start(pipe, 10)
    reader, writer = os.pipe()
    os.write(writer, b"content")
    os.close(writer)
    assert files.read_start(Path(f"/dev/fd/{reader}"), 4) == b"cont"
    os.close(reader)


def test_a_file_in_a_folder_that_is_not_there_is_refused_before_anything_is_computed(
    tmp_path: Path,
) -> None:
    with pytest.raises(OutputError, match="is no folder"):
        files.check_file(tmp_path / "missing" / "plan.toml", heading="# kind", force=False)
