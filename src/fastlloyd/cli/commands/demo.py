"""Command `fastlloyd demo`: three hospitals cluster tumour measurements over a network, without
showing them to each other.

Hospitals and server are four processes on this machine. They use the commands and files that four
organisations would use. Without a separate server, one of the hospitals hosts the run, and its
process starts the server's process.
"""

import csv
import json
import os
import secrets
import shutil
import socket
import subprocess  # nosec B404 - runs this very program
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from fastlloyd.base import extras
from fastlloyd.base.files import write_file
from fastlloyd.cli import terminal
from fastlloyd.cli.options import OutputOptions, in_federation
from fastlloyd.errors import FastLloydError, OutputError

if TYPE_CHECKING:
    from fastlloyd.base.arrays import FloatArray
    from fastlloyd.clustering.domain import Domain
    from fastlloyd.federation.identity.identity import PrivateIdentity
    from fastlloyd.federation.plan.plan import Plan
    from fastlloyd.records import Table
    from fastlloyd.reports.result import Result

HOSPITALS = ("hospital-a", "hospital-b", "hospital-c")
SERVER, DATASET = "server", "tumours"
NEEDED = ("sklearn", "network", "plot")  # for the records, the network and the picture
N_RECORDS = 600  # a round public number above the 569 tumours
WHO = (
    f"{len(HOSPITALS)} hospitals have records of at most {N_RECORDS} tumours in all, and may not"
    " pool them. They run MomentLloyd together"
)
LEAVES = "only masked sums, each with a share of noise in it, leave a hospital."
WITH_SERVER = (
    f"{WHO} with a server that none of them trusts with data, as four processes that talk over TLS:"
    f" {LEAVES}"
)
HOSTED = (
    f"{WHO} without an outside server: {HOSPITALS[0]} hosts the run, and a fourth process there"
    f" adds up masked numbers that it cannot read. They talk over TLS: {LEAVES}"
)
AGAIN = (
    "The start and the noise are new every time: run the demo again to see how far they move the"
    " result. The bounds of these public records were set by people who knew the records. Never"
    " set the bounds of confidential records in this way."
)
NEXT = (
    "\nNext: your own table. `fastlloyd recipe new FILE` asks what its columns are and writes"
    " recipe.toml; then `fastlloyd fit FILE --recipe recipe.toml --dataset NAME --new-dataset"
    " --out result` clusters it, and your ledger counts the run."
    " docs/tutorial.md goes through it; docs/how-to/run-a-study.md tells several organisations how"
    " to run a study."
)
_PARTS = b"fastlloyd/v1/demo/parts"  # label of the words that part the records
_SECONDS = 300
_LOWEST_PORT, _PORTS = 20_000, 12_000


WithoutServer = Annotated[
    bool,
    in_federation(
        "--without-server",
        help="Let one of the hospitals also run the server, as the host of the plan.",
    ),
]


Keep = Annotated[
    Path | None,
    in_federation(
        "--keep",
        help="Keep the files of all parties in this new folder: identities, stores, ledgers and"
        " logs, to try `audit`, `status` and `ledger` with.",
        metavar="DIR",
    ),
]


