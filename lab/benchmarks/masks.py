"""Costs of pairwise masks compared with group masks: processor time, bytes and memory of runs, and
time of rounds over gRPC.

`python -m benchmarks.masks` prints the tables and writes its section of
docs/results/performance.md.
"""

import argparse
import statistics
import sys
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from benchmarks.network import client_in_memory, ms, server_in_memory, session_of
from benchmarks.network_run import Run, Setup, over_grpc
from benchmarks.report import as_table, machine, write_section
from benchmarks.runs import alone, peak_bytes
from fastlloyd.dp.noise import SystemNoise
from fastlloyd.federation.plan.plan import Masks
from fastlloyd.federation.protocol import roster
from fastlloyd.federation.protocol.actions import SERVER, Action, Send, ServerResult
from fastlloyd.federation.protocol.messages import (
    Broadcast,
    Confirmation,
    Confirmations,
    Limits,
    Upload,
    decode,
    encode,
)
from fastlloyd.federation.protocol.server import ServerSession
from fastlloyd.federation.secagg import keys
from fastlloyd.federation.traffic import traffic

SMALL: dict[str, Any] = {"n_clusters": 10, "n_features": 16}  # uploads of 171 words
LARGE: dict[str, Any] = {"n_clusters": 100, "n_features": 1023}  # of 102,401
FORGETTING = (
    keys._holding.clear,  # noqa: SLF001
    roster._checked.cache_clear,  # noqa: SLF001
    roster.hello_digest.cache_clear,
)
Seconds = defaultdict[str, float]  # by party


class Cost(NamedTuple):
    """Cost of a run in one process.

    joining : CPU seconds until the first upload, for the first, the middle and the last client of
        the plan, and for the server.
    round : CPU seconds of one round, for a client and for the server.
    sent : bytes that the first client sends.
    received : bytes that the last client receives.
    peak : largest memory of the process, which contains all parties, in bytes.
    """

    joining: list[float]
    round: list[float]
    sent: int
    received: int
    peak: int


def main() -> int:
    """Measure all costs, print the tables, and write the section. Return the exit code."""
    argparse.ArgumentParser(prog="python -m benchmarks.masks", description=__doc__).parse_args()
    seconds = "first client joins, middle, last, server, a client's round, the server's"
    tables = [
        _table(
            f"clients, masks, {seconds}, first client sends, last receives, memory", _in_process()
        ),
        _table(
            "clients, words, a round with group masks, with pairwise, ratio, goal",
            _rounds_over_grpc(),
        ),
        _table("clients, masks, a run over gRPC, results, memory of the server", _runs_over_grpc()),
    ]
    write_section("masks", "\n\n".join([f"{machine()}.", *tables]))
    return 0


def _table(headings: str, rows: Iterator[list[str]]) -> str:
    names, shown = headings.split(", "), []
    for row in rows:
        print(", ".join(map(": ".join, zip(names, row, strict=True))), flush=True)
        shown.append(row)
    return as_table(names, "r" * len(names), shown)


def _in_process() -> Iterator[list[str]]:
    for n_clients in (3, 10, 50, 100, 300):
        for masks in Masks:
            cost = alone(_cost, n_clients, masks)  # so that it has a peak of its own
            seconds, n_bytes = [*cost.joining, *cost.round], [cost.sent, cost.received]
            yield [
                str(n_clients),
                masks.value,
                *map(ms, seconds),
                *map(_kilobytes, n_bytes),
                _mebibytes(cost.peak),
            ]


