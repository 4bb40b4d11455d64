"""Ctrl-C, SIGTERM and SIGHUP: one line says what was spent and what was written until then."""

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from command_line import FIT, PUBLIC, SIMULATE, Command, tree
from fastlloyd.cli import results
from fastlloyd.mechanisms import central

ON = ("--dataset", "visits", "--new-dataset", "--ledger", "mine.store")
ESTIMATE = ("bounds", "estimate", "data.csv", "--range", "0:1000", "--n-records", "5000")
COMMANDS = {
    "fit": (*FIT, "--out", "result"),
    "simulate": (*SIMULATE, "--out", "result"),
    "bounds": (*ESTIMATE, "--epsilon", "10", "--out", "bounds.toml"),
}


def _interrupt(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


WAYS: dict[int, Callable[..., None]] = {
    130: _interrupt,
    128 + signal.SIGTERM: lambda *_, **__: signal.raise_signal(signal.SIGTERM),
    128 + signal.SIGHUP: lambda *_, **__: signal.raise_signal(signal.SIGHUP),
}


@pytest.fixture(autouse=True)
def handlers_are_as_before() -> Iterator[None]:
    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = list(map(signal.getsignal, numbers))
    assert before == [signal.SIG_DFL] * 2
    yield
    assert list(map(signal.getsignal, numbers)) == before


def _spent(fastlloyd: Command) -> float:
    shown = fastlloyd("ledger", "show", "mine.store", "--json")
    return float(json.loads(shown.out)["data_sets"][0]["spent"]["epsilon"])


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("code", WAYS)
def test_before_a_run_nothing_is_spent_or_written(
    fastlloyd: Command, here: Path, monkeypatch: pytest.MonkeyPatch, name: str, code: int
) -> None:
    before = tree(here)
    for module in ("fit", "simulate", "bounds"):
        monkeypatch.setattr(f"fastlloyd.jobs.{module}.opened", WAYS[code])
    said = fastlloyd(*COMMANDS[name], *ON)
    assert said == (code, "", "Interrupted. Nothing was spent. No result was written.\n")
    assert tree(here) == before


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("expected", WAYS)
def test_within_a_run_the_line_says_what_the_ledger_says(
    fastlloyd: Command, here: Path, monkeypatch: pytest.MonkeyPatch, name: str, expected: int
) -> None:
    before = tree(here).keys()
    with monkeypatch.context() as patch:
        for where in ("mechanisms.central.cluster", "mechanisms.central.release"):
            patch.setattr(f"fastlloyd.{where}", WAYS[expected])
        patch.setattr("fastlloyd.federation.simulation.simulate", WAYS[expected])
        code, out, err = fastlloyd(*COMMANDS[name], *ON)
    assert (code, out) == (expected, "")
    assert {name.partition(".")[0] for name in tree(here).keys() - before} == {"mine"}
    said = err.splitlines()[-1]
    assert said.startswith("Interrupted. All runs so far on data set 'visits' spent epsilon ")
    assert said.endswith(" No result was written.")
    assert (_spent(fastlloyd) > 0) == (name == "simulate")  # all rounds of the others are refunded


def test_without_a_ledger_the_line_says_so(
    fastlloyd: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(central, "cluster", _interrupt)
    said = fastlloyd("fit", "data.csv", *PUBLIC, "--no-out")
    assert said == (130, "", "Interrupted. No ledger counts this run. No result was written.\n")


@pytest.mark.parametrize("name", ["fit", "simulate"])
@pytest.mark.parametrize("is_written", [True, False])
def test_after_a_run_the_line_says_whether_the_result_is_kept(
    fastlloyd: Command,
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    is_written: bool,
) -> None:
    if is_written:
        (here / "result").mkdir()
        monkeypatch.setattr(results, "show", _interrupt)
    else:
        monkeypatch.setattr(os, "fsync", _interrupt)
    code, _, err = fastlloyd(*COMMANDS[name])
    assert code == 130
    said = err.splitlines(keepends=True)[-1]  # a slow machine tells of its rounds before
    assert said.startswith("Interrupted. The run was over, and its epsilon is spent. No ledger")
    kept = "The result was written to result.\n" if is_written else "No result was written.\n"
    assert said.endswith(kept)
    assert (here / "result" / "privacy.json").exists() == is_written
