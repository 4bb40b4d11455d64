"""No fit that a block `with fastlloyd.dataset(...)` has to do with goes uncounted in silence."""

import asyncio
import copy
import multiprocessing
import os
import pickle
import sys
import threading
import warnings
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import joblib  # type: ignore[import-untyped]
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline

import fastlloyd as package
from fastlloyd import FastLloyd
from fastlloyd.errors import BudgetError, LedgerWarning, StateError, UncountedFitWarning
from fastlloyd.estimators import charging
from fastlloyd.federation.holder import VARIABLE, HoldersLedger
from ledgers import knowing

X = np.random.default_rng(1).random((60, 2))


@pytest.fixture
def ledger(ledger_of_its_own: Path) -> HoldersLedger:
    return knowing(ledger_of_its_own, "patients", "others")


def model(**changes: Any) -> FastLloyd:
    given: dict[str, Any] = {"bounds": (0.0, 1.0), "n_records": 100, "delta": 1e-5}
    return FastLloyd(3, **(given | changes))


def counted(ledger: HoldersLedger, name: str = "patients") -> int:
    runs = ledger.history().runs.values()
    return sum(run.reserved is not None and run.reserved.dataset == name for run in runs)


def fit(estimator: FastLloyd) -> None:
    estimator.fit(X)


def fit_one_of_its_own(_: object = None) -> None:
    model().fit(X)


def fit_copy_of_its_own(_: object = None) -> None:
    copy.deepcopy(model()).fit(X)


def fit_clone(estimator: FastLloyd) -> None:
    clone(make_pipeline(estimator)).fit(X)


