"""`fastlloyd demo`: three hospitals cluster tumour measurements that none of them may show the others, over a network."""

from typing import TYPE_CHECKING, Any

from fastlloyd.cli.options import OutputOptions

if TYPE_CHECKING:
    from pathlib import Path

    from fastlloyd.clustering.domain import Domain
    from fastlloyd.federation.plan.plan import Plan
    from fastlloyd.records import Table

HOSPITALS = ("hospital-a", "hospital-b", "hospital-c")
NEEDED = ("sklearn", "network", "plot")  # for the records, the network and the picture
N_RECORDS = 600  # a round public number above the 569 tumours
NEXT = (
    "\nNext: your own table. `fastlloyd bounds template FILE` writes a form for public bounds; fill it in, then "
    "`fastlloyd fit FILE --bounds bounds.toml --n-records N --n-clusters K --out result` clusters it. docs/tutorial.md goes "
    "through it; docs/how-to/run-a-study.md tells several organisations how to run a study."
)


def demo(output: OutputOptions) -> None:
    """Three hospitals and a server, four processes, cluster public tumour measurements; beside Lloyd without privacy."""
    import json
    import tempfile
    from pathlib import Path

    import typer

    from fastlloyd.base import extras
    from fastlloyd.cli import destination, progress
    from fastlloyd.cli import screen as report
    from fastlloyd.cli.commands import hospitals
    from fastlloyd.clustering.domain import Domain
    from fastlloyd.errors import FastLloydError
    from fastlloyd.evaluation import comparison
    from fastlloyd.evaluation.datasets import TUMOUR_BOUNDS, load_tumours
    from fastlloyd.reports import outputs
    from fastlloyd.reports.statement import NOT_PROTECTED, NOT_PROTECTED_FEDERATED

    if missing := [extra for extra in NEEDED if not extras.is_installed(extra)]:
        raise FastLloydError(f"the demo needs packages that are not installed yet: {extras.command(*missing)}")
    place = destination.named(output)
    table = load_tumours()
    lower, upper = zip(*(TUMOUR_BOUNDS[name] for name in table.columns), strict=True)
    domain = Domain(features=table.columns, lower=lower, upper=upper)
    with tempfile.TemporaryDirectory(prefix="fastlloyd-demo-") as name:
        folder = Path(name)
        plan = _plan(folder, domain)
        options = [*(["--json"] if output.json else []), *(["--plot-data"] if output.plot_data else [])]
        with progress.moving("a server and three hospitals at work, four processes"):
            said = hospitals.run_processes(folder, plan, _parts(plan, table), options)
        contents = {path.name: path.read_bytes() for path in sorted((folder / HOSPITALS[0]).iterdir())}
        nicv = _nicv(folder / HOSPITALS[0], table)
    paths = place.write(contents)
    X = [domain.to_grid(table.values)]
    lloyd = comparison.lloyd(plan.mechanism, X)
    figures = {"momentlloyd": nicv, "lloyd": comparison.figures(lloyd, X).nicv, "note": "computed on raw data: NOT PRIVATE"}

    screen = report.console(output)
    screen.print(
        f"{len(HOSPITALS)} hospitals measured at most {N_RECORDS} tumours and may not pool them. They run MomentLloyd "
        "together with a server that none of them trusts with data, as four processes that talk over TLS: only masked sums, "
        "each with a share of noise in it, leave a hospital."
    )
    if not output.json:
        screen.print(said.rpartition("Written to ")[0].rstrip(), soft_wrap=True)
    screen.print("What is not protected:")
    for line in NOT_PROTECTED + NOT_PROTECTED_FEDERATED:
        screen.print(f"- {line}")
    screen.print("\nFor comparison, on all records at one place:")
    report.show_centroids(screen, lloyd)
    screen.print(
        f"NICV, the mean squared distance of a record to its centroid: {figures['momentlloyd']:.4f} with privacy, "
        f"{figures['lloyd']:.4f} by Lloyd's algorithm (half widths of the domain, squared). Both figures and the table of "
        "lloyd were computed on raw data: NOT PRIVATE. They can be shown here because these records are public."
    )
    screen.print(
        "Start and noise are new every time: run the demo again to see how far they move the result. The bounds of these "
        "public records were set by people who knew their ranges; those of private records must not be."
    )
    nothing = "Nothing was written; --out DIR keeps centroids, settings, privacy statement and picture."
    report.say_where(output, paths, nothing)
    screen.print(NEXT)
    if output.json:
        content: dict[str, Any] = json.loads(said) | {"nicv": figures, "files": [str(path) for path in paths]}
        typer.echo(outputs.to_json(content), nl=False)


def _plan(folder: "Path", domain: "Domain") -> "Plan":
    """Identities for all in the folder, and the plan they agree on; nobody picked the start."""
    import os

    from fastlloyd.base.randomness import PublicSeed
    from fastlloyd.cli.commands import hospitals
    from fastlloyd.federation.plan.design import design_plan
    from fastlloyd.mechanisms.moment_lloyd.rounds import MOMENTLLOYD

    identities = hospitals.make_identities(folder, (*HOSPITALS, hospitals.SERVER))
    return design_plan(
        MOMENTLLOYD,
        domain,
        clients=tuple(identities[name].public.client(N_RECORDS // len(HOSPITALS)) for name in HOSPITALS),
        run_id=os.urandom(16),
        server=identities[hospitals.SERVER].public.server(hospitals.free_address()),
        n_clusters=2,
        n_records=N_RECORDS,
        epsilon=1.0,
        public_seed=PublicSeed(os.urandom(32)),
    )


def _parts(plan: "Plan", table: "Table") -> "dict[str, Table]":
    """Each hospital's share of the records, shuffled by the public seed."""
    import numpy as np

    from fastlloyd.base.randomness import PublicSeed
    from fastlloyd.federation.simulation import split_evenly
    from fastlloyd.records import Table

    order = np.arange(len(table.values))[:, np.newaxis]
    shares = split_evenly(order, len(HOSPITALS), PublicSeed.from_hex(plan.mechanism.public_seed))
    return {
        name: Table(values=table.values[share[:, 0]], columns=table.columns, source=name)
        for name, share in zip(HOSPITALS, shares, strict=True)
    }


def _nicv(result: "Path", table: "Table") -> float:
    """Mean squared distance of a record to its centroid, in squared half widths. NOT PRIVATE."""
    import numpy as np

    from fastlloyd.evaluation.labels import FittedClustering

    return float(np.mean(FittedClustering.read(result).label(table.values).distances ** 2))
