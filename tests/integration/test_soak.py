"""Fifty rounds with stores over gRPC: nothing but what rounds must cost is held. `fault_campaign.py` has a thousand."""

import importlib.util
import sys
from pathlib import Path

import pytest

if importlib.util.find_spec("grpc") is None:
    pytest.skip('gRPC is not installed: python -m pip install ".[network]"', allow_module_level=True)
if not sys.platform.startswith("linux"):
    pytest.skip("what a process holds is read from /proc", allow_module_level=True)

from soak import check_growth, soak


def test_a_run_of_fifty_rounds_holds_no_more_at_its_end_than_its_rounds_must_cost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("grpc_proxy", "https_proxy", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    seen, site, outcomes = soak(tmp_path, 50, {20, 49})
    check_growth(seen[20], seen[49], n_rounds=29)
    site.check(outcomes)
