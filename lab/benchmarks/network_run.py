"""One run over gRPC on this machine: the server a process, the clients one or more others, mutual
TLS over loopback.
"""

import asyncio
import base64
import datetime as dt
import multiprocessing
import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from benchmarks.network_parties import Clocked, Pulse, TimedServer, VolatileServer
from fastlloyd.base.randomness import PublicSeed
from fastlloyd.clustering.domain import Domain
from fastlloyd.federation.identity.certificates import make_certificate
from fastlloyd.federation.plan.design import ProtocolChoices, design_plan
from fastlloyd.federation.plan.plan import Client, Masks, Plan
from fastlloyd.federation.protocol.actions import ClientResult, Ended
from fastlloyd.federation.secagg.keys import Identity
from fastlloyd.federation.transport.grpc.client import GrpcClient
from fastlloyd.federation.transport.grpc.server import GrpcServer
from fastlloyd.federation.transport.grpc.tls import TlsIdentity
from fastlloyd.federation.transport.party import ClientParty, ServerParty
from fastlloyd.mechanisms.lloyd.algorithm import FASTLLOYD
from fastlloyd.mechanisms.settings import Settings


@dataclass(frozen=True)
class Setup:
    """A plan, and the keys and certificates of everyone in it; those that sign as bytes, which go
    to other processes.
    """

    plan: Plan
    signing: dict[str, bytes]
    tls: dict[str, TlsIdentity]

    @classmethod
    def make(
        cls,
        n_clients: int,
        *,
        n_clusters: int = 2,
        n_features: int = 6,
        n_iterations: int = 7,
        records: int = 100,
        masks: Masks = Masks.GROUP,
    ) -> "Setup":
        """Clients with caps of so many records each, in the unit cube; 64-bit words."""
        signing = {f"client-{i}": Identity.generate() for i in range(n_clients)}
        clients = tuple(
            Client(name=name, max_records=records, signing_key=identity.public.hex())
            for name, identity in signing.items()
        )
        names = tuple(f"x{i}" for i in range(n_features))
        settings = Settings(
            algorithm=FASTLLOYD,
            domain=Domain(features=names, lower=(0.0,) * n_features, upper=(1.0,) * n_features),
            n_clusters=n_clusters,
            n_records=records * n_clients,
            epsilon=5.0,
            public_seed=PublicSeed.from_int(1),
            n_iterations=n_iterations,
        )
        plan = design_plan(
            settings, clients=clients, run_id=os.urandom(16), protocol=ProtocolChoices(masks=masks)
        )
        keys = {name: identity.private_bytes() for name, identity in signing.items()}
        return cls(plan, keys, {name: self_signed(name) for name in (*plan.names, "server")})


@dataclass(frozen=True)
class Run:
    """How a run went.

    rounds, commits : seconds of each, of every client that measures them; server_commits : of the
    server, if it does; seconds : of the whole run; n_results : of clients. idle, per_client, peak :
    bytes of the server's memory before clients, for each that is connected, and at most.
    """

    rounds: list[list[float]]
    commits: list[list[float]]
    server_commits: list[float]
    seconds: float
    n_results: int
    idle: int
    per_client: float
    peak: int

    @property
    def median_round(self) -> float:
        """Over rounds and clients, the first rounds left out."""
        return _median(self.rounds)

    @property
    def slowest_commit(self) -> float:
        """Median over rounds of the slowest client's commit, which is the one that all wait for."""
        from_the_end = zip(*(reversed(seconds) for seconds in self.commits), strict=False)
        return _median([[max(each) for each in from_the_end][::-1]])

    @property
    def server_commit(self) -> float:
        """Median over rounds of the server's."""
        return _median([self.server_commits])


class Joined(NamedTuple):
    """What one process of clients has to say."""

    rounds: list[list[float]]
    commits: list[list[float]]
    seconds: float
    n_results: int


