"""Tests of folders of results and of the order of trials: no row is lost, repeated or mixed with
rows of another experiment.
"""

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastlloyd.errors import DataError, OutputError
from fastlloyd_lab.experiments.reading import read
from fastlloyd_lab.experiments.results import Folder, read_rows
from fastlloyd_lab.experiments.trial import Trial
from fastlloyd_lab.experiments.workers import Schedule

TRIAL = Trial(
    dataset="a",
    method="fastlloyd",
    method_source="fastlloyd",
    epsilon=0.1,
    delta="paper",
    clients=2,
    preset="paper",
    options={"alpha": 0.4, "clipping": True},
    run=0,
    measures=("davies_bouldin",),
    seed=1,
)
LLOYD = msgspec.structs.replace(
    TRIAL, method="lloyd", method_source="lloyd", epsilon=math.inf, delta=0.0, options={}
)
ROW = {
    "dataset": "a",
    "n_records": 9,
    "n_features": 2,
    "n_clusters": 3,
    "method": "fastlloyd",
    "epsilon": 0.1,
    "delta": 1e-3,
    "clients": 2,
    "run": 0,
    "alpha": 0.4,
    "clipping": True,
    "status": "ok",
    "davies_bouldin": math.inf,
    "n_iterations": 4,
    "seconds": 0.1 + 0.2,
}
ROW_OF_LLOYD = {name: value for name, value in ROW.items() if name not in ("alpha", "clipping")} | {
    "method": "lloyd",
    "epsilon": math.inf,
    "delta": 0.0,
}
FAILED = {
    name: ROW[name] for name in ("dataset", "method", "epsilon", "clients", "alpha", "clipping")
} | {"run": 1, "delta": None, "status": "failed", "error": 'says, "no"'}


def provenance(**changed: Any) -> dict[str, Any]:
    return {"fastlloyd": "0", "code": {"a.py:B": "e"}, "datasets": {}, "sessions": []} | changed


def opened(path: Path, **changed: Any) -> Folder:
    return Folder(path, provenance(**changed))


@pytest.fixture
def written(tmp_path: Path) -> Path:
    out = tmp_path / "out"
    with opened(out) as folder:
        for row in (ROW_OF_LLOYD, FAILED, ROW):
            folder.append(row)
        folder.finish([TRIAL, LLOYD, msgspec.structs.replace(TRIAL, run=1)], {"trials": 3})
    return out


def test_rows_come_back_as_they_were_infinite_ones_too(written: Path) -> None:
    assert read_rows(written) == {
        LLOYD.key: ROW_OF_LLOYD,
        msgspec.structs.replace(TRIAL, run=1).key: FAILED,
        TRIAL.key: ROW,
    }


def _order(folder: Path) -> list[tuple[str, int]]:
    rows = map(json.loads, (folder / "trials.jsonl").read_text().splitlines())
    return [(row["method"], row["run"]) for row in rows]


def test_in_the_end_the_rows_have_the_order_of_the_trials(written: Path) -> None:
    assert _order(written) == [("fastlloyd", 0), ("lloyd", 0), ("fastlloyd", 1)]


def test_every_row_of_the_folder_stays_when_fewer_trials_are_asked_for(written: Path) -> None:
    with opened(written) as folder:
        folder.finish([LLOYD], None)
    # what is asked for, then the others as they came
    assert _order(written) == [("lloyd", 0), ("fastlloyd", 0), ("fastlloyd", 1)]
    assert len(read(written).rows) == 3


