"""Processes of a run over a network that are killed at their commits: started again, all end with
the same centroids.

With pairwise masks, the default. `make campaign` kills with both kinds; `thorough/federation/runs/test_runs_killed.py`
too, within one process.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fastlloyd.federation.plan.plan import Masks
from network_processes import N_COMMITS, SERVER, Death, Site, cleared, make_site


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    make_site(folder)
    return folder


@pytest.fixture
def site(made: Path, tmp_path: Path) -> Iterator[Site]:
    with cleared(Site.make(made, tmp_path, masks=Masks.PAIRWISE)) as site:
        yield site


def alternating(name: str, first: int) -> list[Death]:
    """Every commit of this party, in turn before and after it."""
    return [(n, ("before", "after")[(n + first) % 2]) for n in range(N_COMMITS[name])]


def test_whoever_is_killed_at_a_commit_takes_the_run_up_and_all_end_with_the_same(
    site: Site,
) -> None:
    """Every commit of every party; the clients, which commit the same steps, in turn before and
    after them.
    """
    deaths = {name: alternating(name, i) for i, name in enumerate(N_COMMITS)}
    n_deaths = sum(map(len, deaths.values()))
    assert n_deaths == 39
    # the last life of the server may be stopped before it ends by itself
    assert n_deaths - 1 <= site.run_to_the_end(deaths) <= n_deaths


def test_the_same_of_a_server_killed_on_the_other_side_of_every_commit_and_of_whoever_finds_the_disk_full(
    site: Site,
) -> None:
    """The disk is full when the dealer notes the keys, another client an upload, the third its
    result, the server a sum.
    """
    killed = alternating(SERVER, list(N_COMMITS).index(SERVER) + 1)
    deaths: dict[str, list[Death]] = {
        "a": [(1, "full")], "b": [(4, "full")], "c": [(8, "result")], SERVER: sorted([*killed, (2, "full")])
    }  # fmt: skip
    n_deaths = sum(map(len, deaths.values()))
    assert n_deaths - 1 <= site.run_to_the_end(deaths) <= n_deaths
