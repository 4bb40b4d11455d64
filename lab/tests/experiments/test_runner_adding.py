"""Tests of folders of results to which methods, sets and epsilons are added. Trials whose other
settings changed are refused.
"""

import gzip
import json
from pathlib import Path

import pytest

from fastlloyd.errors import DataError, OutputError
from fastlloyd.testing import SeededNoise
from fastlloyd_lab.experiments import reading, runner
from fastlloyd_lab.experiments.runner import Summary

SPEC = """
title = "t"
seed = 1
runs = 2
epsilons = [1.0]
measures = ["n_empty"]
clients = 1
[[grid]]
datasets = ["synthk-2-1"]
methods = ["sulloyd"]
"""


def run(folder: Path, text: str) -> Summary:
    (folder / "spec.toml").write_text(text)
    return runner.run(folder / "spec.toml", folder / "out", workers=1)


def lines(folder: Path) -> list[str]:
    return (folder / "out/trials.jsonl").read_text().splitlines()


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("first")
    run(folder, SPEC)
    return folder / "out"


@pytest.fixture
def folder(tmp_path: Path, first: Path) -> Path:
    (tmp_path / "out").mkdir()
    for path in first.iterdir():
        (tmp_path / "out" / path.name).write_bytes(path.read_bytes())
    return tmp_path


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('["sulloyd"]', '["glloyd", "sulloyd"]'),
        ('["synthk-2-1"]', '["synthk-2-1", "synthk-2-2"]'),
        ("[1.0]", "[1.0, 2.0]"),
        (
            '["sulloyd"]',
            (
                '["sulloyd"]\n[[grid]]\ndatasets = ["synthk-2-1"]\nmethods = ["lloyd"]\nmeasures ='
                ' ["nicv"]'
            ),
        ),
        (
            '["sulloyd"]',
            (
                '["sulloyd"]\n[[grid]]\ndatasets = ["synthk-2-1"]\nmethods ='
                ' ["fastlloyd"]\noptions.alpha = [0.5]'
            ),
        ),
    ],
)
def test_what_is_added_is_run_and_nothing_else(folder: Path, before: str, after: str) -> None:
    earlier = lines(folder)
    summary = run(folder, SPEC.replace(before, after))
    assert {*lines(folder)} > {*earlier}
    assert summary.session["trials"] == 2
    assert summary.progress.total == len(lines(folder)) == 4
    assert len(reading.read(folder / "out").rows) == 4


@pytest.mark.parametrize(
    ("before", "after", "what"),
    [
        ("seed = 1", "seed = 2", "the seed 1"),
        ("clients = 1", "clients = 1\ndelta = 1e-6", "delta 'paper'"),
        ("clients = 1", 'clients = 1\npreset = "default"', "preset 'paper'"),
        ('["n_empty"]', '["nicv"]', "measures"),
    ],
)
def test_a_trial_of_the_folder_that_is_asked_for_in_another_way_is_refused(
    folder: Path, before: str, after: str, what: str
) -> None:
    earlier = {path.name: path.read_bytes() for path in (folder / "out").iterdir()}
    with pytest.raises(OutputError, match=f"sulloyd on synthk-2-1.*{what}"):
        run(folder, SPEC.replace(before, after).replace("runs = 2", "runs = 3"))
    assert {path.name: path.read_bytes() for path in (folder / "out").iterdir()} == earlier


def test_results_of_a_sampler_that_reads_its_bits_in_another_order_are_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def backwards(source: SeededNoise, size: int) -> bytes:
        return source._key_stream.update(bytes(size))[::-1]

    monkeypatch.setattr(SeededNoise, "_bytes", backwards)
    with pytest.raises(OutputError, match="results of another sampler"):
        run(folder, SPEC.replace("runs = 2", "runs = 3"))


def test_what_was_once_asked_for_is_remembered_when_it_is_no_longer(folder: Path) -> None:
    run(folder, SPEC.replace("sulloyd", "glloyd"))  # and the rows of sulloyd stay
    assert len(lines(folder)) == 4
    with pytest.raises(OutputError, match="results of sulloyd"):
        run(folder, SPEC.replace("clients = 1", "clients = 1\ndelta = 1e-6"))
    assert run(folder, SPEC).session["trials"] == 0
    provenance = json.loads((folder / "out/provenance.json").read_text())
    assert provenance["methods"].keys() == {"glloyd", "sulloyd"}
    assert len(provenance["earlier_specifications"]) == 1


def test_a_packed_folder_is_read_and_added_to_like_any_other(folder: Path) -> None:
    path, packed = folder / "out/trials.jsonl", folder / "out/trials.jsonl.gz"
    plain = reading.read(folder / "out").rows
    earlier = path.read_bytes()
    packed.write_bytes(gzip.compress(earlier))
    path.unlink()
    assert reading.read(folder / "out").rows == plain
    assert run(folder, SPEC.replace('["sulloyd"]', '["sulloyd", "glloyd"]')).session["trials"] == 2
    assert {*path.read_bytes().splitlines()} > {*earlier.splitlines()}
    assert not packed.exists()


def test_a_packed_file_that_was_cut_short_is_named(folder: Path) -> None:
    path = folder / "out/trials.jsonl"
    (folder / "out/trials.jsonl.gz").write_bytes(gzip.compress(path.read_bytes())[:-9])
    path.unlink()
    with pytest.raises(DataError, match=r"trials\.jsonl\.gz.*gzip file"):
        run(folder, SPEC)
