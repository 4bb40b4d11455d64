"""Three sites of a hospital, each with a table of its own, and a server: files and processes."""

import os
import subprocess
import sys
from pathlib import Path

from clone import ROOT
from ports import free_address

EXAMPLES = ROOT / "examples/hospital"
FILES = {"north": "north.csv", "east": "east.tsv", "south": "south.csv"}
HANG = 120


def make_sites(tmp_path: Path, *options: str) -> Path:
    """A folder with the files of the sites, their identities and a plan.

    options : further options of the plan.
    """
    make = [sys.executable, str(EXAMPLES / "make_table.py"), "--sites", "--out", str(tmp_path)]
    subprocess.run(make, check=True, capture_output=True)
    for name in (*FILES, "server"):
        fastlloyd(tmp_path, "keygen", "--name", name, "--out", name)
    members = [word for name in FILES for word in ("--member", f"{name}/{name}.public.toml:900")]
    fastlloyd(
        tmp_path, "plan", "new", "--recipe", str(EXAMPLES / "recipe.toml"), *members,
        "--server", "server/server.public.toml", "--address", free_address(),
        "--max-clients-per-person", "1", "--n-records", "2700", *options,
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


def joining(sites: Path, name: str, digest: str) -> "subprocess.Popen[str]":
    """Start the part of a site, with its table in a folder of its own."""
    own, file = sites / name, FILES[name]
    (own / "data").mkdir()
    (sites / file).rename(own / "data" / file)
    return started(
        own, "join", "../plan.toml", "--digest", digest,
        "--key", f"{name}.identity.toml", "--data", f"data/{file}",
        "--recipe", str(EXAMPLES / f"{name}.toml"), "--new-dataset", "--out", "result",
    )  # fmt: skip
