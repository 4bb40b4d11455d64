"""Rows of docs/results/overhead.csv: one per transport, set, number of clients, latency and ring."""

import csv
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.overhead_cases import Case, Measured
from benchmarks.overhead_sets import Set
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.federation.protocol.messages import Limits
from fastlloyd.mechanisms.lloyd.algorithm import FASTLLOYD

FILE = Path(__file__).parents[1] / "docs" / "results" / "overhead.csv"


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """Per iteration: milliseconds (ours: medians) with a 95 % interval, and bytes of all clients' messages in both directions.

    transport : mpi, grpc; mpi-momentlloyd, grpc-momentlloyd; mpyc (three parties, all that they send); published-fastlloyd,
    published-mohassel. The rest is there for our own transports only: bits of the ring, of the grid's fraction; milliseconds by
    part; bytes that the last client sends and receives, and of the masked words of the last round; how many runs; rounds and
    round trips of a run.
    """

    transport: str
    clients: int
    dataset: str
    n: int
    k: int
    d: int
    latency_ms: float
    runtime_ms: float
    low: float | None = None
    high: float | None = None
    bytes: float | None = None
    ring_bits: int | None = None
    fraction_bits: int | None = None
    kernel: float | None = None
    masks: float | None = None
    noise: float | None = None
    latency: float | None = None
    server: float | None = None
    rest: float | None = None
    sent: float | None = None
    received: float | None = None
    payload: int | None = None
    runs: int | None = None
    next: float | None = None
    rounds: int | None = None
    trips: int | None = None

    @property
    def key(self) -> tuple[object, ...]:
        """What there is one row for."""
        return (self.transport, self.clients, self.dataset, self.n, self.k, self.d, self.latency_ms, self.ring_bits)

    @property
    def shape(self) -> tuple[str, int, int, int]:
        """The set."""
        return (self.dataset, self.n, self.k, self.d)


def measured(transport: str, case: Case, plan: Plan, found: Measured) -> Row:
    """The row of a case."""
    return _row(
        case.set,
        transport=transport if case.algorithm is FASTLLOYD else f"{transport}-{case.algorithm.name}",
        clients=case.n_clients,
        latency_ms=1e3 * case.latency,
        runtime_ms=round(found.median, 4),
        low=round(found.low, 4),
        high=round(found.high, 4),
        bytes=round(found.n_bytes, 1),
        ring_bits=case.ring_bits,
        fraction_bits=plan.mechanism.domain.fraction_bits,
        sent=round(found.sent, 1),
        received=round(found.received, 1),
        payload=plan.n_words * plan.ring.itemsize,
        runs=case.n_runs,
        rounds=len(plan.mechanism.rounds),
        trips=len(plan.mechanism.rounds) + len(Limits.of(plan).box_bytes),
        **{part: round(value, 4) for part, value in found.parts.items()},
    )


def published(each: Set) -> list[Row]:
    """What the paper's Table 3 says about a set."""
    p = each.published
    low, high = p.fastlloyd - p.half_width, p.fastlloyd + p.half_width
    rows = [_row(each, transport="published-fastlloyd", clients=2, latency_ms=0.25,
                 runtime_ms=p.fastlloyd, low=round(low, 4), high=round(high, 4), bytes=p.n_bytes)]  # fmt: skip
    if p.mohassel:
        rows.append(_row(each, transport="published-mohassel", clients=2, latency_ms=0.25,
                         runtime_ms=p.mohassel, bytes=p.mohassel_bytes))  # fmt: skip
    return rows


def read() -> list[Row]:
    """All rows there are."""
    if not FILE.exists():
        return []
    with FILE.open(newline="") as file:
        cells = [{name: cell for name, cell in line.items() if cell != ""} for line in csv.DictReader(file)]
    return [msgspec.convert(line, Row, strict=False) for line in cells]


def merge(rows: Iterable[Row]) -> list[Row]:
    """Put these rows in the place of those before them, and write all."""
    everything = {row.key: row for row in [*read(), *rows]}
    with FILE.open("w", newline="") as file:
        writer = csv.DictWriter(file, Row.__struct_fields__, lineterminator="\n")
        writer.writeheader()
        writer.writerows(msgspec.structs.asdict(row) for row in everything.values())
    return list(everything.values())


def _row(each: Set, **fields: Any) -> Row:
    return Row(dataset=each.name, n=each.n, k=each.k, d=each.d, **fields)
