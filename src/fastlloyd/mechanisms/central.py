"""The central model: one holder of all records asks every round and adds the noise itself."""

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from fastlloyd.base.arrays import IntArray
from fastlloyd.clustering.domain import Domain, GridArray
from fastlloyd.clustering.grid_records import GridRecords
from fastlloyd.dp.noise import NoiseSource
from fastlloyd.dp.repeatable import check_private
from fastlloyd.errors import DataError
from fastlloyd.mechanisms.mechanism import Clustering, Mechanism
from fastlloyd.mechanisms.queries.query import Query
from fastlloyd.mechanisms.rounds import Answer, AnswerNoise

Read = Callable[[], Iterable[GridArray]]
Ask = Callable[[int, Query], tuple[Answer, AnswerNoise]]


def run(mechanism: Mechanism, ask: Ask) -> Clustering:
    """The clustering that noisy answers lead to; ask : the number of a round, from 0, and its query to an answer.

    A client of a federated run makes the same calls, one per message.
    """
    state = mechanism.start()
    for number in range(mechanism.n_rounds):
        answer, noise = ask(number, mechanism.query(number, state))
        state = mechanism.advance(number, state, answer, noise)
    return mechanism.clustering(state)


def cluster(mechanism: Mechanism, X: GridArray | Iterable[GridArray], noise: NoiseSource) -> Clustering:
    """Run the mechanism on grid points X (n, n_features): one array, or blocks of them that are read anew in each round.

    An array is looked at before the first round and must stay as it is; blocks are looked at in each round, except those of
    `GridRecords` under the mechanism's domain, which are grid points by the way they are made. The result
    satisfies the mechanism's guarantee if `noise` is `SystemNoise`. Raises LocalProtocolError for noise that is not private
    outside `testing.repeatable_noise`; DataError when X is not made of grid points of the domain, when there are more records
    than the public cap `mechanism.n_records`, or when their number changes between two rounds.
    """
    check_private(noise)
    read = _array(mechanism.domain, X) if isinstance(X, np.ndarray) else _stream(mechanism.domain, X)
    n: int | None = None

    def ask(number: int, query: Query) -> tuple[Answer, AnswerNoise]:
        nonlocal n
        round = mechanism.all_rounds[number]
        answer = np.zeros(mechanism.shape(round), dtype=np.int64)
        n = _add_up(query, read(), mechanism.n_records, n, answer)
        answer += mechanism.draw_noise(round, noise)
        return answer, mechanism.answer_noise(number)

    return run(mechanism, ask)


def _array(domain: Domain, X: GridArray) -> Read:
    """Looked at once: it is the caller's, who leaves it alone meanwhile."""
    domain.check_grid(X)
    return lambda: [X]


def _stream(domain: Domain, blocks: Iterable[GridArray]) -> Read:
    """Looked at each time, unless they are made by this domain at that time, which leaves no point outside."""
    if isinstance(blocks, GridRecords) and blocks.domain == domain:
        return lambda: blocks

    def read() -> Iterator[GridArray]:
        for block in blocks:
            domain.check_grid(block)
            yield block

    return read


def _add_up(query: Query, blocks: Iterable[GridArray], cap: int, expected: int | None, answer: IntArray) -> int:
    """Add the exact answer for every block to `answer`. Returns the number of records, which must be the expected one."""
    n = 0
    for block in blocks:
        answer += query.evaluate(block)
        n += len(block)
        check_cap(n, cap)
    if expected not in (None, n):
        raise DataError("the number of records changed between two passes; leave the file alone while it is read")
    return n


def check_cap(n: int, cap: int) -> None:
    """Refuse more records than the cap; the message does not say how many there are."""
    if n > cap:
        raise DataError(
            f"there are more records than the cap of {cap}; agree on a higher cap (n_records), or leave records out at random"
        )
