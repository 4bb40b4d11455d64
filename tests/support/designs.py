"""Mechanisms and plans from keywords, of which tests change one among many."""

from typing import Any, overload

from fastlloyd.clustering.domain import Domain
from fastlloyd.federation.plan import design as planning
from fastlloyd.federation.plan.plan import Client, Plan
from fastlloyd.mechanisms.catalogue import AnyMechanism, design
from fastlloyd.mechanisms.lloyd.algorithm import Algorithm
from fastlloyd.mechanisms.lloyd.mechanism import LloydMechanism
from fastlloyd.mechanisms.moment_lloyd.mechanism import MomentMechanism
from fastlloyd.mechanisms.moment_lloyd.rounds import MomentAlgorithm
from fastlloyd.mechanisms.settings import AnyAlgorithm, Settings


@overload
def design_mechanism(algorithm: Algorithm, domain: Domain, **settings: Any) -> LloydMechanism: ...
@overload
def design_mechanism(
    algorithm: MomentAlgorithm, domain: Domain, **settings: Any
) -> MomentMechanism: ...
@overload
def design_mechanism(algorithm: AnyAlgorithm, domain: Domain, **settings: Any) -> AnyMechanism: ...


def design_mechanism(algorithm: AnyAlgorithm, domain: Domain, **settings: Any) -> AnyMechanism:
    """The mechanism of these settings."""
    return design(Settings(algorithm=algorithm, domain=domain, **settings))


def design_plan(
    algorithm: AnyAlgorithm, domain: Domain, *, clients: tuple[Client, ...], **given: Any
) -> Plan:
    """The plan of the settings among the keywords and of the others; n_records : left out, the sum
    of the clients' caps.
    """
    given = {"n_records": sum(client.max_records for client in clients)} | given
    settings, chosen = (
        {name: given.pop(name) for name in kind.__struct_fields__ if name in given}
        for kind in (Settings, planning.ProtocolChoices)
    )
    return planning.design_plan(
        Settings(algorithm=algorithm, domain=domain, **settings),
        clients=clients,
        protocol=planning.ProtocolChoices(**chosen),
        **given,
    )
