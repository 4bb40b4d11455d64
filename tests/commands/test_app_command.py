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


def test_a_port_that_is_taken_is_refused(
    fastlloyd: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        refused(fastlloyd("app", "--no-browser", "--port", str(port)), str(port))
    with socket.socket(socket.AF_INET6) as taken:
        taken.bind(("::1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        refused(fastlloyd("app", "--no-browser", "--port", str(port)), str(port))
