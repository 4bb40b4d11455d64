"""Runs of the cases over gRPC, with mutual TLS over loopback. The server and each client have a
process of their own, which does all cases.
"""

import asyncio
import multiprocessing
import os
from multiprocessing.connection import Connection
from pathlib import Path

from benchmarks.network_parties import VolatileClient, VolatileServer
from benchmarks.network_run import client_of, self_signed, server_of
from fastlloyd.base.compiling import is_compiled
from fastlloyd.federation.transport.grpc.tls import TlsIdentity
from paper.overhead.cases import Measured, Part
from paper.overhead.parties import Stopwatch, Times

WARM_UP = 2  # runs that are not counted


def measure(folders: list[Path], n_clients: int) -> list[Measured]:
    """Measure the cases in these folders, one after the other."""
    # read by the processes to come: a client has a core at best
    os.environ["OMP_NUM_THREADS"] = "1"
    names = [f"client-{i}" for i in range(1, n_clients + 1)]
    tls = {name: self_signed(name) for name in ("server", *names)}
    spawn = multiprocessing.get_context("spawn")
    pipes, processes = [], []
    for name in ("server", *names):
        mine, its = spawn.Pipe()
        processes.append(spawn.Process(target=_main, args=(its, name, folders, tls), daemon=True))
        processes[-1].start()
        pipes.append(mine)
    found = [_measure(pipes, folder) for folder in folders]
    for process in processes:
        process.join()
    return found


def _measure(pipes: list[Connection], folder: Path) -> Measured:
    times: list[list[Times]] = [[] for _ in pipes]
    for _ in range(WARM_UP + Part(folder, Stopwatch()).n_runs):
        port = pipes[0].recv()
        for pipe in pipes[1:]:
            pipe.send(port)
        for one, pipe in zip(times, pipes, strict=True):
            one.append(pipe.recv())
    return Measured.of([one[WARM_UP:] for one in times])


def _main(pipe: Connection, name: str, folders: list[Path], tls: dict[str, TlsIdentity]) -> None:
    stopwatch = Stopwatch()
    is_compiled(1 << 40)
    stopwatch.watch()
    for folder in folders:
        part = Part(folder, stopwatch)
        for _ in range(WARM_UP + part.n_runs):
            run = (
                _serve(pipe, part, tls)
                if name == "server"
                else _take_part(part, name, pipe.recv(), tls)
            )
            pipe.send(asyncio.run(run))


async def _serve(pipe: Connection, part: Part, tls: dict[str, TlsIdentity]) -> Times:
    session = part.server()
    server = server_of(VolatileServer(session), part.plan, tls)
    await server.start()
    pipe.send(server.port)
    await server.wait()
    return session.times


async def _take_part(part: Part, name: str, port: int, tls: dict[str, TlsIdentity]) -> Times:
    session = part.client(name)
    await client_of(VolatileClient(session), part.plan, tls, name, port).run()
    return session.times
