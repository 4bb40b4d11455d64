"""A run that is over for its store: what was wiped there is said once more from the folder that holds the result."""

from pathlib import Path
from typing import Any

import msgspec
import typer

from fastlloyd.cli import network, screen
from fastlloyd.cli.options import OutputOptions
from fastlloyd.errors import DataError, PlanError
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.reports import outputs, stored_result
from fastlloyd.reports.stored_result import StoredResult


def result_in(folder: Path | None, plan: Plan) -> dict[str, Any] | None:
    """The result of this very run as `--json` prints it, if the folder holds it, whole; None otherwise."""
    if folder is None or not network.holds_result(folder, plan):
        return None
    try:
        StoredResult.read(folder)  # that centroids and settings belong together
        exact, privacy, rounds = (
            msgspec.json.decode((folder / name).read_bytes())
            for name in (stored_result.EXACT, stored_result.PRIVACY, stored_result.ROUNDS)
        )
        said = (privacy["federated"]["plan_digest"], privacy["federated"]["run_id"], len(rounds))
        if said != (plan.digest.hex(), plan.run_id, len(plan.mechanism.exchanges)):
            return None
        return {
            "private": privacy["private"],
            "features": exact["features"],
            "clusters": exact["clusters"],
            "leaks": privacy["taken_from_the_data"],
            "privacy": privacy,
            "rounds": rounds,
            "files": [str(path) for name in stored_result.FILES if (path := folder / name).is_file()],
        }
    except (OSError, ValueError, KeyError, TypeError, DataError, PlanError):
        return None


def say_again(result: dict[str, Any], options: OutputOptions) -> None:
    """Say that the run is over and where its result is; with --json print it."""
    files = [Path(file) for file in result["files"]]
    screen.console(options).print(
        f"Run {result['privacy']['federated']['run_id']} has finished before, and this is its result."
    )
    screen.say_where(options, files, "")
    if options.json:
        typer.echo(outputs.to_json(result), nl=False)
