"""Faults that real processes meet: disks that are full, logs that cannot be written, clocks that are wrong, clients too late."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from network_processes import SERVER, Site, cleared, make_site


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    make_site(folder)
    return folder


@pytest.fixture
def site(made: Path, tmp_path: Path) -> Iterator[Site]:
    with cleared(Site.make(made, tmp_path)) as site:
        yield site


def test_whose_disk_is_full_at_a_commit_or_at_the_result_ends_with_a_sentence_and_goes_on(site: Site) -> None:
    """The dealer with the keys, another with an upload, one with the result, the server with a sum."""
    faults = {"a": [(1, "full")], "b": [(3, "full")], "c": [(5, "result")], SERVER: [(2, "full")]}
    assert site.run_to_the_end(faults) == 4
