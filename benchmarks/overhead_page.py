"""The tables of docs/results/overhead.md, from the rows of docs/results/overhead.csv."""

from collections.abc import Iterable
from pathlib import Path

from benchmarks.overhead_rows import Row
from benchmarks.report import machine, write_section

PAGE = Path(__file__).parents[1] / "docs" / "results" / "overhead.md"
SHAPE = "| set | N | k | d |"


def write(rows: list[Row]) -> None:
    """All tables; rows that were not measured leave gaps."""
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
    """Rows by key."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self.rows = {row.key: row for row in rows}
        self.shapes = list(dict.fromkeys(row.shape for row in rows if row.transport == "published-fastlloyd"))

    def get(
        self, transport: str, shape: tuple[str, int, int, int], clients: int = 2, latency: float = 0.25, ring: int | None = 64
    ) -> Row | None:
        """That row, if there is one."""
        return self.rows.get((transport, clients, *shape, latency, None if "published" in transport else ring))


def _two_clients(rows: Rows) -> str:
    head = (
        "ours, MPI, ms | ours, gRPC, ms | published FastLloyd, M2 Max, ms | published Mohassel et al., ms "
        "| Mohassel et al. / ours, MPI"
    )
    lines = []
    for shape in rows.shapes:
        mpi, grpc = rows.get("mpi", shape), rows.get("grpc", shape)
        theirs, moh = rows.get("published-fastlloyd", shape), rows.get("published-mohassel", shape)
        ratio = f"{moh.runtime_ms / mpi.runtime_ms:,.0f}" if moh and mpi else "-"
        lines.append(_line(shape, [_time(mpi), _time(grpc), _time(theirs), f"{moh.runtime_ms:,.0f}" if moh else "-", ratio]))
    return _table(head, lines) + _runs(rows, 0.25, clients=2)


def _parts(rows: Rows) -> str:
    names = ("kernel", "masks", "noise", "latency", "server", "rest")
    head = " | ".join([*names, "all", "goal", "met"])
    parts = []
    for transport in ("mpi", "grpc"):
        lines = []
        for shape in rows.shapes:
            if (row := rows.get(transport, shape)) and row.kernel is not None:
                goal = 0.5 + 2 * row.kernel + 0.5
                cells = [f"{getattr(row, name):.2f}" for name in names]
                lines.append(
                    _line(shape, [*cells, f"{row.runtime_ms:.2f}", f"{goal:.2f}", "yes" if row.runtime_ms <= goal else "no"])
                )
        parts.append(f"Over {'MPI' if transport == 'mpi' else 'gRPC'}:\n\n{_table(head, lines)}")
    return "\n\n".join(parts)


def _more_clients(rows: Rows) -> str:
    head = " | ".join(f"{n} clients, {name}" for n in (2, 4, 8) for name in ("MPI", "gRPC"))
    lines = [
        _line(shape, [_time(rows.get(transport, shape, n)) for n in (2, 4, 8) for transport in ("mpi", "grpc")])
        for shape in rows.shapes
    ]
    return _table(head, lines) + _runs(rows, 0.25)


def _slow_line(rows: Rows) -> str:
    slow = [shape for shape in rows.shapes if rows.get("mpi", shape, latency=25.0) or rows.get("grpc", shape, latency=25.0)]
    lines = [_line(shape, [_time(rows.get(name, shape, latency=25.0)) for name in ("mpi", "grpc")]) for shape in slow]
    return _table("ours, MPI, ms | ours, gRPC, ms", lines) + _runs(rows, 25.0)


def _moment_lloyd(rows: Rows) -> str:
    head = (
        "rounds | round trips | working out what comes next, ms a round | a round over MPI, ms | over gRPC, ms "
        "| FastLloyd's over MPI, ms | over gRPC, ms | bytes a round | FastLloyd's"
    )
    lines = []
    for shape in rows.shapes:
        mpi, grpc = rows.get("mpi-momentlloyd", shape), rows.get("grpc-momentlloyd", shape)
        plain = [rows.get("mpi", shape), rows.get("grpc", shape)]
        if row := mpi or grpc:
            cells = [str(row.rounds), str(row.trips), f"{row.next:.2f}", *map(_time, (mpi, grpc)), *map(_time, plain)]
            theirs = plain[0] or plain[1]
            lines.append(
                _line(shape, [*cells, f"{row.bytes:,.0f}", f"{theirs.bytes:,.0f}" if theirs and theirs.bytes else "-"])
            )
    return _table(head, lines)


def _bytes(rows: Rows) -> str:
    head = (
        "published FastLloyd | ours, 64 bits: a client sends, receives | all | ours, 32 bits: a client sends, receives | all "
        "| half of published | + checksum words | + framing | bits of the grid | published Mohassel et al."
    )
    lines = []
    for shape in rows.shapes:
        theirs, moh = rows.get("published-fastlloyd", shape), rows.get("published-mohassel", shape)
        wide, narrow = rows.get("mpi", shape) or rows.get("grpc", shape), rows.get("mpi", shape, ring=32)
        assert theirs is not None
        assert theirs.bytes is not None
        cells = [f"{theirs.bytes:.0f}", *_sides(wide), *_sides(narrow)]
        if narrow and narrow.bytes is not None and narrow.payload is not None:
            checksum = 4 * 4  # a word of 4 bytes, two clients, up and down
            framing = narrow.bytes - 4 * narrow.payload
            assert theirs.bytes / 2 + checksum + framing == narrow.bytes
            cells += [f"{theirs.bytes / 2:.0f}", f"{checksum}", f"{framing:.0f}", f"{narrow.fraction_bits}"]
        else:
            cells += ["-"] * 4
        lines.append(_line(shape, [*cells, f"{moh.bytes:.3g}" if moh and moh.bytes else "-"]))
    return _table(head, lines)


def _sides(row: Row | None) -> list[str]:
    return [f"{row.sent:.0f}, {row.received:.0f}", f"{row.bytes:.0f}"] if row else ["-", "-"]


def _secure(rows: Rows) -> str:
    head = (
        "exact on shares, ms | its bytes, three parties | ours, gRPC, ms | our bytes, three clients | times faster "
        "| times fewer bytes"
    )
    lines = []
    for row in rows.rows.values():
        ours = rows.get("grpc", row.shape, 3, 0.0)
        if row.transport == "mpyc" and row.bytes and ours and ours.bytes:
            cells = [f"{row.runtime_ms:,.0f} ({row.low:,.0f} to {row.high:,.0f})", f"{row.bytes:,.0f}", _time(ours)]
            faster, fewer = row.runtime_ms / ours.runtime_ms, row.bytes / ours.bytes
            lines.append(_line(row.shape, [*cells, f"{ours.bytes:.0f}", f"{faster:,.0f}", f"{fewer:,.0f}"]))
    return f"{machine('mpyc', 'gmpy2', 'grpcio')}.\n\n{_table(head, lines)}"


def _runs(rows: Rows, latency: float, clients: int | None = None) -> str:
    """How many runs stand behind a table."""
    names = {"mpi": "MPI", "grpc": "gRPC"}
    counted = {
        (row.clients, names[row.transport], row.runs)
        for row in rows.rows.values()
        if row.runs
        and row.transport in names
        and row.latency_ms == latency
        and row.ring_bits == 64
        and clients in (None, row.clients)
    }
    return "\n\nRuns: " + "; ".join(f"{n} clients over {name}, {runs}" for n, name, runs in sorted(counted)) + "."


def _time(row: Row | None) -> str:
    return "-" if row is None else f"{row.runtime_ms:.2f} ({row.low:.2f} to {row.high:.2f})"


def _line(shape: tuple[str, int, int, int], cells: Iterable[str]) -> str:
    name, n, k, d = shape
    return "| " + " | ".join([name, f"{n:,}", str(k), str(d), *cells]) + " |"


def _table(head: str, lines: list[str]) -> str:
    n_columns = head.count("|") + 1
    return "\n".join([f"{SHAPE} {head} |", "|---|---:|---:|---:|" + "---:|" * n_columns, *lines])
