"""Fifty rounds with stores over gRPC: nothing but what rounds must cost is held.
`fault_campaign.py` has a thousand.
"""

import importlib.util
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

if importlib.util.find_spec("grpc") is None:
    pytest.skip(
        'gRPC is not installed: python -m pip install ".[network]"', allow_module_level=True
    )
if not sys.platform.startswith("linux"):
    pytest.skip("what a process holds is read from /proc", allow_module_level=True)

from soak import check_growth, soak


def run_and_check(folder: Path) -> None:
    seen, site, outcomes = soak(folder, 50, {20, 49})
    check_growth(seen[20], seen[49], n_rounds=29)
    site.check(outcomes)


def test_a_run_of_fifty_rounds_holds_no_more_at_its_end_than_its_rounds_must_cost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a process of its own: threads that other tests have left open files when they like."""
    for name in ("grpc_proxy", "https_proxy", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    with ProcessPoolExecutor(1, get_context("spawn")) as alone:
        alone.submit(run_and_check, tmp_path).result()
