"""What intervals cover is said in one sentence, the same at every door."""

import inspect
import json
import re
from pathlib import Path

import msgspec
import numpy as np
import pytest

from clone import ROOT
from designs import design_mechanism
from fastlloyd import FastLloyd, MomentLloyd
from fastlloyd.base.randomness import PublicSeed
from fastlloyd.clustering.domain import Domain
from fastlloyd.mechanisms import uncertainty
from fastlloyd.mechanisms.answering import LocalRecords
from fastlloyd.mechanisms.central import cluster
from fastlloyd.mechanisms.facts import Fact, FarRecords
from fastlloyd.mechanisms.lloyd.algorithm import FASTLLOYD, GLLOYD, LLOYD, SULLOYD
from fastlloyd.mechanisms.mechanism import Mechanism
from fastlloyd.mechanisms.moment_lloyd.rounds import MOMENTLLOYD
from fastlloyd.mechanisms.persons import Persons
from fastlloyd.mechanisms.settings import AnyAlgorithm
from fastlloyd.reports import result_facts
from fastlloyd.reports.facts import said, sentence, sentences
from fastlloyd.reports.result import Result
from fastlloyd.reports.result_facts import means_beyond, radius
from fastlloyd.reports.stored_result import StoredResult
from fastlloyd.testing import SeededNoise

DOMAIN = Domain(features=("age", "gain"), lower=(0.0, 0.0), upper=(100.0, 1000.0))
KINDS = {
    MOMENTLLOYD: FarRecords.PULLED_IN,
    FASTLLOYD: FarRecords.LEFT_OUT,
    GLLOYD: FarRecords.COUNTED,
    SULLOYD: FarRecords.COUNTED,
}
CENTRES = {far: f"covers_{far.name.lower()}" for far in FarRecords}


def mechanism(algorithm: AnyAlgorithm, domain: Domain = DOMAIN, **fields: object) -> Mechanism:
    return design_mechanism(
        algorithm,
        domain,
        n_clusters=1,
        n_records=3000,
        epsilon=1.0,
        public_seed=PublicSeed.from_int(3),
        **fields,
    )


def result(algorithm: AnyAlgorithm, domain: Domain = DOMAIN) -> Result:
    """The result of a fit of records whose last feature is skewed."""
    m, rng = mechanism(algorithm, domain), np.random.default_rng(3)
    X = np.tile(rng.normal(50, 5, (3000, 1)), domain.n_features)
    X[:, -1] = np.where(rng.random(3000) < 0.9, 0, 150 * rng.exponential(size=3000))
    ended = cluster(m, LocalRecords(domain, domain.to_grid(X)), SeededNoise(4))
    return Result.of(m, ended, uncertainty.noise_deviation(m))


def plain(text: str) -> str:
    """The words of a text, without the marks of a quotation that goes over lines."""
    return " ".join(re.sub(r"^\s*>", " ", text, flags=re.MULTILINE).split())


@pytest.mark.parametrize("algorithm", KINDS, ids=lambda algorithm: algorithm.name)
@pytest.mark.usefixtures("repeatable_noise")
def test_screen_files_and_statement_say_what_the_mechanism_promises(
    algorithm: AnyAlgorithm,
) -> None:
    found = result(algorithm)
    m = found.mechanism
    promise = sentences(m.promise)
    assert [fact.name for fact in m.promise] == [CENTRES[KINDS[algorithm]], "clipped"]
    assert promise in " ".join(said(result_facts.reliability(found)))
    exact = json.loads(found.files()["centroids.json"])
    statement = json.loads(found.files()["privacy.json"])
    assert exact["intervals"]["cover"] == statement["intervals"]["cover"] == promise
    assert (found.accuracy.radius is None) is (KINDS[algorithm] is FarRecords.COUNTED)
    assert exact["intervals"]["radius"] == (
        None if found.accuracy.radius is None else found.accuracy.radius.tolist()
    )
    assert statement["intervals"]["radius"] == (
        None
        if found.accuracy.radius is None
        else dict(zip(DOMAIN.features, found.accuracy.radius.tolist(), strict=True))
    )


def test_pages_and_docstrings_say_it_too() -> None:
    accuracy = plain((ROOT / "docs/accuracy.md").read_text())
    for name in CENTRES.values():
        assert sentences((Fact.of(name), Fact.of("clipped"))) in accuracy
    pulled_in, left_out = map(CENTRES.get, (FarRecords.PULLED_IN, FarRecords.LEFT_OUT))
    assert sentence(Fact.of(f"{pulled_in}")) in plain(inspect.getdoc(MomentLloyd) or "")
    assert sentence(Fact.of(f"{left_out}")) in plain(inspect.getdoc(FastLloyd) or "")


