"""Central model, in which one organisation has all records, answers all queries and adds the
noise.
"""

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
    """Run a mechanism round by round: ask the query of the round, and compute the next state from
    the noisy answer. Return the result.

    ask : function of a round's number, from 0, and its query. It returns the noisy answer and its
        noise scales.

    In a federated run, each client calls the same methods of the mechanism as messages arrive.
    """
    state = mechanism.start()
    for number in range(mechanism.n_rounds):
        answer, noise = ask(number, mechanism.query(number, state))
        state = mechanism.advance(number, state, answer, noise)
    return mechanism.result(state)


def rehearse(mechanism: AnyRun) -> list[Query]:
    """Return the queries of a run in which all answers are 0, to time such queries on real data."""
    asked: list[Query] = []

    def ask(number: int, query: Query) -> tuple[Answer, AnswerNoise]:
        asked.append(query)
        return np.zeros(query.question.shape, dtype=np.int64), mechanism.answer_noise(number)

    run(mechanism, ask)
    return asked


def cluster(
    mechanism: Mechanism, records: Records, noise: NoiseSource, drawing: Drawing = lambda _: None
) -> Clustering:
    """Cluster the records with a clustering mechanism. The parameters are those of `release`."""
    return release(mechanism, records, noise, drawing)


def release(
    mechanism: PrivateRun[T],
    records: Records,
    noise: NoiseSource,
    drawing: Drawing = lambda _: None,
) -> T:
    """Run the mechanism on the records, and return its result.

    The result satisfies the mechanism's guarantee if `noise` is `SystemNoise`.

    drawing : function that is called with the number of each round, from 0, before its noise is
        drawn.

    Raises LocalProtocolError if the noise is repeatable, outside `testing.repeatable_noise`. Raises
    DataError if the records are not grid points of the mechanism's domain, or exceed its cap. Also
    raises DataError if the number of records or persons changes between two rounds.
    """
    check_private(noise)
    capped = CappedRecords(
        records, mechanism, partial(check_cap, cap=mechanism.n_records, unit=mechanism.unit)
    )

    def ask(number: int, query: Query) -> tuple[Answer, AnswerNoise]:
        exact = capped.answer(query)
        drawing(number)
        noisy = mechanism.draw_noise(mechanism.all_rounds[number], noise)
        noisy += exact
        return noisy, mechanism.answer_noise(number)

    return run(mechanism, ask)
