"""Files and folders that are written completely or not at all, and files for their owner only.

A file for its owner only is made with mode 0600, so that others can never read it. When such a file
is read, it is refused if others could have read it. A folder is written next to its destination and
then renamed. So after a crash, a full disk or Ctrl-C there is the whole folder or nothing.
"""

import errno
import json
import os
import secrets
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import chain, count
from pathlib import Path
from typing import Any, BinaryIO, Final

from fastlloyd.base.places import whose
from fastlloyd.errors import OPEN_TO_OTHERS, IdentityError, OutputError

MARK: Final = b"\xef\xbb\xbf"
"""Byte order mark (BOM), which some editors put before UTF-8."""

_UTF_16: Final = (b"\xff\xfe", b"\xfe\xff")
OWNER_ONLY = 0o600
OTHERS = 0o077  # whatever the group and everyone else may do


@contextmanager
def replacing(path: Path, *, private: bool = False, durable: bool = True) -> Iterator[BinaryIO]:
    """Open a new file that replaces `path` in one step when the block ends.

    If the block or the disk fails, the file at `path` does not change.

    Raises OSError if the file cannot be written.

    private : whether only the owner can read the file. Its mode is then 0600 from the start.
    durable : whether the content is on disk when the block ends. Without it, a power cut may lose
        the file.
    """
    beside = path.parent / temporary_name(path)
    try:
        with os.fdopen(_create(beside, private=private), "wb") as file:
            yield file
            file.flush()
            if durable:
                os.fsync(file.fileno())
        beside.replace(path)
    finally:
        with suppress(OSError):
            beside.unlink()


def temporary_name(path: Path) -> str:
    """Return an unused hidden name for a file that will replace `path`."""
    return f".{path.name[:64]}.{secrets.token_hex(8)}.tmp"


def write_private(path: Path, text: str, *, replace: bool = False) -> None:
    """Write the file `path` with mode 0600, completely or not at all. Raises OutputError if it
    cannot be written, or if it exists and `replace` is false.

    An existing file is replaced only with `replace`. The name is reserved with O_EXCL, which only
    one of two processes can do and which follows no symbolic link. The text goes to a temporary
    file, which then replaces the reserved one. Others can never read either file, whatever the
    umask.
    """
    taken = False
    try:
        if not replace:
            os.close(_create(path, private=True))
            taken = True
        with replacing(path, private=True) as file:
            file.write(text.encode())
        taken = False
    except FileExistsError:
        raise OutputError(f"{path} exists already; choose another name") from None
    except OSError as error:
        raise OutputError(f"{path} cannot be written ({error.strerror}){whose(path)}") from None
    finally:
        if taken:
            with suppress(OSError):
                path.unlink()


def read_private(path: Path, max_bytes: int, *, secret_if: str = "") -> str:
    """Return the text of a file that only its owner can read. Raises IdentityError if others can
    read or change it, if it cannot be read, or if it is not a text file of at most `max_bytes`.

    The open file is checked, not its name. Without POSIX modes, as on Windows, the folder decides
    who can read the file, and nothing is refused.

    max_bytes : largest size of the file.
    secret_if : beginning of every file with a secret. A file with another beginning is not checked
        for other readers. The caller then says what is wrong with it.
    """
    try:
        # O_NONBLOCK: a pipe in the place of the file must not hold the program up
        descriptor = os.open(
            path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        )
        with os.fdopen(descriptor, "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise IdentityError(
                    f"{path} is not a file; pass a private identity, such as clinic-a.identity.toml"
                )
            content = file.read(max_bytes + 1)
            if (
                os.name == "posix"
                and found.st_mode & OTHERS
                and content.removeprefix(MARK).startswith(secret_if.encode())
            ):
                raise IdentityError(
                    f"{path} can be read or changed by other users (mode"
                    f" {stat.S_IMODE(found.st_mode):04o}), who may have copied its keys; if no"
                    f" other user did, run: chmod 600 {path}",
                    code=OPEN_TO_OTHERS,
                )
    except IsADirectoryError:
        raise IdentityError(
            f"{path} is a folder; pass a private identity, such as clinic-a.identity.toml"
        ) from None
    except OSError as error:
        raise IdentityError(unreadable(path, error)) from None
    if len(content) > max_bytes:
        raise IdentityError(
            f"{path} is larger than {max_bytes} bytes, so it is not a private identity; pass a"
            " private identity, such as clinic-a.identity.toml"
        )
    try:
        return decoded(content, path, "pass a private identity, such as clinic-a.identity.toml")
    except ValueError as error:
        raise IdentityError(str(error)) from None


