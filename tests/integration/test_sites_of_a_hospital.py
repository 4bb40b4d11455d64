"""Three sites that write their tables in three ways cluster them together over TLS."""

from pathlib import Path

import pytest

from fastlloyd.federation.plan.plan import Plan
from fastlloyd.federation.plan.versions import RECIPE_VERSION
from hospital import FILES, HANG, joining, make_sites, started

OF_THE_SITES = (
    "Patienten-ID", "patient_id", "PatNr", "CRP (mg/l)", "crp_mg_l", "CRP quantitativ", "Krea",
    "Geschlecht", "m/w", "k.A.", "n/a", "fehlt", "cp1252",
)  # fmt: skip


@pytest.fixture
def sites(tmp_path: Path) -> Path:
    return make_sites(tmp_path)


def test_the_sites_get_one_result_and_nothing_of_their_tables_leaves_them(sites: Path) -> None:
    plan = Plan.from_toml((sites / "plan.toml").read_text(), "plan.toml")
    assert plan.protocol_version == RECIPE_VERSION
    server = started(sites / "server", "serve", "../plan.toml", "--key", "server.identity.toml")
    clients = {name: joining(sites, name, plan.digest.hex()) for name in FILES}
    for name, client in clients.items():
        assert client.wait(HANG) == 0, (sites / name / "log").read_text()
    assert server.wait(HANG) == 0
    results = {(sites / name / "result/centroids.json").read_bytes() for name in FILES}
    assert len(results) == 1
    kept = [sites / "plan.toml", *(sites / "server").rglob("*")]
    for name in FILES:
        kept += [*(sites / name / "result").rglob("*"), *(sites / name).glob("*.store*")]
    for path in filter(Path.is_file, kept):
        content = path.read_bytes()
        for word in OF_THE_SITES:
            assert word.encode() not in content, (path.name, word)
