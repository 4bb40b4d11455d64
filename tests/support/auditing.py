"""A privacy audit of the shipped path: what a curious client learns about one record of another
client.

Real client sessions, real masks, a real server session, noise from the system's random source. The
attacker is a client of the run and the strongest that the guarantee admits: it knows every record
but one, opens every round's sum, subtracts its own statistics and its own share of the noise, and
in `client-noise` as many clients are absent as the plan tolerates. It decides whether the one
record, the canary, took part.

Each cluster of a run has a canary of its own, present in every second run. A record touches one row
of the answer and the noise of the rows is independent, so a run gives one trial per cluster.

The plan's noise scales give the likelihood ratio of the two worlds; the attacker says "present"
where its logarithm is above 0, the midpoint, fixed before any run. See `bounds.py` for what its
errors say about epsilon.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Self
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

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
from fastlloyd.federation.transport.in_process import (
    InProcessOutcome,
    Link,
    everything_arrives,
    run_in_process,
)
from fastlloyd.mechanisms.answering import LocalRecords, Records, SharedRecords
from fastlloyd.mechanisms.lloyd.algorithm import FASTLLOYD
from fastlloyd.mechanisms.lloyd.mechanism import LloydMechanism, LloydRound
from fastlloyd.mechanisms.mechanism import Mechanism
from fastlloyd.mechanisms.persons import Persons
from fastlloyd.mechanisms.queries.query import Query
from fastlloyd.mechanisms.rounds import Answer, AnswerNoise, State
from kinds import lloyd_of

DELTA = 1e-6
N_CLUSTERS = 4
MANY_CLUSTERS = (
    72  # as many trials per run, which costs hardly more; the canaries attain as much of mu
)
# known records per cluster at the honest client: so many that noise hardly moves the centroids
N_COMMON = 1500
N_OWN = 10  # known records per cluster at the curious client
CURIOUS, HONEST, THIRD = "curious", "honest", "third"
# spreads initial centroids so evenly, 4 as well as 72, that every canary is as far from the others
# as it must
PUBLIC_SEED = 83

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What is audited: a plan for three clients, the third of whom is absent, as the plan
    tolerates, unless all are present.
    """

    trust: TrustMode
    epsilon: float = 1.0
    n_clusters: int = N_CLUSTERS
    n_iterations: int = 2
    all_present: bool = False
    masks: Masks = Masks.GROUP
    loss_share: float | None = (
        None  # with a number: the loss is estimated too, with so much of the budget
    )
    n_rows: int = 1  # so many equal rows is every canary, all of one person
    at: tuple[str, ...] = (HONEST,)  # the clients of whom each has all rows of the canaries
    persons: Persons | None = None  # whose rows the plan protects together

    @property
    def present(self) -> tuple[str, ...]:
        return (CURIOUS, HONEST, THIRD) if self.all_present else (CURIOUS, HONEST)

    @property
    def mu(self) -> float:
        """What a run may cost."""
        return gdp_mu(self.epsilon, DELTA)

    def plan(self, identities: dict[str, Identity], public_seed: int = PUBLIC_SEED) -> Plan:
        return plan_on_the_line(
            identities,
            public_seed,
            n_clusters=self.n_clusters,
            epsilon=self.epsilon,
            trust=self.trust,
            max_dropouts=0 if self.all_present else 1,
            masks=self.masks,
            n_iterations=self.n_iterations,
            estimate_loss=self.loss_share is not None,
            loss_share=self.loss_share,
            persons=self.persons,
            n_rows=self.n_rows,
        )


def plan_on_the_line(
    identities: Mapping[str, Identity],
    public_seed: int = PUBLIC_SEED,
    *,
    n_clusters: int,
    n_rows: int = 1,
    **settings: Any,
) -> Plan:
    """FastLloyd on the line, with the same radius in all rounds so that one canary can attain it in
    each.
    """
    cap = n_clusters * (N_COMMON + n_rows)
    return design_plan(
        FASTLLOYD.varied(radius="constant"),
        Domain(features=("x",), lower=(-1.0,), upper=(1.0,)),
        clients=tuple(
            Client(name=n, max_records=cap, signing_key=key.public.hex())
            for n, key in identities.items()
        ),
        run_id=os.urandom(16),
        n_clusters=n_clusters,
        delta=DELTA,
        public_seed=PublicSeed.from_int(public_seed),
        **settings,
    )


class OwnNoise:
    """The system's noise, remembered by the client that drew it."""

    private = True

    def __init__(self) -> None:
        self.drawn: list[IntArray] = []

    def gaussian(self, scale: Fraction, size: int) -> IntArray:
        self.drawn.append(SystemNoise().gaussian(scale, size))
        return self.drawn[-1]

    def two_sided_geometric(self, scale: Fraction, size: int) -> IntArray:
        self.drawn.append(SystemNoise().two_sided_geometric(scale, size))
        return self.drawn[-1]


