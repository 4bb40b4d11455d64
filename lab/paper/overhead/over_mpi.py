"""Runs of the cases over MPI. `measure` starts an MPI job for cases with the same number of
clients. As a program, this module is one rank of the job.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec

from fastlloyd.base.compiling import is_compiled
from fastlloyd.federation.transport.mpi import load_mpi, serve, take_part
from paper.overhead.cases import Measured, Part
from paper.overhead.parties import Stopwatch, Times

MPIRUN = shutil.which(
    "mpirun", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
)
WARM_UP = 3  # runs that are not counted
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",  # a client has a core at best
    "OMPI_MCA_mpi_yield_when_idle": "1",  # more ranks than cores: who waits lets others go first
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
}


def missing() -> str:
    """Return a sentence that names the missing software, or "" if nothing is missing."""
    if MPIRUN is None or importlib.util.find_spec("mpi4py") is None:
        return "MPI left out: mpirun or mpi4py is not installed"
    return ""


def measure(folders: list[Path], n_clients: int) -> list[Measured]:
    """Measure the cases in these folders in one job, one after the other."""
    assert MPIRUN is not None
    command = [
        MPIRUN,
        "--oversubscribe",
        "-n",
        str(n_clients + 1),
        sys.executable,
        "-m",
        "mpi4py",
        "-m",
        "paper.overhead.over_mpi",
    ]
    subprocess.run([*command, *map(str, folders)], env={**os.environ, **ENVIRONMENT}, check=True)
    return [
        Measured.of(
            [
                msgspec.json.decode((folder / f"mpi-{i}").read_bytes(), type=list[Times])
                for i in range(n_clients + 1)
            ]
        )
        for folder in folders
    ]


def main(folders: list[Path]) -> None:
    """Take part in the cases in these folders, as one rank."""
    stopwatch, comm = Stopwatch(), load_mpi().COMM_WORLD
    is_compiled(1 << 40)
    stopwatch.watch()
    rank = comm.Get_rank()
    for folder in folders:
        part = Part(folder, stopwatch)
        found = []
        for _ in range(WARM_UP + part.n_runs):
            if rank == 0:
                server = part.server()
                serve(server, comm)
                found.append(server.times)
            else:
                client = part.client(part.plan.names[rank - 1])
                take_part(client, comm)
                found.append(client.times)
        (folder / f"mpi-{rank}").write_bytes(msgspec.json.encode(found[WARM_UP:]))


if __name__ == "__main__":
    main([Path(argument) for argument in sys.argv[1:]])
