"""Cost of an iteration over MPI and gRPC, compared with Table 3 of the paper. Also the cost of
exact Lloyd on secret shares, compared with ours.

`python -m paper.overhead` measures everything, and writes overhead.csv and the tables of
overhead.md in docs/results. `python -m paper.overhead mpi grpc secure` measures only the named
parts. The public sets LSun and S1 are left out if FASTLLOYD_DATA is not set.
"""

import argparse
import itertools
import sys
import tempfile
from pathlib import Path

import numpy as np

from fastlloyd.mechanisms.moment_lloyd.rounds import MOMENTLLOYD
from fastlloyd_lab.datasets import named
from paper.overhead import over_grpc, over_mpi, page, secure_baseline
from paper.overhead.cases import SETS, Case, Records, Set, available
from paper.overhead.page import Row, measured, merge, published

# by transport and number of clients
RUNS = {"mpi": {2: 100, 4: 40, 8: 10}, "grpc": {2: 20, 3: 20, 4: 10, 8: 6}}
SLOW_RUNS = NARROW_RUNS = 10
SLOW = 25e-3
SLOW_SETS = (SETS[0], SETS[7])
SECURE_ITERATIONS = 3


def main() -> int:
    """Measure the chosen parts, and write the tables. Return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m paper.overhead", description=__doc__)
    parser.add_argument(
        "parts", nargs="*", metavar="mpi | grpc | secure", help="what to measure; nothing: all"
    )
    wanted = parser.parse_args().parts or ["mpi", "grpc", "secure"]
    if unknown := set(wanted) - {"mpi", "grpc", "secure"}:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; expected mpi, grpc or secure")
    found, absent = available()
    lacking = [
        over_mpi.missing() if "mpi" in wanted else "",
        secure_baseline.missing() if "secure" in wanted else "",
    ]
    notes = [note for note in [*absent, *lacking] if note]
    for note in notes:
        print(note, file=sys.stderr)
    merge([row for each in SETS for row in published(each)])
    for transport, n_clients in itertools.product(("mpi", "grpc"), (2, 4, 8)):
        if transport in wanted and not (transport == "mpi" and lacking[0]):
            over(transport, n_clients, found)
    if "secure" in wanted and not lacking[1]:
        secure(found)
    page.write(merge([]))
    return 0


def over(transport: str, n_clients: int, found: list[tuple[Set, Records]]) -> None:
    """Measure all cases with this number of clients. The same processes do all of them.

    transport : "mpi" or "grpc".
    found : data sets, each with its records.
    """
    cases = [
        (Case(set=each, n_clients=n_clients, n_runs=RUNS[transport][n_clients]), X)
        for each, X in found
    ]
    if n_clients == 2:
        cases += [
            (Case(set=each, latency=SLOW, n_runs=SLOW_RUNS), X)
            for each, X in found
            if each in SLOW_SETS
        ]
        ours = RUNS[transport][2] // 4
        cases += [(Case(set=each, algorithm=MOMENTLLOYD, n_runs=ours), X) for each, X in found]
        cases += [
            (Case(set=each, ring_bits=32, n_runs=NARROW_RUNS), X)
            for each, X in found
            if transport == "mpi"
        ]
    _measure(transport, cases)


def _measure(transport: str, cases: list[tuple[Case, Records]]) -> list[Row]:
    with tempfile.TemporaryDirectory() as name:
        folders = [Path(name) / str(i) for i in range(len(cases))]
        plans = [case.write(folder, X) for folder, (case, X) in zip(folders, cases, strict=True)]
        of = over_mpi if transport == "mpi" else over_grpc
        results = of.measure(folders, cases[0][0].n_clients)
    rows = [
        measured(transport, case, plan, each)
        for (case, _), plan, each in zip(cases, plans, results, strict=True)
    ]
    merge(rows)
    for row in rows:
        print(f"{row.transport}, {row.clients} clients, {row.latency_ms:g} ms, "
              f"{row.ring_bits} bits, {row.shape}: "
              f"{row.runtime_ms:.3f} ms ({row.low:.3f} to {row.high:.3f}), {row.bytes:g} bytes",
              flush=True)  # fmt: skip
    return rows


def secure(found: list[tuple[Set, Records]]) -> None:
    """Measure exact Lloyd by three parties on secret shares, and our run with three clients over
    gRPC. Both use loopback without additional latency.

    found : data sets, each with its records.
    """
    sizes = ((100, 2), (100, 3), (1000, 2))
    shapes = [
        (Set(name="TimeSynth", n=n, k=k, d=2, published=SETS[0].published), _few(n, k))
        for n, k in sizes
    ]
    shapes += [(each, X) for each, X in found if each.name == "LSun"]
    _measure(
        "grpc",
        [
            (Case(set=each, n_clients=3, latency=0.0, n_runs=RUNS["grpc"][3]), X)
            for each, X in shapes
        ],
    )
    for each, X in shapes:
        low, high = X.min(axis=0), X.max(axis=0)
        scaled = 2 * (X - low) / (high - low) - 1
        start = scaled[np.linspace(0, each.n - 1, each.k).astype(int)]
        result = secure_baseline.measure(scaled, start, SECURE_ITERATIONS)
        assert result.error < 1e-5, f"its centroids are {result.error} from those of plain Lloyd"
        seconds = 1e3 * np.array(result.seconds)
        row = Row(transport="mpyc", clients=3, dataset=each.name, n=each.n, k=each.k, d=each.d,
          latency_ms=0.0,
                  runtime_ms=round(float(seconds.mean()), 1), low=round(float(seconds.min()), 1),
                  high=round(float(seconds.max()), 1), bytes=round(result.n_bytes))  # fmt: skip
        merge([row])
        print(
            f"MPyC, {row.shape}: {row.runtime_ms:.0f} ms, {row.bytes:g} bytes, error"
            f" {result.error:.1e}",
            flush=True,
        )


def _few(n: int, k: int) -> Records:
    """Return n records of the smallest TimeSynth set with k clusters. Its records are in random
    order, so the first n are taken.
    """
    return np.asarray(named.load(f"timesynth-1000-{k}-2").values[:n])


if __name__ == "__main__":
    sys.exit(main())