def demo(
    *, output: OutputOptions, without_server: WithoutServer = False, keep: Keep = None
) -> None:
    """Run three hospitals and a server, as four processes, which cluster public tumour
    measurements. Compare the result with that of Lloyd's algorithm without privacy.
    """
    import numpy as np

    from fastlloyd.cli import results
    from fastlloyd.clustering.domain import Domain
    from fastlloyd.evaluation import comparison
    from fastlloyd.evaluation.labels import FittedClustering
    from fastlloyd.evaluation.tumours import TUMOUR_BOUNDS, load_tumours

    if missing := [extra for extra in NEEDED if not extras.is_installed(extra)]:
        raise FastLloydError(
            f"the demo needs packages that are not installed yet: {extras.command(*missing)}"
        )
    place = results.named(output)
    table = load_tumours()
    lower, upper = zip(*(TUMOUR_BOUNDS[name] for name in table.columns), strict=True)
    domain = Domain(features=table.columns, lower=lower, upper=upper)
    with _folder(keep) as folder:
        plan = _plan(folder, domain, host=HOSPITALS[0] if without_server else None)
        options = [
            *(["--json"] if output.json else []),
            *(["--plot-data"] if output.plot_data else []),
        ]
        with terminal.moving("a server and three hospitals at work, four processes"):
            said = run_processes(folder, plan, _parts(plan, table), options)
        contents = {
            path.name: path.read_bytes() for path in sorted((folder / HOSPITALS[0]).iterdir())
        }
        private = FittedClustering.read(folder / HOSPITALS[0])
    nicv = float(np.mean(private.label(table.values).distances ** 2))
    paths = place.write(contents)
    X = [domain.to_grid(table.values)]
    lloyd = comparison.lloyd(plan.clustering, X, beside=private.centroids)
    figures = {
        "momentlloyd": nicv,
        "lloyd": comparison.figures(lloyd, X).nicv,
        "note": "computed on raw data: NOT PRIVATE",
    }

    _show(output, plan, said, paths, lloyd, figures)
    if output.json:
        terminal.print_json(
            json.loads(said) | {"nicv": figures, "files": [str(path) for path in paths]}
        )


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    """Context manager: an empty folder for the files of all parties.

    keep : path of the folder, which stays. None makes a folder that is removed at the end.

    Raises OutputError if the folder exists already, or cannot be made.
    """
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="fastlloyd-demo-") as name:
            yield Path(name)
        return
    try:
        keep.mkdir(mode=0o700)
    except OSError as error:
        raise OutputError(
            f"--keep {keep} cannot be made ({error.strerror}); name a new folder in one of yours"
        ) from None
    yield keep


def _show(
    output: OutputOptions,
    plan: "Plan",
    said: str,
    paths: Sequence[Path],
    lloyd: "Result",
    figures: Mapping[str, Any],
) -> None:
    """Print the screen of one hospital, and next to it the result of Lloyd's algorithm without
    privacy.

    said : standard output of the hospital.
    paths : paths of the files that were written.
    """
    from fastlloyd.cli import results, screen
    from fastlloyd.reports.outside import bullets

    # as the hospital's own output, which went to a file
    console = terminal.console(stderr=output.json, is_plain=True)
    console.print(HOSTED if plan.host else WITH_SERVER)
    if not output.json:
        console.print(said.rpartition("Written to ")[0].rstrip(), soft_wrap=True)
    console.print(f"Outside the guarantee:\n{bullets(plan)}")
    console.print(
        "\nFor comparison: clusters of all records pooled in one place, in the same order as above:"
    )
    screen.show_centroids(console, lloyd)
    console.print(
        "NICV, the mean squared distance of a record to its centroid:"
        f" {figures['momentlloyd']:.4f} with privacy, {figures['lloyd']:.4f} by Lloyd's algorithm"
        " (half widths of the domain, squared). Both figures and the table of lloyd were computed"
        " on raw data: NOT PRIVATE. They can be shown here because these records are public."
    )
    console.print(AGAIN)
    results.say_where(
        output,
        paths,
        "Nothing was written; --out DIR keeps centroids, settings, privacy statement and picture.",
    )
    console.print(NEXT)


