"""Rows of docs/results/overhead.csv, one for each transport, set, number of clients, latency and
ring. Also the tables of docs/results/overhead.md.
"""

import csv
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.report import as_table, machine, write_section
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.federation.protocol.messages import Limits
from fastlloyd.mechanisms.lloyd.algorithm import FASTLLOYD
from paper.overhead.cases import Case, Measured, Set

FILE = Path(__file__).parents[3] / "docs" / "results" / "overhead.csv"
PAGE = Path(__file__).parents[3] / "docs" / "results" / "overhead.md"
NAMES = {"mpi": "MPI", "grpc": "gRPC"}


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """Cost of an iteration, as a row of the CSV file. Fields without a value are None.

    transport : mpi, grpc, mpi-momentlloyd or grpc-momentlloyd for our runs. mpyc for three parties
        with secret shares. published-fastlloyd or published-mohassel for numbers of the paper.
    dataset, n, k, d : name of the set, and number of its records, clusters and features.
    runtime_ms, low, high : milliseconds (a median for our runs), and the ends of the 95 % interval.
    bytes : bytes of all clients' messages in both directions.
    ring_bits, fraction_bits : bits of the ring, and of the grid's fraction.
    kernel, masks, noise, latency, server, rest, next : milliseconds by part (`Measured.parts`).
    sent, received : bytes that the last client sends and receives.
    payload : bytes of the masked words of an upload in the first round.
    runs : number of measured runs.
    rounds, trips : number of rounds, and of round trips, of a run.

    Fields from ring_bits on are only for our own transports.
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
        """Fields that identify the row."""
        return (self.transport, self.clients, *self.shape, self.latency_ms, self.ring_bits)

    @property
    def shape(self) -> tuple[str, int, int, int]:
        """Name of the set, and number of its records, clusters and features."""
        return (self.dataset, self.n, self.k, self.d)


def measured(transport: str, case: Case, plan: Plan, found: Measured) -> Row:
    """Return the row of a measured case."""
    return _row(
        case.set,
        transport=(
            transport if case.algorithm is FASTLLOYD else f"{transport}-{case.algorithm.name}"
        ),
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
        payload=plan.n_words(plan.mechanism.rounds[0]) * plan.ring.itemsize,
        runs=case.n_runs,
        rounds=len(plan.mechanism.rounds),
        trips=len(plan.mechanism.rounds) + len(Limits.of(plan).box_bytes),
        **{part: round(value, 4) for part, value in found.parts.items()},
    )


def published(each: Set) -> list[Row]:
    """Return the rows with the numbers for a set in Table 3 of the paper."""
    p = each.published
    low, high = p.fastlloyd - p.half_width, p.fastlloyd + p.half_width
    rows = [_row(each, transport="published-fastlloyd", clients=2, latency_ms=0.25,
                 runtime_ms=p.fastlloyd, low=round(low, 4), high=round(high, 4),
                 bytes=p.n_bytes)]  # fmt: skip
    if p.mohassel:
        rows.append(_row(each, transport="published-mohassel", clients=2, latency_ms=0.25,
                         runtime_ms=p.mohassel, bytes=p.mohassel_bytes))  # fmt: skip
    return rows


def read() -> list[Row]:
    """Return all rows of the CSV file, or an empty list if there is no file."""
    if not FILE.exists():
        return []
    with FILE.open(newline="") as file:
        cells = [
            {name: cell for name, cell in line.items() if cell != ""}
            for line in csv.DictReader(file)
        ]
    return [msgspec.convert(line, Row, strict=False) for line in cells]


def merge(rows: Iterable[Row]) -> list[Row]:
    """Add rows to the CSV file, and return all its rows. A row replaces an earlier row with the
    same key.
    """
    everything = {row.key: row for row in [*read(), *rows]}
    with FILE.open("w", newline="") as file:
        writer = csv.DictWriter(file, Row.__struct_fields__, lineterminator="\n")
        writer.writeheader()
        writer.writerows(msgspec.structs.asdict(row) for row in everything.values())
    return list(everything.values())


def _row(each: Set, **fields: Any) -> Row:
    return Row(dataset=each.name, n=each.n, k=each.k, d=each.d, **fields)


def write(rows: list[Row]) -> None:
    """Write all tables of the page. Cells without a measurement are empty."""
    table = Rows(rows)
    sections = {
        "two-clients": f"{machine('mpi4py', 'openmpi', 'grpcio')}.\n\n{_two_clients(table)}",
        "parts": _parts(table),
        "more-clients": _more_clients(table),
        "slow-line": _slow_line(table),
        "momentlloyd": _moment_lloyd(table),
        "bytes": _bytes(table),
        "secure": _secure(table),
    }
    for name, content in sections.items():
        write_section(name, content, PAGE)


class Rows:
    """Rows of the CSV file by their keys."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self.rows = {row.key: row for row in rows}
        self.shapes = list(
            dict.fromkeys(row.shape for row in rows if row.transport == "published-fastlloyd")
        )

    def get(
        self,
        transport: str,
        shape: tuple[str, int, int, int],
        clients: int = 2,
        latency: float = 0.25,
        ring: int | None = 64,
    ) -> Row | None:
        """Return the row for this case, or None if there is none.

        latency : milliseconds.
        ring : bits of the ring.
        """
        return self.rows.get(
            (transport, clients, *shape, latency, None if "published" in transport else ring)
        )


