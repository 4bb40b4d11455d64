"""The central model: one holder of all records asks every round and adds the noise itself."""

from collections.abc import Callable, Iterable
from functools import partial

from fastlloyd.clustering.domain import GridArray
from fastlloyd.dp.noise import NoiseSource
from fastlloyd.dp.repeatable import check_private
from fastlloyd.mechanisms.answering import Records, check_cap
from fastlloyd.mechanisms.mechanism import Clustering, Mechanism
from fastlloyd.mechanisms.queries.query import Query
from fastlloyd.mechanisms.rounds import Answer, AnswerNoise

Ask = Callable[[int, Query], tuple[Answer, AnswerNoise]]


def run(mechanism: Mechanism, ask: Ask) -> Clustering:
    """Ask the query of every round, go on from each noisy answer, and return the clustering.

    ask : takes the number of a round, from 0, and its query; returns the noisy answer, and what is known of the noise in it.
    A client of a federated run makes the same calls, one per message.
    """
    state = mechanism.start()
    for number in range(mechanism.n_rounds):
        answer, noise = ask(number, mechanism.query(number, state))
        state = mechanism.advance(number, state, answer, noise)
    return mechanism.clustering(state)


def cluster(mechanism: Mechanism, X: GridArray | Iterable[GridArray], noise: NoiseSource) -> Clustering:
    """Run the mechanism on grid points X (n, n_features): one array, or blocks of them, as `Records` takes them.

    The result satisfies the mechanism's guarantee if `noise` is `SystemNoise`. Raises LocalProtocolError for noise that is not
    private outside `testing.repeatable_noise`; DataError when X is not made of grid points of the domain, when there are more
    records than the public cap `mechanism.n_records`, or when their number changes between two rounds.
    """
    check_private(noise)
    records = Records(mechanism.domain, X, partial(check_cap, cap=mechanism.n_records))

    def ask(number: int, query: Query) -> tuple[Answer, AnswerNoise]:
        exact = records.answer(query)
        return exact + mechanism.draw_noise(mechanism.all_rounds[number], noise), mechanism.answer_noise(number)

    return run(mechanism, ask)
