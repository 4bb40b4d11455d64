"""The study of `examples/compose` runs to its end, each container a process in a folder of its own."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from clone import ROOT, SUPPORT
from compose import command, environment, home, services, words_of
from ports import free_address

HANG = 300  # seconds after which a process counts as hung; the study needs a few
SITES = "north", "south", "west"
COMPOSE = ROOT / "examples/compose"


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder of the compose file, in which its script can be run."""
    shutil.copytree(COMPOSE, tmp_path / "examples/compose")
    for name in ("visits.csv", "visits-bounds.toml"):
        shutil.copy(ROOT / "examples" / name, tmp_path / "examples")
    programs = tmp_path / "programs"
    programs.mkdir()
    docker = programs / "docker"
    docker.write_text(
        f"#!/bin/sh\nexec {shlex.quote(sys.executable)} {shlex.quote(str(SUPPORT / 'compose.py'))}"
        ' "$@"\n'
    )
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("ADDRESS", free_address())
    monkeypatch.setenv("OWNER", str(os.getuid()))
    return tmp_path / "examples/compose"


def started(folder: Path, service: dict[str, Any], variables: dict[str, str]) -> Any:
    return subprocess.Popen(
        command(words_of(service, variables)),
        cwd=home(folder, service),
        env=environment(folder, service),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.campaign
def test_the_steps_of_the_compose_file_end_with_one_result_at_every_site(study: Path) -> None:
    prepared = subprocess.run(
        ["/bin/sh", "prepare.sh"],
        cwd=study,
        capture_output=True,
        text=True,
        timeout=HANG,
        check=False,
    )
    assert prepared.returncode == 0, prepared.stderr
    lines = (study / ".env").read_text().splitlines()
    variables = dict(line.split("=", 1) for line in lines)
    assert len(variables["DIGEST"]) == 64
    running = {name: started(study, each, variables) for name, each in services(study).items()}
    try:
        ended = {name: each.communicate(timeout=HANG) for name, each in running.items()}
    finally:
        for each in running.values():
            each.kill()
    assert {name: each.returncode for name, each in running.items()} == dict.fromkeys(
        ("server", *SITES), 0
    ), ended
    found = {(study / site / "result/centroids.json").read_bytes() for site in SITES}
    assert len(found) == 1
    assert not (study / "server/result").exists()
    for site in SITES:
        others = [other for other in SITES if other != site]
        kept = {path.name for path in (study / site).iterdir()}
        assert not [name for name in kept if name in {f"{each}.identity.toml" for each in others}]


def test_no_service_has_a_right_that_it_does_not_need() -> None:
    for name, each in services(COMPOSE).items():
        assert each["read_only"], name
        assert each["cap_drop"] == ["ALL"]
        assert each["security_opt"] == ["no-new-privileges:true"]
        assert each["user"] == "${OWNER:-10001}"
        assert "ports" not in each
        assert home(COMPOSE, each) == COMPOSE / name
