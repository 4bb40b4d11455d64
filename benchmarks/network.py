"""What a network costs: a round in one process and over gRPC, a run of a hundred clients, the memory of a connected one.

`python -m benchmarks.network` prints figures and writes nothing. The server and all clients are one process each, on this
machine, connected by mutual TLS over loopback: the times are those of the code, not of a line.
"""

import argparse
import asyncio
import datetime as dt
import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from fastlloyd.algorithms import FASTLLOYD
from fastlloyd.clustering.domain import Domain
from fastlloyd.design import design_plan
from fastlloyd.dp.noise import SystemNoise
from fastlloyd.expander import PublicSeed
from fastlloyd.plan import Plan
from fastlloyd.protocol import SERVER, ClientResult, ClientSession, Ended, Finish, Message, Send, ServerResult, ServerSession
from fastlloyd.protocol.actions import Action
from fastlloyd.protocol.messages import Broadcast, Limits, Upload, decode, encode
from fastlloyd.secagg.keys import Identity
from fastlloyd.simulation import roster
from fastlloyd.store.events import LogPosition
from fastlloyd.transport.frames import EMPTY_LOG
from fastlloyd.transport.grpc_client import GrpcClient
from fastlloyd.transport.grpc_server import GrpcServer
from fastlloyd.transport.grpc_tls import TlsIdentity
from fastlloyd.transport.party import ClientParty, Request, ServerParty

N_ROUNDS, WARM_UP = 300, 20
WORDS = 15  # of 8 bytes: 120 bytes, as of 2 clusters of 6 features


@dataclass(frozen=True)
class Setup:
    """A plan, and the keys and certificates of everyone in it."""

    plan: Plan
    signing: dict[str, Identity]
    tls: dict[str, TlsIdentity]


class Barrier:
    """A server that answers a round when all clients have sent theirs, and adds nothing up: what is left is the network."""

    timeout = None

    def __init__(self, plan: Plan) -> None:
        self.names, self.n_waiting = plan.names, 0

    def attach(self, _name: str, log: LogPosition) -> LogPosition:
        return log

    def receive(self, _name: str, _log: LogPosition, message: Message) -> list[Request]:
        assert isinstance(message, Upload)
        self.n_waiting += 1
        if self.n_waiting < len(self.names):
            return []
        self.n_waiting = 0
        broadcast = Broadcast.of(self.names, message.round, dict.fromkeys(self.names, message.nonce), message.payload)
        end: list[Request] = [Finish(ServerResult(included=()))] if message.round == N_ROUNDS else []
        return [*(Send(name, broadcast) for name in self.names), *end]

    def deadline(self) -> list[Request]:
        return []


class Pulse:
    """A client that sends the next round as soon as it is told the last; `seconds` between one and the next."""

    timeout, position = None, EMPTY_LOG

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def attached(self, _log: LogPosition) -> None:
        pass

    def begin(self) -> list[Request]:
        return self.send(1)

    def receive(self, message: Message) -> list[Request]:
        assert isinstance(message, Broadcast)
        self.seconds.append(time.perf_counter() - self.begun)
        return self.send(message.round + 1) if message.round < N_ROUNDS else [Finish(Ended("done"))]

    def deadline(self) -> list[Request]:
        return []

    def send(self, number: int) -> list[Request]:
        self.begun = time.perf_counter()
        return [Send(SERVER, Upload(number, bytes(8), bytes(8 * WORDS)))]


class Volatile:
    """A session as a party: without a store, so that nothing is measured but the run."""

    timeout, position = None, EMPTY_LOG

    def __init__(self, session: ClientSession | ServerSession) -> None:
        self.session = session

    def attach(self, _name: str, log: LogPosition) -> LogPosition:
        return log

    def attached(self, _log: LogPosition) -> None:
        pass

    def begin(self) -> list[Request]:
        assert isinstance(self.session, ClientSession)
        return _requests(self.session.start())

    def deadline(self) -> list[Request]:
        return []


class VolatileServer(Volatile):
    def receive(self, name: str, _log: LogPosition, message: Message) -> list[Request]:
        assert isinstance(self.session, ServerSession)
        return _requests(self.session.receive(name, message))


class VolatileClient(Volatile):
    def receive(self, message: Message) -> list[Request]:
        assert isinstance(self.session, ClientSession)
        return _requests(self.session.receive(message))


def _requests(actions: list[Action]) -> list[Request]:
    return [action for action in actions if isinstance(action, Send | Finish)]


def main() -> int:
    """Measure all of it and print it."""
    argparse.ArgumentParser(prog="python -m benchmarks.network", description=__doc__).parse_args()
    for n_clients in (2, 20):
        setup = _setup(n_clients)
        print(f"a round of {n_clients} clients, {8 * WORDS} bytes each: median of {N_ROUNDS - WARM_UP}, microseconds")
        print(f"  in one process {1e6 * _in_process(setup):8.0f}")
        print(f"  over gRPC      {1e6 * _over_grpc(setup, Barrier, _pulses).median:8.0f}")
    setup = _setup(100)
    found = _over_grpc(setup, _server_session, _client_sessions)
    print(f"a run of 100 clients, {len(setup.plan.mechanism.rounds)} rounds: {found.n_results} results, {found.seconds:.1f} s")
    print(f"server: {found.idle / 2**20:.0f} MiB before clients, {found.per_client / 2**10:.0f} KiB for each that is connected")
    return 0


