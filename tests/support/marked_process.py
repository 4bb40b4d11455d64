"""`fastlloyd` in a process that a test has marked: MARKS (JSON), then the command line.

die : [n, "before" or "after"], kill this process at its n-th commit to a store, from 0; those that only say whom a server saw
do not count, since how many they are depends on who came together. noise : draw known noise of this name
instead of genuine noise. grace : seconds that a client waits longer than the server. joining : seconds
that a client waits for the others to join. hurry : the server waits for so many
clients to join, and then acts as if its time for joining were over. fast : draw no picture. silence : seconds
without anyone connected after which a server ends whose run has no result. full : n, no file can grow during the n-th commit
to a store, from 0; or "result", while the result is written.

None of this can be had from the command line itself.
"""

import json
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from fastlloyd import __main__ as fastlloyd
from fastlloyd.cli import results
from fastlloyd.dp import noise
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.federation.protocol.transitions import ClientState, ServerState
from fastlloyd.federation.runs import DurableClient, DurableServer
from fastlloyd.federation.store import Store
from fastlloyd.federation.store.events import ClientJoined, ClientLeft, Event, PeerSigned
from fastlloyd.federation.transport.grpc.server import GrpcServer
from fastlloyd.reports import pictures
from fastlloyd.testing import repeatable_noise
from known_noise import KnownNoise


def counts(events: Sequence[Event]) -> bool:
    """Whether a commit is one of those that every such run has."""
    return not all(isinstance(event, PeerSigned | ClientJoined | ClientLeft) for event in events)


def die_at(commit: int, when: str) -> None:
    """Kill this process, as `kill -9` does, right before or right after a genuine commit."""
    genuine, n_commits = Store.append, 0

    def append(store: Store, events: Sequence[Event], **more: Any) -> None:
        nonlocal n_commits
        is_it = n_commits == commit and counts(events)
        n_commits += counts(events)
        if is_it and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        genuine(store, events, **more)
        if is_it:
            os.kill(os.getpid(), signal.SIGKILL)

    Store.append = append  # type: ignore[assignment,method-assign]  # the mark


@contextmanager
def full_disk() -> Iterator[None]:
    """The limit on the size of files stands for a disk that is full: the system itself refuses every write to a file."""
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
        is_it = n_commits == commit and counts(events)
        n_commits += counts(events)
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
    """The server's time for joining is over as soon as so many have said Hello: no test waits for a clock."""
    genuine = DurableServer.timeout

    def timeout(server: DurableServer) -> float | None:
        joined = server.session.state is ServerState.JOINING and len(server.session._hellos) >= n_clients
        return 0.0 if joined else genuine.fget(server)  # type: ignore[attr-defined]  # a property's function

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


def no_picture(picture: pictures.Picture) -> bytes:
    return b""


def main(marks: dict[str, Any]) -> int:
    if "die" in marks:
        die_at(*marks["die"])
    if "full" in marks:
        full_at_the_result() if marks["full"] == "result" else full_at(marks["full"])
    if "noise" in marks:
        noise.SystemNoise = partial(KnownNoise, marks["noise"])  # type: ignore[assignment,misc]  # the mark
    if "grace" in marks:
        Plan.grace = property(lambda _: marks["grace"])  # type: ignore[assignment,method-assign]  # the mark
    if "joining" in marks:
        wait_for_others(marks["joining"])
    if "silence" in marks:
        GrpcServer.__init__.__kwdefaults__["grace"] = marks["silence"]  # type: ignore[index]  # it has one
    if "hurry" in marks:
        hurry(marks["hurry"])
    if marks.get("fast"):
        pictures.draw = no_picture
    with repeatable_noise() if "noise" in marks else nullcontext():
        return fastlloyd.main()


if __name__ == "__main__":
    first = json.loads(sys.argv.pop(1))
    sys.exit(main(first))
