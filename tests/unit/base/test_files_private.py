"""A private file is its owner's alone from its first instant, is there whole or not at all, is
never replaced by accident.
"""

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from fastlloyd.base.files import read_private, write_private
from fastlloyd.errors import IdentityError, OutputError

posix = pytest.mark.skipif(os.name != "posix", reason="modes are POSIX's")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@posix
@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077, 0o777])
def test_the_mode_is_0600_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        write_private(tmp_path / "key", "secret")
    finally:
        os.umask(before)
    assert mode(tmp_path / "key") == 0o600
    assert read_private(tmp_path / "key", 100) == "secret"


@posix
def test_nobody_else_could_have_read_it_at_any_instant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every file on the way is opened exclusively with mode 0600, under a umask that hides nothing,
    and seen so at once.
    """
    opened: list[tuple[int, int]] = []
    real = os.open

    def watched(path: Any, flags: int, mode: int = 0o777, **options: Any) -> int:
        descriptor = real(path, flags, mode, **options)
        if flags & os.O_CREAT:
            opened.append((flags, mode))
            assert stat.S_IMODE(os.fstat(descriptor).st_mode) == 0o600
        return descriptor

    monkeypatch.setattr(os, "open", watched)
    before = os.umask(0)
    try:
        write_private(tmp_path / "key", "secret")
    finally:
        os.umask(before)
    assert len(opened) == 2
    assert all(flags & os.O_EXCL and requested == 0o600 for flags, requested in opened)
    assert [path.name for path in tmp_path.iterdir()] == ["key"]


@pytest.mark.parametrize("content", ["mine", ""])
def test_what_stands_there_is_not_replaced_unless_asked(tmp_path: Path, content: str) -> None:
    (tmp_path / "key").write_text(content)
    with pytest.raises(OutputError, match="key exists already"):
        write_private(tmp_path / "key", "secret")
    assert (tmp_path / "key").read_text() == content
    write_private(tmp_path / "key", "secret", replace=True)
    assert (tmp_path / "key").read_text() == "secret"
    assert os.name != "posix" or mode(tmp_path / "key") == 0o600
    assert len(list(tmp_path.iterdir())) == 1


@posix
def test_a_symbolic_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "key").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OutputError, match="exists already"):
        write_private(tmp_path / "key", "secret")
    assert not (tmp_path / "elsewhere").exists()
    write_private(tmp_path / "key", "secret", replace=True)
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("step", ["fsync", "replace"])
@pytest.mark.parametrize("failure", [OSError(28, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("earlier", [None, "mine"])
def test_what_fails_on_the_way_leaves_everything_as_it_was(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
    failure: BaseException,
    earlier: str | None,
) -> None:
    def fails(*_: Any) -> None:
        raise failure

    if earlier is not None:
        (tmp_path / "key").write_text(earlier)
    # 2 forms
    monkeypatch.setattr(*(("os.fsync",) if step == "fsync" else (Path, "replace")), fails)  # type: ignore[call-overload]
    with pytest.raises((OutputError, KeyboardInterrupt)):
        write_private(tmp_path / "key", "secret", replace=earlier is not None)
    assert [path.read_text() for path in tmp_path.iterdir()] == (
        [] if earlier is None else [earlier]
    )


def test_no_folder_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"none/key cannot.*written \(No"):
        write_private(tmp_path / "none" / "key", "secret")


@posix
@pytest.mark.parametrize("bits", [0o604, 0o640, 0o620, 0o602, 0o660, 0o644, 0o777])
def test_a_file_that_others_can_read_or_change_is_refused_with_the_remedy(
    tmp_path: Path, bits: int
) -> None:
    write_private(tmp_path / "key", "secret")
    (tmp_path / "key").chmod(bits)
    with pytest.raises(IdentityError, match=f"mode 0{bits:o}.*chmod 600.*key$") as caught:
        read_private(tmp_path / "key", 100)
    assert "secret" not in str(caught.value)


@posix
@pytest.mark.parametrize("bits", [0o600, 0o400])
def test_a_file_of_its_owner_alone_is_read(tmp_path: Path, bits: int) -> None:
    write_private(tmp_path / "key", "secret")
    (tmp_path / "key").chmod(bits)
    assert read_private(tmp_path / "key", 6) == "secret"


def test_what_is_no_such_file_is_refused(tmp_path: Path) -> None:
    write_private(tmp_path / "long", "x" * 101)
    write_private(tmp_path / "bytes", "x")
    (tmp_path / "bytes").write_bytes(b"\x80\x81")
    for name, sentence in {
        "none": "cannot be read",
        "": "is a folder|is not a file|cannot be read",
        "long": "larger than 100 bytes",
        "bytes": "not a text file",
    }.items():
        with pytest.raises(IdentityError, match=sentence):
            read_private(tmp_path / name, 100)


@posix
def test_a_pipe_does_not_hold_the_program_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(IdentityError, match=r"pipe.*not a file"):
        read_private(tmp_path / "pipe", 100)