def _setup(n_clients: int) -> Setup:
    clients, signing = roster([f"client-{i}" for i in range(n_clients)], 100 * n_clients)
    domain = Domain(features=tuple("abcdef"), lower=(0.0,) * 6, upper=(1.0,) * 6)
    plan = design_plan(
        FASTLLOYD,
        domain,
        clients=clients,
        run_id=os.urandom(16),
        n_clusters=2,
        epsilon=5.0,
        public_seed=PublicSeed.from_int(1),
        n_iterations=7,
        ring_bits=64,
    )
    assert plan.n_words == WORDS
    return Setup(plan, signing, {name: _self_signed(name) for name in (*plan.names, "server")})


def _self_signed(name: str) -> TlsIdentity:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    begin = dt.datetime.now(dt.UTC) - dt.timedelta(days=1)
    certificate = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + dt.timedelta(days=7))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(f"{name}.fastlloyd.internal")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return TlsIdentity(certificate=certificate.public_bytes(serialization.Encoding.DER), private_key=pem)


def _in_process(setup: Setup) -> float:
    """Median seconds of a round: every message as bytes, as `transport/in_process.py` carries it."""
    limits, server = Limits.of(setup.plan), Barrier(setup.plan)
    clients = {name: Pulse() for name in setup.plan.names}
    pending = [(name, request) for name, client in clients.items() for request in client.begin()]
    while pending:
        sender, request = pending.pop(0)
        if isinstance(request, Send):
            message = decode(encode(request.message), limits)
            if request.to == SERVER:
                pending += [(SERVER, each) for each in server.receive(sender, EMPTY_LOG, message)]
            else:
                pending += [(request.to, each) for each in clients[request.to].receive(message)]
    return _median(list(clients.values()))


def _median(clients: list[Pulse]) -> float:
    return statistics.median(second for client in clients for second in client.seconds[WARM_UP:])


@dataclass(frozen=True)
class Found:
    """What the client process, and then the server process, have to say."""

    median: float
    n_results: int
    seconds: float
    idle: int
    per_client: float


def _over_grpc(setup: Setup, server: Callable[[Plan], ServerParty], clients: Callable[[Setup], list[ClientParty]]) -> Found:
    spawn = multiprocessing.get_context("spawn")
    mine, its = spawn.Pipe()
    process = spawn.Process(target=_serve, args=(its, setup.plan, setup.tls, server), daemon=True)
    process.start()
    port = mine.recv()
    parties = clients(setup)
    seconds, outcomes = asyncio.run(_take_part(setup, parties, port))
    idle, connected = mine.recv()
    process.join()
    pulses = [party for party in parties if isinstance(party, Pulse)]
    return Found(
        median=_median(pulses) if pulses else 0.0,
        n_results=sum(isinstance(outcome, ClientResult) for outcome in outcomes),
        seconds=seconds,
        idle=idle,
        per_client=(connected - idle) / setup.plan.n_clients,
    )


async def _take_part(setup: Setup, parties: list[ClientParty], port: int) -> tuple[float, list[ClientResult | Ended | None]]:
    clients = [
        GrpcClient(
            party,
            setup.plan,
            address=f"127.0.0.1:{port}",
            identity=setup.tls[name],
            server_certificate=setup.tls["server"].certificate,
        )
        for name, party in zip(setup.plan.names, parties, strict=True)
    ]
    begun = time.perf_counter()
    outcomes = await asyncio.gather(*(client.run() for client in clients))
    return time.perf_counter() - begun, list(outcomes)


def _serve(pipe: Connection, plan: Plan, tls: dict[str, TlsIdentity], party: Callable[[Plan], ServerParty]) -> None:
    asyncio.run(_serve_one_run(pipe, plan, tls, party(plan)))


async def _serve_one_run(pipe: Connection, plan: Plan, tls: dict[str, TlsIdentity], party: ServerParty) -> None:
    certificates = {name: tls[name].certificate for name in plan.names}
    server = GrpcServer(party, plan, address="127.0.0.1:0", identity=tls["server"], certificates=certificates)
    await server.start()
    idle = _resident_bytes()
    pipe.send(server.port)
    end = asyncio.create_task(server.wait())
    while len(server.connected) < plan.n_clients and not end.done():
        await asyncio.sleep(0.001)
    connected = _resident_bytes()
    await end
    pipe.send((idle, connected))


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _pulses(setup: Setup) -> list[ClientParty]:
    return [Pulse() for _ in setup.plan.names]


def _server_session(plan: Plan) -> ServerParty:
    return VolatileServer(ServerSession(plan, SystemNoise()))


def _client_sessions(setup: Setup) -> list[ClientParty]:
    X = np.zeros((10, 6), dtype=np.int64)
    return [
        VolatileClient(
            ClientSession(setup.plan, name, X, identity=setup.signing[name], noise=SystemNoise(), random_bytes=os.urandom)
        )
        for name in setup.plan.names
    ]


if __name__ == "__main__":
    sys.exit(main())