def _plan(folder: Path, domain: "Domain", host: str | None) -> "Plan":
    """Make identities for all parties, and return their plan with a random public seed.

    folder : folder for the identities.
    domain : public bounds.
    host : name of the hospital that hosts the server, or None.
    """
    from fastlloyd.base.randomness import PublicSeed
    from fastlloyd.federation.plan.design import design_plan
    from fastlloyd.mechanisms.moment_lloyd.rounds import MOMENTLLOYD
    from fastlloyd.mechanisms.settings import Settings

    identities = make_identities(folder, (*HOSPITALS, SERVER))
    settings = Settings(
        algorithm=MOMENTLLOYD,
        domain=domain,
        n_clusters=2,
        n_records=N_RECORDS,
        epsilon=1.0,
        public_seed=PublicSeed(os.urandom(32)),
    )
    return design_plan(
        settings,
        clients=tuple(
            identities[name].public.client(N_RECORDS // len(HOSPITALS)) for name in HOSPITALS
        ),
        run_id=os.urandom(16),
        server=identities[SERVER].public.server(free_address()),
        host=host,
    )


def make_identities(folder: Path, names: Sequence[str]) -> "dict[str, PrivateIdentity]":
    """Make an identity for each name, as `fastlloyd keygen` does. It is valid for a day."""
    from fastlloyd.federation.identity.identity import PrivateIdentity

    identities = {}
    for name in names:
        identities[name] = PrivateIdentity.make(name, datetime.now(UTC).date() + timedelta(days=1))
        identities[name].save(folder / f"{name}.identity.toml")
        write_file(folder / f"{name}.public.toml", identities[name].public.to_toml())
    return identities


def free_address() -> str:
    """Return an address of this machine with a free port.

    The port is below those that systems use for outgoing connections.
    """
    while True:
        port = _LOWEST_PORT + secrets.randbelow(_PORTS)
        with socket.socket() as tried, suppress(OSError):
            tried.bind(("127.0.0.1", port))
            return f"localhost:{port}"


def _parts(plan: "Plan", table: "Table") -> "dict[str, Table]":
    """Return the records of each hospital: an equal part of the public table, chosen by the public
    seed.

    Each hospital uses its part as if it had collected the records itself.
    """
    import numpy as np

    from fastlloyd.base.randomness import Draws
    from fastlloyd.records import Table

    order = Draws(plan.clustering.seed, _PARTS).permutation(len(table.values))
    shares = np.array_split(order, len(HOSPITALS))
    return {
        name: Table(values=table.values[share], columns=table.columns, source=name)
        for name, share in zip(HOSPITALS, shares, strict=True)
    }


def run_processes(
    folder: Path, plan: "Plan", parts: "Mapping[str, Table]", options: Sequence[str]
) -> str:
    """Run a plan with one process per party, and return the output of the first client.

    Each client writes a folder of its own.

    folder : folder with the identities.
    plan : plan of the run.
    parts : records of each client.
    options : further options of the first client.

    Raises FastLloydError if a process fails, or if the results of the clients differ.
    """
    from fastlloyd.reports.run_result import EXACT, PLAN

    write_file(folder / PLAN, plan.to_toml())
    first = next(iter(parts))
    key, listen = f"{SERVER}.identity.toml", ("--listen", plan.server.address)
    commands = {} if plan.host else {SERVER: ["serve", PLAN, "--key", key, *listen]}
    for name, table in parts.items():
        write_records(folder / f"{name}.csv", table.columns, table.values)
        commands[name] = [
            *("join", PLAN, "--digest", plan.digest.hex(), "--key", f"{name}.identity.toml"),
            *(
                "--data",
                f"{name}.csv",
                "--dataset",
                DATASET,
                "--new-dataset",
                "--ledger",
                f"{name}.ledger.store",
                "--out",
                name,
            ),
            *(options if name == first else ()),
            *(("--serve", key, *listen) if name == plan.host else ()),
        ]
    _run(folder, commands)
    if len({(folder / name / EXACT).read_bytes() for name in parts}) != 1:
        raise FastLloydError(
            "the hospitals ended with different centroids, which must never happen; please"
            " report it"
        )
    return (folder / f"{first}.out").read_text(encoding="utf-8")


def write_records(path: Path, columns: Sequence[str], values: "FloatArray") -> None:
    """Write a text file of numbers. Reading it gives exactly the same numbers."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(values.tolist())


def _run(folder: Path, commands: Mapping[str, Sequence[str]]) -> None:
    """Run `fastlloyd` with each of these argument lists, all at the same time, and wait until all
    end.

    No process stays running after an error.
    """
    environment = os.environ | {"COLUMNS": str(shutil.get_terminal_size().columns)}
    processes: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for name, arguments in commands.items():
            with (
                (folder / f"{name}.out").open("wb") as out,
                (folder / f"{name}.log").open("wb") as log,
            ):
                # this very program, with arguments made here
                processes[name] = subprocess.Popen(  # noqa: S603  # nosec B603
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
                said = (
                    (folder / f"{name}.log")
                    .read_text(encoding="utf-8", errors="replace")
                    .strip()
                    .splitlines()
                )
                why = (
                    said[-1].removeprefix("Error: ") if said else f"exit code {process.returncode}"
                )
                raise FastLloydError(f"{name} failed: {why}")
        if time.monotonic() > end:
            raise FastLloydError(
                f"the four processes did not finish within {_SECONDS} seconds; is this machine very"
                " busy?"
            )
        time.sleep(0.05)
    for name, process in processes.items():
        if process.returncode:
            raise FastLloydError(f"{name} failed with exit code {process.returncode}")