def test_of_persons_each_counts_once() -> None:
    patients = mechanism(MOMENTLLOYD, persons=Persons.called("patient"))
    assert patients.promise == (*mechanism(MOMENTLLOYD).promise, Fact.of("counts_once"))
    assert "Each patient counts once," in sentences(patients.promise, patients.unit)
    shared = mechanism(MOMENTLLOYD, persons=Persons.called("patient", max_clients=2))
    assert shared.promise[-1] == Fact.of("counts_once_at_each")


def test_nothing_is_promised_without_noise() -> None:
    assert mechanism(LLOYD).promise == (Fact.of("covers_nothing"),)


@pytest.mark.usefixtures("repeatable_noise")
def test_the_figure_of_a_mean_stands_on_the_screen_and_in_both_tables(tmp_path: Path) -> None:
    found = result(MOMENTLLOYD)
    beyond = found.accuracy.beyond
    assert beyond is not None
    assert np.isnan(beyond[0, 0])
    assert beyond[0, 1] > 0
    (facts,) = result_facts.intervals(found)
    assert "cluster 0, 'gain': up to" in sentences(facts)
    assert "'age': up to" not in sentences(facts)
    header, row = (line.split(",") for line in found.files()["centroids.csv"].decode().splitlines())
    cells = dict(zip(header, row, strict=True))
    assert cells["beyond_age"] == ""
    assert beyond[0, 1] <= float(cells["beyond_gain"]) < 1.1 * beyond[0, 1]
    for name, content in found.files().items():
        (tmp_path / name).write_bytes(content)
    read = StoredResult.read(tmp_path)
    assert read.beyond is not None
    assert np.array_equal(read.beyond, beyond, equal_nan=True)
    assert read.radius is not None
    assert found.accuracy.radius is not None
    assert np.array_equal(read.radius, found.accuracy.radius)
    model = MomentLloyd.from_result(tmp_path)
    assert np.array_equal(np.array(model.interval_radius_), read.radius)
    assert np.array_equal(np.array(model.means_beyond_), beyond, equal_nan=True)


@pytest.mark.usefixtures("repeatable_noise")
def test_of_more_than_three_features_and_of_fastlloyd_it_is_said_that_the_mean_cannot_be_told() -> (
    None
):
    four = Domain(features=("a", "b", "c", "d"), lower=(0.0,) * 4, upper=(1000.0,) * 4)
    for found in (result(MOMENTLLOYD, four), result(FASTLLOYD)):
        (facts,) = result_facts.intervals(found)
        assert Fact.of("means_cannot_be_told") in facts
        assert found.accuracy.beyond is None
        assert "beyond_" not in found.files()["centroids.csv"].decode()
        assert json.loads(found.files()["centroids.json"])["clusters"][0]["mean_beyond"] is None
    (facts,) = result_facts.intervals(result(GLLOYD))
    assert facts == mechanism(GLLOYD).promise


def test_nothing_is_said_where_no_cluster_is_settled() -> None:
    m = mechanism(FASTLLOYD)
    accuracy = uncertainty.Accuracy(
        errors=np.ones((1, 2)), status=(uncertainty.Status.FEW,), radius=np.ones(2)
    )
    found = Result(
        mechanism=m,
        centroids=np.ones((1, 2)),
        noisy_counts=np.ones(1),
        count_error=9.0,
        accuracy=accuracy,
    )
    assert result_facts.intervals(found) == []
    settled = msgspec.structs.replace(accuracy, status=(uncertainty.Status.SETTLED,))
    assert len(result_facts.intervals(msgspec.structs.replace(found, accuracy=settled))) == 1


def plain_domain(*names: str) -> Domain:
    """Return a domain of columns that are clustered as they are."""
    return Domain(features=names, lower=(0.0,) * len(names), upper=(1.0,) * len(names))


def test_a_figure_is_rounded_up_and_says_to_which_side() -> None:
    figures = np.array([[np.nan, 123.4], [-0.0101, np.nan]])
    (fact,) = means_beyond(plain_domain("age", "gain"), figures)
    listed = "cluster 0, 'gain': up to 130 higher; cluster 1, 'age': up to 0.011 lower"
    assert fact.values == {"figures": listed}
    assert means_beyond(plain_domain("age"), np.full((3, 1), np.nan)) == []
    assert means_beyond(plain_domain("age"), np.zeros((1, 1))) == []
    (many,) = means_beyond(plain_domain("age"), np.ones((40, 1)))
    assert "28 more in the files" in many.values["figures"]
    said = sentence(radius(plain_domain(*(f"x{i}" for i in range(15))), np.full(15, 2.0)))
    assert "R is 2 in 'x0'" in said
    assert "3 more" in said
