"""A Dask cluster for the tests of a module: starting it takes two seconds, and while it waits it
goes on taking time.
"""

import importlib
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A Dask cluster of two processes."""
    distributed = importlib.import_module("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=":0"
    ) as cluster:
        yield cluster.scheduler_address.removeprefix("tcp://")