def _two_clients(rows: Rows) -> str:
    head = (
        "ours, MPI, ms | ours, gRPC, ms | published FastLloyd, M2 Max, ms | published Mohassel et"
        " al., ms | Mohassel et al. / ours, MPI"
    )
    lines = []
    for shape in rows.shapes:
        mpi, grpc = rows.get("mpi", shape), rows.get("grpc", shape)
        theirs, moh = rows.get("published-fastlloyd", shape), rows.get("published-mohassel", shape)
        ratio = f"{moh.runtime_ms / mpi.runtime_ms:,.0f}" if moh and mpi else "-"
        slow = f"{moh.runtime_ms:,.0f}" if moh else "-"
        lines.append(_line(shape, [*map(_time, (mpi, grpc, theirs)), slow, ratio]))
    return _table(head, lines) + _runs(rows, 0.25, clients=2)


def _parts(rows: Rows) -> str:
    names = ("kernel", "masks", "noise", "latency", "server", "rest")
    head = " | ".join([*names, "all", "goal", "met"])
    parts = []
    for transport, said in NAMES.items():
        lines = []
        for shape in rows.shapes:
            if (row := rows.get(transport, shape)) and row.kernel is not None:
                goal = 0.5 + 2 * row.kernel + 0.5
                numbers = [*(getattr(row, name) for name in names), row.runtime_ms, goal]
                met = "yes" if row.runtime_ms <= goal else "no"
                lines.append(_line(shape, [*(f"{each:.2f}" for each in numbers), met]))
        parts.append(f"Over {said}:\n\n{_table(head, lines)}")
    return "\n\n".join(parts)


def _more_clients(rows: Rows) -> str:
    kinds = [(name, n) for n in (2, 4, 8) for name in NAMES]
    head = " | ".join(f"{n} clients, {NAMES[name]}" for name, n in kinds)
    lines = [
        _line(shape, [_time(rows.get(name, shape, n)) for name, n in kinds])
        for shape in rows.shapes
    ]
    return _table(head, lines) + _runs(rows, 0.25)


def _slow_line(rows: Rows) -> str:
    slow = {shape: [rows.get(name, shape, latency=25.0) for name in NAMES] for shape in rows.shapes}
    lines = [_line(shape, map(_time, found)) for shape, found in slow.items() if any(found)]
    return _table("ours, MPI, ms | ours, gRPC, ms", lines) + _runs(rows, 25.0)


