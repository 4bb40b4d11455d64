"""A run over gRPC in which one client holds a Parquet file larger than the memory that it may take,
and another a small one.

`python -m benchmarks.join [--records 50e6] [--folder DIR]` writes the files (64 bytes a record),
runs `fastlloyd serve` and two times `fastlloyd join` as processes of this machine, and prints the
peak memory of each client and the seconds of the run.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.stream import NAMES, write
from fastlloyd.base.files import write_file
from fastlloyd.base.randomness import PublicSeed
from fastlloyd.cli.commands.demo import free_address, make_identities
from fastlloyd.clustering.domain import Domain
from fastlloyd.federation.plan.design import design_plan
from fastlloyd.mechanisms.catalogue import algorithm
from fastlloyd.mechanisms.settings import Settings

SMALL, CLUSTERS = 100_000, 10
LIMIT = 400  # MiB


def prepare(folder: Path, sizes: dict[str, int], name: str) -> str:
    """Write identities, records and the plan; return its digest."""
    known = make_identities(folder, (*sizes, "server"))
    for client, n in sizes.items():
        write(folder / f"{client}.parquet", n)
    domain = Domain(features=NAMES, lower=(0.0,) * len(NAMES), upper=(1.0,) * len(NAMES))
    settings = Settings(
        algorithm=algorithm(name), domain=domain, n_clusters=CLUSTERS,
        n_records=sum(sizes.values()), epsilon=1.0,
        public_seed=PublicSeed.from_int(0),
    )  # fmt: skip
    clients = tuple(known[client].public.client(n) for client, n in sizes.items())
    plan = design_plan(
        settings,
        clients=clients,
        run_id=os.urandom(16),
        server=known["server"].public.server(free_address()),
    )
    write_file(folder / "plan.toml", plan.to_toml())
    return plan.digest.hex()


def start(folder: Path, *arguments: str) -> "subprocess.Popen[bytes]":
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "fastlloyd", *arguments], cwd=folder, stdout=log, stderr=log
        )


def run(folder: Path, clients: Sequence[str], digest: str) -> tuple[dict[str, float], float]:
    """Peak memory of each client's process, MiB, and the seconds of the run."""
    server = start(folder, "serve", "plan.toml", "--key", "server.identity.toml")
    begun, peaks = time.monotonic(), dict[str, float]()
    common = ["join", "plan.toml", "--digest", digest, "--dataset", "records"]
    own = {
        "--key": "identity.toml",
        "--data": "parquet",
        "--ledger": "ledger.store",
        "--out": "result",
    }
    names = {
        start(
            folder,
            *common,
            *(word for option, of in own.items() for word in (option, f"{client}.{of}")),
        ).pid: client
        for client in clients
    }
    for _ in names:
        pid, code, used = _ended(set(names))
        if code:
            raise RuntimeError((folder / "log").read_text()[-2000:])
        peaks[names[pid]] = used.ru_maxrss / 1024
    seconds = time.monotonic() - begun
    server.wait()
    return peaks, seconds


def _ended(pids: set[int]) -> tuple[int, int, resource.struct_rusage]:
    while True:
        pid, code, used = os.wait3(0)
        if pid in pids:
            return pid, code, used


def main() -> int:
    """Write, run, report."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.join", description=__doc__)
    parser.add_argument("--records", type=float, default=50e6)
    parser.add_argument("--algorithm", default="momentlloyd")
    parser.add_argument(
        "--folder", type=Path, default=None, help="where the files go (64 bytes a record)"
    )
    options = parser.parse_args()
    sizes = {"large": int(options.records), "small": SMALL}
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        digest = prepare(folder, sizes, options.algorithm)
        peaks, seconds = run(folder, list(sizes), digest)
        print((folder / "log").read_text())
    for client, peak in peaks.items():
        print(
            f"{client}: {sizes[client]:,} records, peak memory {peak:.0f} MiB (goal: less than"
            f" {LIMIT} MiB)"
        )
    print(f"{seconds:.0f} s")
    return int(max(peaks.values()) >= LIMIT)


if __name__ == "__main__":
    sys.exit(main())
