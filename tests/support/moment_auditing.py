"""The privacy audit of `auditing.py` for MomentLloyd, whose rounds ask different questions: a run
has one canary, is one trial.

Shipped sessions, masks, parameters and noise. The attacker is a curious client that knows every
record but one, sees the parameters of every round and opens every sum; it subtracts the exact
answer over all records it knows, and its own share of the noise. The canary sits in a corner of the
box where no other record is, which attains the sensitivity of nearly every round.
"""

import os
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import Self

import numpy as np

from auditing import CURIOUS, DELTA, HONEST, THIRD, FloatArray, OwnNoise, watched
from bounds import Audit
from designs import design_plan
from fastlloyd.base.arrays import IntArray
from fastlloyd.base.randomness import PublicSeed
from fastlloyd.clustering.domain import Domain
from fastlloyd.dp.gdp import gdp_mu
from fastlloyd.dp.noise import SystemNoise
from fastlloyd.federation.plan.plan import Client, Masks, Plan, TrustMode
from fastlloyd.federation.protocol.client import ClientSession
from fastlloyd.federation.protocol.server import ServerSession
from fastlloyd.federation.secagg.keys import Identity
from fastlloyd.federation.transport.in_process import run_in_process
from fastlloyd.mechanisms.answering import LocalRecords
from fastlloyd.mechanisms.moment_lloyd.mechanism import MomentMechanism
from fastlloyd.mechanisms.moment_lloyd.rounds import MOMENTLLOYD


@dataclass(frozen=True, kw_only=True)
class MomentSetting:
    """A plan for three clients, of whom the third is absent; d decides which rounds there are."""

    trust: TrustMode
    n_features: int
    epsilon: float
    n_clusters: int = 2
    n_records: int = 400

    @property
    def mu(self) -> float:
        """What a run may cost."""
        return gdp_mu(self.epsilon, DELTA)

    @property
    def n_rounds(self) -> int:
        """How many exchanges the planner gives such a run."""
        return len(
            self.plan(
                {name: Identity.generate() for name in (CURIOUS, HONEST, THIRD)}
            ).mechanism.all_rounds
        )

    def plan(self, identities: dict[str, Identity]) -> Plan:
        d = self.n_features
        return design_plan(
            MOMENTLLOYD,
            Domain(
                features=tuple(f"x{i}" for i in range(d)),
                lower=(-1.0,) * d,
                upper=(1.0,) * d,
                fraction_bits=12,
            ),
            clients=tuple(
                Client(name=n, max_records=self.n_records + 1, signing_key=key.public.hex())
                for n, key in identities.items()
            ),
            run_id=os.urandom(16),
            n_clusters=self.n_clusters,
            n_expected=self.n_records,
            epsilon=self.epsilon,
            delta=DELTA,
            public_seed=PublicSeed.from_int(1),
            trust=self.trust,
            max_dropouts=1,
            max_colluding=1,
            masks=Masks.GROUP,
        )


@dataclass(frozen=True)
class MomentTrials:
    """log-likelihood ratios, present over absent, of every trial, and what the canary cost by the
    plan's scales.
    """

    scores: FloatArray
    present: FloatArray
    squared_costs: FloatArray

    @property
    def n_per_side(self) -> int:
        return int(self.present.sum())

    @property
    def false_alarms(self) -> int:
        return int((self.scores > 0)[self.present == 0].sum())

    @property
    def misses(self) -> int:
        return int((self.scores <= 0)[self.present == 1].sum())

    @property
    def attained_mu(self) -> float:
        """Root mean square."""
        return float(self.squared_costs.mean() ** 0.5)

    @property
    def audit(self) -> Audit:
        """What the attacker's errors say about epsilon."""
        return Audit(n_per_side=self.n_per_side, false_alarms=self.false_alarms, misses=self.misses)

    @classmethod
    def join(cls, parts: Sequence[Self]) -> Self:
        """Those of several batches of the same setting."""
        scores, present, costs = (
            np.concatenate(arrays) for arrays in zip(*map(astuple, parts), strict=True)
        )
        return cls(scores, present, costs)

    @classmethod
    def observe(cls, setting: MomentSetting, n_per_side: int) -> Self:
        identities = {name: Identity.generate() for name in (CURIOUS, HONEST, THIRD)}
        plan = setting.plan(identities)
        known, canary = _records(setting, plan.mechanism.domain)
        trials = [
            _trial(plan, identities, known, canary, is_present=bool(i % 2))
            for i in range(2 * n_per_side)
        ]
        scores, costs = np.array(trials, dtype=np.float64).T
        present: FloatArray = np.arange(2 * n_per_side, dtype=np.float64) % 2
        return cls(scores, present, costs)


def _records(setting: MomentSetting, domain: Domain) -> tuple[IntArray, IntArray]:
    """Two clusters on one side of the box, and a canary in the opposite corner."""
    B, d = int(domain.half_widths[0]), setting.n_features
    corner = np.full((1, d), B, dtype=np.int64)
    centres = np.full((setting.n_clusters, d), -B // 2, dtype=np.int64)
    centres[1:, 0] = B // 4
    return np.repeat(centres, setting.n_records // setting.n_clusters, axis=0), corner


def _trial(
    plan: Plan,
    identities: dict[str, Identity],
    known: IntArray,
    canary: IntArray,
    *,
    is_present: bool,
) -> tuple[float, float]:
    """The score of one run, and what its canary cost: the squared signal over the noise that the
    attacker does not know.
    """
    own, half = OwnNoise(), len(known) // 2
    records = {
        CURIOUS: known[:half],
        HONEST: np.vstack([known[half:], canary]) if is_present else known[half:],
    }
    with watched(MomentMechanism) as view:
        sessions = [
            ClientSession(
                plan,
                name,
                LocalRecords(plan.mechanism.domain, X),
                identity=identities[name],
                noise=own if name == CURIOUS else SystemNoise(),
                random_bytes=os.urandom,
            )
            for name, X in records.items()
        ]
        outcome = run_in_process(ServerSession(plan, SystemNoise()), sessions)
    assert set(outcome.clients) >= set(records)
    drawn, score, cost = iter(own.drawn), 0.0, 0.0
    for (query, answer), exchange in zip(view, plan.mechanism.all_rounds, strict=True):
        signal, residual = query.evaluate(canary), answer - query.evaluate(known)
        ends = np.cumsum([part.n_columns for part in plan.mechanism.parts(exchange)])[:-1]
        if plan.trust is TrustMode.CLIENT_NOISE:
            parts = [
                next(drawn).reshape(len(answer), part.n_columns)
                for part in plan.mechanism.parts(exchange)
                if part.n_columns
            ]
            residual = residual - np.hstack(parts)
            scales = plan.share_scales(
                exchange, plan.n_clients
            )  # of the one share that the attacker does not know
        else:
            scales = tuple(part.scale for part in plan.mechanism.parts(exchange))
        for x, s, scale in zip(
            np.split(residual, ends, axis=1), np.split(signal, ends, axis=1), scales, strict=True
        ):
            weighted = s / float(scale) ** 2
            score += float(((x - s / 2) * weighted).sum())
            cost += float((s * weighted).sum())
    return score, cost
