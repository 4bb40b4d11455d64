"""Three sites that write their tables in three ways cluster them together over TLS."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from clone import ROOT
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.federation.plan.versions import RECIPE_VERSION
from ports import free_address

EXAMPLES = ROOT / "examples/hospital"
FILES = {"north": "north.csv", "east": "east.tsv", "south": "south.csv"}
OF_THE_SITES = (
    "Patienten-ID", "patient_id", "PatNr", "CRP (mg/l)", "crp_mg_l", "CRP quantitativ", "Krea",
    "Geschlecht", "m/w", "k.A.", "n/a", "fehlt", "cp1252",
)  # fmt: skip
HANG = 120


@pytest.fixture
def sites(tmp_path: Path) -> Path:
    """A folder with the files of the sites, their identities and a plan."""
    make = [sys.executable, str(EXAMPLES / "make_table.py"), "--sites", "--out", str(tmp_path)]
    subprocess.run(make, check=True, capture_output=True)
    for name in (*FILES, "server"):
        fastlloyd(tmp_path, "keygen", "--name", name, "--out", name)
    members = [word for name in FILES for word in ("--member", f"{name}/{name}.public.toml:900")]
    fastlloyd(
        tmp_path, "plan", "new", "--recipe", str(EXAMPLES / "recipe.toml"), *members,
        "--server", "server/server.public.toml", "--address", free_address(),
        "--max-clients-per-person", "1", "--n-records", "2700",
    )  # fmt: skip
    return tmp_path


def started(folder: Path, *arguments: str) -> "subprocess.Popen[str]":
    """Start a command whose output goes to a log in its folder."""
    ledger = folder / "own.ledger"
    with (folder / "log").open("a") as log:
        # our own program
        return subprocess.Popen(
            [sys.executable, "-m", "fastlloyd", *arguments],
            cwd=folder,
            env=os.environ | {"FASTLLOYD_LEDGER": str(ledger)},
            stdout=log,
            stderr=log,
            text=True,
        )


def fastlloyd(folder: Path, *arguments: str) -> None:
    assert started(folder, *arguments).wait(HANG) == 0, (folder / "log").read_text()


def test_the_sites_get_one_result_and_nothing_of_their_tables_leaves_them(sites: Path) -> None:
    plan = Plan.from_toml((sites / "plan.toml").read_text(), "plan.toml")
    assert plan.protocol_version == RECIPE_VERSION
    server = started(sites / "server", "serve", "../plan.toml", "--key", "server.identity.toml")
    clients = {}
    for name, file in FILES.items():
        own = sites / name
        (own / "data").mkdir()
        (sites / file).rename(own / "data" / file)
        clients[name] = started(
            own, "join", "../plan.toml", "--digest", plan.digest.hex(),
            "--key", f"{name}.identity.toml", "--data", f"data/{file}",
            "--recipe", str(EXAMPLES / f"{name}.toml"), "--new-dataset", "--out", "result",
        )  # fmt: skip
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