def _cost(n_clients: int, masks: Masks) -> Cost:
    _seconds(Setup.make(3, masks=masks, **SMALL), [])  # imports
    setup = Setup.make(n_clients, masks=masks, **SMALL)
    names, n_rounds = setup.plan.names, len(setup.plan.mechanism.rounds)
    measured = [names[0], names[n_clients // 2], names[-1], SERVER]
    joining, rounds = _seconds(setup, measured)
    return Cost(
        joining=[joining[name] for name in measured],
        round=[rounds[name] / n_rounds for name in (measured[1], SERVER)],
        sent=traffic(setup.plan, names[0]).sent,
        received=traffic(setup.plan, names[-1]).received,
        peak=peak_bytes(),
    )


def _seconds(setup: Setup, measured: list[str]) -> tuple[Seconds, Seconds]:
    """Run all parties in this thread. For each party in `measured`, return its CPU seconds of
    joining, and of all rounds.

    Every message is encoded once, even if it has several receivers. The first upload, which a
    KeyBox causes, is part of joining.
    """
    limits, joining, rounds = Limits.of(setup.plan), Seconds(float), Seconds(float)
    server, clients = (
        ServerSession(setup.plan, SystemNoise()),
        {name: session_of(setup, name) for name in setup.plan.names},
    )
    pending = deque[tuple[str, str, bytes]]()

    def step(name: str, act: Callable[[], list[Action]], spent: Seconds) -> None:
        begun = time.process_time()
        sends = [action for action in act() if isinstance(action, Send)]
        encoded = {id(send.message): encode(send.message) for send in sends}
        spent[name] += time.process_time() - begun
        pending.extend((name, send.to, encoded[id(send.message)]) for send in sends)

    def deliver(sender: str, to: str, data: bytes) -> None:
        kind = type(decode(data, limits))
        spent = (
            rounds
            if kind in (Upload, Broadcast)
            else Seconds(float)
            if kind in (Confirmation, Confirmations)
            else joining
        )
        if to in measured and to != SERVER:  # what others checked or hashed here, it has to itself
            for forget in FORGETTING:
                forget()
        if to == SERVER:
            step(to, lambda: server.receive(sender, decode(data, limits)), spent)
        else:
            step(to, lambda: clients[to].receive(decode(data, limits)), spent)

    for name, client in clients.items():
        step(name, client.start, joining)
    while pending:
        deliver(*pending.popleft())
    assert server.outcome == ServerResult(
        included=(setup.plan.names,) * setup.plan.mechanism.n_rounds
    )
    return joining, rounds


def _rounds_over_grpc() -> Iterator[list[str]]:
    """Yield rows of the table. Runs with group masks and with pairwise masks alternate, so that
    other load on the machine affects both alike.
    """
    for size, n_iterations, n_pairs in ((SMALL, 150, 9), (LARGE, 6, 11)):
        for n_clients in (2, 3, 5, 10):
            setups = [
                Setup.make(n_clients, masks=masks, n_iterations=n_iterations, **size)
                for masks in Masks
            ]
            rounds: list[list[float]] = [[], []]
            for pair in range(n_pairs):
                for kind in (0, 1) if pair % 2 else (1, 0):
                    rounds[kind].append(_over_grpc(setups[kind]).median_round)
            group, pairwise = map(statistics.median, rounds)
            ratio = statistics.median(b / a for a, b in zip(*rounds, strict=True))
            n_words = setups[0].plan.n_words(setups[0].plan.mechanism.rounds[0])
            yield [
                str(n_clients),
                f"{n_words:,}",
                ms(group),
                ms(pairwise),
                f"{ratio:.2f}",
                "at most 1.2",
            ]


def _runs_over_grpc() -> Iterator[list[str]]:
    for masks in Masks:
        run = _over_grpc(Setup.make(300, masks=masks, **SMALL))
        yield ["300", masks.value, f"{run.seconds:.1f} s", str(run.n_results), _mebibytes(run.peak)]


def _over_grpc(setup: Setup) -> Run:
    return over_grpc(setup, server_in_memory, client_in_memory)


def _kilobytes(n_bytes: int) -> str:
    return f"{n_bytes / 1e3:,.0f} kB"


def _mebibytes(n_bytes: int) -> str:
    return f"{n_bytes / 2**20:,.0f} MiB"


if __name__ == "__main__":
    sys.exit(main())
