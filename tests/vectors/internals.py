"""Every part of the package that the vectors need beside `fastlloyd.__all__` and
`fastlloyd.testing`.

If a module moves, this file follows, and no other here.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from fastlloyd import Domain, Mechanism, Plan
from fastlloyd.base.randomness import PublicSeed
from fastlloyd.cli.failures import run as run_command
from fastlloyd.clustering.domain import Scaling
from fastlloyd.clustering.packing import RadiusSearch
from fastlloyd.dp.neighboring import NeighboringRelation
from fastlloyd.dp.noise import NoiseSource
from fastlloyd.federation import dealing, simulation
from fastlloyd.federation.identity.parties import Client
from fastlloyd.federation.plan.design import ProtocolChoices, design_plan
from fastlloyd.federation.plan.plan import (
    loss_estimate_of_run,
    noise_deviation_of_run,
)
from fastlloyd.federation.protocol.actions import ClientResult
from fastlloyd.federation.secagg.keys import Identity
from fastlloyd.mechanisms import catalogue, central, uncertainty
from fastlloyd.mechanisms.answering import LocalRecords
from fastlloyd.mechanisms.mechanism import Clustering
from fastlloyd.mechanisms.settings import AnyAlgorithm, Settings
from fastlloyd.reports.statement import mechanism_statement, plan_statement
from fastlloyd.testing import SeededNoise

__all__ = [
    "Clustering",
    "between_parties",
    "clustered",
    "coalitions",
    "domain",
    "federated",
    "figures_of",
    "identity",
    "mechanism",
    "mechanism_statement",
    "plan",
    "plan_statement",
    "run_command",
]

IntArray = NDArray[np.int64]


def coalitions(plan: Plan) -> list[dict[str, Any]]:
    """Return who may pool what they see, and the epsilon that is left, as the statement has it."""
    rows: list[dict[str, Any]] = plan_statement(plan)["federated"]["coalitions"]
    return rows


class CountedNoise:
    """The production samplers: the n-th call for a scale and a size gives the same whatever was
    drawn for others. NOT PRIVATE.

    So the total noise of a round does not depend on the order in which the clients of a run draw
    theirs.
    """

    private = False

    def __init__(self, name: str) -> None:
        self._name = name
        self._sources: dict[tuple[str, Fraction, int], SeededNoise] = {}

    def gaussian(self, scale: Fraction, size: int) -> IntArray:
        return self._source("gaussian", scale, size).gaussian(scale, size)

    def two_sided_geometric(self, scale: Fraction, size: int) -> IntArray:
        return self._source("geometric", scale, size).two_sided_geometric(scale, size)

    def _source(self, law: str, scale: Fraction, size: int) -> SeededNoise:
        seed = int.from_bytes(
            hashlib.sha256(f"{self._name} {law} {scale} {size}".encode()).digest()
        )
        return self._sources.setdefault((law, scale, size), SeededNoise(seed))


def domain(
    lower: Sequence[float], upper: Sequence[float], *, scaling: str, fraction_bits: int
) -> Domain:
    """A domain of features x1, x2, ..."""
    return Domain(
        features=tuple(f"x{i}" for i in range(1, len(lower) + 1)),
        lower=tuple(lower),
        upper=tuple(upper),
        scaling=Scaling(scaling),
        fraction_bits=fraction_bits,
    )


def mechanism(within: Domain, said: Mapping[str, Any]) -> Mechanism:
    """The mechanism that these settings, in words and numbers, ask for."""
    return catalogue.design(_settings(within, said))


def plan(within: Domain, said: Mapping[str, Any], n_clients: int) -> Plan:
    """The plan of a simulation of clients c1, c2, ... with fixed keys."""
    chosen = {name: said[name] for name in said if name in ProtocolChoices.__struct_fields__}
    protocol = msgspec.convert({"masks": "group"} | chosen, ProtocolChoices)
    cap = dealing.cap_of_each(said["n_records"], n_clients)
    clients = tuple(
        Client(name=name, max_records=cap, signing_key=identity(name).public.hex())
        for name in (f"c{i}" for i in range(1, n_clients + 1))
    )
    settings = _settings(within, {name: said[name] for name in said if name not in chosen})
    run_id = b"sixteen bytes :)"
    return design_plan(settings, clients=clients, run_id=run_id, protocol=protocol, simulated=True)


def between_parties(of: Plan) -> Plan:
    """The same plan for parties with records of their own: a simulation has no coalitions."""
    cap = of.mechanism.n_records // of.n_clients
    clients = tuple(msgspec.structs.replace(one, max_records=cap) for one in of.clients)
    return msgspec.structs.replace(of, clients=clients, simulated=None)


def _settings(within: Domain, given: Mapping[str, Any]) -> Settings[AnyAlgorithm]:
    said = dict(given)
    search, floor = said.pop("initialization", None), said.pop("min_count", None)
    return Settings(
        algorithm=catalogue.algorithm(said.pop("algorithm")).varied(**said.pop("variant", {})),
        domain=within,
        preset=catalogue.preset(said.pop("preset", "default")),
        initialization=None if search is None else RadiusSearch(search),
        min_count=None if floor is None else Fraction(floor),
        neighboring_relation=NeighboringRelation(
            said.pop("neighboring_relation", "add_or_remove_one")
        ),
        public_seed=PublicSeed.from_int(said.pop("seed", 1)),
        **said,
    )


def clustered(m: Mechanism, X: IntArray, seed: int) -> Clustering:
    """What the central model ends with; within `testing.repeatable_noise` only."""
    return central.cluster(m, LocalRecords(m.domain, X), SeededNoise(seed))


def identity(name: str) -> Identity:
    """The fixed signing key of a client."""
    return Identity.from_private_bytes(
        hashlib.sha256(f"vectors: identity of {name}".encode()).digest()
    )


def _chance(seed: int) -> Callable[[int], bytes]:
    """Bytes that look random and follow from a number."""
    return lambda n: hashlib.shake_256(f"vectors: deal {seed}".encode()).digest(n)


def federated(p: Plan, X: IntArray, drops: Sequence[str], seed: int) -> ClientResult:
    """What the clients of a simulated run end with; within `testing.repeatable_noise` only."""
    noise: NoiseSource = CountedNoise(f"run {seed}")
    return simulation.simulate(
        p,
        {name: identity(name) for name in p.names},
        dealing.deal(p, LocalRecords(p.mechanism.domain, X), random_bytes=_chance(seed)),
        drops=[simulation.parse_drop(text, p.names) for text in drops],
        noise=noise,
    )


def figures_of(
    m: Mechanism, clustering: Clustering, run: tuple[Plan, ClientResult] | None = None
) -> dict[str, Any]:
    """How far the centroids may be off, by all that says something of it."""
    if run is None:
        noise, loss = uncertainty.noise_deviation(m), uncertainty.loss_estimate(m, clustering)
    else:
        p, result = run
        noise = noise_deviation_of_run(p, len(result.included[len(m.rounds) - 1]))
        loss = loss_estimate_of_run(p, clustering, len(result.included[-1]))
    counts = clustering.noisy_counts(m.count_bits)
    found = uncertainty.assess(m, clustering, noise)
    sizes = np.maximum(counts, 1.0)
    errors = uncertainty.noise_errors(m, clustering, noise, sizes)
    expected = m.expected_error()
    return {
        "noise_deviation": [noise.sums, noise.counts],
        "noise_errors": errors,
        "relative_errors": uncertainty.relative_errors(m, errors),
        "errors": found.errors,
        "status": [status.value for status in found.status],
        "typical_error": uncertainty.typical_error(m, found, counts, noise.counts),
        "n_cautions": len(uncertainty.cautions(found.status, noise.counts)),
        "expected_error": [expected.typical, expected.low, expected.high],
        "loss_estimate": None if loss is None else [loss.value, loss.standard_error],
    }