def _moment_lloyd(rows: Rows) -> str:
    head = (
        "rounds | round trips | working out what comes next, ms a round | a round over MPI, ms |"
        " over gRPC, ms | FastLloyd's over MPI, ms | over gRPC, ms | bytes a round | FastLloyd's"
    )
    lines = []
    for shape in rows.shapes:
        mpi, grpc = rows.get("mpi-momentlloyd", shape), rows.get("grpc-momentlloyd", shape)
        plain = [rows.get("mpi", shape), rows.get("grpc", shape)]
        if row := mpi or grpc:
            cells = [f"{row.rounds}", f"{row.trips}", f"{row.next:.2f}"]
            cells += [*map(_time, (mpi, grpc, *plain)), f"{row.bytes:,.0f}"]
            theirs = plain[0] or plain[1]
            fewer = f"{theirs.bytes:,.0f}" if theirs and theirs.bytes else "-"
            lines.append(_line(shape, [*cells, fewer]))
    return _table(head, lines)


def _bytes(rows: Rows) -> str:
    head = (
        "published FastLloyd | ours, 64 bits: a client sends, receives | all | ours, 32 bits: a"
        " client sends, receives | all | half of published | + checksum words | + framing | bits of"
        " the grid | published Mohassel et al."
    )
    lines = []
    for shape in rows.shapes:
        theirs, moh = rows.get("published-fastlloyd", shape), rows.get("published-mohassel", shape)
        wide = rows.get("mpi", shape) or rows.get("grpc", shape)
        narrow = rows.get("mpi", shape, ring=32)
        assert theirs is not None
        assert theirs.bytes is not None
        cells = [f"{theirs.bytes:.0f}", *_sides(wide), *_sides(narrow)]
        if narrow and narrow.bytes is not None and narrow.payload is not None:
            checksum = 4 * 4  # a word of 4 bytes, two clients, up and down
            framing = narrow.bytes - 4 * narrow.payload
            assert theirs.bytes / 2 + checksum + framing == narrow.bytes
            parts = (theirs.bytes / 2, checksum, framing, narrow.fraction_bits)
            cells += [f"{part:.0f}" for part in parts]
        else:
            cells += ["-"] * 4
        lines.append(_line(shape, [*cells, f"{moh.bytes:.3g}" if moh and moh.bytes else "-"]))
    return _table(head, lines)


def _sides(row: Row | None) -> list[str]:
    return [f"{row.sent:.0f}, {row.received:.0f}", f"{row.bytes:.0f}"] if row else ["-", "-"]


def _secure(rows: Rows) -> str:
    head = (
        "exact on shares, ms | its bytes, three parties | ours, gRPC, ms | our bytes, three clients"
        " | times faster | times fewer bytes"
    )
    lines = []
    for row in rows.rows.values():
        ours = rows.get("grpc", row.shape, 3, 0.0)
        if row.transport == "mpyc" and row.bytes and ours and ours.bytes:
            exact = f"{row.runtime_ms:,.0f} ({row.low:,.0f} to {row.high:,.0f})"
            cells = [exact, f"{row.bytes:,.0f}", _time(ours)]
            faster, fewer = row.runtime_ms / ours.runtime_ms, row.bytes / ours.bytes
            lines.append(
                _line(row.shape, [*cells, f"{ours.bytes:.0f}", f"{faster:,.0f}", f"{fewer:,.0f}"])
            )
    return f"{machine('mpyc', 'gmpy2', 'grpcio')}.\n\n{_table(head, lines)}"


def _runs(rows: Rows, latency: float, clients: int | None = None) -> str:
    """Return a sentence part with the numbers of runs from which a table is computed."""
    counted = {
        (row.clients, NAMES[row.transport], row.runs)
        for row in rows.rows.values()
        if row.runs and row.transport in NAMES and (row.latency_ms, row.ring_bits) == (latency, 64)
        if clients in (None, row.clients)
    }
    listed = (f"{n} clients over {name}, {runs}" for n, name, runs in sorted(counted))
    return f"\n\nRuns: {'; '.join(listed)}."


def _time(row: Row | None) -> str:
    return "-" if row is None else f"{row.runtime_ms:.2f} ({row.low:.2f} to {row.high:.2f})"


def _line(shape: tuple[str, int, int, int], cells: Iterable[str]) -> list[str]:
    name, n, k, d = shape
    return [name, f"{n:,}", str(k), str(d), *cells]


def _table(head: str, lines: list[list[str]]) -> str:
    headings = ["set", "N", "k", "d", *head.split(" | ")]
    return as_table(headings, "l" + "r" * (len(headings) - 1), lines)