def _median(found: list[list[float]]) -> float:
    return statistics.median(
        second for seconds in found for second in seconds[len(seconds) // 20 :]
    )


def over_grpc(
    setup: Setup,
    server: Callable[[Plan], ServerParty],
    client: Callable[[Setup, str], ClientParty],
    *,
    n_processes: int = 1,
) -> Run:
    """Run once; `server` and `client` make the parties in their processes, of which the clients
    share so many.
    """
    spawn = multiprocessing.get_context("spawn")
    mine, its = spawn.Pipe()
    processes = [
        spawn.Process(target=_serve, args=(its, setup.plan, setup.tls, server), daemon=True)
    ]
    processes[0].start()
    port = mine.recv()
    groups = [setup.plan.names[i::n_processes] for i in range(n_processes)]
    pipes = []
    for names in groups:
        pipe, theirs = spawn.Pipe()
        pipes.append(pipe)
        processes.append(
            spawn.Process(target=_join, args=(theirs, setup, names, port, client), daemon=True)
        )
        processes[-1].start()
    for pipe in pipes:
        pipe.recv()  # it is ready
    for pipe in pipes:
        pipe.send("go")
    found = [pipe.recv() for pipe in pipes]
    idle, connected, peak, server_commits = mine.recv()
    for process in processes:
        process.join()
    return Run(
        rounds=[seconds for one in found for seconds in one.rounds],
        commits=[seconds for one in found for seconds in one.commits],
        server_commits=server_commits,
        seconds=max(one.seconds for one in found),
        n_results=sum(one.n_results for one in found),
        idle=idle,
        per_client=(connected - idle) / setup.plan.n_clients,
        peak=peak,
    )


def _join(
    pipe: Connection,
    setup: Setup,
    names: Sequence[str],
    port: int,
    make: Callable[[Setup, str], ClientParty],
) -> None:
    parties = [make(setup, name) for name in names]
    pipe.send("ready")
    pipe.recv()
    seconds, outcomes = asyncio.run(_take_part(setup, names, parties, port))
    rounds = [party.seconds for party in parties if isinstance(party, Pulse | Clocked)]
    commits = [party.commits for party in parties if isinstance(party, Clocked)]
    pipe.send(
        Joined(
            rounds, commits, seconds, sum(isinstance(outcome, ClientResult) for outcome in outcomes)
        )
    )


async def _take_part(
    setup: Setup, names: Sequence[str], parties: Sequence[ClientParty], port: int
) -> tuple[float, list[ClientResult | Ended | None]]:
    clients = [
        GrpcClient(
            party,
            setup.plan,
            address=f"127.0.0.1:{port}",
            identity=setup.tls[name],
            server_certificate=setup.tls["server"].certificate,
        )
        for name, party in zip(names, parties, strict=True)
    ]
    begun = time.perf_counter()
    outcomes = await asyncio.gather(*(client.run() for client in clients))
    return time.perf_counter() - begun, list(outcomes)


def _serve(
    pipe: Connection, plan: Plan, tls: dict[str, TlsIdentity], make: Callable[[Plan], ServerParty]
) -> None:
    party = make(plan)
    idle, connected = asyncio.run(_serve_one_run(pipe, plan, tls, party))
    pipe.send(
        (
            idle,
            connected,
            peak_bytes(),
            party.commits if isinstance(party, TimedServer | VolatileServer) else [],
        )
    )


async def _serve_one_run(
    pipe: Connection, plan: Plan, tls: dict[str, TlsIdentity], party: ServerParty
) -> tuple[int, int]:
    certificates = {name: tls[name].certificate for name in plan.names}
    server = GrpcServer(
        party, plan, address="127.0.0.1:0", identity=tls["server"], certificates=certificates
    )
    await server.start()
    idle = _resident_bytes()
    pipe.send(server.port)
    end = asyncio.create_task(server.wait())
    while len(server.connected) < plan.n_clients and not end.done():
        await asyncio.sleep(0.001)
    connected = _resident_bytes()
    await end
    return idle, connected


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def peak_bytes() -> int:
    """The most memory that this process has had."""
    (line,) = (
        line
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith("VmHWM:")
    )
    return int(line.split()[1]) * 2**10


def self_signed(name: str) -> TlsIdentity:
    """A fresh key of the channel with the certificate that `keygen` makes."""
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = make_certificate(
        name, bytes(32), key, dt.datetime.now(dt.UTC).date() + dt.timedelta(days=7)
    )
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return TlsIdentity(certificate=base64.b64decode(certificate), private_key=pem)
