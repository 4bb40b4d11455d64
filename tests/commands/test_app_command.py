"""`fastlloyd app`: what it prints, and when it does not start."""

import socket
from pathlib import Path

import pytest

from app_process import running
from command_line import Command, refused
from fastlloyd.base import extras

pytest.importorskip("starlette", reason="needs the extra app")


def test_the_app_says_its_address_and_a_code_and_ends_with_ctrl_c(tmp_path: Path) -> None:
    with running(tmp_path) as app:
        assert app.address.startswith("http://fl-")
        assert app.host.partition(":")[0].endswith(".localhost")
        opener = app.state / "fastlloyd/app/open.html"
        assert app.code in opener.read_text()
    assert not opener.exists()
    assert app.process.returncode in (0, 130)


def test_without_its_packages_the_app_says_how_to_get_them(
    fastlloyd: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extras, "is_installed", lambda _: False)
    refused(fastlloyd("app", "--no-browser"), "pip install", "starlette")


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "::1", "::"])  # noqa: S104
def test_a_port_at_which_anybody_listens_is_refused(
    fastlloyd: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, host: str
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as taken:
        taken.bind((host, 0))
        taken.listen()
        port = taken.getsockname()[1]
        refused(fastlloyd("app", "--no-browser", "--port", str(port)), str(port))