@dataclass(frozen=True)
class Run:
    """One run as its curious client sees it: the queries and opened answers of all rounds, and its
    own noise.
    """

    rounds: list[tuple[Query, Answer]]
    own_noise: list[IntArray]
    outcome: InProcessOutcome


@dataclass(frozen=True)
class Experiment:
    """A plan with everything but the canaries fixed. Keys of the run, masks and noise are fresh in
    every run.
    """

    setting: Setting
    plan: Plan
    identities: dict[str, Identity]
    canaries: IntArray  # (n_clusters, 1)
    shared: dict[tuple[str, bytes], SharedRecords] = field(
        default_factory=dict
    )  # by client and canaries: spread once

    @classmethod
    def of(cls, setting: Setting, public_seed: int = PUBLIC_SEED) -> Self:
        identities = {name: Identity.generate() for name in (CURIOUS, HONEST, THIRD)}
        plan = setting.plan(identities, public_seed)
        return cls(setting, plan, identities, canaries(plan, len(setting.present)))

    @property
    def deviations(self) -> FloatArray:
        """Standard deviations of the noise that the attacker does not know, (n_iterations, 2):
        sums, counts.
        """
        n_unknown = (
            len(self.setting.present) - 1 if self.setting.trust is TrustMode.CLIENT_NOISE else 1
        )
        scales = [scales_of_one_draw(self.plan, round) for round in lloyd_of(self.plan).rounds]
        return np.asarray(np.array(scales, dtype=np.float64) * n_unknown**0.5)

    def records(self, name: str, present: BoolArray) -> IntArray:
        """The records of one client: at the initial centroids and, at the honest client, the
        canaries that are present.
        """
        start = lloyd_of(self.plan).initial_centroids()
        if name == CURIOUS:
            return np.repeat(start, N_OWN, axis=0)
        common = np.repeat(start, N_COMMON, axis=0) if name == HONEST else start[:0]
        mine = (
            np.repeat(self.canaries[present], self.setting.n_rows, axis=0)
            if name in self.setting.at
            else start[:0]
        )
        return np.vstack([common, mine])

    def answering(self, name: str, present: BoolArray) -> Records:
        """They, as that client answers with them: every known record is a person's only one, every
        canary a person's n_rows.
        """
        X, m = self.records(name, present), lloyd_of(self.plan)
        if self.setting.persons is None:
            return LocalRecords(m.domain, X)
        n_known = len(X) - (
            self.setting.n_rows * int(present.sum()) if name in self.setting.at else 0
        )
        ids = [
            b"%d" % (i if i < n_known else n_known + (i - n_known) // self.setting.n_rows)
            for i in range(len(X))
        ]
        what = name, present.tobytes()
        if what not in self.shared:
            self.shared[what] = SharedRecords.of_persons(m, X, ids)
        return self.shared[what]

    @property
    def n_shares(self) -> int:
        """Of each known record; the plan's answers are in such units."""
        return 1 << self.plan.mechanism.share_bits

    def play(self, present: BoolArray, link: Link = everything_arrives) -> Run:
        """One run of the shipped path with the canaries of the clusters in `present`."""
        noise = OwnNoise()
        with watched(LloydMechanism) as view:
            sessions = [
                ClientSession(
                    self.plan,
                    name,
                    self.answering(name, present),
                    identity=self.identities[name],
                    noise=noise if name == CURIOUS else SystemNoise(),
                    random_bytes=os.urandom,
                )
                for name in self.setting.present
            ]
            outcome = run_in_process(ServerSession(self.plan, SystemNoise()), sessions, link=link)
        return Run(view, noise.drawn, outcome)  # every client opens the same answers

    def residuals(self, run: Run) -> IntArray:
        """The answers less all that the attacker knows, int64 (n_iterations, n_clusters, 2): noise
        and, perhaps, the canary.
        """
        start = lloyd_of(self.plan).initial_centroids()
        rows = []
        for t, (query, answer) in enumerate(run.rounds):
            known = self.n_shares * (N_COMMON + N_OWN) * query.evaluate(start)  # answers add up
            if self.setting.trust is TrustMode.CLIENT_NOISE:
                sums, counts = run.own_noise[2 * t : 2 * t + 2]
                known += np.column_stack([sums, counts])
            rows.append(answer - known)
        return np.array(rows)

    def signals(self, run: Run) -> IntArray:
        """What each canary adds to its row of each answer when present, int64 (n_iterations,
        n_clusters, 2).
        """
        times = len(self.setting.at) * (
            self.setting.n_rows if self.setting.persons is None else self.n_shares
        )
        return np.array([times * query.evaluate(self.canaries) for query, _ in run.rounds])


View = list[tuple[Query, Answer]]


@contextmanager
def watched(kind: type[Mechanism]) -> Iterator[View]:
    """Write down the queries of a run and the answers to them, in order; all who call `advance`
    have the same.
    """
    view: View = []
    advance = kind.advance

    def noted(
        mechanism: Mechanism, number: int, state: State, answer: Answer, noise: AnswerNoise
    ) -> State:
        if number == len(view):
            view.append((mechanism.query(number, state), answer))
        return advance(mechanism, number, state, answer, noise)

    with patch.object(kind, "advance", noted):
        yield view


def scales_of_one_draw(plan: Plan, round: LloydRound) -> tuple[Fraction, Fraction]:
    """Standard deviations of the noise on sums and counts that one party draws: a client's share,
    or all of the server's.
    """
    if plan.trust is TrustMode.SERVER_NOISE:
        return round.sum_scale, round.count_scale
    sums, counts = plan.share_scales(round, plan.n_clients)
    return sums, counts


def canaries(plan: Plan, n_present: int) -> IntArray:
    """Per cluster a record just within the radius, away from the other centroids, int64
    (n_clusters, 1).

    It keeps 2.5 standard deviations of the centroid's first move from the edge, so that it counts
    in nearly all rounds.
    """
    m = lloyd_of(plan)
    start = m.initial_centroids()[:, 0].tolist()
    n_draws = n_present if plan.trust is TrustMode.CLIENT_NOISE else 1
    drift = (
        float(scales_of_one_draw(plan, m.rounds[0])[0]) * n_draws**0.5 / 2**m.share_bits / N_COMMON
    )
    reach = int((m.rounds[0].squared_radius or 0) ** 0.5 - 2.5 * drift)

    def roomier(centroid: int) -> int:
        others = [other for other in start if other != centroid]
        inside = [
            x for x in (centroid - reach, centroid + reach) if abs(x) <= m.domain.half_widths[0]
        ]
        return max(inside, key=lambda x: min(abs(x - other) for other in others))

    return np.array([[roomier(centroid)] for centroid in start])


@dataclass(frozen=True)
class Observations:
    """Many runs of one experiment; arrays begin with the run. residuals, signals : (n, T, k, 2);
    present : bool (n, k).
    """

    residuals: IntArray
    signals: IntArray
    present: BoolArray
    deviations: FloatArray  # (T, 2)

    @classmethod
    def join(cls, parts: Sequence["Observations"]) -> "Observations":
        """Those of several batches of the same setting."""
        return cls(
            np.concatenate([part.residuals for part in parts]),
            np.concatenate([part.signals for part in parts]),
            np.concatenate([part.present for part in parts]),
            parts[0].deviations,
        )

    @property
    def scores(self) -> FloatArray:
        """Logarithm of the likelihood ratio, present over absent, of every trial: float64 (n,
        k).
        """
        weighted = self.signals / self.deviations[:, None] ** 2
        return np.asarray(((self.residuals - self.signals / 2) * weighted).sum(axis=(1, 3)))

    @property
    def attained_mu(self) -> float:
        """Root mean square of what the canaries cost by the plan's scales; at most the mu of the
        setting.
        """
        return float(
            ((self.signals / self.deviations[:, None]) ** 2).sum(axis=(1, 3)).mean() ** 0.5
        )

    @property
    def noise(self) -> IntArray:
        """The noise the attacker does not know, (n, T, k, 2)."""
        return self.residuals - self.signals * self.present[:, None, :, None]

    @property
    def false_alarms(self) -> int:
        """Trials without the canary in which the attacker says "present"."""
        return int((self.scores > 0)[~self.present].sum())

    @property
    def misses(self) -> int:
        """Trials with the canary in which it does not."""
        return int((self.scores <= 0)[self.present].sum())

    @property
    def n_per_side(self) -> int:
        """Trials with the canary; as many are without."""
        return int(self.present.sum())


def observe(setting: Setting, n_per_side: int) -> Observations:
    """Play runs until there are at least `n_per_side` trials with and as many without the
    canary.
    """
    experiment = Experiment.of(setting)
    even = np.arange(setting.n_clusters) % 2 == 0
    n_runs = 2 * -(-n_per_side // setting.n_clusters)
    residuals, signals, present = [], [], []
    for number in range(n_runs):
        present.append(even if number % 2 else ~even)
        run = experiment.play(present[-1])
        residuals.append(experiment.residuals(run))
        signals.append(experiment.signals(run))
    return Observations(
        np.array(residuals), np.array(signals), np.array(present), experiment.deviations
    )