def decoded(data: bytes, source: object, otherwise: str) -> str:
    """Return the text of a UTF-8 file, without a byte order mark.

    source : name of the file, for error messages.
    otherwise : sentence that says what to do with a file that is not text.

    Raises ValueError if the data are not UTF-8.
    """
    if data.startswith(_UTF_16) or b"\0" in data[:64]:
        raise ValueError(
            f"{source} is saved as UTF-16, as Windows PowerShell does; use the original file, or"
            " save this file as UTF-8"
        )
    try:
        return data.removeprefix(MARK).decode()
    except UnicodeDecodeError:
        raise ValueError(f"{source} is not a text file; {otherwise}") from None


def read_start(path: Path, max_bytes: int) -> bytes:
    """Return at most `max_bytes` from the beginning of a file. Raises OSError if it cannot be read.

    A pipe without a writer is refused, because opening it would wait for a writer without end.
    """
    with open(path, "rb", opener=_without_waiting) as file:
        content = file.read(max_bytes)
        if not content and stat.S_ISFIFO(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.ENODATA, "a pipe to which nothing writes")
        return content


def unreadable(path: Path, error: OSError) -> str:
    """Return the sentence for an input file that cannot be read, with the remedy."""
    why = error.strerror or type(error).__name__
    return f"{path} cannot be read ({why}){whose(path) or '; correct the path'}"


def _without_waiting(path: str, flags: int) -> int:
    descriptor = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
    if os.name == "posix":
        os.set_blocking(descriptor, True)
    return descriptor


def _create(path: Path, *, private: bool) -> int:
    mode = OWNER_ONLY if private else 0o666  # of which the umask takes its part
    descriptor = os.open(
        path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), mode
    )
    if private and os.name == "posix":
        os.fchmod(descriptor, OWNER_ONLY)  # a umask can take rights away from the owner too
    return descriptor


def to_json(content: Any) -> str:
    """Return the content as strict JSON in ASCII, indented, without NaN and infinity."""
    return json.dumps(content, indent=2, allow_nan=False) + "\n"


def check_destination(out: Path, *, force: bool, files: Sequence[str] = ()) -> None:
    """Raise OutputError if a folder could not or must not be written. Call this before computing.

    force : whether to replace a folder that contains only an earlier result. An empty folder is
        replaced even without `force`.
    files : names of the files of a result. Every result has the first of these files.
    """
    try:
        target = out.resolve()
        is_there = target.exists()
    except (OSError, ValueError, RuntimeError):  # too long, a null character, or links in a circle
        raise OutputError(f"{str(out)!r:.80} cannot be a folder; choose another name") from None
    if is_there:
        _check_replaceable(out, force=force, files=files)
    parent = next(folder for folder in target.parents if folder.exists())
    probe = parent / temporary_name(target)
    try:
        probe.mkdir()
        probe.rmdir()
    except OSError as error:
        raise OutputError(
            f"{out} cannot be made: {parent} is not a folder that can be written to"
            f" ({error.strerror}){whose(target, parent)}"
        ) from None


