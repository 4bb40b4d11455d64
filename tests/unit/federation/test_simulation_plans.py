"""Plans of simulations: caps may add up to more than n_records, which one process checks, and no
party with records of its own runs such a plan.
"""

from typing import Any

import msgspec
import numpy as np
import pytest

from fastlloyd.base.randomness import PublicSeed
from fastlloyd.clustering.domain import Domain
from fastlloyd.dp.noise import SystemNoise
from fastlloyd.errors import PlanError
from fastlloyd.federation.dealing import cap_of_each, deal
from fastlloyd.federation.plan.design import design_plan, renew
from fastlloyd.federation.plan.plan import Plan, ring_load
from fastlloyd.federation.protocol.masked_round import Plausible
from fastlloyd.federation.protocol.server import ServerSession
from fastlloyd.federation.simulation import roster, simulate
from fastlloyd.federation.transport import party
from fastlloyd.mechanisms.answering import LocalRecords
from fastlloyd.mechanisms.lloyd.algorithm import FASTLLOYD
from fastlloyd.mechanisms.settings import Settings
from federation import make_federation, make_plan

N = 60
DOMAIN = Domain(features=("x",), lower=(0.0,), upper=(1.0,), fraction_bits=8)


def simulated(**changes: Any) -> Plan:
    clients, _ = roster(["a", "b", "c"], N)
    settings = Settings(
        algorithm=FASTLLOYD,
        domain=DOMAIN,
        n_clusters=2,
        n_records=N,
        epsilon=5.0,
        public_seed=PublicSeed.from_int(1),
        n_iterations=2,
    )
    given: dict[str, Any] = {"clients": clients, "run_id": bytes(16), "simulated": True} | changes
    return design_plan(settings, **given)


def test_only_in_a_simulation_may_caps_add_up_to_more_than_n_records() -> None:
    plan = simulated()
    caps = [client.max_records for client in plan.clients]
    assert caps == [cap_of_each(N, 3)] * 3
    assert sum(caps) > N
    with pytest.raises(PlanError, match=f"add up.*{sum(caps)}, above.*{N}"):
        msgspec.structs.replace(plan, simulated=None)
    with pytest.raises(PlanError, match="caps add up"):
        simulated(simulated=False)


def test_sensitivity_delta_and_ring_of_a_simulation_come_from_n_records_alone() -> None:
    plan, small = simulated(), simulated()
    even = tuple(msgspec.structs.replace(client, max_records=N // 3) for client in small.clients)
    real = msgspec.structs.replace(small, clients=even, simulated=None)
    assert plan.mechanism == real.mechanism
    assert ring_load(plan) == ring_load(real)


def test_a_plan_of_a_simulation_is_read_back_and_no_party_of_a_real_run_takes_it() -> None:
    plan = simulated()
    again = Plan.from_toml(plan.to_toml())
    assert again == plan
    assert again.digest == plan.digest != simulated(clients=plan.clients, run_id=b"1" * 16).digest
    assert "for a simulation" in plan.lacking
    refusals = (
        plan.check_networked,
        lambda: renew(plan, run_id=b"2" * 16),
        lambda: party.serve(ServerSession(plan, SystemNoise()), NoWire()),
    )
    for refuse in refusals:
        with pytest.raises(PlanError, match="for a simulation"):
            refuse()
    of = make_federation(msgspec.structs.replace(make_plan(), simulated=True))
    with pytest.raises(PlanError, match="for a simulation"):
        party.take_part(of.client(of.plan.names[0]), NoWire())


class NoWire:
    """A wire over which nothing may go."""

    def send(self, to: str, message: object) -> None:
        raise AssertionError(to, message)

    def tell(self, to: str, kind: object, reason: str = "") -> None:
        raise AssertionError(to, kind, reason)

    def receive(self, seconds: float | None = None) -> None:
        raise AssertionError(seconds)


def test_sums_are_judged_by_n_records_where_caps_allow_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    judged, genuine = list[int](), Plausible.check

    def check(self: Plausible, answer: Any, n_records: int, round: int) -> None:
        judged.append(n_records)
        genuine(self, answer, n_records, round)

    monkeypatch.setattr(Plausible, "check", check)
    clients, identities = roster(["a", "b", "c"], N)
    plan = simulated(clients=clients)
    X = DOMAIN.to_grid(np.linspace(0, 1, N)[:, None])
    simulate(plan, identities, deal(plan, LocalRecords(DOMAIN, X)))
    assert set(judged) == {N}


def test_clients_without_records_finish_a_run() -> None:
    clients, identities = roster([f"c{i}" for i in range(20)], N)
    plan = simulated(clients=clients)
    parts = deal(plan, LocalRecords(DOMAIN, DOMAIN.to_grid(np.full((3, 1), 0.5))))
    assert sorted(part.n or 0 for part in parts)[:17] == [0] * 17
    run = simulate(plan, identities, parts)
    assert run.included == (plan.names,) * plan.mechanism.n_rounds
    assert run.unconfirmed == ()
