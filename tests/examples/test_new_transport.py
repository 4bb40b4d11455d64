"""A worked example: a transport whose messages are files in a folder that all parties share.

A patch that adds it touches two files of the package: `federation/transport/folder.py`, which would
hold `FolderWire` as it stands here, and the sentence in `federation/transport/__init__.py` that
names the transports.
"""

import re
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import fastlloyd
from fastlloyd.base.files import replacing
from fastlloyd.federation.protocol.actions import SERVER, ClientResult, Ended
from fastlloyd.federation.protocol.messages import Message, Upload, encode
from fastlloyd.federation.protocol.rounds import ClientRounds
from fastlloyd.federation.transport.in_process import run_in_process
from fastlloyd.federation.transport.party import Heard, Kind, Wire, serve, take_part
from federation import Federation, make_federation, make_plan

PATIENCE = 60.0  # seconds


class FolderWire:
    """One party's end: its files come into the subfolder of its name. Whoever can write there can
    speak as anyone.

    A file's name says what number it has among those of its sender, its kind, and who sent it.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._name, self._n_sent = folder, name, 0
        (folder / name).mkdir(exist_ok=True)

    def send(self, to: str, message: Message) -> None:
        self._write(to, Kind.MESSAGE, encode(message))

    def tell(self, to: str, kind: Kind, reason: str = "") -> None:
        self._write(to, kind, reason.encode())

    def receive(self, seconds: float | None = None) -> Heard | None:
        end = time.monotonic() + (PATIENCE if seconds is None else seconds)
        while not (waiting := sorted((self._folder / self._name).glob("[0-9]*"))):
            if time.monotonic() > end:
                return None
            time.sleep(0.002)
        _, kind, sender = waiting[0].name.split("_", 2)
        data = waiting[0].read_bytes()
        waiting[0].unlink()
        return Heard(sender, Kind(int(kind)), data)

    def _write(self, to: str, kind: Kind, data: bytes) -> None:
        (self._folder / to).mkdir(exist_ok=True)
        self._n_sent += 1
        with replacing(self._folder / to / f"{self._n_sent:08d}_{kind:d}_{self._name}") as file:
            file.write(data)


def run_over(folder: Path, federation: Federation) -> dict[str, ClientResult | Ended]:
    """A whole run; each party is a thread, and could as well be a process of another machine."""

    def play(name: str) -> ClientResult | Ended:
        wire: Wire = FolderWire(folder, name)
        return take_part(federation.client(name), wire)

    names = federation.plan.names
    with ThreadPoolExecutor(len(names) + 1) as pool:
        server = pool.submit(serve, federation.server(), FolderWire(folder, SERVER))
        clients = {name: pool.submit(play, name) for name in names}
        assert server.result().reason is None
        return {name: client.result() for name, client in clients.items()}


def test_a_run_over_a_folder_ends_with_the_centroids_of_the_run_in_one_process(
    tmp_path: Path,
) -> None:
    federation = make_federation(make_plan(3))
    expected = run_in_process(federation.server(), federation.clients())
    ended = run_over(tmp_path, federation)
    for name, result in ended.items():
        reference = expected.clients[name]
        assert isinstance(result, ClientResult)
        assert isinstance(reference, ClientResult)
        assert result.clustering.centroids.tolist() == reference.clustering.centroids.tolist()
        assert result.included == reference.included
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]  # nothing is on its way


def test_a_client_that_breaks_the_protocol_is_told_so_and_the_others_finish(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload = ClientRounds.upload

    def longer(rounds: ClientRounds) -> Upload:
        made = upload(rounds)
        return Upload(
            made.round, made.nonce, made.payload + bytes(rounds.name == "c2" and made.round == 2)
        )

    monkeypatch.setattr(ClientRounds, "upload", longer)
    ended = run_over(tmp_path, make_federation(make_plan(3, max_dropouts=1)))
    refused = ended.pop("c2")
    assert isinstance(refused, Ended)
    assert refused.reason.startswith("the server refuses this client: ")
    assert all(
        isinstance(result, ClientResult) and result.included[1:] == (("c0", "c1"),) * 2
        for result in ended.values()
    )


def test_a_new_transport_is_two_files_of_the_package() -> None:
    """Counted on MPI, a transport with the same contract: its own file, and the sentence that names
    the transports.

    Beside these, words on a screen name MPI, and a table of optional packages, since MPI needs one.
    """
    source = Path(fastlloyd.__file__).parent
    files = [
        path
        for path in source.rglob("*.py")
        if re.search(r"\bmpi\b", path.read_text(), re.IGNORECASE)
    ]
    named = {str(path.relative_to(source)) for path in files}
    assert {path for path in named if path.startswith("federation/")} == {
        "federation/transport/mpi.py",
        "federation/transport/__init__.py",
    }