def write_folder(
    out: Path, contents: Mapping[str, bytes], *, force: bool, files: Sequence[str] = ()
) -> list[Path]:
    """Make the folder `out` with these files, or change nothing. Return their paths. Raises
    OutputError if `check_destination` refuses the folder, or if it cannot be written.

    The files are on disk when the function returns. After that, a client of a run deletes all data
    from which they were made.

    contents : content of each file, by name.
    force, files : as in `check_destination`.
    """
    check_destination(out, force=force, files=files)
    target = out.resolve()
    temporary = target.parent / temporary_name(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary.mkdir()
        for name, content in contents.items():
            with (temporary / name).open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        with suppress(OSError):  # where a folder cannot be synchronised, renaming does what it can
            sync_folder(temporary)
        _rename(temporary, target, files)
        with suppress(OSError):
            sync_folder(target.parent)
    except OSError as error:
        raise OutputError(
            f"{out} cannot be written ({error.strerror}); no part of it was kept"
        ) from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return [out / name for name in contents]


def free_name(folder: Path) -> Path:
    """Return the first of folder, folder-2, folder-3, ... that does not exist."""
    names = chain([folder], (folder.with_name(f"{folder.name}-{number}") for number in count(2)))
    return next(name for name in names if not name.exists())


def write_new_folder(folder: Path, contents: Mapping[str, bytes]) -> list[Path]:
    """Write a folder as `write_folder` does, under a name that is free.

    It never replaces a folder, even if another process makes one at the same time.
    """
    while True:
        name = free_name(folder)
        try:
            return write_folder(name, contents, force=False)
        except OutputError:
            if not name.exists():  # it was not taken meanwhile
                raise


def check_file(path: Path, *, heading: str | bytes, force: bool) -> None:
    """Raise OutputError if the file exists and must not be replaced.

    heading : beginning of the files that this program writes. Any other file is never replaced.
    force : whether a file that begins with `heading` may be replaced.
    """
    if not path.exists():
        if not path.parent.is_dir():
            raise OutputError(f"{path} cannot be made: there is no folder {path.parent}")
        return
    if not force:
        raise OutputError(f"{path} exists already; choose another name, or replace it with --force")
    if not path.is_file():  # a folder; or a device or pipe, which may have no end
        raise OutputError(f"{path} is not a file that can be replaced; choose another name")
    expected = heading.encode() if isinstance(heading, str) else heading
    try:
        with path.open("rb") as file:
            beginning = file.read(len(expected))
    except OSError as error:
        raise OutputError(
            f"{path} cannot be read ({error.strerror}); choose another name"
        ) from None
    if beginning != expected:
        raise OutputError(
            f"{path} is a file of another kind, so it is not replaced; choose another name"
        )


def write_file(path: Path, text: str) -> None:
    """Make or replace the file `path`, or change nothing. Raises OutputError if it cannot be
    written.
    """
    write_chunks(path, [text])


def write_bytes(path: Path, data: bytes) -> None:
    """Write bytes to a file as `write_file` writes text."""
    try:
        with replacing(path.resolve()) as file:
            file.write(data)
    except OSError as error:
        raise OutputError(f"{path} cannot be written ({error.strerror}){whose(path)}") from None


def write_chunks(path: Path, chunks: Iterable[str]) -> None:
    """Write text as `write_file` does, while it is generated.

    If an error interrupts the generation, the file does not change.
    """
    try:
        with replacing(path.resolve()) as file:
            file.writelines(chunk.encode() for chunk in chunks)
    except OSError as error:
        raise OutputError(f"{path} cannot be written ({error.strerror}){whose(path)}") from None


def sync_folder(folder: Path) -> None:
    """Make sure that the names of the files in a folder are on disk. Raises OSError if the folder
    cannot be synchronised.
    """
    if os.name == "posix":  # elsewhere a folder cannot be opened
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _rename(temporary: Path, target: Path, files: Sequence[str] = ()) -> None:
    """Replace the folder `target` by the folder `temporary`, which gets the permissions of
    `target`.

    The old folder is deleted last, and restored if the new folder cannot replace it.

    files : names of the files of a result, which are deleted with the old folder.
    """
    if not target.exists():
        temporary.rename(target)
        return
    shutil.copymode(target, temporary)
    aside = target.parent / temporary_name(target)
    target.rename(aside)
    try:
        temporary.rename(target)
    finally:
        if target.exists():
            _discard(aside, target, files)
        else:
            aside.rename(target)


def _discard(old: Path, new: Path, files: Sequence[str] = ()) -> None:
    """Delete the folder of an earlier result. Files in it that are not in `files` move to the new
    folder.
    """
    for name in files:
        with suppress(OSError):
            (old / name).unlink()
    with suppress(OSError):
        for entry in list(old.iterdir()):
            entry.rename(new / entry.name)
        old.rmdir()


def _check_replaceable(out: Path, *, force: bool, files: Sequence[str] = ()) -> None:
    if not out.is_dir():
        raise OutputError(f"{out} is a file; name a folder to be made")
    try:
        found = sorted(entry.name for entry in out.iterdir())
    except OSError as error:
        raise OutputError(
            f"{out} cannot be read ({error.strerror}); choose another folder"
        ) from None
    if out.is_mount():  # another folder cannot be put in its place
        raise OutputError(f"{out} is a mount point; name a folder to be made in it: {out}/result")
    if found and not force:
        raise OutputError(
            f"{out} exists already; choose another folder, or replace it with --force"
        )
    others = [name for name in found if name not in files or not (out / name).is_file()]
    if others or (found and files[0] not in found):
        raise OutputError(
            f"{out} contains {others[0]!r}, which fastlloyd did not write, so the folder is not"
            " replaced; choose another folder"
            if others
            else f"{out} has no {files[0]}, so it is not a result of fastlloyd and is not replaced;"
            " choose another folder"
        )
