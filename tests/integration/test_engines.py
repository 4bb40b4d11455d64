"""Engines: processes of this machine and a Dask cluster give the integers of one process, or say in
a sentence why not.
"""

import importlib
import os
import pickle
import pickletools
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from designs import design_mechanism
from fastlloyd.base.randomness import PublicSeed
from fastlloyd.clustering.domain import Domain, Scaling
from fastlloyd.clustering.grid_records import GridRecords, Outside
from fastlloyd.errors import DataError, EngineError
from fastlloyd.jobs.engines import engine
from fastlloyd.mechanisms import central
from fastlloyd.mechanisms.answering import LocalRecords
from fastlloyd.mechanisms.engines import dask
from fastlloyd.mechanisms.engines.engine import Engine
from fastlloyd.mechanisms.engines.local import LocalEngine
from fastlloyd.mechanisms.engines.records import EngineRecords
from fastlloyd.mechanisms.engines.tasks import Ask, Fault, FilePart
from fastlloyd.mechanisms.lloyd.algorithm import FASTLLOYD
from fastlloyd.mechanisms.moment_lloyd.rounds import MOMENTLLOYD
from fastlloyd.mechanisms.settings import AnyAlgorithm
from fastlloyd.records import Missing, open_records
from fastlloyd.records.recipe import Recipe
from fastlloyd.records.recipe.rows import Using
from fastlloyd.testing import SeededNoise
from record_files import SECRET, pa, pq

DOMAIN = Domain(features=("a", "b"), lower=(0.0, 0.0), upper=(100.0, 5.0))
SIZES = (40, 1, 300, 0, 75, 20, 33, 64)
pytestmark = pytest.mark.usefixtures("repeatable_noise")


