"""`fit`, `simulate` and `join` with engines find what one process finds, bit for bit, and read each
part once a pass.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from command_line import PUBLIC, Command, refused
from designs import design_mechanism, design_plan
from fastlloyd.base.randomness import PublicSeed
from fastlloyd.cli.client_progress import of_pass
from fastlloyd.clustering.domain import Domain
from fastlloyd.clustering.grid_records import GridRecords, Outside
from fastlloyd.federation.dealing import deal
from fastlloyd.federation.plan.plan import Client, Masks, Plan, TrustMode
from fastlloyd.jobs import source
from fastlloyd.jobs.client import OwnRecords, own_records
from fastlloyd.jobs.source import TableSource
from fastlloyd.jobs.watching import StoppableWatch, Stopped, Watch, nobody
from fastlloyd.mechanisms.answering import LocalRecords
from fastlloyd.mechanisms.central import rehearse
from fastlloyd.mechanisms.engines.engine import Engine
from fastlloyd.mechanisms.engines.records import EngineRecords
from fastlloyd.mechanisms.engines.tasks import FilePart
from fastlloyd.mechanisms.lloyd.algorithm import FASTLLOYD
from fastlloyd.records import Missing, RecordFile, open_records
from federation import entropy
from network_processes import HANG, NAMES, SERVER, Site

DOMAIN = Domain(features=("age", "dose"), lower=(0.0, 0.0), upper=(100.0, 5.0))
SIZES = (40, 1, 300, 75)
MECHANISM = design_mechanism(
    FASTLLOYD, DOMAIN, n_clusters=2, n_records=500, epsilon=1.0, public_seed=PublicSeed.from_int(1)
)


def of_files(folder: Path, engine: str | None = None) -> TableSource:
    return TableSource(open_records(folder, missing=Missing.DROP), engine=engine)


def own(
    records: TableSource, key: bytes = b"k" * 32, watch: Watch = nobody
) -> AbstractContextManager[OwnRecords]:
    return own_records(records, MECHANISM, Outside.CLIP, key, watch)


QUERIES = rehearse(MECHANISM)


class OneMethod(Engine):
    """An engine as people write it for a cluster of theirs."""

    name = "one method"

    def map(
        self, function: Callable[[Any], Any], pieces: Sequence[Any]
    ) -> Iterator[tuple[int, Any]]:
        return ((i, function(piece)) for i, piece in enumerate(pieces))


class Inline:
    """An engine that works at once; kept_bytes : as of `Engine`. between : is done after each
    part.
    """

    name = "inline"

    def __init__(self, kept_bytes: int = 0, between: Callable[[], None] = lambda: None) -> None:
        self.kept_bytes, self._between = kept_bytes, between

    def map(
        self, function: Callable[[Any], Any], pieces: Sequence[Any]
    ) -> Iterator[tuple[int, Any] | None]:
        for i in reversed(range(len(pieces))):
            yield i, function(pieces[i])
            self._between()
            yield None

    def keep(self, function: Callable[[Any], Any], pieces: Sequence[Any]) -> list[Any]:
        return [function(piece) for piece in pieces]

    def close(self) -> None: ...


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Files of text; some records are outside the bounds, some lack a cell."""
    rng = np.random.default_rng(0)
    (tmp_path / "many").mkdir()
    for i, n in enumerate(SIZES):
        rows = [
            f"{a:.3f},{b:.3f}"
            for a, b in zip(rng.uniform(-5, 100, n), rng.uniform(0, 5, n), strict=True)
        ]
        rows[5::17] = [",1"] * len(rows[5::17])
        (tmp_path / "many" / f"{i}.csv").write_text("\n".join(["age,dose", *rows]) + "\n")
    return tmp_path / "many"


