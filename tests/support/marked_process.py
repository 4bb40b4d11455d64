"""`fastlloyd` in a process that a test has marked: MARKS (JSON), then the command line.

die : [n, "before", "before key", "after key" or "after"], kill this process at its n-th commit to a
store, from 0, or at the write of a key that belongs to it, if there is one, else after it; those
that only say whom a server saw do not count, since how many they are depends on who came together.
die_in_ledger : the same of commits to the ledger. noise : draw known noise of this name instead of
genuine noise. grace : seconds that a client waits longer than the server. joining : seconds that a
client waits for the others to join. hurry : the server waits for so many clients to join, and then
acts as if its time for joining were over. fast : draw no picture. silence : seconds without anyone
connected after which a server ends whose run has no result. full : n, no file can grow during the
n-th commit to a store, from 0; or "result", while the result is written. large : every file counts
as large, and is read in blocks of ten records, none of which is kept. in_pass : [n, what], after
the first block of the n-th pass over the records, from 0, "grow": the file gets a record more;
"remove": it is gone; "wait": nothing, until the owner stops the process.

None of this can be had from the command line itself. `begin` is the same in a process that `Site`
has forked from one that has imported all of this, which is most of what starting a process costs.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from fastlloyd import __main__ as fastlloyd
from fastlloyd.base.arrays import GridArray
from fastlloyd.cli import results
from fastlloyd.clustering.grid_records import GridRecords
from fastlloyd.dp import noise
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.federation.protocol.transitions import ClientState, ServerState
from fastlloyd.federation.runs import DurableClient, DurableServer
from fastlloyd.federation.store import Role, Store
from fastlloyd.federation.store.events import ClientJoined, ClientLeft, Event, PeerSigned
from fastlloyd.federation.store.key_file import KeyFile
from fastlloyd.federation.transport.grpc.server import GrpcServer
from fastlloyd.records import delimited, reading
from fastlloyd.records.ids import Ids
from fastlloyd.reports import picture, pictures
from fastlloyd.testing import repeatable_noise
from known_noise import KnownNoise
from known_to_server import hellos_of

ADDING = os.O_WRONLY | os.O_CREAT | os.O_APPEND


def counts(store: Store, events: Sequence[Event], *, in_ledger: bool = False) -> bool:
    """Whether a commit is one of those that every such run has: to a party's store, or to its
    holder's ledger.
    """
    is_of_run = not all(
        isinstance(event, PeerSigned | ClientJoined | ClientLeft) for event in events
    )
    return is_of_run and (store.role is Role.HOLDER) == in_ledger


def die_at(commit: int, when: str, *, in_ledger: bool = False) -> None:
    """Kill this process, as `kill -9` does, right before or right after a genuine commit, or the
    write of a key.
    """
    genuine, write, n_commits, is_it = Store.append, KeyFile._write, 0, False

    def write_key(file: KeyFile, *slot: Any) -> None:
        if is_it and when == "before key":
            os.kill(os.getpid(), signal.SIGKILL)
        write(file, *slot)
        if is_it and when == "after key":
            os.kill(os.getpid(), signal.SIGKILL)

    def append(store: Store, events: Sequence[Event], **more: Any) -> None:
        nonlocal n_commits, is_it
        counted = counts(store, events, in_ledger=in_ledger)
        is_it = n_commits == commit and counted
        n_commits += counted
        if is_it and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        genuine(store, events, **more)
        if is_it:
            os.kill(os.getpid(), signal.SIGKILL)

    Store.append = append  # type: ignore[assignment,method-assign]  # the mark
    KeyFile._write = write_key  # type: ignore[assignment,method-assign]  # the mark


@contextmanager
def full_disk() -> Iterator[None]:
    """The limit on the size of files stands for a disk that is full: the system itself refuses
    every write to a file.
    """
    import resource

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def full_at(commit: int) -> None:
    """No file can grow during a genuine commit."""
    genuine, n_commits = Store.append, 0

    def append(store: Store, events: Sequence[Event], **more: Any) -> None:
        nonlocal n_commits
        is_it = n_commits == commit and counts(store, events)
        n_commits += counts(store, events)
        if not is_it:
            return genuine(store, events, **more)
        with full_disk():
            return genuine(store, events, **more)

    Store.append = append  # type: ignore[assignment,method-assign]  # the mark


def full_at_the_result() -> None:
    """No file can grow while the folder of the result is written."""
    genuine = results.Destination.write

    def write(place: results.Destination, contents: Mapping[str, bytes]) -> list[Path]:
        with full_disk():
            return genuine(place, contents)

    results.Destination.write = write  # type: ignore[assignment,method-assign]  # the mark


def hurry(n_clients: int) -> None:
    """The server's time for joining is over as soon as so many have said Hello: no test waits for a
    clock.
    """
    genuine = DurableServer.timeout

    def timeout(server: DurableServer) -> float | None:
        joined = (
            server.session.state is ServerState.JOINING
            and len(hellos_of(server.session)) >= n_clients
        )
        # a property's function
        return 0.0 if joined else genuine.fget(server)  # type: ignore[attr-defined]

    DurableServer.timeout = property(timeout)  # type: ignore[assignment,method-assign]  # the mark


def wait_for_others(seconds: float) -> None:
    """So long, and not as long as the plan says, does a client wait that has said Hello."""
    genuine = DurableClient.timeout

    def timeout(client: DurableClient) -> float | None:
        state, round = client.session.state, client.session.round
        if state is ClientState.JOINING:
            return client._timer.left((state, round), seconds)
        return genuine.fget(client)  # type: ignore[attr-defined,no-any-return]  # a property's function

    DurableClient.timeout = property(timeout)  # type: ignore[assignment,method-assign]  # the mark


def large() -> None:
    """No file is so small that it is held in memory, nor are the grid points of any."""
    reading._is_large = lambda file: bool(file.pieces)
    delimited.BLOCK_CELLS = 20
    GridRecords.__init__.__kwdefaults__["kept_cells"] = 0  # type: ignore[index]  # it has one


def in_pass(number: int, what: str) -> None:
    """What happens after the first block of a pass."""
    genuine, n_passes = GridRecords.with_ids, 0

    def happens(own: GridRecords) -> None:
        path = Path(own._source)
        if what == "wait":
            sys.stderr.write("in the pass\n")
            while True:  # until the report says that it is stopped
                own._report(number, 0)
                time.sleep(0.01)
        elif what == "remove":
            path.unlink()
        else:
            with path.open("a") as file:
                file.write("1,2\n")

    def one_pass(own: GridRecords) -> Iterator[tuple[GridArray, Ids | None]]:
        nonlocal n_passes
        is_it, n_passes = n_passes == number, n_passes + 1
        for block in genuine(own):
            yield block
            if is_it:
                is_it = False
                happens(own)

    GridRecords.with_ids = one_pass  # type: ignore[assignment,method-assign]  # the mark


def mark_passes(marks: dict[str, Any]) -> None:
    if marks.get("large"):
        large()
    if "in_pass" in marks:
        in_pass(*marks["in_pass"])


def no_picture(picture: picture.Picture) -> bytes:
    return b""


def main(marks: dict[str, Any]) -> int:
    mark_passes(marks)
    if "die" in marks:
        die_at(*marks["die"])
    if "die_in_ledger" in marks:
        die_at(*marks["die_in_ledger"], in_ledger=True)
    if "full" in marks:
        full_at_the_result() if marks["full"] == "result" else full_at(marks["full"])
    if "noise" in marks:
        noise.SystemNoise = partial(KnownNoise, marks["noise"])  # type: ignore[assignment,misc]  # the mark
    if "grace" in marks:
        Plan.grace = property(lambda _: marks["grace"])  # type: ignore[assignment,method-assign]  # the mark
    if "joining" in marks:
        wait_for_others(marks["joining"])
    if "silence" in marks:
        # it has one
        GrpcServer.__init__.__kwdefaults__["grace"] = marks["silence"]  # type: ignore[index]
    if "hurry" in marks:
        hurry(marks["hurry"])
    if marks.get("fast"):
        pictures.draw = no_picture
    with repeatable_noise() if "noise" in marks else nullcontext():
        return fastlloyd.main()


def begin(
    folder: Path,
    log: str,
    environment: Mapping[str, str],
    marks: dict[str, Any],
    arguments: Sequence[str],
) -> None:
    """Be that process: its folder, its streams, its environment; this one was forked for nothing
    else.
    """
    os.chdir(folder)
    os.environ.update(environment)
    for number, (name, flags) in enumerate(
        [(os.devnull, os.O_RDONLY), *((f"{log}.{stream}", ADDING) for stream in ("out", "err"))]
    ):
        opened = os.open(name, flags, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    sys.argv = ["fastlloyd", *arguments]
    sys.exit(main(marks))


if __name__ == "__main__":
    first = json.loads(sys.argv.pop(1))
    sys.exit(main(first))
