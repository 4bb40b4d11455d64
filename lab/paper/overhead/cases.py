"""Cases that are measured: sets of Table 3 of the paper, numbers of clients, latencies and rings.
Each case is written to a folder, from which the processes read it.
"""

import os
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
from scipy import stats

from benchmarks.runs import settings_of
from fastlloyd.base.randomness import Draws, PublicSeed
from fastlloyd.clustering.domain import Domain
from fastlloyd.dp.noise import SystemNoise
from fastlloyd.errors import DataError, OverflowRisk
from fastlloyd.federation.plan.design import ProtocolChoices, design_plan
from fastlloyd.federation.plan.plan import Client, Masks, Plan, TrustMode
from fastlloyd.federation.secagg.keys import Identity
from fastlloyd.mechanisms.answering import LocalRecords
from fastlloyd.mechanisms.lloyd.algorithm import FASTLLOYD
from fastlloyd.mechanisms.settings import AnyAlgorithm
from fastlloyd_lab.datasets import named
from paper.overhead.parties import MeasuredClient, MeasuredServer, Stopwatch, Times

Records = npt.NDArray[np.float64]
N_ROUNDS = 8  # of a run: seven iterations are timed


class Published(NamedTuple):
    """Row of Table 3 of the paper: cost of an iteration with two clients.

    fastlloyd : milliseconds of FastLloyd, measured on a MacBook Pro M2 Max.
    half_width : half width of the 95 % interval of these milliseconds.
    n_bytes : bytes of both clients together.
    mohassel, mohassel_bytes : milliseconds and bytes of Mohassel, Rosulek and Trieu (2020), as the
        paper quotes them, or None.
    """

    fastlloyd: float
    half_width: float
    n_bytes: int
    mohassel: float | None = None
    mohassel_bytes: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Set:
    """Data set with its name, its shape, and the paper's numbers."""

    name: str
    n: int
    k: int
    d: int
    published: Published

    def load(self) -> Records:
        """Return the records, float64 (n, d). Raises DataError if the set is not on this
        machine.
        """
        name = (
            f"timesynth-{self.n}-{self.k}-{self.d}"
            if self.name == "TimeSynth"
            else self.name.lower()
        )
        return np.asarray(named.load(name).values)


# name, records, clusters, features; fields of `Published` of FastLloyd, and of Mohassel et al.
_TABLE_3: tuple[tuple[str, int, int, int, tuple[float, float, int], tuple[float, ...]], ...] = (
    ("TimeSynth", 10_000, 2, 2, (3.03, 0.02, 192), (10_500, 2.557e8)),
    ("TimeSynth", 10_000, 2, 5, (3.24, 0.01, 384), ()),
    ("TimeSynth", 10_000, 5, 2, (4.32, 0.02, 480), (34_050, 9.746e8)),
    ("TimeSynth", 10_000, 5, 5, (4.95, 0.04, 960), ()),
    ("TimeSynth", 100_000, 2, 2, (12.57, 0.02, 192), (105_120, 2.467e9)),
    ("TimeSynth", 100_000, 2, 5, (13.17, 0.03, 384), ()),
    ("TimeSynth", 100_000, 5, 2, (22.05, 0.03, 480), (347_250, 9.535e9)),
    ("TimeSynth", 100_000, 5, 5, (22.56, 0.02, 960), ()),
    ("LSun", 400, 3, 2, (2.6, 0.04, 288), (1481,)),
    ("S1", 5_000, 15, 2, (5.81, 0.08, 1440), (49_087,)),
)
SETS = tuple(
    Set(name=name, n=n, k=k, d=d, published=Published(*ours, *theirs))
    for name, n, k, d, ours, theirs in _TABLE_3
)


