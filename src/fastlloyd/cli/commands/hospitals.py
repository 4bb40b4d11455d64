"""Three hospitals and a server as four processes on this machine, with the commands and files that four organisations use."""

import csv
import os
import secrets
import shutil
import socket
import subprocess  # nosec B404 - runs this very program
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from fastlloyd.base.arrays import FloatArray
from fastlloyd.errors import FastLloydError
from fastlloyd.federation.identity.identity import PrivateIdentity
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.records import Table
from fastlloyd.reports.outputs import write_file
from fastlloyd.reports.stored_result import EXACT, PLAN

SERVER = "server"
DATASET = "tumours"
_SECONDS = 300
_LOWEST_PORT, _PORTS = 20_000, 12_000


def make_identities(folder: Path, names: Sequence[str]) -> dict[str, PrivateIdentity]:
    """An identity for each name, as `fastlloyd keygen` makes them, for a day."""
    identities = {}
    for name in names:
        identities[name] = PrivateIdentity.make(name, datetime.now(UTC).date() + timedelta(days=1))
        identities[name].save(folder / f"{name}.identity.toml")
    return identities


def free_address() -> str:
    """A port of this machine that nobody has now; below those that systems give to outgoing connections, as ours are."""
    while True:
        port = _LOWEST_PORT + secrets.randbelow(_PORTS)
        with socket.socket() as tried, suppress(OSError):
            tried.bind(("127.0.0.1", port))
            return f"localhost:{port}"


def write_records(path: Path, columns: Sequence[str], values: FloatArray) -> None:
    """A text file that reads back as the very same numbers."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(values.tolist())


def run_processes(folder: Path, plan: Plan, parts: Mapping[str, Table], options: Sequence[str]) -> str:
    """Run a plan whose identities lie in the folder; what the first client says. Each client writes the folder of its name.

    options : further ones of the first client. Raises FastLloydError if a process fails, or the clients' results differ.
    """
    write_file(folder / PLAN, plan.to_toml())
    first = next(iter(parts))
    commands = {SERVER: ["serve", PLAN, "--key", f"{SERVER}.identity.toml", "--listen", plan.server.address]}
    for name, table in parts.items():
        write_records(folder / f"{name}.csv", table.columns, table.values)
        commands[name] = [
            *("join", PLAN, "--digest", plan.digest.hex(), "--key", f"{name}.identity.toml"),
            *("--data", f"{name}.csv", "--dataset", DATASET, "--out", name),
            *(options if name == first else ()),
        ]
    _run(folder, commands)
    results = {(folder / name / EXACT).read_bytes() for name in parts}
    if len(results) != 1:
        raise FastLloydError("the hospitals ended with different centroids, which must never happen; please report it")
    return (folder / f"{first}.out").read_text(encoding="utf-8")


def _run(folder: Path, commands: Mapping[str, Sequence[str]]) -> None:
    """Run `fastlloyd` with each of these arguments, all at once, to the end; nobody is left behind."""
    environment = os.environ | {"COLUMNS": str(shutil.get_terminal_size().columns)}
    processes: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for name, arguments in commands.items():
            with (folder / f"{name}.out").open("wb") as out, (folder / f"{name}.log").open("wb") as log:
                processes[name] = subprocess.Popen(  # noqa: S603  # nosec B603 - this very program, with arguments made here
                    [sys.executable, "-m", "fastlloyd", *arguments],
                    cwd=folder,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=log,
                )
        _wait(folder, processes)
    finally:
        for process in processes.values():
            with suppress(OSError):
                process.kill()
            process.wait()


def _wait(folder: Path, processes: Mapping[str, "subprocess.Popen[bytes]"]) -> None:
    end = time.monotonic() + _SECONDS
    while any(process.poll() is None for process in processes.values()):
        for name, process in processes.items():
            if process.poll():
                said = (folder / f"{name}.log").read_text(encoding="utf-8", errors="replace").strip().splitlines()
                why = said[-1].removeprefix("Error: ") if said else f"exit code {process.returncode}"
                raise FastLloydError(f"{name} failed: {why}")
        if time.monotonic() > end:
            raise FastLloydError(f"the four processes did not finish within {_SECONDS} seconds; is this machine very busy?")
        time.sleep(0.05)
    for name, process in processes.items():
        if process.returncode:
            raise FastLloydError(f"{name} failed with exit code {process.returncode}")
