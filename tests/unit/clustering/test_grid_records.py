"""Records on the grid, pass after pass: the same points whether they are kept or read anew."""

import gc
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from designs import design_mechanism
from fastlloyd.base.arrays import FloatArray
from fastlloyd.base.randomness import PublicSeed
from fastlloyd.base.threads import n_threads
from fastlloyd.clustering.domain import Domain
from fastlloyd.clustering.grid_records import GridRecords, Outside
from fastlloyd.errors import DataError
from fastlloyd.mechanisms import central
from fastlloyd.mechanisms.answering import LocalRecords
from fastlloyd.mechanisms.lloyd.algorithm import FASTLLOYD
from fastlloyd.records import Table
from fastlloyd.testing import SeededNoise

pytestmark = pytest.mark.usefixtures("repeatable_noise")

DOMAIN = Domain(features=("age", "dose"), lower=(0.0, 0.0), upper=(100.0, 5.0))


class Source:
    """Blocks of a table that count how often they are read; whether it says how many there are is
    chosen.
    """

    def __init__(self, *blocks: FloatArray) -> None:
        self.parts, self.passes = blocks, 0
        self.n_rows: int | None = None
        self.n_ahead = 4

    def blocks_to_check(self) -> Iterator[tuple[int, FloatArray]]:
        self.passes += 1
        first = 1
        for part in self.parts:
            yield first, part
            first += len(part)

    def check(self, block: FloatArray, _first: int, /) -> None:
        assert np.isfinite(block).all()

    def place(self, record: int) -> str:
        return f"row {record}"


def records(*sizes: int, seed: int = 0) -> Source:
    rng = np.random.default_rng(seed)
    return Source(*(rng.uniform([-10, -1], [110, 6], (size, 2)) for size in sizes))


def on_grid(source: Any, kept_cells: int, outside: Outside = Outside.CLIP) -> GridRecords:
    return GridRecords(source, DOMAIN, outside, source="memory", kept_cells=kept_cells)


@pytest.mark.parametrize("n_rows", [1 << 40, None])
def test_compiled_code_is_loaded_while_the_first_blocks_are_read(
    monkeypatch: pytest.MonkeyPatch, n_rows: int | None
) -> None:
    reading = threading.Event()
    done: list[object] = []

    class Told(Source):
        def blocks_to_check(self) -> Iterator[tuple[int, FloatArray]]:
            reading.set()
            yield from super().blocks_to_check()

    def loading(steps: int) -> None:
        assert reading.wait(60)
        done.append(steps)

    to_grid = Domain.to_grid_and_outside

    def noted(domain: Domain, block: FloatArray) -> Any:
        done.append("block")
        return to_grid(domain, block)

    source = Told(*records(5, 6).parts)
    source.n_rows = n_rows
    monkeypatch.setattr("fastlloyd.clustering.grid_records.is_compiled", loading)
    monkeypatch.setattr(Domain, "to_grid_and_outside", noted)
    assert len(list(on_grid(source, kept_cells=0))) == 2
    assert done == [
        2 * (n_rows or 0),
        "block",
        "block",
    ]  # for all records, before anything is done with the first


