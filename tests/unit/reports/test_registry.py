"""The entry for the registry of deployments: what follows from the files, and nothing invented."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft7Validator

from designs import design_mechanism
from fastlloyd.base.randomness import PublicSeed
from fastlloyd.clustering.domain import Domain
from fastlloyd.errors import DataError, Problems
from fastlloyd.mechanisms import central, uncertainty
from fastlloyd.mechanisms.answering import LocalRecords
from fastlloyd.mechanisms.lloyd.algorithm import FASTLLOYD, LLOYD, SULLOYD, Algorithm
from fastlloyd.reports.registry import PeopleFacts, registry_entry, template, to_yaml
from fastlloyd.reports.result import Result
from fastlloyd.reports.stored_result import StoredResult
from fastlloyd.testing import SeededNoise

DOMAIN = Domain(features=("age", "dose, mg"), lower=(0.0, -1.0), upper=(100.0, 3.0))
SCHEMA = Draft7Validator(
    yaml.safe_load((Path(__file__).parent / "registry_schema.yaml").read_text()),
    format_checker=Draft7Validator.FORMAT_CHECKER,
)
PEOPLE = """\
name = "Groups of patients, 2026"
intended_use = "planning of wards"
region = "Germany"
authors = ["A. Nurse"]
[[curators]]
name = "Hospital North"
type = "Nonprofit"
"""
keys = st.from_regex(r"[a-z]+_[a-z_]+", fullmatch=True)  # no word that YAML reads as a value
scalars = (
    st.text() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
)
trees = st.recursive(
    st.dictionaries(keys, scalars, min_size=1),
    lambda inner: st.dictionaries(
        keys,
        inner | st.lists(scalars, min_size=1) | st.lists(inner, min_size=1),
        min_size=1,
    ),
    max_leaves=8,
)


def _entry(folder: Path, people: PeopleFacts, algorithm: Algorithm = FASTLLOYD) -> Any:
    m = design_mechanism(
        algorithm,
        DOMAIN,
        n_clusters=2,
        n_records=500,
        epsilon=1.0,
        public_seed=PublicSeed.from_int(5),
    )
    X = DOMAIN.to_grid(np.random.default_rng(1).uniform([0, -1], [100, 3], (400, 2)))
    clustering = central.cluster(m, LocalRecords(m.domain, X), SeededNoise(5))
    found = Result.of(m, clustering, uncertainty.noise_deviation(m))
    for name, content in found.files().items():
        (folder / name).write_bytes(content)
    entry = registry_entry(StoredResult.read(folder), found.statement(), people)
    read = yaml.safe_load(to_yaml(entry))
    assert read == entry
    return read


def _people(folder: Path, text: str) -> PeopleFacts:
    path = folder / "registry.toml"
    path.write_text(text)
    return PeopleFacts.read(path)


@pytest.mark.usefixtures("repeatable_noise")
@pytest.mark.parametrize("algorithm", [FASTLLOYD, SULLOYD], ids=lambda a: a.name)
def test_an_entry_with_all_facts_of_people_fits_the_schema(
    algorithm: Algorithm, tmp_path: Path
) -> None:
    people = _people(tmp_path, PEOPLE)
    assert people.missing == []
    entry = _entry(tmp_path, people, algorithm)
    assert [error.message for error in SCHEMA.iter_errors(entry)] == []
    parameters = entry["deployment"]["privacy_loss"]["privacy_parameters"]
    assert parameters["epsilon"] == 1.0
    assert ("rho" in parameters) == ("delta" in parameters) == (algorithm is FASTLLOYD)


@pytest.mark.usefixtures("repeatable_noise")
def test_what_people_did_not_say_is_missing_and_named_and_nothing_else_is(tmp_path: Path) -> None:
    people = _people(tmp_path, template())
    assert people == PeopleFacts() == PeopleFacts.read(tmp_path / "no such file")
    entry = _entry(tmp_path, people)
    lacking = {
        name
        for error in SCHEMA.iter_errors(entry)
        for name in set(error.validator_value) - set(error.instance)
        if error.validator == "required"
    }
    assert all(error.validator == "required" for error in SCHEMA.iter_errors(entry))
    names = {
        "url_slug": "name",
        "data_curators": "curators",
        "data_product_region": "region",
        "registry_authors": "authors",
    }
    assert {names.get(name, name) for name in lacking} == set(people.missing)


@pytest.mark.usefixtures("repeatable_noise")
def test_a_run_without_noise_has_no_entry(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"guarantee.*not hold"):
        _entry(tmp_path, PeopleFacts(), LLOYD)


def test_all_wrong_keys_of_people_are_named_at_once(tmp_path: Path) -> None:
    text = 'nmae = "x"\nsector = "Shipping"\nauthors = "A. Nurse"\nregion = "Germany"\n'
    with pytest.raises(Problems) as refused:
        _people(tmp_path, text)
    assert [error.field for error in refused.value.errors] == ["nmae", "sector", "authors"]


@given(trees)
def test_any_tree_is_read_back_from_yaml_as_it_was(tree: dict[str, Any]) -> None:
    assert yaml.safe_load(to_yaml(tree)) == tree