@pytest.fixture(scope="module", params=["local", "dask"])
def workers(request: pytest.FixtureRequest, address: str) -> Iterator[Engine]:
    """Two workers of each kind."""
    started = engine("local:2" if request.param == "local" else f"dask://{address}")
    yield started
    started.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Eight files, one of them without records; some records are outside the bounds, some lack a
    cell.
    """
    rng = np.random.default_rng(0)
    for i, n in enumerate(SIZES):
        a, b = rng.choice([20.0, 80.0], n) + rng.normal(0, 12, n), rng.uniform(0, 5, n)
        a[5::17] = np.nan
        pq.write_table(
            pa.table({"a": pa.array(a.astype("f4")), "b": pa.array(b)}),
            tmp_path / f"{i}.parquet",
            row_group_size=50,
        )
    return tmp_path


def far(
    folder: Path, workers: Engine, missing: Missing = Missing.DROP, **given: Any
) -> EngineRecords:
    return EngineRecords.of_files(
        open_records(folder, missing=missing), DOMAIN, Outside.CLIP, workers, **given
    )


def test_workers_apply_a_recipe_as_one_process_does(tmp_path: Path, workers: Engine) -> None:
    features = {
        "crp": {"bounds": [0.3, 400], "transform": "log", "below": "bound", "missing": "drop"},
        "ward": {"categories": ["a", "b"], "other": "none", "missing": "none"},
        "day": {"date": "%d.%m.%Y", "bounds": ["2023-01-01", "2023-12-31"], "missing": "middle"},
    }
    using = Using(features=Recipe.of({"features": features}).features)
    for i in range(3):
        rows = (f"{j / 7};{'abc'[j % 3]};{1 + j % 28}.{1 + i}.2023" for j in range(1, 300))
        text = "\n".join(["crp;ward;day", "<0.3;;", ";a;1.1.2023", *rows, ""])
        (tmp_path / f"{i}.csv").write_text(text)
    domain = Domain.of_recipe(using.features, scaling=Scaling.PER_FEATURE)
    file = open_records(tmp_path, recipe=using)
    records = EngineRecords.of_files(file, domain, Outside.CLIP, workers)
    rows_here = GridRecords(file, domain, Outside.CLIP, source="here")
    expected = sum(np.sum(block, axis=0) for block in rows_here)
    assert np.array_equal(records.total(Total(shape=(4,)))[0], expected)
    assert records.dropped == 3


class Total(NamedTuple):
    """Exact sum of grid points."""

    shape: tuple[int, ...]

    def evaluate(self, X: Any, _first: int, /) -> Any:
        return X.sum(axis=0, dtype=np.int64)


def question() -> Any:
    m = design_mechanism(
        FASTLLOYD,
        DOMAIN,
        n_clusters=2,
        n_records=1000,
        epsilon=1.0,
        public_seed=PublicSeed.from_int(1),
    )
    return m.query(0, m.start())


@pytest.mark.parametrize("algorithm", [FASTLLOYD, MOMENTLLOYD])
@pytest.mark.parametrize("kept_bytes", [0, 1000, 1 << 20])
def test_workers_give_the_integers_of_one_process(
    algorithm: AnyAlgorithm,
    kept_bytes: int,
    folder: Path,
    workers: Engine,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(workers, "kept_bytes", kept_bytes)
    m = design_mechanism(
        algorithm,
        DOMAIN,
        n_clusters=3,
        n_records=1000,
        epsilon=1.0,
        public_seed=PublicSeed.from_int(1),
        estimate_loss=True,
    )
    records = open_records(folder, missing=Missing.DROP)
    here = GridRecords(records, DOMAIN, Outside.CLIP, source="here")
    expected = central.cluster(m, LocalRecords(DOMAIN, here), SeededNoise(7))
    dropped, records.dropped = records.dropped, None
    steps: list[tuple[int, int]] = []
    away = EngineRecords.of_files(
        records, DOMAIN, Outside.CLIP, workers, lambda *step: steps.append(step)
    )
    found = central.cluster(m, away, SeededNoise(7))
    assert np.array_equal(found.centroids, expected.centroids)
    assert np.array_equal(found.answer, expected.answer)
    assert (found.loss, away.clipped, away.dropped) == (expected.loss, here.clipped, dropped)
    assert here.n_outside > 0
    assert dropped
    assert [done for done, _ in dict.fromkeys(steps)] == list(range(len(SIZES) + 1))
    assert steps.count((len(SIZES), len(SIZES))) == m.n_rounds


def test_what_a_killed_worker_of_dask_had_is_done_again_and_counts_once(
    folder: Path, address: str
) -> None:
    cluster = dask.DaskEngine.connected(address)
    [pid, *_] = cluster._client.run(os.getpid).values()
    killed: list[int] = []

    def kill(_done: int, _of: int) -> None:
        if away.n is not None and not killed:  # in the second pass, when pieces are kept
            killed.append(pid)
            os.kill(pid, signal.SIGKILL)

    away = far(folder, cluster, report=kill)
    first, n = away.answer(question())
    second, again = away.answer(question())
    cluster.close()
    assert killed
    assert np.array_equal(first, second)
    assert n == again == away.n


def test_a_cluster_without_workers_ends_the_run_after_a_stated_time(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = list[tuple[int, int]]()
    monkeypatch.setattr(dask, "_ALONE", 0.3)
    monkeypatch.setattr(dask, "PULSE", 0.1)
    distributed = importlib.import_module("distributed")
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0"
    ) as cluster:
        away = far(
            folder,
            dask.DaskEngine(cluster.get_client(), "dask"),
            report=lambda *step: steps.append(step),
        )
        away.answer(question())
        cluster.sync(cluster.workers[0].close)
        steps.clear()
        with pytest.raises(EngineError, match=r"workers for 0\.3"):
            away.answer(question())
    assert steps[:3] == [(0, len(SIZES))] * 3  # whoever hears them may give up meanwhile


def test_a_scheduler_that_is_gone_ends_the_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dask, "_PATIENCE", 1)
    distributed = importlib.import_module("distributed")
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0", protocol="tcp"
    ) as cluster:
        workers = dask.DaskEngine.connected(cluster.scheduler_address.removeprefix("tcp://"))
        away = far(folder, workers)
        away.answer(question())
    for _ in range(2):
        with pytest.raises(EngineError, match=r"dask://.*could not do"):
            away.answer(question())
    workers.close()


def test_a_process_that_is_killed_ends_the_pass_in_a_sentence(folder: Path) -> None:
    workers = LocalEngine(2)

    def kill(_done: int, _of: int) -> None:
        for worker in workers._workers:
            os.kill(worker.process.pid or 0, signal.SIGKILL)

    with pytest.raises(EngineError, match="local:2"):
        far(folder, workers, report=kill).answer(question())
    workers.close()
    assert not any(worker.process.is_alive() for worker in workers._workers)


def test_a_pass_that_is_given_up_holds_up_no_other_however_large_its_answers_are() -> None:
    workers, pieces = (
        LocalEngine(1),
        [np.full(1 << 17, float(i)) for i in range(3)],
    )  # more than a pipe holds
    try:
        for n_taken in (1, 0, 2):
            given_up = (came for came in workers.map(np.negative, pieces) if came is not None)
            assert [number for number, _ in islice(given_up, n_taken)] == list(range(n_taken))
            given_up.close()
        found = dict(came for came in workers.map(np.negative, pieces) if came is not None)
    finally:
        workers.close()
    assert {number: set(values) for number, values in found.items()} == {
        0: {0.0},
        1: {-1.0},
        2: {-2.0},
    }


def test_a_worker_with_other_code_is_refused(folder: Path, workers: Engine) -> None:
    task = replace(
        Ask(domain=DOMAIN, outside=Outside.CLIP, asked=question()), code="of another version"
    )
    pieces = [
        FilePart(i, piece)
        for i, piece in enumerate(open_records(folder, missing=Missing.DROP).pieces)
    ]
    found = [came[1] for came in workers.map(task, pieces) if came is not None]
    assert len(found) == len(pieces)
    assert all(isinstance(fault, Fault) and "version" in fault.sentence for fault in found)


def test_a_file_that_changes_between_passes_is_seen_here_and_on_workers(
    folder: Path, workers: Engine
) -> None:
    ask, open_pieces = (
        Ask(domain=DOMAIN, outside=Outside.CLIP, asked=question()),
        open_records(folder).pieces,
    )
    for change in (Path.unlink, lambda path: path.write_bytes(b"")):
        away = far(folder, workers)
        away.answer(question())
        path = folder / "2.parquet"
        content = path.read_bytes()
        change(path)
        with pytest.raises(DataError, match=r"2\.parquet"):
            away.answer(question())
        part = FilePart(0, open_pieces[2])
        [fault] = [came[1] for came in workers.map(ask, [part]) if came is not None]
        assert isinstance(fault, Fault)
        assert str(path) in fault.sentence
        path.write_bytes(content)


def test_a_bad_cell_is_named_by_file_record_and_column(folder: Path, workers: Engine) -> None:
    with pytest.raises(DataError, match=r"[0-9]\.parquet, record 6, column 'a'"):
        far(folder, workers, Missing.REFUSE).answer(question())
    assert (
        far(folder, workers).answer(question())[1] > 400
    )  # a pass that is given up leaves nothing behind
    (folder / "text").mkdir()
    for i in range(3):
        (folder / "text" / f"{i}.csv").write_text(
            "a,b\n1,2\n" + (f"{SECRET},2\n" if i == 1 else "")
        )
    with pytest.raises(DataError, match=r"1\.csv, line 3, column 'a'") as refused:
        far(folder / "text", workers).answer(question())
    assert SECRET not in str(refused.value)


def test_no_log_of_a_cluster_has_a_cell(folder: Path) -> None:
    distributed = importlib.import_module("distributed")
    (folder / "text").mkdir()
    (folder / "text" / "1.csv").write_text(f"a,b\n1,2\n{SECRET},2\n")
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0"
    ) as cluster:
        workers = dask.DaskEngine(cluster.get_client(), "dask")
        with pytest.raises(DataError, match=r"1\.csv, line 3"):
            far(folder / "text", workers).answer(question())
        assert SECRET not in str(cluster.get_logs())


def test_workers_are_sent_questions_and_places_and_nothing_of_noise_keys_or_stores(
    folder: Path,
) -> None:
    sent = list[Any]()

    class Telling:
        name, kept_bytes = "telling", 1 << 20

        def map(
            self, function: Callable[[Any], Any], pieces: Sequence[Any]
        ) -> Iterator[tuple[int, Any]]:
            sent.extend([function, *pieces])
            return ((i, function(piece)) for i, piece in enumerate(pieces))

        def keep(self, function: Callable[[Any], Any], pieces: Sequence[Any]) -> list[Any]:
            sent.extend([function, *pieces])
            return [function(piece) for piece in pieces[:2]] + list(pieces[2:])

        def close(self) -> None: ...

    m = design_mechanism(
        MOMENTLLOYD,
        DOMAIN,
        n_clusters=3,
        n_records=1000,
        epsilon=1.0,
        public_seed=PublicSeed.from_int(1),
    )
    central.cluster(m, far(folder, Telling()), SeededNoise(7))
    modules = set[str]()
    for thing in sent:
        strings = list[str]()
        for code, value, _ in pickletools.genops(pickle.dumps(thing)):
            if isinstance(value, str):
                strings.append(value)
            if code.name == "STACK_GLOBAL":
                modules.update(text for text in strings[-2:] if text.startswith("fastlloyd."))
    assert {name for name in modules if not name.startswith("fastlloyd.mechanisms.queries.")} <= {
        "fastlloyd.clustering.domain",
        "fastlloyd.clustering.grid_records",
        "fastlloyd.clustering.outside",
        "fastlloyd.mechanisms.engines.tasks",
        "fastlloyd.records.files",
        "fastlloyd.records.layout",
        "fastlloyd.records.pieces",
        "fastlloyd.records.reader",
    }


def test_what_is_no_scheduler_and_one_without_workers_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dask, "_PATIENCE", 1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(EngineError, match="no Dask scheduler"):
            dask.DaskEngine.connected(f"127.0.0.1:{port}")
    with pytest.raises(EngineError, match="no Dask scheduler"):
        dask.DaskEngine.connected(f"127.0.0.1:{port}")
    distributed = importlib.import_module("distributed")
    with (
        distributed.LocalCluster(n_workers=0, dashboard_address=":0") as cluster,
        pytest.raises(EngineError, match="no workers"),
    ):
        dask.DaskEngine.connected(cluster.scheduler_address.removeprefix("tcp://"))


def test_a_worker_is_no_scheduler(address: str, capfd: pytest.CaptureFixture[str]) -> None:
    with importlib.import_module("distributed").Client(address) as client:
        worker = next(iter(client.scheduler_info()["workers"]))
    with pytest.raises(EngineError, match="no Dask scheduler"):
        dask.DaskEngine.connected(worker.removeprefix("tcp://"))
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("host", ["cluster.example.org", "192.0.2.7", "[2001:db8::1]"])
def test_who_holds_keys_meets_a_cluster_of_other_machines_by_tls_only(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dask's messages can run code."""
    met = list[str]()

    def greet(_distributed: object, url: str) -> None:
        met.append(url)
        raise OSError

    monkeypatch.setattr(dask, "_greet", greet)
    with pytest.raises(EngineError, match="cluster as tls://"):
        engine(f"dask://{host}:8786", holds_keys=True)
    assert met == []
    for guarded, holds_keys in (
        (f"dask://{host}:1", False),
        ("dask://127.0.0.1:2", True),
        ("dask://[::1]:3", True),
    ):
        with pytest.raises(EngineError, match="no Dask scheduler"):
            engine(guarded, holds_keys=holds_keys)
    assert met == [f"tcp://{host}:1", "tcp://127.0.0.1:2", "tcp://[::1]:3"]


def test_tls_is_used_where_dask_has_certificates_and_refused_where_it_has_none(
    folder: Path,
) -> None:
    distributed = importlib.import_module("distributed")
    with pytest.raises(EngineError, match="names no certificates"):
        engine("tls://127.0.0.1:8786")
    known = distributed.Security.temporary()
    tls = {
        "ca-file": known.tls_ca_file,
        "client.cert": known.tls_client_cert,
        "client.key": known.tls_client_key,
    }
    with distributed.LocalCluster(
        n_workers=1,
        threads_per_worker=1,
        processes=False,
        dashboard_address=":0",
        protocol="tls",
        security=known,
    ) as cluster:
        with importlib.import_module("dask").config.set(
            {f"distributed.comm.tls.{name}": text for name, text in tls.items()}
        ):
            workers = engine(cluster.scheduler_address)
            assert far(folder, workers).answer(question())[1] > 400
            workers.close()
        with pytest.raises(EngineError, match="no Dask scheduler"):
            engine(cluster.scheduler_address.replace("tls", "dask"))
