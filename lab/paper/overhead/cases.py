"""What is measured: sets of the paper's Table 3, numbers of clients, latencies, rings; and the
folder that processes read.
"""

import os
import statistics
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt
from scipy import stats

from fastlloyd.base.randomness import Draws, PublicSeed
from fastlloyd.clustering.domain import Domain
from fastlloyd.dp.noise import SystemNoise
from fastlloyd.errors import DataError, OverflowRisk
from fastlloyd.federation.plan.design import ProtocolChoices, design_plan
from fastlloyd.federation.plan.plan import Client, Masks, Plan, TrustMode
from fastlloyd.federation.secagg.keys import Identity
from fastlloyd.mechanisms.answering import LocalRecords
from fastlloyd.mechanisms.lloyd.algorithm import FASTLLOYD
from fastlloyd.mechanisms.settings import AnyAlgorithm, Settings
from fastlloyd_lab.datasets import named
from paper.overhead.parties import MeasuredClient, MeasuredServer, Stopwatch, Times

Records = npt.NDArray[np.float64]
N_ROUNDS = 8  # of a run: seven iterations are timed


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A row of Table 3, per iteration, two clients: milliseconds (with a 95 % half width) and bytes
    of both clients together.

    fastlloyd was measured on a MacBook Pro M2 Max; mohassel is quoted there from Mohassel, Rosulek
    and Trieu (2020).
    """

    fastlloyd: float
    half_width: float
    n_bytes: int
    mohassel: float | None = None
    mohassel_bytes: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Set:
    """A set by name and shape."""

    name: str
    n: int
    k: int
    d: int
    published: Published

    def load(self) -> Records:
        """The records, float64 (n, d). DataError where the set is not there."""
        name = (
            f"timesynth-{self.n}-{self.k}-{self.d}"
            if self.name == "TimeSynth"
            else self.name.lower()
        )
        return np.asarray(named.load(name).values)


SETS = (
    Set(name="TimeSynth", n=10_000, k=2, d=2, published=Published(
        fastlloyd=3.03, half_width=0.02, n_bytes=192, mohassel=10_500, mohassel_bytes=2.557e8)),
    Set(name="TimeSynth", n=10_000, k=2, d=5,
      published=Published(fastlloyd=3.24, half_width=0.01, n_bytes=384)),
    Set(name="TimeSynth", n=10_000, k=5, d=2, published=Published(
        fastlloyd=4.32, half_width=0.02, n_bytes=480, mohassel=34_050, mohassel_bytes=9.746e8)),
    Set(name="TimeSynth", n=10_000, k=5, d=5,
      published=Published(fastlloyd=4.95, half_width=0.04, n_bytes=960)),
    Set(name="TimeSynth", n=100_000, k=2, d=2, published=Published(
        fastlloyd=12.57, half_width=0.02, n_bytes=192, mohassel=105_120, mohassel_bytes=2.467e9)),
    Set(name="TimeSynth", n=100_000, k=2, d=5,
      published=Published(fastlloyd=13.17, half_width=0.03, n_bytes=384)),
    Set(name="TimeSynth", n=100_000, k=5, d=2, published=Published(
        fastlloyd=22.05, half_width=0.03, n_bytes=480, mohassel=347_250, mohassel_bytes=9.535e9)),
    Set(name="TimeSynth", n=100_000, k=5, d=5,
      published=Published(fastlloyd=22.56, half_width=0.02, n_bytes=960)),
    Set(name="LSun", n=400, k=3, d=2, published=Published(fastlloyd=2.6, half_width=0.04,
      n_bytes=288, mohassel=1481)),
    Set(name="S1", n=5_000, k=15, d=2, published=Published(fastlloyd=5.81, half_width=0.08,
      n_bytes=1440, mohassel=49_087)),
)  # fmt: skip


def available() -> tuple[list[tuple[Set, Records]], list[str]]:
    """The sets that are there with their records, and for each of the others a sentence that says
    why it is not.
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
    """One row; latency in seconds per send. MomentLloyd's planner chooses its own number of
    rounds.
    """

    set: Set
    n_clients: int = 2
    latency: float = 0.25e-3
    ring_bits: int = 64
    n_runs: int = 100
    algorithm: AnyAlgorithm = FASTLLOYD

    def plan(self, X: Records) -> tuple[Plan, dict[str, Identity]]:
        """The paper's settings (noise of the server, epsilon 1, delta 1 / (N ln N)), on the finest
        grid the ring takes.
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
                settings = Settings(
                    algorithm=self.algorithm,
                    domain=domain,
                    n_clusters=self.set.k,
                    n_records=len(X),
                    epsilon=1.0,
                    delta=1 / (len(X) * float(np.log(len(X)))),
                    public_seed=PublicSeed.from_int(1),
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
        """The numbers of each client's records: equal parts, as in the paper, of a public set."""
        order = Draws(PublicSeed.from_int(1), b"paper/overhead/parts").permutation(len(X))
        return np.array_split(order, self.n_clients)

    def write(self, folder: Path, X: Records) -> Plan:
        """Plan, keys and records of everyone, into a folder only we can read: these are public sets
        and keys for minutes.
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
    """What one process needs for its part in all runs of one case."""

    def __init__(self, folder: Path, stopwatch: Stopwatch) -> None:
        self.folder, self.stopwatch = folder, stopwatch
        self.latency, self.n_runs = msgspec.json.decode(
            (folder / "case.json").read_bytes(), type=tuple[float, int]
        )
        self.plan = Plan.from_toml((folder / "plan.toml").read_text())

    def server(self) -> MeasuredServer:
        """A server for one more run."""
        session = MeasuredServer(self.plan, SystemNoise())
        session.stopwatch, session.latency = self.stopwatch, self.latency
        return session

    def client(self, name: str) -> MeasuredClient:
        """A client for one more run; the keys of a run are drawn anew."""
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
    """Milliseconds per iteration: median over runs of the slowest client's, its 95 % interval, and
    where the time went.

    Medians, because a pause of the machine in a single run would rule a mean. parts : kernel, masks
    (of one client), noise (of the server, as far as it was not drawn ahead), latency (one send up,
    one down), next (working out what is asked next), server (without noise), rest. sent, received :
    bytes of the last client's messages in a round; n_bytes : of all clients'.
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
        """parties : per party, the server first, the times of every run."""
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
    """The narrowest pair of values, as far from either end, that holds the law's median with at
    least 95 %; sorted values.

    The number of values below the median is binomial whatever their law. Of fewer than six values
    the range is taken.
    """
    n = len(totals)
    below = max(0, int(stats.binom.ppf(0.025, n, 0.5)) - 1)
    return totals[below], totals[n - 1 - below]