def available() -> tuple[list[tuple[Set, Records]], list[str]]:
    """Return the sets on this machine with their records, and for each other set a sentence that
    says why it is left out.
    """
    found, absent = [], []
    for each in SETS:
        try:
            found.append((each, each.load()))
        except DataError as error:
            absent.append(f"{each.name} left out: {error}")
    return found, absent


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Case to measure, which becomes one row of the table.

    latency : seconds by which each message is delayed.
    n_runs : number of runs that are measured.
    algorithm : algorithm of the runs. MomentLloyd's planner chooses its own number of rounds.
    """

    set: Set
    n_clients: int = 2
    latency: float = 0.25e-3
    ring_bits: int = 64
    n_runs: int = 100
    algorithm: AnyAlgorithm = FASTLLOYD

    def plan(self, X: Records) -> tuple[Plan, dict[str, Identity]]:
        """Return the plan, and the identity of each client. The settings are those of the paper:
        noise of the server, epsilon 1, delta 1 / (N ln N). The grid is the finest one that fits the
        ring.
        """
        parts = self._parts(X)
        names = [f"client-{i}" for i in range(1, self.n_clients + 1)]
        identities = {name: Identity.generate() for name in names}
        clients = tuple(
            Client(name=name, max_records=len(part), signing_key=identities[name].public.hex())
            for name, part in zip(names, parts, strict=True)
        )
        for fraction_bits in range(16, 3, -1):
            domain = Domain(
                features=tuple(f"x{i}" for i in range(1, X.shape[1] + 1)),
                lower=tuple(X.min(axis=0).tolist()),
                upper=tuple(X.max(axis=0).tolist()),
                fraction_bits=fraction_bits,
            )
            try:
                settings = settings_of(
                    domain,
                    self.set.k,
                    len(X),
                    seed=1,
                    algorithm=self.algorithm,
                    delta=1 / (len(X) * float(np.log(len(X)))),
                    n_iterations=N_ROUNDS if self.algorithm is FASTLLOYD else None,
                )
                plan = design_plan(
                    settings,
                    clients=clients,
                    run_id=os.urandom(16),
                    protocol=ProtocolChoices(
                        trust=TrustMode.SERVER_NOISE,
                        ring_bits=self.ring_bits,
                        masks=Masks.GROUP,  # as in the paper, one key of all clients
                    ),
                )
            except OverflowRisk:
                continue
            return plan, identities
        raise AssertionError(f"no grid of {self.set} fits {self.ring_bits} bits")

    def _parts(self, X: Records) -> list[npt.NDArray[np.int64]]:
        """Return the indices of each client's records: equal parts of a public set, as in the
        paper.
        """
        order = Draws(PublicSeed.from_int(1), b"paper/overhead/parts").permutation(len(X))
        return np.array_split(order, self.n_clients)

    def write(self, folder: Path, X: Records) -> Plan:
        """Write the plan, and the keys and records of all clients, to a folder that only this user
        can read. Return the plan.

        The records are public, and the keys are used for minutes only.
        """
        plan, identities = self.plan(X)
        folder.mkdir(mode=0o700)
        (folder / "plan.toml").write_text(plan.to_toml())
        (folder / "case.json").write_bytes(msgspec.json.encode((self.latency, self.n_runs)))
        grid = plan.mechanism.domain.to_grid(X)
        for name, part in zip(plan.names, self._parts(X), strict=True):
            np.save(
                folder / f"{name}.npy",
                np.array(grid[part], order="F" if grid.flags.f_contiguous else "C"),
            )  # as `join` has them
            (folder / f"{name}.key").write_bytes(identities[name].private_bytes())
        return plan


class Part:
    """Data that one process needs for all runs of one case."""

    def __init__(self, folder: Path, stopwatch: Stopwatch) -> None:
        self.folder, self.stopwatch = folder, stopwatch
        self.latency, self.n_runs = msgspec.json.decode(
            (folder / "case.json").read_bytes(), type=tuple[float, int]
        )
        self.plan = Plan.from_toml((folder / "plan.toml").read_text())

    def server(self) -> MeasuredServer:
        """Return a server for one more run."""
        session = MeasuredServer(self.plan, SystemNoise())
        session.stopwatch, session.latency = self.stopwatch, self.latency
        return session

    def client(self, name: str) -> MeasuredClient:
        """Return a client for one more run. It draws new keys for the run."""
        records = LocalRecords(self.plan.mechanism.domain, np.load(self.folder / f"{name}.npy"))
        identity = Identity.from_private_bytes((self.folder / f"{name}.key").read_bytes())
        session = MeasuredClient(
            self.plan,
            name,
            records,
            identity=identity,
            noise=SystemNoise(),
            random_bytes=os.urandom,
        )
        session.stopwatch, session.latency = self.stopwatch, self.latency
        return session


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Cost of an iteration. Milliseconds are medians over runs, because a single pause of the
    machine would change a mean.

    median : milliseconds of the slowest client.
    low, high : ends of the 95 % interval of `median`.
    parts : milliseconds by part. kernel and masks are those of one client. noise is the noise that
        the server had not drawn ahead. latency is that of one message up and one down. next is the
        computation of the next query. server is the rest of the server's work. rest is the
        remaining time.
    sent, received : bytes of the last client's messages in a round.
    n_bytes : bytes of the messages of all clients in a round.
    """

    median: float
    low: float
    high: float
    parts: dict[str, float]
    sent: float
    received: float
    n_bytes: float

    @classmethod
    def of(cls, parties: list[list[Times]]) -> "Measured":
        """Return the cost from the times of all runs.

        parties : times of every run for each party, the server first.
        """
        server, *clients = parties
        totals = sorted(
            1e3 * max(times.total for times in run) for run in zip(*clients, strict=True)
        )
        median = statistics.median(totals)

        def part(name: str, runs: list[Times]) -> float:
            return 1e3 * statistics.median(times.parts.get(name, 0.0) for times in runs)

        names = ("kernel", "masks", "latency")
        one = {name: statistics.fmean(part(name, runs) for runs in clients) for name in names}
        parts = {
            "kernel": one["kernel"],
            "masks": one["masks"],
            "noise": part("awaited noise", server),
            "latency": one["latency"] + part("latency", server),
            "next": max(part("next", runs) for runs in clients),
            "server": part("server", server),
        }
        lengths = [{times.n_bytes for times in runs} for runs in clients]
        assert all(len(found) == 1 for found in lengths), (
            "the messages of a client are as long in every run"
        )
        of_clients = [found.pop() for found in lengths]
        low, high = interval_of_median(totals)
        return cls(
            median=median,
            low=low,
            high=high,
            parts={**parts, "rest": median - sum(parts.values())},
            sent=of_clients[-1][0],
            received=of_clients[-1][1],
            n_bytes=sum(sent + received for sent, received in of_clients),
        )


def interval_of_median(totals: list[float]) -> tuple[float, float]:
    """Return an interval that contains the median of the distribution with probability at least 95
    %. Its ends have the same rank, counted from the smallest and from the largest value. It is the
    narrowest such interval.

    The number of values below the median is binomial for every distribution. For fewer than six
    values, the whole range is returned.

    totals : ascending values.
    """
    n = len(totals)
    below = max(0, int(stats.binom.ppf(0.025, n, 0.5)) - 1)
    return totals[below], totals[n - 1 - below]
