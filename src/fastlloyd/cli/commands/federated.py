"""Records of one table as several clients: what `simulate` and `demo` have in common."""

import os
from collections.abc import Iterable, Sequence

import numpy as np

from fastlloyd.base.randomness import PublicSeed
from fastlloyd.cli import screen, terminal
from fastlloyd.cli.options import FederationOptions, MechanismOptions
from fastlloyd.cli.settings import PublicNumbers, chosen_algorithm, design_arguments
from fastlloyd.clustering.domain import GridArray
from fastlloyd.federation import simulation
from fastlloyd.federation.plan.design import design_plan
from fastlloyd.federation.plan.plan import TrustMode
from fastlloyd.mechanisms.catalogue import choose
from fastlloyd.reports.result import Result


def run_split(
    records: Iterable[GridArray],
    names: Sequence[str],
    numbers: PublicNumbers,
    mechanism: MechanismOptions,
    federation: FederationOptions,
    dropped: Sequence[simulation.Drop] = (),
) -> Result:
    """Shuffle and split records on the grid, in blocks, over clients of these names, and run them together."""
    clients, identities = simulation.roster(names, numbers.n_records)
    arguments = design_arguments(mechanism, numbers.n_records)
    with terminal.placing(mechanism.n_clusters):
        plan = design_plan(
            chosen_algorithm(mechanism),
            numbers.domain,
            clients=clients,
            run_id=os.urandom(16),
            trust=trust(mechanism, federation),
            max_dropouts=len({drop.client for drop in dropped}) if federation.max_dropouts is None else federation.max_dropouts,
            max_colluding=federation.max_colluding,
            ring_bits=federation.ring_bits,
            **arguments,
        )
    X = np.concatenate(list(records))
    seed: PublicSeed = arguments["public_seed"]
    with terminal.at_work(f"{len(names)} clients at work", plan.mechanism):
        run = simulation.simulate(plan, identities, simulation.split_evenly(X, len(names), seed), drops=dropped)
    return Result.of_run(plan, run, leaks=numbers.leaks, cautions=(screen.DROPPED,) if dropped else ())


def trust(mechanism: MechanismOptions, federation: FederationOptions) -> TrustMode:
    """The trust mode named; left out, client-noise, or the paper's with its preset."""
    if federation.trust is None:
        return TrustMode.SERVER_NOISE if mechanism.preset == "paper" else TrustMode.CLIENT_NOISE
    return choose(TrustMode, federation.trust, "trust")
