"""Commands on files of persons that are read in passes: the same as in memory, or one sentence."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from command_line import Command, refused, strict
from fastlloyd.base.randomness import PublicSeed
from fastlloyd.clustering import grid_records
from fastlloyd.clustering.domain import Domain
from fastlloyd.clustering.grid_records import Outside
from fastlloyd.federation.fingerprint import Fingerprint
from fastlloyd.jobs.client import OwnRecords, own_records
from fastlloyd.jobs.source import TableSource
from fastlloyd.jobs.watching import StoppableWatch, Stopped, Watch, nobody
from fastlloyd.mechanisms.catalogue import design
from fastlloyd.mechanisms.central import rehearse
from fastlloyd.mechanisms.moment_lloyd.rounds import MOMENTLLOYD
from fastlloyd.mechanisms.passes.records import PersonsInPasses
from fastlloyd.mechanisms.persons import Persons
from fastlloyd.mechanisms.settings import Settings
from fastlloyd.records import RecordFile, Table, open_records, read_table, reading

PUBLIC = (
    "--bounds",
    "age=0:100,dose=0:5",
    "-k",
    "3",
    "--public-seed",
    "8",
    "--unit-column",
    "patient",
)
VISITS = (*PUBLIC, "--n-records", "150")
WITHOUT_NOISE = ("--algorithm", "lloyd", "--json", "--no-out")


@pytest.fixture
def visits(here: Path) -> Path:
    """A file of rows of 100 patients, from 1 to 17 each."""
    rng = np.random.default_rng(3)
    ids = np.repeat(np.arange(100), rng.integers(1, 18, 100))
    X = np.array([[20, 1], [50, 4], [80, 2]])[ids % 3] + rng.normal(0, [3, 0.2], (len(ids), 2))
    path = here / "visits.csv"
    rows = [f"{X[i, 0]:.6f},P{ids[i]:03d},{X[i, 1]:.6f}" for i in rng.permutation(len(ids))]
    path.write_text("age,patient,dose\n" + "\n".join(rows) + "\n")
    return path


@pytest.fixture
def in_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are read anew in every pass from now on, however small they are."""
    monkeypatch.setattr(reading, "LARGE_TEXT", 0)
    made = grid_records.GridRecords.__init__
    defaults = {**(made.__kwdefaults__ or {}), "kept_cells": 0}
    monkeypatch.setattr(made, "__kwdefaults__", defaults)


def test_without_noise_the_result_in_passes_is_that_in_memory(
    fastlloyd: Command, visits: Path, request: pytest.FixtureRequest
) -> None:
    question = ("fit", visits.name, *VISITS, *WITHOUT_NOISE)
    of_memory = strict(fastlloyd(*question).out)
    request.getfixturevalue("in_passes")
    assert strict(fastlloyd(*question).out)["clusters"] == of_memory["clusters"]


@pytest.mark.usefixtures("in_passes")
@pytest.mark.parametrize("spread", [(), ("--max-clients-per-person", "2")])
def test_patients_of_a_file_in_passes_are_dealt_out_to_clients(
    fastlloyd: Command, visits: Path, spread: tuple[str, ...]
) -> None:
    outcome = fastlloyd(
        "simulate",
        visits.name,
        "--clients",
        "4",
        *PUBLIC,
        "--n-records",
        "250",
        *spread,
        "--json",
        "--no-out",
    )
    assert len(strict(outcome.out)["clusters"]) == 3


@pytest.mark.usefixtures("in_passes")
def test_patients_are_counted_in_passes_where_their_number_is_taken_from_the_data(
    fastlloyd: Command, visits: Path
) -> None:
    found = strict(
        fastlloyd("fit", visits.name, *PUBLIC, "--n-records", "from-data", *WITHOUT_NOISE[2:]).out
    )
    assert found["privacy"]["n_records_cap"] == 100


@pytest.mark.usefixtures("in_passes")
def test_more_patients_than_the_cap_are_refused_in_passes(fastlloyd: Command, visits: Path) -> None:
    for command in (("fit",), ("simulate", "--clients", "3")):
        outcome = fastlloyd(
            command[0], visits.name, *command[1:], *PUBLIC, "--n-records", "99", "--no-out"
        )
        refused(outcome, "there are more persons than the cap of 99")


@pytest.mark.usefixtures("in_passes")
def test_bounds_of_patients_are_found_in_passes_too(fastlloyd: Command, visits: Path) -> None:
    question = ("--range", "-1000:1000", "--epsilon", "20", "-k", "3", *VISITS[6:])
    assert fastlloyd("fit", visits.name, *question, "--public-seed", "1", "--no-out").code == 0


@pytest.mark.usefixtures("in_passes")
def test_a_file_of_patients_whose_rows_move_between_two_passes_is_refused(
    fastlloyd: Command, visits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the file system does not show it."""
    genuine, passes = RecordFile.blocks_to_check, list[None]()

    def moves(file: RecordFile) -> Iterator[Any]:
        for first, block in genuine(file):
            if passes:
                block.arrays = tuple(np.roll(array, 1) for array in block.arrays)  # type: ignore[union-attr]
            yield first, block
        passes.append(None)

    monkeypatch.setattr(RecordFile, "blocks_to_check", moves)
    refused(
        fastlloyd("fit", visits.name, *VISITS, "--out", "result"),
        "visits.csv",
        "changed after the",
    )
    assert not Path("result").exists()


# A client's own records

DOMAIN = Domain(features=("age", "dose"), lower=(0.0, 0.0), upper=(100.0, 5.0))
KEY = b"k" * 32


def mechanism() -> Any:
    return design(
        Settings(
            algorithm=MOMENTLLOYD, domain=DOMAIN, n_clusters=3, n_records=150, epsilon=1.0, persons=Persons(),
            public_seed=PublicSeed.from_int(0),
        )
    )  # fmt: skip


def own(
    records: Table | RecordFile, mechanism: Any, watch: Watch = nobody
) -> AbstractContextManager[OwnRecords]:
    return own_records(TableSource(records), mechanism, Outside.CLIP, KEY, watch)


def test_a_client_answers_and_knows_its_records_in_passes_as_in_memory(
    visits: Path, request: pytest.FixtureRequest
) -> None:
    m = mechanism()
    with own(read_table(visits, ["age", "dose"], unit="patient"), m) as of_memory:
        known = of_memory.look()
        request.getfixturevalue("in_passes")
        with own(open_records(visits, ["age", "dose"], unit="patient"), m) as of_passes:
            assert isinstance(of_passes.answers, PersonsInPasses)
            found = of_passes.look(rehearse(m))
            assert (found.digest, found.of_persons) == (known.digest, known.of_persons)
            assert found.of_persons not in (None, found.digest)
            assert of_passes.answers.n == of_memory.answers.n == 100
            assert of_passes.seconds > 0
            for query in rehearse(m):
                assert (
                    of_passes.answers.answer(query)[0].tobytes()
                    == of_memory.answers.answer(query)[0].tobytes()
                )
    with own(open_records(visits, ["age", "dose"]), m) as of_records:
        assert of_records.look() == Fingerprint(found.digest)


@pytest.mark.usefixtures("in_passes")
def test_a_pass_over_persons_stops_when_its_owner_says_so(visits: Path) -> None:
    watch, m = StoppableWatch(), mechanism()
    with own(open_records(visits, ["age", "dose"], unit="patient"), m, watch) as records:
        records.look()
        watch.stop()
        with pytest.raises(Stopped):
            records.answers.answer(rehearse(m)[0])
    assert watch.present is None