@pytest.mark.parametrize("kept_bytes", [0, 2000, 1 << 20])
def test_the_first_pass_of_an_engine_finds_what_that_of_this_process_finds_and_reads_each_part_once(
    kept_bytes: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fingerprint, how many records there are, and how many are outside or dropped."""
    genuine, opened = FilePart.open, list[int]()

    def counted(part: FilePart) -> RecordFile:
        opened.append(part.number)
        return genuine(part)

    monkeypatch.setattr(FilePart, "open", counted)
    monkeypatch.setattr(source, "started", lambda *_, **__: nullcontext(Inline(kept_bytes)))
    for queries in ((), QUERIES):
        near, far = of_files(folder), of_files(folder, engine="inline")
        with own(near) as here, own(far) as there:
            opened.clear()
            assert there.look(queries).digest == here.look(queries).digest
            assert sorted(opened) == list(range(len(SIZES)))
            assert (there.answers.n, far.clipped, far.dropped) == (
                here.answers.n,
                near.clipped,
                near.dropped,
            )
            for query in QUERIES:
                assert np.array_equal(there.answers.answer(query)[0], here.answers.answer(query)[0])
        with own(far, b"l" * 32) as there, own(near, b"l" * 32) as here:
            assert there.look().digest == here.look().digest


def test_an_owner_stops_a_pass_of_an_engine_between_two_parts(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch, said, has_looked = StoppableWatch(), list[str](), False

    def between() -> None:
        said.append(of_pass(watch.present, 2.0, exact=True))
        if has_looked:
            watch.stop()

    monkeypatch.setattr(source, "started", lambda *_, **__: nullcontext(Inline(between=between)))
    with own(of_files(folder, engine="inline"), watch=watch) as there:
        there.look()
        has_looked = True
        with pytest.raises(Stopped):
            there.answers.answer(QUERIES[0])
    assert len(said) == len(SIZES) + 1
    assert said[0] == ", reading the records for 2 s: 1 of 4 pieces (exact: NOT PRIVATE)"


def plan_of(n_clients: int) -> Plan:
    """A simulation of so many clients."""
    return design_plan(
        FASTLLOYD,
        DOMAIN,
        clients=tuple(Client(name=f"c{i}", max_records=500) for i in range(n_clients)),
        run_id=bytes(16),
        n_clusters=2,
        n_records=500,
        epsilon=1.0,
        public_seed=PublicSeed.from_int(1),
        trust=TrustMode.SERVER_NOISE,
        masks=Masks.GROUP,
        simulated=True,
    )


@pytest.mark.parametrize(
    ("n_clients", "workers"), [(1, Inline(2000)), (3, OneMethod()), (500, Inline(2000))]
)
def test_a_simulation_deals_the_same_records_to_the_same_clients_with_an_engine(
    n_clients: int, workers: Engine, folder: Path
) -> None:
    records, plan = open_records(folder, missing=Missing.DROP), plan_of(n_clients)
    here = LocalRecords(DOMAIN, GridRecords(records, DOMAIN, Outside.CLIP, source="here"))
    far = EngineRecords.of_files(records, DOMAIN, Outside.CLIP, workers)
    alone, away = (deal(plan, whole, random_bytes=entropy("deal")) for whole in (here, far))
    assert [share.n for share in away] == [share.n for share in alone]
    for mine, theirs in zip(alone, away, strict=True):
        answer, n = theirs.answer(QUERIES[0])
        assert np.array_equal(answer, mine.answer(QUERIES[0])[0])
        assert n == mine.n


def test_fit_and_simulate_with_an_engine(fastlloyd: Command, here: Path, address: str) -> None:
    for name in ("local:2", f"dask://{address}"):
        for command in (("fit",), ("simulate", "--clients", "3")):
            code, out, err = fastlloyd(
                command[0], "data.csv", *PUBLIC, *command[1:], "--no-out", "--engine", name
            )
            assert code == 0, err
            assert "momentlloyd: centroids" in out
            assert ("Engine: dask" in err) == name.startswith("dask")
    refused(fastlloyd("fit", "data.csv", *PUBLIC, "--engine", "spark"), "--engine", "local:N")


def test_clients_in_memory_in_passes_and_on_dask_have_the_result_of_plain_integers(
    site: Site, address: str
) -> None:
    """`c` has its records in two files, which only the workers of a cluster read."""
    head, *rows = (site.folder / "c.csv").read_text().splitlines()
    (site.folder / "c").mkdir()
    for i in range(2):
        (site.folder / "c" / f"{i}.csv").write_text("\n".join([head, *rows[i::2]]) + "\n")
    commands = {
        SERVER: site.serve(),
        "a": site.join("a"),
        "b": site.join("b"),
        "c": site.join("c", "--data", "c", "--engine", f"dask://{address}", without=["--data"]),
    }
    marks = {"b": {"large": True}}
    running = [
        site.start(
            name,
            command,
            {"fast": True, "noise": "(server)" if name == SERVER else name} | marks.get(name, {}),
        )
        for name, command in commands.items()
    ]
    assert [process.wait(HANG) for process in running] == [0] * (1 + len(NAMES)), site.said("c")
    assert "must be yours alone" in site.said("c")
    site.check_results()
