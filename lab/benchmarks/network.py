"""Costs of the network: rounds in one process and over gRPC, with and without durable state, and a
run of a hundred clients.

`python -m benchmarks.network` prints the figures and writes its section of
docs/results/performance.md. Over gRPC, the server is one process on this machine, and the clients
share one or two others. So the times are those of the code, without the latency of a network.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.network_parties import (
    UNSIGNED,
    Barrier,
    Pulse,
    TimedClient,
    TimedServer,
    TimedStore,
    VolatileClient,
    VolatileServer,
)
from benchmarks.network_run import Setup, over_grpc
from benchmarks.parts import mask_context
from benchmarks.report import as_table, machine, write_section
from fastlloyd.dp.noise import SystemNoise
from fastlloyd.federation.admission import DataSet
from fastlloyd.federation.fingerprint import Fingerprint
from fastlloyd.federation.fingerprint_file import FILE_NAME, FingerprintFile
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.federation.protocol.actions import SERVER, Send
from fastlloyd.federation.protocol.client import ClientSession
from fastlloyd.federation.protocol.masked_round import MaskedRound
from fastlloyd.federation.protocol.messages import Limits, Message, decode, encode
from fastlloyd.federation.protocol.server import ServerSession
from fastlloyd.federation.runs import KnownRecords
from fastlloyd.federation.secagg.keys import Identity
from fastlloyd.federation.secagg.masks import UPLOAD_NONCE_BYTES, GroupKey, GroupMasks
from fastlloyd.federation.store import Role
from fastlloyd.federation.transport.party import ClientParty, ServerParty
from fastlloyd.mechanisms.answering import LocalRecords
from fastlloyd.mechanisms.mechanism import Mechanism

N_ROUNDS = 300
LARGE: dict[str, Any] = {"n_clusters": 100, "n_features": 1024, "records": 1000}


class Figure(NamedTuple):
    """Row of the table: name of the figure, measured value, and goal."""

    what: str
    measured: str
    goal: str = ""


def main() -> int:
    """Measure all figures, print them, and write the section. Return the exit code."""
    argparse.ArgumentParser(prog="python -m benchmarks.network", description=__doc__).parse_args()
    figures: list[Figure] = []
    of_two, of_twenty = (
        partial(empty_rounds, 2, 2, "at most 1.5 ms"),
        partial(empty_rounds, 20, 1, "at most 6 ms"),
    )
    for measure in (of_two, of_twenty, durable_rounds, a_hundred_clients, large_rounds):
        for figure in measure():
            print(": ".join(figure[:2]), f"({figure.goal})" if figure.goal else "", flush=True)
            figures.append(figure)
    write_section("network", f"{machine()}.\n\n{as_table(Figure._fields, 'lll', figures)}")
    return 0


def empty_rounds(n_clients: int, n_processes: int, goal: str) -> list[Figure]:
    """Return the times of rounds without any computation.

    n_processes : number of processes that share the clients.
    goal : goal for the time over gRPC, for the table.
    """
    setup = Setup.make(n_clients, n_iterations=N_ROUNDS)
    run = over_grpc(setup, Barrier, _pulse, n_processes=n_processes)
    n_bytes = 8 * setup.plan.n_words(setup.plan.mechanism.rounds[0])
    what = f"a round of {n_clients} clients, {n_bytes} bytes each"
    return [
        Figure(f"{what}, in one process", ms(_in_process(setup))),
        Figure(f"{what}, over gRPC", ms(run.median_round), goal),
    ]


def _in_process(setup: Setup) -> float:
    """Return the median seconds of an empty round in this process. Messages are encoded and
    decoded, as in `federation/transport/in_process.py`.
    """
    limits = Limits.of(setup.plan)
    clients = {name: _pulse(setup, name) for name in setup.plan.names}
    _drive(Barrier(setup.plan), clients, carry=lambda message: decode(encode(message), limits))
    return statistics.median(second for client in clients.values() for second in client.seconds)


def _drive(
    server: ServerParty,
    clients: Mapping[str, ClientParty],
    *,
    carry: Callable[[Message], Message] = lambda message: message,
    pause: float = 0.0,
) -> list[float]:
    """Run all parties in this thread. Return the seconds that a client takes for each message from
    the server.

    carry : function that carries a message from its sender to its receiver.
    pause : seconds of sleep before a client gets a message.
    """
    pending = deque(
        (name, request) for name, client in clients.items() for request in client.begin()
    )
    seconds = []
    while pending:
        sender, request = pending.popleft()
        if not isinstance(request, Send):
            continue
        message = carry(request.message)
        if request.to == SERVER:
            pending += [(SERVER, each) for each in server.receive(sender, UNSIGNED, message)]
            continue
        if pause:
            time.sleep(pause)
        begun = time.perf_counter()
        pending += [(request.to, each) for each in clients[request.to].receive(message)]
        seconds.append(time.perf_counter() - begun)
    return seconds


def durable_rounds() -> list[Figure]:
    """Return the times of rounds of two clients, with the state in memory and in stores.

    In each round, three commits to stores follow one after the other: two of a client, and one of
    the server.
    """
    setup = Setup.make(2, n_iterations=N_ROUNDS)
    before = over_grpc(setup, server_in_memory, client_in_memory, n_processes=2).median_round
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        server, client = partial(_durable_server, folder), partial(_durable_client, folder)
        durable = over_grpc(setup, server, client, n_processes=2)
    after, slowest, servers = durable.median_round, durable.slowest_commit, durable.server_commit
    commits = (after - before) / ((2 * slowest + servers) / 3)
    asleep = over_grpc(
        setup,
        partial(server_in_memory, pause=servers),
        partial(client_in_memory, pause=2 * slowest),
        n_processes=2,
    )
    pauses = (asleep.median_round - before) / ((asleep.slowest_commit + asleep.server_commit) / 3)
    return [
        Figure("a round of FastLloyd, 2 clients, state in memory", ms(before)),
        Figure("the same with durable state", ms(after)),
        Figure(
            "a commit of the slower client in that run; the server waits for two in a round",
            ms(slowest),
        ),
        Figure("a commit of the server in that run", ms(servers)),
        Figure(
            "what durability adds to a round, in the mean of these three",
            f"{commits:.1f} commits",
            "at most 3 commits",
        ),
        Figure(
            "the round in memory, where everyone sleeps about as long as these commits took",
            ms(asleep.median_round),
        ),
        Figure(
            "what these pauses add, in thirds of how long they lasted together",
            f"{pauses:.1f} pauses",
        ),
        Figure(
            "a client's answer in such a round, nothing else running, one after the other",
            ms(_answer(setup, 0)),
        ),
        Figure("the same answer after 1 ms of sleep", ms(_answer(setup, 1e-3))),
    ]


def _answer(setup: Setup, pause: float) -> float:
    """Return the median seconds that a client takes for a message from the server.

    pause : seconds of sleep before each message.
    """
    clients = {name: client_in_memory(setup, name) for name in setup.plan.names}
    return statistics.median(_drive(server_in_memory(setup.plan), clients, pause=pause))


def a_hundred_clients() -> list[Figure]:
    """Return the figures of a whole run of a hundred clients."""
    setup = Setup.make(100)
    run = over_grpc(setup, server_in_memory, client_in_memory)
    return [
        Figure(
            f"a run of 100 clients, {len(setup.plan.mechanism.rounds)} rounds",
            f"{run.seconds:.1f} s",
            f"{run.n_results} of 100 results",
        ),
        Figure(
            "memory of the server for each client that is connected",
            f"{run.per_client / 2**10:.0f} KiB",
            "at most 2 MiB",
        ),
    ]


def large_rounds() -> list[Figure]:
    """Return the time of rounds of 100 x 1025 words with ten clients, compared with the time of
    their computations alone.
    """
    setup = Setup.make(10, n_iterations=4, **LARGE)
    measured = over_grpc(setup, server_in_memory, client_in_memory).median_round
    alone = _large_parts(setup.plan)
    return [
        Figure("a round of 10 clients, 100 x 1025 words, 1,000 records each", ms(measured)),
        Figure("kernels, masks and noise of the 10 clients, one after the other", ms(alone)),
        Figure("ratio", f"{measured / alone:.2f}", "at most 3"),
    ]


def _large_parts(plan: Plan) -> float:
    """Return the seconds of one round's computations, for all clients one after the other: the
    median of five measurements, times the number of clients.

    The computations of a client are its answer, its noise, its own mask, and the removal of all
    masks.
    """
    m: Mechanism = plan.clustering
    query, X, noise = m.query(0, m.start()), records_of(plan), SystemNoise()
    round = plan.mechanism.all_rounds[0]
    masks, context = GroupMasks(GroupKey.draw(os.urandom), plan.ring), mask_context()
    masked = MaskedRound(masks, context, plan.ring)
    seconds = []
    for _ in range(5):
        begun = time.perf_counter()
        nonce = os.urandom(UPLOAD_NONCE_BYTES)
        masked.hide(
            X.answer(query)[0] + plan.draw_client_noise(round, noise, plan.n_clients),
            plan.names[0],
            nonce,
        )
        masks.open(
            plan.ring.zeros(plan.n_words(plan.mechanism.rounds[0])),
            context,
            dict.fromkeys(plan.names, nonce),
        )
        seconds.append(time.perf_counter() - begun)
    return plan.n_clients * statistics.median(seconds)


def server_in_memory(plan: Plan, pause: float = 0.0) -> ServerParty:
    """Return a server that runs a whole session without a store.

    pause : seconds that the server sleeps where a store would commit.
    """
    return VolatileServer(ServerSession(plan, SystemNoise()), pause)


def client_in_memory(setup: Setup, name: str, pause: float = 0.0) -> ClientParty:
    """Return a client that runs a whole session without a store, and measures its rounds.

    pause : seconds that the client sleeps where a store would commit.
    """
    return VolatileClient(session_of(setup, name), pause)


def session_of(setup: Setup, name: str) -> ClientSession:
    """Return a session of a client with the records of `records_of`."""
    return ClientSession(
        setup.plan,
        name,
        records_of(setup.plan),
        identity=Identity.from_private_bytes(setup.signing[name]),
        noise=SystemNoise(),
        random_bytes=os.urandom,
    )


def _durable_server(folder: Path, plan: Plan) -> ServerParty:
    store = TimedStore.create(folder / "server.store", role=Role.SERVER, identity=bytes(32))
    store.seconds = []
    server = TimedServer.open(plan, store=store, noise=SystemNoise())
    server.commits = store.seconds
    return server


def _durable_client(folder: Path, setup: Setup, name: str) -> ClientParty:
    identity = Identity.from_private_bytes(setup.signing[name])
    store = TimedStore.create(folder / f"{name}.store", role=Role.CLIENT, identity=identity.public)
    store.seconds = []
    file = FingerprintFile(folder / FILE_NAME)
    client = TimedClient.join(
        session_of(setup, name),
        store,
        identity,
        dataset=DataSet(name="benchmark"),
        records=KnownRecords(Fingerprint(bytes(32)), file.opened({}), file),
    )
    client.seconds, client.commits = [], store.seconds
    return client


def _pulse(setup: Setup, _name: str) -> Pulse:
    return Pulse(setup.plan)


def records_of(plan: Plan) -> LocalRecords:
    """Return records of one client: as many as every client of the plan may have, all equal to
    0.
    """
    n = min(client.max_records for client in plan.clients)
    return LocalRecords(
        plan.mechanism.domain, np.zeros((n, plan.mechanism.n_features), dtype=np.int64)
    )


def ms(seconds: float) -> str:
    """Return a time in milliseconds, as text for a table."""
    return f"{1e3 * seconds:.3g} ms"


if __name__ == "__main__":
    sys.exit(main())
