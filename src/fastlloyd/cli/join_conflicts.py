"""Options of `join` that exclude each other, or do not fit the plan."""

from typing import TYPE_CHECKING

from fastlloyd.cli.network_options import (
    HostOptions,
)
from fastlloyd.cli.options import (
    OutputOptions,
)
from fastlloyd.errors import OutputError, PlanError

if TYPE_CHECKING:
    from fastlloyd.base.problems import Faults
    from fastlloyd.federation.plan.plan import Plan


def note_conflicts(
    plan: "Plan",
    server: str | None,
    host: HostOptions,
    output: OutputOptions,
    faults: "Faults",
    *,
    is_rehearsal: bool,
) -> None:
    """Note options that exclude each other, or that do not fit the plan, in `faults`."""
    from fastlloyd.federation.identity.parties import check_address
    from fastlloyd.mechanisms.bounds.mechanism import BoundsMechanism

    with faults.noted("plot_data"):
        if output.plot_data and isinstance(plan.mechanism, BoundsMechanism):
            raise OutputError(
                "--plot-data draws records and centroids, but this plan finds bounds and no"
                " centroids; leave --plot-data out"
            )
    with faults.noted("server"):
        check_address(plan.server.address if server is None else server)
    with faults.noted("server"):
        if server is not None and host.serve is not None:
            raise PlanError(
                "--server and --serve exclude each other: --server names the address of a server,"
                " and --serve runs it here; pass one of them"
            )
    with faults.noted("out"):
        if output.out is None and not is_rehearsal:
            raise OutputError("--out is missing; name a folder for the result with --out DIR")
