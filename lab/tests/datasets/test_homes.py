"""Tests of downloads from a server on this machine. Either a set arrives whole and with its values,
or nothing is kept.
"""

import builtins
import csv
import gzip
import os
import socket
import struct
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from fastlloyd.errors import DataError
from fastlloyd_lab.datasets import CATALOGUE, DataSet, homes, load, values_digest
from fastlloyd_lab.datasets.catalogue import Form, Home

VALUES = np.array([[0.1, -2.0], [3.0, 1e-9], [5.0, 6.5]])
PUBLISHED = os.environ.get("FASTLLOYD_DATA")
TINY = "0.1,-2,a\n3,1e-9,b\n5,6.5,b\n"


@dataclass(frozen=True)
class Server:
    """Server whose answers are set by path: status, body, and stated length."""

    address: str
    answers: dict[str, tuple[int, bytes, int]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def put(self, path: str, body: bytes, *, status: int = 200, missing: int = 0) -> str:
        self.answers[f"/{path}"] = (status, body, len(body) + missing)
        return f"{self.address}/{path}"


@pytest.fixture
def server() -> Iterator[Server]:
    """Return a server for this test alone."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            serving.asked.append(self.path)
            status, body, length = serving.answers.get(self.path, (404, b"not here", 8))
            self.send_response(status)
            self.send_header("Content-Length", str(length))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as httpd:
        serving = Server(f"http://127.0.0.1:{httpd.server_port}")
        thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield serving
        httpd.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty cache for this test. No folder of sets and no proxies are set."""
    for name in ("FASTLLOYD_DATA", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "cache"
    monkeypatch.setattr(homes, "_cache_folder", lambda: folder)
    return folder


def tiny(*addresses: str, digest: str | None = None) -> DataSet:
    return replace(
        CATALOGUE["lsun"],
        name="tiny",
        n_records=3,
        n_features=2,
        digest=digest or values_digest(VALUES),
        homes=tuple(Home(address=address, has_class=True) for address in addresses),
    )


def refusal(entry: DataSet) -> str:
    with pytest.raises(DataError) as refused:
        homes.fetch(entry)
    return str(refused.value)


def test_a_fetched_set_is_kept_and_found_again(server: Server, cache: Path) -> None:
    entry = tiny(server.put("tiny.csv", TINY.encode()))
    assert homes.home_here(entry) is None
    assert homes.fetch(entry) == cache / "tiny.npy"
    assert [path.name for path in cache.iterdir()] == ["tiny.npy"]
    assert homes.home_here(entry) == "cache"
    table = homes.find(entry)
    assert np.array_equal(table.values, VALUES)
    assert table.columns == ("x1", "x2")
    assert table.source == str(cache / "tiny.npy")
    assert server.asked == ["/tiny.csv"]


def test_the_next_home_is_asked_where_one_fails(server: Server) -> None:
    entry = tiny(
        f"{server.address}/gone.csv",
        server.put("other.csv", b"1,2,a\n" * 3),
        server.put("tiny.csv", TINY.encode()),
    )
    homes.fetch(entry)
    assert server.asked == ["/gone.csv", "/other.csv", "/tiny.csv"]


def test_other_values_are_refused_and_a_file_that_was_there_stays(
    server: Server, cache: Path
) -> None:
    address = server.put("tiny.csv", TINY.encode())
    homes.fetch(tiny(address))
    before = (cache / "tiny.npy").read_bytes()
    server.put("tiny.csv", TINY.replace("6.5", "6.4").encode())
    other = values_digest(np.array([*VALUES[:2], [5.0, 6.4]]))
    expected = f"{address}: the digest of its values is {other}; expected {values_digest(VALUES)}"
    assert (
        refusal(tiny(address))
        == f"data set 'tiny' was not fetched, and nothing was kept. {expected}"
    )
    assert (cache / "tiny.npy").read_bytes() == before


def test_a_damaged_file_in_the_cache_is_replaced(server: Server, cache: Path) -> None:
    cache.mkdir()
    (cache / "tiny.npy").write_bytes(b"half a fi")
    entry = tiny(server.put("tiny.csv", TINY.encode()))
    homes.fetch(entry)
    assert np.array_equal(homes.find(entry).values, VALUES)


def test_answers_that_are_no_set_leave_nothing(
    server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(homes, "MOST_BYTES", 1000)
    with socket.socket() as closed:  # bound and not listening: whoever connects is refused
        closed.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{closed.getsockname()[1]}/tiny.csv"
        cases = {
            nobody: "there is no connection, or it broke off",
            f"{server.address}/absent.csv": "the answer is 404",
            server.put("broken.csv", b"", status=500): "the answer is 500",
            server.put(
                "short.csv", TINY.encode()[:-6]
            ): "line 3 of the file has 1 cells; expected 2 and a class",
            server.put(
                "cut.csv", TINY.encode()[:-6], missing=6
            ): "there is no connection, or it broke off",
            server.put("empty.csv", b""): "the file holds 0 records",
            server.put("page.html", b"<html>log in</html>"): "line 1 of the file has",
            server.put("much.csv", b"1,2,a\n" * 1000): "the server sends more than 1000 bytes",
            server.put(
                "packed.csv.gz", gzip.compress(b"1,2,a\n" * 1000)
            ): "the file unpacks to more than 1000 bytes",
        }
        for address, sentence in cases.items():
            said = refusal(tiny(address))
            assert said.startswith(
                f"data set 'tiny' was not fetched, and nothing was kept. {address}: {sentence}"
            )
            assert not cache.exists()
    together = refusal(tiny(*cases))
    assert all(address in together for address in cases)


def test_a_cache_that_cannot_be_written_is_said_in_a_sentence(server: Server, cache: Path) -> None:
    cache.write_text("a file where the folder should be")
    assert "cannot be written" in refusal(tiny(server.put("tiny.csv", TINY.encode())))


def test_a_disk_that_fails_leaves_the_old_file_and_no_new_one(
    server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = tiny(server.put("tiny.csv", TINY.encode()))
    homes.fetch(entry)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert refusal(entry).endswith(
        "cannot be written (No space left on device); the set was fetched, but not kept"
    )
    assert [path.name for path in cache.iterdir()] == ["tiny.npy"]
    assert np.array_equal(homes.find(entry).values, VALUES)


def test_loading_never_asks_anybody(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("loading opened a connection")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    imported = builtins.__import__

    def watch(name: str, *arguments: Any, **named: Any) -> Any:
        assert name not in ("pooch", "requests", "urllib.request")
        return imported(name, *arguments, **named)

    monkeypatch.setattr(builtins, "__import__", watch)
    for name in ("lsun", "mnist", "g2-512-100"):
        with pytest.raises(DataError, match=f"fastlloyd datasets fetch {name}"):
            load(name)


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="other systems have other folders")
def test_the_cache_is_the_users_folder_for_caches(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.undo()
    monkeypatch.setenv("HOME", str(tmp_path))
    for named, folder in (
        (str(tmp_path / "xdg"), tmp_path / "xdg"),
        ("relative", tmp_path / ".cache"),
        ("", tmp_path / ".cache"),
    ):
        monkeypatch.setenv("XDG_CACHE_HOME", named)
        assert homes.cache_file(CATALOGUE["iris"]) == folder / "fastlloyd" / "iris.npy"


# The published sets, in the formats of their homes


def as_its_home_has_it(values: npt.NDArray[np.float64], home: Home) -> bytes:
    """Return the records in the format of a public file of their set."""
    if home.form is Form.IDX:
        n, side = len(values), round(values.shape[1] ** 0.5)
        return gzip.compress(
            struct.pack(">4I", 0x0803, n, side, side) + values.astype(np.uint8).tobytes(), 1
        )
    rows = [
        [f"{cell:g}" if cell == float(f"{cell:g}") else repr(cell) for cell in row]
        for row in values.tolist()
    ]
    if home.missing is not None:
        rows[23][5] = "?"  # record 24 of breast, its first missing cell
    if home.has_class:
        rows = [
            ["1000025", *row, "Iris-setosa"] if home.missing is not None else [*row, "1"]
            for row in rows
        ]
    if home.address.endswith(".gz"):
        return gzip.compress("\n".join(" ".join(row) for row in rows).encode(), 1)
    if home.address.endswith(".txt"):
        return "".join(f"   {'  '.join(row)}\r\n" for row in rows).encode()
    return ("\n".join(",".join(row) for row in rows) + "\n\n").encode()


def test_the_published_sets_arrive_from_files_in_the_formats_of_their_homes(
    server: Server, monkeypatch: pytest.MonkeyPatch, published: Path
) -> None:
    with (published / "MANIFEST.csv").open(newline="") as file:
        there = {row["name"] for row in csv.DictReader(file)} & set(CATALOGUE)
    small = [
        CATALOGUE[name]
        for name in there
        if CATALOGUE[name].n_records * CATALOGUE[name].n_features < 60_000
    ]
    assert small
    for entry in small:
        monkeypatch.setenv("FASTLLOYD_DATA", str(published))
        values = load(entry.name).values
        monkeypatch.delenv("FASTLLOYD_DATA")
        for number, home in enumerate(entry.homes):
            address = server.put(f"{entry.name}-{number}", as_its_home_has_it(values, home))
            homes.fetch(replace(entry, homes=(replace(home, address=address),)))
            assert np.array_equal(homes.find(entry).values, values)
            homes.cache_file(entry).unlink()


@pytest.fixture
def published() -> Path:
    """Return the folder of the published sets. Skip the test if the folder is not set."""
    if not PUBLISHED:
        pytest.skip("FASTLLOYD_DATA is not set: the published data sets are not at hand")
    return Path(PUBLISHED)


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="other systems have other folders")
def test_what_is_fetched_is_kept_in_no_current_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", "cache")  # which counts for nothing then
    monkeypatch.setenv("HOME", "home")  # nor does this: the system knows the user's home
    assert homes.cache_file(CATALOGUE["iris"]).is_absolute()
