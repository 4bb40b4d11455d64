"""The unit file and the Containerfile in `examples/` name commands, options, exit codes and files that
there are.
"""

import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from configparser import ConfigParser
from pathlib import Path, PurePath

import pytest

from clone import ROOT
from fastlloyd.cli import failures, network
from fastlloyd.cli.app import subcommand
from fastlloyd.federation.identity.parties import MAX_CLIENTS
from fastlloyd.federation.transport.grpc.tls import wanted_connections
from fastlloyd.jobs.server import OWN_FILES

EXPOSURE = 25  # tenths: systemd 252 finds 16, and later versions look at more
UNIT, CONTAINERFILE = ROOT / "examples/fastlloyd-serve.service", ROOT / "examples/Containerfile"


def unit() -> ConfigParser:
    parser = ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # names of systemd have capitals
    parser.read_string(UNIT.read_text())
    return parser


def instructions() -> list[tuple[str, str]]:
    """Those of the Containerfile, with lines that go on joined."""
    text = re.sub(r"^#.*\n", "", CONTAINERFILE.read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    return [
        (name, rest.strip())
        for name, _, rest in (line.partition(" ") for line in text.splitlines() if line)
    ]


def of(instruction: str) -> list[str]:
    return [rest for name, rest in instructions() if name == instruction]


def commands() -> list[str]:
    """What follows `fastlloyd` where either file starts it."""
    run = re.search(r"^# Run: docker run (.*)$", CONTAINERFILE.read_text(), re.MULTILINE)
    assert run is not None
    return [
        line.split("fastlloyd ", 1)[1]
        for line in (unit()["Service"]["ExecStart"], run[1].split(" -v ", 1)[1])
    ]


@pytest.mark.parametrize("line", commands())
def test_the_command_exists_with_its_options(line: str) -> None:
    words = shlex.split(line)
    command = subcommand(words.pop(0))
    known = {option for parameter in command.params for option in parameter.opts}
    required = {
        parameter.opts[0]
        for parameter in command.params
        if parameter.required and parameter.opts[0].startswith("-")
    }
    given = {word for word in words if word.startswith("-")}
    assert required <= given <= known
    assert words[0] == "plan.toml"


def test_the_unit_starts_again_what_was_stopped_and_nothing_that_is_over_or_needs_a_person() -> (
    None
):
    service = unit()["Service"]
    never = {int(code) for code in service["RestartPreventExitStatus"].split()}
    assert never == {failures.DONE, failures.REFUSED, network.NO_RESULT}
    assert (
        int(service["RestartForceExitStatus"])
        == int(service["SuccessExitStatus"])
        == network.STOPPED
    )
    assert (
        service["Restart"] == "on-failure"
    )  # a kill, a crash (1), and whatever has no code of ours
    assert failures.UNEXPECTED not in never
    assert (
        service["WorkingDirectory"] == service["ReadWritePaths"]
    )  # plan, identity and store lie there


def test_the_unit_lets_the_largest_plan_have_its_connections_and_leaves_no_core_dump() -> None:
    service = unit()["Service"]
    assert int(service["LimitNOFILE"]) >= wanted_connections(MAX_CLIENTS) + OWN_FILES
    assert service["LimitCORE"] == "0"


def test_the_unit_waits_for_network_and_clock_and_listens_where_no_network_is_needed() -> None:
    """Exit code 2 is never started again, so nothing that a boot brings later may be its cause."""
    for order in ("After", "Wants"):
        assert set(unit()["Unit"][order].split()) == {"network-online.target", "time-sync.target"}
    assert "--listen" not in unit()["Service"]["ExecStart"]


def test_the_unit_may_listen_below_1024_and_has_no_other_right() -> None:
    service = unit()["Service"]
    for rights in ("AmbientCapabilities", "CapabilityBoundingSet"):
        assert service[rights] == "CAP_NET_BIND_SERVICE"
    assert service["NoNewPrivileges"] == "yes"


def test_the_unit_shuts_out_what_the_program_never_asks_for() -> None:
    service = unit()["Service"]
    closed = ("Clock", "ControlGroups", "Hostname", "KernelLogs", "KernelModules", "KernelTunables")
    assert {service[f"Protect{each}"] for each in closed} == {"yes"}
    assert {service[f"Restrict{each}"] for each in ("Namespaces", "Realtime", "SUIDSGID")} == {
        "yes"
    }
    assert service["SystemCallFilter"] == "@system-service"
    assert service["UMask"] == "0077"


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs systemd-analyze")
def test_systemd_knows_every_directive_of_the_unit_and_finds_it_closed(tmp_path: Path) -> None:
    analyze = ["systemd-analyze", "--no-pager"]
    path = tmp_path / UNIT.name
    program = re.escape(unit()["Service"]["ExecStart"].split()[0])
    path.write_text(re.sub(program, sys.executable, UNIT.read_text()))
    verify = subprocess.run(
        [*analyze, "verify", "--man=no", path], check=False, capture_output=True, text=True
    )
    assert [line for line in verify.stderr.splitlines() if path.name in line] == []
    closed = subprocess.run(
        [*analyze, "security", "--offline=true", f"--threshold={EXPOSURE}", path],
        check=False,
        capture_output=True,
        text=True,
    )
    assert closed.returncode == 0, closed.stdout + closed.stderr


def test_both_run_the_program_where_the_containerfile_installs_it() -> None:
    (environment,) = re.findall(r"python3 -m venv (\S+)", " ".join(of("RUN")))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (program,) = project["scripts"]
    assert of("ENTRYPOINT") == [f'["{environment}/bin/{program}"]']
    assert unit()["Service"]["ExecStart"].startswith(f"{environment}/bin/{program} ")


def test_the_image_is_built_of_the_wheel_and_the_lock_of_the_network_and_keeps_no_pip() -> None:
    lock, wheel, folder = of("COPY")[0].split()
    assert (lock, folder) == ("requirements-run-network.lock", "/src/")
    assert (ROOT / lock).exists()
    assert PurePath("dist/fastlloyd-0.1.0-py3-none-any.whl").match(wheel)
    assert not PurePath("dist/fastlloyd_lab-0.1.0-py3-none-any.whl").match(wheel)
    run, _ = of("RUN")
    assert f"--only-binary :all: --require-hashes -r /src/{lock}" in run
    assert f"--no-deps --no-index /src/{wheel.removeprefix('dist/')}" in run
    assert run.endswith("pip uninstall --yes pip")
    ((major, minor),) = re.findall(r"python:(\d+)\.(\d+)-slim", of("ARG")[0])
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert f"Programming Language :: Python :: {major}.{minor}" in settings["classifiers"]


def test_what_people_run_is_what_the_tests_ran_with() -> None:
    def pins(name: str) -> set[str]:
        lines = (ROOT / name).read_text().splitlines()
        return {line.partition(" ")[0] for line in lines if "==" in line}

    run = pins("requirements-run.lock")
    assert run
    assert run <= pins("requirements.lock")


def test_who_runs_in_the_image_is_nobody_else_and_owns_what_is_mounted() -> None:
    (user,) = of("USER")
    assert f"--uid {user} " in of("RUN")[1]
    assert int(user) > 9999, "numbers below are those of the host's people and services"
    assert of("WORKDIR") == of("VOLUME") == ["/data"]


def test_the_image_runs_with_a_file_system_that_is_read_only() -> None:
    run = re.search(r"^# Run: docker run (.*)$", CONTAINERFILE.read_text(), re.MULTILINE)
    assert run is not None
    for option in ("--read-only", "--cap-drop all", "--security-opt no-new-privileges"):
        assert option in run[1]
