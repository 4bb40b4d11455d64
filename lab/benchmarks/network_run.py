"""Run over gRPC on this machine, with mutual TLS over loopback. The server is one process, and the
clients share one or more others.
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
from benchmarks.runs import box, peak_bytes, settings_of
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


@dataclass(frozen=True)
class Setup:
    """Plan with the keys and certificates of all parties.

    signing : private signing key of each client, as bytes, which can be sent to other processes.
    tls : key and certificate of each party.
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
        """Return a setup whose records are in the unit cube, with words of 64 bits.

        records : cap on the number of records of each client.
        """
        signing = {f"client-{i}": Identity.generate() for i in range(n_clients)}
        clients = tuple(
            Client(name=name, max_records=records, signing_key=identity.public.hex())
            for name, identity in signing.items()
        )
        settings = settings_of(
            box(n_features),
            n_clusters,
            records * n_clients,
            epsilon=5.0,
            seed=1,
            algorithm=FASTLLOYD,
            n_iterations=n_iterations,
        )
        plan = design_plan(
            settings, clients=clients, run_id=os.urandom(16), protocol=ProtocolChoices(masks=masks)
        )
        keys = {name: identity.private_bytes() for name, identity in signing.items()}
        return cls(plan, keys, {name: self_signed(name) for name in (*plan.names, "server")})


@dataclass(frozen=True)
class Run:
    """Measurements of a run.

    rounds, commits : seconds of each round and of each commit, by client. Clients that do not
        measure them are left out.
    server_commits : seconds of each commit of the server, or an empty list.
    seconds : duration of the run.
    n_results : number of clients with a result.
    idle : bytes of the server's memory before clients connect.
    per_client : additional bytes of the server's memory for each connected client.
    peak : largest number of bytes of the server's memory.
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
        """Median seconds of a round, over rounds and clients. The first 5 % of the rounds are left
        out.
        """
        return _median(self.rounds)

    @property
    def slowest_commit(self) -> float:
        """Median over rounds of the seconds of the slowest client's commit, for which all parties
        wait.
        """
        from_the_end = zip(*(reversed(seconds) for seconds in self.commits), strict=False)
        return _median([[max(each) for each in from_the_end][::-1]])

    @property
    def server_commit(self) -> float:
        """Median over rounds of the seconds of a commit of the server."""
        return _median([self.server_commits])


class Joined(NamedTuple):
    """Measurements of one process of clients. The fields are those of `Run`."""

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
    """Do one run, and return its measurements.

    server, client : functions that make a party in its process.
    n_processes : number of processes that share the clients.
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
        client_of(party, setup.plan, setup.tls, name, port)
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
    server = server_of(party, plan, tls)
    await server.start()
    idle = _resident_bytes()
    pipe.send(server.port)
    end = asyncio.create_task(server.wait())
    while len(server.connected) < plan.n_clients and not end.done():
        await asyncio.sleep(0.001)
    connected = _resident_bytes()
    await end
    return idle, connected


def client_of(
    party: ClientParty, plan: Plan, tls: dict[str, TlsIdentity], name: str, port: int
) -> GrpcClient:
    """Return the connection of a client to a server on this machine."""
    server = tls["server"].certificate
    return GrpcClient(
        party, plan, address=f"127.0.0.1:{port}", identity=tls[name], server_certificate=server
    )


def server_of(party: ServerParty, plan: Plan, tls: dict[str, TlsIdentity]) -> GrpcServer:
    """Return a server that listens at a free port of this machine."""
    certificates = {name: tls[name].certificate for name in plan.names}
    return GrpcServer(
        party, plan, address="127.0.0.1:0", identity=tls["server"], certificates=certificates
    )


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def self_signed(name: str) -> TlsIdentity:
    """Return a new TLS key, with a certificate like those that `keygen` makes."""
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = make_certificate(
        name, bytes(32), key, dt.datetime.now(dt.UTC).date() + dt.timedelta(days=7)
    )
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return TlsIdentity(certificate=base64.b64decode(certificate), private_key=pem)
