"""`docker compose run` as a process: the steps of `examples/compose` without a container engine.

Run as a program, it stands for `docker`. A service is a process in the folder that is its volume.
"""

import os
import shlex
import sys
from pathlib import Path
from typing import Any

import yaml


def services(folder: Path) -> dict[str, Any]:
    """Return the services of the compose file in a folder."""
    found = yaml.safe_load((folder / "compose.yaml").read_text())["services"]
    return dict(found)


def home(folder: Path, service: dict[str, Any]) -> Path:
    """Return the folder that a service has as /data."""
    (volume,) = service["volumes"]
    source, target = volume.split(":")
    assert target == service["environment"]["HOME"] == "/data"
    return folder / str(source)


def environment(folder: Path, service: dict[str, Any]) -> dict[str, str]:
    """Return the variables of a service: its own home, and the ledger that lies there."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FASTLLOYD_")}
    state = home(folder, service) / ".local/state"
    return kept | {"HOME": str(home(folder, service)), "XDG_STATE_HOME": str(state)}


def command(words: list[str]) -> list[str]:
    """Return the command of a process. The variable ADDRESS replaces the name of the server."""
    address = os.environ["ADDRESS"]
    said = [address if word == "server:8443" else word for word in words]
    return [sys.executable, "-m", "fastlloyd", *said]


def words_of(service: dict[str, Any], variables: dict[str, str]) -> list[str]:
    """Return the words of the command of a service, with its variables filled in."""
    text = service["command"]
    for name, value in variables.items():
        text = text.replace(f"${{{name}}}", value)
    return shlex.split(text)


def main() -> None:
    """Become the command of `docker compose run --rm --no-deps SERVICE COMMAND...`."""
    assert sys.argv[1:5] == ["compose", "run", "--rm", "--no-deps"]
    folder, service = Path.cwd(), services(Path.cwd())[sys.argv[5]]
    os.chdir(home(folder, service))
    run = command(sys.argv[6:])
    os.execve(run[0], run, environment(folder, service))  # noqa: S606  # a program of the tests


if __name__ == "__main__":
    main()
