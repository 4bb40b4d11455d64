"""Commands of runs over a network: a site of clients and a server, and what is refused there."""

import contextlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fastlloyd.cli.commands.demo import make_identities
from fastlloyd.cli.failures import run as run_command
from fastlloyd.federation.fingerprint_file import FILE_NAME, FingerprintFile
from fastlloyd.federation.store import read
from fastlloyd.federation.store.head_file import head_path
from network_processes import SERVER, Site, cleared, make_site

NO_RESULT, STOPPED, REFUSED, TURNED_AWAY = 3, 4, 2, 5

FAST = {"fast": True}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    make_site(folder)
    return folder


@pytest.fixture
def site(made: Path, tmp_path: Path) -> Iterator[Site]:
    with cleared(Site.make(made, tmp_path / "site")) as site:
        yield site


def tree(folder: Path, running: tuple[str, ...] = ()) -> dict[str, bytes]:
    """Everything but logs, stores and files of progress of those that run, locks, and what SQLite
    keeps beside a store while it is read.
    """
    theirs = tuple(f"{name}{end}" for name in running for end in (".store", ".live.json"))
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and path.suffix not in (".out", ".err")
        and not path.name.endswith(("-lock", "-shm", "-wal"))
        if not path.name.startswith(theirs)
    }


def events(site: Site, name: str) -> int:
    return read(site.folder / f"{name}.store")[0].position.length


def left(site: Site) -> set[str]:
    """The clients that have taken the end, as the server's store has it."""
    return {
        name
        for run in read(site.folder / f"{SERVER}.store")[0].history.runs.values()
        for name in run.left
    }


def here(site: Site, arguments: list[str]) -> tuple[int, str, str]:
    """As `Site.run`, in this process: what ends before it has begun needs none of its own, which
    takes a second or two.
    """
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.chdir(site.folder),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        code = run_command(arguments)
    return code, out.getvalue(), err.getvalue()


def refused(
    site: Site,
    arguments: list[str],
    *fragments: str,
    new: tuple[str, ...] = (),
    running: tuple[str, ...] = (),
) -> None:
    """Exit code 2, one sentence with the fragments, nothing on stdout; written is nothing, but for
    empty stores, and a file of fingerprints without any.

    running : parties whose processes go on meanwhile, and write to their stores.
    """
    before = tree(site.folder, running)
    code, out, err = here(site, arguments)
    assert (code, out) == (REFUSED, "")
    *notes, sentence = err.splitlines()
    assert len(notes) == sum(name != SERVER for name in new)
    assert all(note.startswith("Note: made ") and "a new store" in note for note in notes)
    assert sentence.startswith("Error: ")
    for fragment in fragments:
        assert fragment in sentence
    after = tree(site.folder, running)
    for name in new:
        path = site.folder / after_name(name)
        assert read(path)[0].position.length == 0
        for file in (path, head_path(path)):
            after.pop(file.name)
    if new and FILE_NAME not in before and FILE_NAME in after:
        made = FingerprintFile(site.folder / FILE_NAME).read()
        assert made is not None
        assert not made.runs
        after.pop(FILE_NAME)
    assert after == before


def after_name(name: str) -> str:
    return f"{name}.store"


def other_site(site: Site, name: str) -> dict[str, Any]:
    folder = site.folder / "others"
    folder.mkdir(exist_ok=True)
    return dict(make_identities(folder, (name,)))
