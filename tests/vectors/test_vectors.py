"""Results that were recorded stay: clusterings, statements, exit codes.

Record anew with `python tests/vectors/record.py` what is meant to change, and say why. Wording is
nowhere compared.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import clustering_vectors
import command_vectors
import pytest
from recorded import as_written, differences, read

CENTRAL, FEDERATED = (
    dict(clustering_vectors.central_cases()),
    dict(clustering_vectors.federated_cases()),
)


def same(expected: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    changes = list(differences(dict(expected), as_written(dict(found))))
    assert not changes, "\n".join([f"{len(changes)} differences:", *changes[:40]])


def answered(
    cases: Mapping[str, Any],
    algorithm: str,
    answer: Callable[[str, Any], dict[str, Any]],
    name: str,
) -> None:
    """The cases of one algorithm give what was recorded for them."""
    asked = {case: said for case, said in cases.items() if said["algorithm"] == algorithm}
    expected = {case: said for case, said in read(name).items() if case in asked}
    same(expected, {case: answer(case, said) for case, said in asked.items()})


@pytest.mark.parametrize("algorithm", ["momentlloyd", "fastlloyd", "glloyd", "sulloyd", "lloyd"])
def test_the_central_model_gives_what_it_gave(algorithm: str) -> None:
    answered(CENTRAL, algorithm, clustering_vectors.central_answer, "central")


@pytest.mark.parametrize("algorithm", ["momentlloyd", "fastlloyd", "glloyd", "sulloyd"])
def test_federated_runs_give_what_they_gave(algorithm: str) -> None:
    answered(FEDERATED, algorithm, clustering_vectors.federated_answer, "federated")


def test_every_recorded_clustering_is_asked_for() -> None:
    assert set(read("central")) == set(CENTRAL)
    assert set(read("federated")) == set(FEDERATED)


@pytest.mark.parametrize("group", command_vectors.GROUPS)
def test_commands_end_as_they_ended(group: str, tmp_path: Path) -> None:
    same(read("commands")[group], command_vectors.answers(group, tmp_path))