def test_what_interrupts_the_loading_does_not_wait_for_blocks_that_nobody_wants(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    leaving, read, threads = threading.Event(), [], n_threads()

    class Slow(Source):
        def blocks_to_check(self) -> Iterator[tuple[int, FloatArray]]:
            for first, block in super().blocks_to_check():
                read.append(first)
                assert leaving.wait(60)
                yield first, block

    class Executor(ThreadPoolExecutor):
        def __exit__(self, *raised: Any) -> None:
            leaving.set()
            super().__exit__(*raised)

    def loading(_steps: int) -> None:
        raise KeyboardInterrupt

    source = Slow(*records(*[5] * 40).parts)
    source.n_ahead = 40
    monkeypatch.setattr("fastlloyd.clustering.grid_records.ThreadPoolExecutor", Executor)
    monkeypatch.setattr("fastlloyd.clustering.grid_records.is_compiled", loading)
    with pytest.raises(KeyboardInterrupt):
        next(iter(on_grid(source, kept_cells=0)))
    assert len(read) <= 1
    assert n_threads() == threads


@given(
    sizes=st.lists(st.integers(1, 20), min_size=1, max_size=5),
    kept=st.integers(0, 120),
    seed=st.integers(0, 2**32),
    is_known=st.booleans(),
)
def test_every_pass_gives_the_grid_points_of_all_records_and_few_records_are_read_once(
    sizes: list[int], kept: int, seed: int, is_known: bool
) -> None:
    source = records(*sizes, seed=seed)
    source.n_rows = sum(sizes) if is_known else None
    X = on_grid(source, kept)
    whole = np.concatenate(source.parts)
    for _ in range(3):
        assert np.array_equal(np.concatenate(list(X)), DOMAIN.to_grid(whole))
    assert source.passes == (1 if whole.size <= kept else 3)
    assert X.n_outside == ((whole < DOMAIN.lower) | (whole > DOMAIN.upper)).any(axis=1).sum()


def test_the_result_is_that_of_all_records_in_one_array_bit_for_bit() -> None:
    source = records(300, 5, 700)
    m = design_mechanism(
        FASTLLOYD,
        DOMAIN,
        n_clusters=4,
        n_records=2000,
        epsilon=1.0,
        public_seed=PublicSeed.from_int(1),
    )
    expected = central.cluster(
        m, LocalRecords(m.domain, DOMAIN.to_grid(np.concatenate(source.parts))), SeededNoise(7)
    )
    for kept in (0, 10**6):
        found = central.cluster(m, LocalRecords(m.domain, on_grid(source, kept)), SeededNoise(7))
        assert np.array_equal(found.centroids, expected.centroids)
        assert np.array_equal(found.answer, expected.answer)


def test_a_pass_that_was_not_finished_is_no_pass() -> None:
    source = records(4, 4, 4)
    X = on_grid(source, 10**6)
    threads = threading.active_count()
    unfinished = iter(X)
    next(unfinished)
    del unfinished
    assert X.n_outside == 0
    assert sum(map(len, X)) == 12
    assert sum(map(len, X)) == 12
    assert source.passes == 2
    assert threading.active_count() == threads


def test_a_fault_in_a_later_block_is_said_where_it_is_reached() -> None:
    class Broken(Source):
        def blocks_to_check(self) -> Iterator[tuple[int, FloatArray]]:
            yield from super().blocks_to_check()
            raise DataError("record 3 is missing")

    with pytest.raises(DataError, match="3 is missing"):
        list(on_grid(Broken(np.ones((2, 2))), 100))
    beyond = Source(np.ones((3, 2)), np.array([[1.0, 1.0], [500.0, 1.0]]))
    with pytest.raises(DataError, match=r"memory, row 5,.*'age'.*outside") as caught:
        list(on_grid(beyond, 100, Outside.REFUSE))
    assert "500" not in str(caught.value)


def test_records_that_become_more_or_fewer_between_two_passes_are_refused() -> None:
    class Changing(Source):
        def blocks_to_check(self) -> Iterator[tuple[int, FloatArray]]:
            self.passes += 1
            yield 1, self.parts[0][self.passes :]

    changing = Changing(np.ones((50, 2)))
    m = design_mechanism(
        FASTLLOYD,
        DOMAIN,
        n_clusters=2,
        n_records=100,
        epsilon=1.0,
        public_seed=PublicSeed.from_int(1),
    )
    with pytest.raises(DataError, match="between two passes"):
        central.cluster(m, LocalRecords(m.domain, on_grid(changing, 0)), SeededNoise(1))


def test_neither_records_nor_their_number_are_shown() -> None:
    X = on_grid(records(37), 10**6)
    list(X)
    assert repr(X) == "GridRecords(source='memory')"


def test_a_thread_that_reads_ahead_is_left_a_core_until_the_pass_ends_or_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    assert [n_threads() for _ in on_grid(records(5, 5, 5), 0)] == [3, 3, 3]
    assert n_threads() == 4
    given_up = iter(on_grid(records(5, 5, 5), 0))
    next(given_up)
    assert n_threads() == 3
    del given_up  # its generators are closed
    gc.collect()
    assert n_threads() == 4
    table = Table(values=np.ones((5, 2)), columns=("age", "dose"), source="memory")
    assert [n_threads() for _ in on_grid(table, 0)] == [4]  # nothing is read ahead
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert [n_threads() for _ in on_grid(records(5, 5), 0)] == [1, 1]


def test_records_that_are_known_to_be_many_are_not_kept_for_a_while_either() -> None:
    """Each block may be forgotten before the next is asked for: memory that is touched once costs
    more than the pass.
    """
    source = records(20, 20, 20)
    source.n_rows = 60
    seen: list[weakref.ref[Any]] = []
    for grid in on_grid(source, kept_cells=100):
        assert all(earlier() is None for earlier in seen[:-1])
        seen.append(weakref.ref(grid))
    assert len(seen) == 3


def test_who_gives_a_pass_up_does_not_wait_for_what_was_still_to_be_read() -> None:
    reading = threading.Event()

    class Slow(Source):
        read = 0

        def blocks_to_check(self) -> Iterator[tuple[int, FloatArray]]:
            for block in super().blocks_to_check():
                self.read += 1
                yield block
                reading.wait()

    source = Slow(*[np.ones((5, 2))] * 10)
    given_up = iter(on_grid(source, 0))
    next(given_up)
    threading.Timer(0.2, reading.set).start()
    del given_up  # waits for the block that is being read, and for no other
    assert source.read <= 2


def test_points_that_were_kept_are_looked_at_again() -> None:
    source = records(20)
    X = on_grid(source, 10**6)
    (kept,) = X
    assert len(list(X)) == 1
    kept[3, 1] = 1 << 24
    with pytest.raises(DataError, match=r"a record.*outside"):
        list(X)


def test_points_of_another_domain_are_looked_at() -> None:
    narrow = Domain(features=("age", "dose"), lower=(0.0, 0.0), upper=(100.0, 5.0), fraction_bits=8)
    m = design_mechanism(
        FASTLLOYD,
        narrow,
        n_clusters=2,
        n_records=100,
        epsilon=1.0,
        public_seed=PublicSeed.from_int(1),
    )
    with pytest.raises(DataError, match=r"a record.*outside"):
        central.cluster(m, LocalRecords(m.domain, on_grid(records(50), 0)), SeededNoise(1))
