"""A Dask cluster for all tests that need one: starting it takes two seconds."""

import importlib
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    """A Dask cluster of two processes."""
    distributed = importlib.import_module("distributed")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster:
        yield cluster.scheduler_address.removeprefix("tcp://")
