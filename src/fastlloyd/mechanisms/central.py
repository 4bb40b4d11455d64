"""Central model: one organisation has all records, asks every round and adds the noise itself."""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

import numpy as np

from fastlloyd.dp.noise import NoiseSource
from fastlloyd.dp.repeatable import check_private
from fastlloyd.mechanisms.answering import CappedRecords, Records, check_cap
from fastlloyd.mechanisms.mechanism import Clustering, Mechanism
from fastlloyd.mechanisms.private_run import AnyRun, Found, PrivateRun
from fastlloyd.mechanisms.queries.query import Query
from fastlloyd.mechanisms.rounds import Answer, AnswerNoise

T = TypeVar("T", bound=Found)
Ask = Callable[[int, Query], tuple[Answer, AnswerNoise]]
Drawing = Callable[[int], None]  # told the number of a round, from 0, before its noise is drawn


def run(mechanism: PrivateRun[T], ask: Ask) -> T:
    """Ask the query of every round, advance the state by each noisy answer, and return the result.

    ask : takes the number of a round, from 0, and its query, and returns the noisy answer and its
        noise.

    A client of a federated run makes the same calls, one per message.
    """
    state = mechanism.start()
    for number in range(mechanism.n_rounds):
        answer, noise = ask(number, mechanism.query(number, state))
        state = mechanism.advance(number, state, answer, noise)
    return mechanism.result(state)


def rehearse(mechanism: AnyRun) -> list[Query]:
    """Return the queries of a run over no records and without noise, to measure how long answers
    take.
    """
    asked: list[Query] = []

    def ask(number: int, query: Query) -> tuple[Answer, AnswerNoise]:
        asked.append(query)
        return np.zeros(query.question.shape, dtype=np.int64), mechanism.answer_noise(number)

    run(mechanism, ask)
    return asked


def cluster(
    mechanism: Mechanism, records: Records, noise: NoiseSource, drawing: Drawing = lambda _: None
) -> Clustering:
    """Cluster records with any clustering mechanism, as `release` does for any run."""
    return release(mechanism, records, noise, drawing)


def release(
    mechanism: PrivateRun[T],
    records: Records,
    noise: NoiseSource,
    drawing: Drawing = lambda _: None,
) -> T:
    """Run the mechanism on records. The result satisfies the mechanism's guarantee if `noise` is
    `SystemNoise`.

    Raises LocalProtocolError for noise that is not private, outside `testing.repeatable_noise`.
    Raises DataError if the records are not grid points of the mechanism's domain, if they (or the
    persons) exceed the cap `mechanism.n_records`, or if their number changes between two rounds.
    """
    check_private(noise)
    capped = CappedRecords(
        records, mechanism, partial(check_cap, cap=mechanism.n_records, unit=mechanism.unit)
    )

    def ask(number: int, query: Query) -> tuple[Answer, AnswerNoise]:
        exact = capped.answer(query)
        drawing(number)
        return exact + mechanism.draw_noise(
            mechanism.all_rounds[number], noise
        ), mechanism.answer_noise(number)

    return run(mechanism, ask)