def in_thread(action: Callable[[], object]) -> None:
    """Run it in a thread of its own, which was in no block, and raise what it raises."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(action).result()


# Threads and workers


@pytest.mark.parametrize("backend", ["threading", "loky", "multiprocessing"])
def test_what_joblib_hands_to_workers_is_counted(ledger: HoldersLedger, backend: str) -> None:
    mine = model()
    with package.dataset("patients"), joblib.parallel_config(backend=backend, n_jobs=2):
        joblib.Parallel()(joblib.delayed(fit)(mine) for _ in range(2))
        joblib.Parallel()(joblib.delayed(fit_clone)(mine) for _ in range(2))
    assert counted(ledger) == 4


def test_searches_and_validations_with_workers_are_counted(ledger: HoldersLedger) -> None:
    with package.dataset("patients"):
        cross_val_score(model(), X, cv=2, n_jobs=2, error_score="raise")
        GridSearchCV(model(), {"epsilon": [0.1, 0.2]}, cv=2, n_jobs=2, error_score="raise").fit(X)
    assert counted(ledger) == 2 + 5


def test_a_worker_that_was_forked_inside_knows_of_the_block(ledger: HoldersLedger) -> None:
    context = multiprocessing.get_context("fork")
    with package.dataset("patients"), ProcessPoolExecutor(1, mp_context=context) as pool:
        pool.submit(fit, model()).result()
        pool.submit(fit_clone, model()).result()
        pool.submit(fit_one_of_its_own).result()
    assert counted(ledger) == 3


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])  # noqa: S301
def test_a_copy_from_before_the_block_is_counted_in_a_process_forked_inside(
    copied: Callable[[FastLloyd], FastLloyd], ledger: HoldersLedger
) -> None:
    before = copied(model())
    with package.dataset("patients"):
        child = multiprocessing.get_context("fork").Process(target=fit, args=(before,))
        child.start()
        child.join()
    assert child.exitcode == 0
    assert counted(ledger) == 1


async def fit_later() -> None:
    fit(model())


def fits_one_by_one() -> Iterator[None]:
    fit(model())
    yield


async def fits_later() -> AsyncIterator[None]:
    fit(model())
    yield


def test_only_a_function_that_returns_when_its_work_is_done_is_decorated(
    ledger: HoldersLedger,
) -> None:
    block = package.dataset("patients")
    for function in (fit_later, fits_one_by_one, fits_later):
        with pytest.raises(TypeError, match="coroutine"):
            block(function)
    twice = block(fit_one_of_its_own)
    twice()
    twice()
    assert counted(ledger) == 2


def test_a_worker_from_before_knows_what_it_is_handed_and_nothing_of_what_it_makes(
    ledger: HoldersLedger,
) -> None:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        pool.submit(os.getpid).result()
        with package.dataset("patients"):
            for own in (fit_one_of_its_own, fit_copy_of_its_own):
                with pytest.raises(BudgetError, match="worker process"):
                    pool.submit(own).result()
            pool.submit(fit, model()).result()
            pool.submit(fit_clone, model()).result()
        pool.submit(fit, model()).result()  # it is known that it was pickled outside
    assert counted(ledger) == 2


def test_a_worker_that_names_its_data_set_needs_no_block(ledger: HoldersLedger) -> None:
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        pool.submit(fit, model(dataset="patients")).result()
    assert counted(ledger) == 1


def test_a_fit_of_another_thread_belongs_to_the_open_block(ledger: HoldersLedger) -> None:
    mine = model()
    with package.dataset("patients"):
        in_thread(fit_one_of_its_own)
        in_thread(lambda: mine.fit(X))
        in_thread(lambda: mine.fit_predict(X))
        in_thread(lambda: model(dataset="others").fit(X))  # says that it is of another
        with package.dataset("others"):
            in_thread(fit_one_of_its_own)  # of the innermost
    assert (counted(ledger), counted(ledger, "others")) == (3, 2)


def test_where_several_blocks_are_open_a_fit_outside_them_is_refused(
    ledger: HoldersLedger,
) -> None:
    entered, leave = threading.Event(), threading.Event()

    def other() -> None:
        with package.dataset("others"):
            entered.set()
            leave.wait(60)
            model().fit(X)

    with ThreadPoolExecutor(1) as pool:
        task = pool.submit(other)
        assert entered.wait(60)
        with package.dataset("patients"):
            model().fit(X)
            with pytest.raises(BudgetError, match="open, and this"):
                in_thread(fit_one_of_its_own)
            in_thread(lambda: model(dataset="patients").fit(X))
        leave.set()
        task.result()
    assert (counted(ledger), counted(ledger, "others")) == (2, 1)


def test_tasks_belong_to_the_block_in_which_they_are_made(ledger: HoldersLedger) -> None:
    async def one(name: str) -> None:
        with package.dataset(name):
            await asyncio.sleep(0)
            model().fit(X)
            await asyncio.to_thread(fit_one_of_its_own)

    async def all_of_them() -> None:
        await asyncio.gather(one("patients"), one("others"), one("patients"))
        with package.dataset("patients"):
            later = asyncio.create_task(asyncio.to_thread(fit_one_of_its_own))
        await later

    asyncio.run(all_of_them())
    assert (counted(ledger), counted(ledger, "others")) == (5, 2)


# What an estimator carries


WAYS: dict[str, Callable[[FastLloyd], FastLloyd]] = {
    "clone": clone,
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda each: pickle.loads(pickle.dumps(each)),  # noqa: S301 - made here
    "made": lambda each: type(each)(**each.get_params()),
    "set_params": lambda each: clone(each).set_params(epsilon=0.5, dataset=None),
}


@pytest.mark.parametrize("way", WAYS)
def test_what_is_made_inside_belongs_to_the_block_for_good(ledger: HoldersLedger, way: str) -> None:
    mine = model()
    with package.dataset("patients"):
        inside = WAYS[way](mine)
    inside.fit(X)
    in_thread(lambda: clone(copy.deepcopy(inside)).fit(X))
    assert counted(ledger) == 2
    with package.dataset("others"):
        inside.fit(X)
        mine.fit(X)
    inside.set_params(dataset="others").fit(X)
    assert (counted(ledger), counted(ledger, "others")) == (2, 3)
    with pytest.warns(UncountedFitWarning):
        mine.fit(X)  # made outside and fitted outside


def test_what_is_carried_names_the_ledger_and_is_refused_without_it(
    ledger: HoldersLedger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with package.dataset("patients"):
        carried = pickle.dumps(model())
    monkeypatch.setenv(VARIABLE, str(tmp_path / "elsewhere.store"))
    pickle.loads(carried).fit(X)  # noqa: S301 - made here
    assert counted(ledger) == 1
    for path in ledger.path.parent.glob("ledger.store*"):
        path.rename(tmp_path / path.name)
    with pytest.raises(StateError, match="fit, is missing"):
        pickle.loads(carried).fit(X)  # noqa: S301 - made here
    knowing(ledger.path)
    with pytest.raises(StateError, match="not the ledger"):
        pickle.loads(carried).fit(X)  # noqa: S301 - made here


def test_a_block_whose_ledger_is_lost_meanwhile_makes_no_other(
    ledger_of_its_own: Path, tmp_path: Path
) -> None:
    with package.dataset("patients", new=True):
        for path in ledger_of_its_own.parent.glob("ledger.store*"):
            path.rename(tmp_path / path.name)
        with pytest.raises(StateError, match="fit, is missing"):
            model().fit(X)
    assert not ledger_of_its_own.exists()


# Names and what is said


def test_a_name_that_the_ledger_does_not_know_is_refused_before_anything_is_fitted(
    ledger_of_its_own: Path,
) -> None:
    unknown = f"data set 'patients' is unknown in the ledger {ledger_of_its_own}"
    with pytest.raises(BudgetError, match=unknown), package.dataset("patients"):
        pytest.fail("nothing is inside")
    with pytest.raises(BudgetError, match=unknown):
        model(dataset="patients").fit(X)
    assert not ledger_of_its_own.exists()
    with (
        pytest.warns(LedgerWarning, match=f"{ledger_of_its_own}.* new ledger"),
        package.dataset("patients", new=True),
    ):
        model().fit(X)
    with pytest.raises(BudgetError, match="is not new"), package.dataset("patients", new=True):
        pytest.fail("nothing is inside")
    with pytest.raises(BudgetError, match="you mean 'patients'"), package.dataset("patient"):
        pytest.fail("nothing is inside")


def test_a_fit_that_is_not_counted_says_so_once_and_again_after_a_block(
    ledger: HoldersLedger,
) -> None:
    def said() -> int:
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            model().fit(X)
        return sum(each.category is UncountedFitWarning for each in heard)

    charging._SAID.clear()
    assert [said(), said()] == [1, 0]
    with package.dataset("patients"):
        assert said() == 0
    assert [said(), said()] == [1, 0]


def test_names_that_differ_by_case_and_marks_are_one_inside_too(ledger: HoldersLedger) -> None:
    with package.dataset("Patients"):
        model(dataset="PATIENTS").fit(X)
    assert counted(ledger) == 1


@pytest.fixture
def generators() -> Iterator[list[Generator[None]]]:
    made: list[Generator[None]] = []
    yield made
    for each in made:
        each.close()


def test_a_generator_that_stands_still_inside_a_block_keeps_it_open(
    ledger: HoldersLedger, generators: list[Generator[None]]
) -> None:
    def inside() -> Generator[None]:
        with package.dataset("patients"):
            yield

    generators.append(inside())
    next(generators[0])
    model().fit(X)
    in_thread(fit_one_of_its_own)
    generators[0].close()
    assert counted(ledger) == 2
    with pytest.warns(UncountedFitWarning):
        model().fit(X)


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
def test_a_forked_process_that_outlives_the_block_goes_by_what_an_estimator_carries(
    ledger: HoldersLedger,
) -> None:
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        with package.dataset("patients"):
            pool.submit(fit, model()).result()  # the process is forked here
        pool.submit(fit, model()).result()
    assert counted(ledger) == 1