@given(st.data())
def test_wherever_the_last_line_is_cut_the_rows_before_it_stay(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    out = tmp_path_factory.mktemp("torn")
    with opened(out) as folder:
        folder.append(ROW)
        whole = (out / "trials.jsonl").read_bytes()
        folder.append(ROW_OF_LLOYD)
    content = (out / "trials.jsonl").read_bytes()
    (out / "trials.jsonl").write_bytes(
        content[: data.draw(st.integers(len(whole), len(content) - 1))]
    )
    assert read_rows(out) == {TRIAL.key: ROW}
    with opened(out) as folder:
        assert folder.rows == {TRIAL.key: ROW}
        folder.append(ROW_OF_LLOYD)
    assert (out / "trials.jsonl").read_bytes() == content


def test_a_line_that_was_changed_is_named(written: Path) -> None:
    lines = (written / "trials.jsonl").read_text().splitlines()
    (written / "trials.jsonl").write_text("\n".join([lines[0], lines[1][:-3], lines[2], ""]))
    with pytest.raises(DataError, match="line 2 of"):
        opened(written)
    opened_again = (written / "trials.jsonl-lock").exists()
    assert opened_again  # and free: the next one gets as far
    with pytest.raises(DataError, match="line 2 of"):
        opened(written)


def test_two_runners_do_not_share_a_folder(written: Path) -> None:
    with opened(written), pytest.raises(OutputError, match="by another run"):
        opened(written)
    with opened(written) as folder:
        assert len(folder.rows) == 3


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"fastlloyd": "1"}, "version"),
        ({"sampler": "d"}, "sampler"),
        ({"code": {"a.py:B": "f"}}, "code"),
    ],
)
def test_a_folder_of_something_else_is_refused_and_left_as_it_is(
    written: Path, changed: dict[str, Any], what: str
) -> None:
    before = {path: path.read_bytes() for path in written.iterdir()}
    with pytest.raises(OutputError, match=f"results of another.*{what}"):
        opened(written, **changed)
    assert {path: path.read_bytes() for path in written.iterdir()} == before


@pytest.mark.parametrize("content", ["", "[]", "{}", "{"])
def test_a_provenance_that_is_none_is_refused(written: Path, content: str) -> None:
    (written / "provenance.json").write_text(content)
    with pytest.raises(OutputError, match="provenance"):
        opened(written)


def test_sessions_and_sets_are_remembered(written: Path) -> None:
    with opened(written) as folder:
        folder.note_set(ROW, "abc")
        folder.finish([], {"trials": 0})
    content = json.loads((written / "provenance.json").read_text())
    assert content["sessions"] == [{"trials": 3}, {"trials": 0}]
    assert content["datasets"] == {
        "a": {"sha256": "abc", "n_records": 9, "n_features": 2, "n_clusters": 3}
    }


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="cannot be made"):
        opened(tmp_path / "file" / "out")


def many(sizes: list[int]) -> list[Trial]:
    return [
        msgspec.structs.replace(TRIAL, dataset=str(name), run=run)
        for name, n in enumerate(sizes)
        for run in range(n)
    ]


@given(st.lists(st.integers(1, 6), min_size=1, max_size=4), st.integers(1, 4), st.data())
def test_every_trial_is_taken_once_whoever_asks_when(
    sizes: list[int], n_workers: int, data: st.DataObject
) -> None:
    trials, taken = many(sizes), []
    schedule = Schedule(trials)
    current: list[str | None] = [None] * n_workers
    while schedule.any_left:
        worker = data.draw(st.integers(0, n_workers - 1))
        trial = schedule.take(current[worker])
        assert trial is not None
        current[worker] = trial.dataset
        if data.draw(st.integers(0, 9)) == 9:
            schedule.put_back(trial)
        else:
            taken.append(trial.key)
    assert schedule.take(None) is None
    assert Counter(taken) == Counter(trial.key for trial in trials)


def test_a_process_stays_with_its_set_and_then_helps_where_most_is_left() -> None:
    schedule = Schedule(many([2, 3, 6]))
    first = [schedule.take(None), schedule.take("0")]
    assert [(t.dataset, t.run) for t in first if t] == [("0", 0), ("0", 1)]
    second = schedule.take(None)
    assert second is not None
    assert second.dataset == "1"  # nobody has it at hand
    third = schedule.take("0")
    assert third is not None
    assert third.dataset == "2"
    fourth = schedule.take(None)
    assert fourth is not None
    assert fourth.dataset == "2"  # all are in hand; of this one most is left


def test_runs_of_one_number_are_taken_together() -> None:
    methods = [
        msgspec.structs.replace(TRIAL, method=method, run=run)
        for method in ("glloyd", "fastlloyd")
        for run in range(3)
    ]
    schedule = Schedule(methods)
    assert [trial.run for _ in methods if (trial := schedule.take("a")) is not None] == [
        0,
        0,
        1,
        1,
        2,
        2,
    ]
