"""Persons whose rows are read in passes give the answers of the same rows in memory, or none: every
pass sees the same rows.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fastlloyd.base.arrays import GridArray, IntArray
from fastlloyd.base.randomness import PublicSeed
from fastlloyd.clustering.domain import Domain
from fastlloyd.clustering.grid_records import KEPT_CELLS, GridRecords, Outside
from fastlloyd.errors import DataError
from fastlloyd.mechanisms.answering import SharedRecords
from fastlloyd.mechanisms.catalogue import design
from fastlloyd.mechanisms.central import rehearse
from fastlloyd.mechanisms.deal import RandomAssignment
from fastlloyd.mechanisms.lloyd.algorithm import FASTLLOYD
from fastlloyd.mechanisms.mechanism import Mechanism
from fastlloyd.mechanisms.moment_lloyd.rounds import MOMENTLLOYD
from fastlloyd.mechanisms.passes import rows as sealed_rows
from fastlloyd.mechanisms.passes.records import DealtPersons, PersonsInPasses
from fastlloyd.mechanisms.persons import Persons
from fastlloyd.mechanisms.settings import Settings
from fastlloyd.mechanisms.spread import spread_key
from fastlloyd.records import Missing, open_records
from fastlloyd.records.ids import Ids, TextIds
from federation import entropy
from people import clients_of
from person_files import INTEGERS, TEXT, UNIT, small_blocks, written
from record_files import SECRET, Matrix
from small_parts import small_parts

KINDS = {**TEXT, **{f"{name} of integers": kind for name, kind in INTEGERS.items()}}
DOMAIN = Domain(features=("f0", "f1"), lower=(-1.0, -1.0), upper=(1.0, 1.0))


def mechanism(algorithm: Any = MOMENTLLOYD, domain: Domain = DOMAIN) -> Mechanism:
    made: Mechanism = design(
        Settings(
            algorithm=algorithm,
            domain=domain,
            n_clusters=3,
            n_records=100,
            epsilon=1.0,
            public_seed=PublicSeed.from_int(3),
            persons=Persons(),
        )
    )
    return made


def visits(n: int = 60, n_persons: int = 15, d: int = 2) -> tuple[Matrix, list[int]]:
    """Rows of persons, of whom the first has most, some of them equal."""
    rng = np.random.default_rng(n + d)
    ids = rng.integers(0, n_persons, n) * (rng.random(n) < 0.6)
    return np.round(rng.uniform(-1.2, 1.2, (n, d)), 1), ids.tolist()


def on_grid(
    source: Path, *, kept: bool = False, missing: Missing = Missing.REFUSE, domain: Domain = DOMAIN
) -> GridRecords:
    records = open_records(source, list(domain.features), unit=UNIT, missing=missing)
    cells = KEPT_CELLS if kept else 0
    return GridRecords(records, domain, Outside.CLIP, source=str(source), kept_cells=cells)


def in_memory(m: Mechanism, X: Matrix, ids: list[bytes]) -> SharedRecords:
    return SharedRecords.of_persons(m, m.domain.to_grid(X), ids)


def assert_same(found: PersonsInPasses, m: Mechanism, X: Matrix, ids: list[bytes]) -> None:
    """All queries of a run have the same answers, and there are as many persons."""
    expected = in_memory(m, X, ids)
    assert found.count() == expected.count() == found.n
    for query in rehearse(m):
        answer, n = found.answer(query)
        assert n == expected.n
        assert answer.tobytes() == expected.answer(query)[0].tobytes()


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize(
    "kind",
    [*TEXT.values(), *INTEGERS.values()],
    ids=[*TEXT, *(f"{kind} of integers" for kind in INTEGERS)],
)
def test_answers_in_passes_are_those_in_memory_in_every_format(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Any, kept: bool
) -> None:
    small_blocks(monkeypatch)
    X, ids = visits()
    of_text = kind in TEXT.values()
    path = written(tmp_path, kind, X, [f"p{i}" for i in ids] if of_text else ids)
    with small_parts(20, 7, 30):
        found = PersonsInPasses(on_grid(path, kept=kept), mechanism(), source=str(path))
        assert_same(found, mechanism(), X, [(b"p%d" if of_text else b"%d") % i for i in ids])


@pytest.mark.parametrize("d", [1, 40])
def test_answers_in_passes_are_those_in_memory_with_one_feature_and_with_many(
    tmp_path: Path, d: int
) -> None:
    domain = Domain(
        features=tuple(f"f{i}" for i in range(d)),
        lower=(-1.0,) * d,
        upper=(1.0,) * d,
        fraction_bits=10,
    )
    X, ids = visits(d=d)
    path = written(tmp_path, INTEGERS["parquet"], X, ids)
    m = mechanism(FASTLLOYD, domain)
    assert_same(
        PersonsInPasses(on_grid(path, domain=domain), m, source=""), m, X, [b"%d" % i for i in ids]
    )


def test_a_person_may_have_rows_in_all_files_of_a_folder(tmp_path: Path) -> None:
    X, ids = visits()
    for part in range(4):
        written(tmp_path, INTEGERS["parquet"], X[part::4], ids[part::4], f"v{part}")
    order = np.concatenate([np.arange(60)[part::4] for part in range(4)])
    found = PersonsInPasses(on_grid(tmp_path), mechanism(), source="")
    assert_same(found, mechanism(), X[order], [b"%d" % ids[i] for i in order])


def test_rows_that_are_left_out_have_no_shares(tmp_path: Path) -> None:
    """The shares of a person with a missing cell are spread over the other rows, and who has no
    other row is no person.
    """
    X, ids = visits()
    ids[7] = 99
    X[[7, 8, 9], [0, 1, 0]] = np.nan
    path = written(tmp_path, TEXT["csv"], X, list(map(str, ids)))
    whole = np.asarray(np.isfinite(X).all(axis=1))
    found = PersonsInPasses(on_grid(path, missing=Missing.DROP), mechanism(), source="")
    assert_same(
        found,
        mechanism(),
        X[whole],
        [b"%d" % i for i, kept in zip(ids, whole.tolist(), strict=True) if kept],
    )


# Every pass sees the same rows


class Changing:
    """Rows on the grid in two blocks; `change` is called with points and ids of every pass but the
    first.
    """

    domain, are_kept = DOMAIN, False

    def __init__(
        self, change: Callable[[IntArray, list[bytes]], tuple[IntArray, list[bytes]]]
    ) -> None:
        self._change, self._passes = change, 0

    def with_ids(self) -> Iterator[tuple[GridArray, Ids | None]]:
        X, ids = visits()
        points, texts = DOMAIN.to_grid(X).astype(np.int64), [f"{SECRET}{i}".encode() for i in ids]
        if self._passes:
            points, texts = self._change(points, texts)
        self._passes += 1
        for part in (slice(0, 33), slice(33, None)):
            yield np.asfortranarray(points[part], dtype=np.int32), TextIds.of(texts[part])


def swapped(points: IntArray, ids: list[bytes]) -> tuple[IntArray, list[bytes]]:
    order = [1, 0, *range(2, len(ids))]
    return points[order], [ids[i] for i in order]


def moved(points: IntArray, ids: list[bytes]) -> tuple[IntArray, list[bytes]]:
    points[-1, 0] ^= 1
    return points, ids


def given_away(points: IntArray, ids: list[bytes]) -> tuple[IntArray, list[bytes]]:
    return points, [*ids[:-1], ids[-1] + b"0"]


def cut_elsewhere(points: IntArray, ids: list[bytes]) -> tuple[IntArray, list[bytes]]:
    return points, [ids[0] + ids[1][:1], ids[1][1:], *ids[2:]]


def shorter(points: IntArray, ids: list[bytes]) -> tuple[IntArray, list[bytes]]:
    return points[:-1], ids[:-1]


def longer(points: IntArray, ids: list[bytes]) -> tuple[IntArray, list[bytes]]:
    return np.concatenate([points, points[:1]]), [*ids, ids[0]]


@pytest.mark.parametrize("span", [4, 1 << 16])
@pytest.mark.parametrize("change", [swapped, moved, given_away, cut_elsewhere, shorter, longer])
def test_a_pass_that_sees_other_rows_gives_no_answer(
    monkeypatch: pytest.MonkeyPatch, change: Callable[..., Any], span: int
) -> None:
    monkeypatch.setattr(sealed_rows, "SPAN", span)
    m = mechanism()
    found = PersonsInPasses(Changing(change), m, source="visits.csv")
    with pytest.raises(
        DataError,
        match=r"^visits.csv: the records or",
    ) as refused:
        found.answer(rehearse(m)[0])
    assert SECRET not in str(refused.value)


def test_a_pass_that_sees_the_same_rows_in_other_blocks_gives_the_same_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sealed_rows, "SPAN", 5)
    m = mechanism()
    first = PersonsInPasses(Changing(lambda points, ids: (points, ids)), m, source="")
    answer = first.answer(rehearse(m)[0])

    class Otherwise(Changing):
        def with_ids(self) -> Iterator[tuple[GridArray, Ids | None]]:
            blocks = list(super().with_ids())
            if self._passes == 1:
                yield from blocks
                return
            for X, ids in blocks:
                assert ids is not None
                for at in range(0, len(X), 4):
                    yield np.ascontiguousarray(X[at : at + 4]), ids.cut(at, min(at + 4, len(X)))

    other = PersonsInPasses(Otherwise(lambda points, ids: (points, ids)), m, source="")
    assert other.answer(rehearse(m)[0])[0].tobytes() == answer[0].tobytes()


def test_a_first_pass_that_was_given_up_is_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted(Changing):
        def with_ids(self) -> Iterator[tuple[GridArray, Ids | None]]:
            for block in super().with_ids():
                yield block
                if self._passes == 1:
                    raise KeyboardInterrupt

    m = mechanism()
    found = PersonsInPasses(Interrupted(lambda points, ids: (points, ids)), m, source="")
    with suppress(KeyboardInterrupt):
        found.count()
    assert found.n is None
    X, ids = visits()
    assert_same(found, m, X, [f"{SECRET}{i}".encode() for i in ids])


def test_records_that_were_read_without_ids_are_refused(tmp_path: Path) -> None:
    X, ids = visits()
    path = written(tmp_path, INTEGERS["parquet"], X, ids)
    records = open_records(path, ["f0", "f1"])
    found = PersonsInPasses(
        GridRecords(records, DOMAIN, Outside.CLIP, source=""), mechanism(), source="visits"
    )
    with pytest.raises(
        DataError,
        match=r"visits:.*protects persons",
    ):
        found.count()


# Dealt out for a simulation


@pytest.mark.parametrize("small", [True, False])
@pytest.mark.parametrize(("n_clients", "c"), [(4, 1), (4, 2), (4, 3), (600, 520)])
def test_persons_in_passes_are_dealt_out_as_those_in_memory(
    tmp_path: Path, n_clients: int, c: int, small: bool
) -> None:
    X, ids = visits()
    path = written(tmp_path, INTEGERS["parquet"], X, ids)
    m, texts = mechanism(), [b"%d" % i for i in ids]
    with small_parts(*((5, 7, 30) if small else (1 << 19, 1 << 19, 1 << 20))):
        dealt = DealtPersons(
            on_grid(path), m, RandomAssignment(n_clients, c, entropy("deal")), source=""
        )
    whose = clients_of(
        RandomAssignment(n_clients, c, entropy("deal")),
        texts,
        DOMAIN.to_grid(np.clip(X, -1, 1)),
        spread_key(m.seed),
    )
    rows = [np.flatnonzero(whose == client) for client in range(n_clients)]
    expected = [in_memory(m, X[mine], [texts[i] for i in mine]) for mine in rows]
    assert dealt.sizes == tuple(each.count() for each in expected)
    assert dealt.n_counted == sum(min(c, n) for n in Counter(texts).values())
    for query in rehearse(m):
        for answer, client in zip(dealt.answers(query), expected, strict=True):
            assert answer.tobytes() == client.answer(query)[0].tobytes()
