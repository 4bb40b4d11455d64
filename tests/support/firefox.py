"""Debian's Firefox, driven over its own remote protocol (Marionette), without a download.

The protocol is WebDriver's commands as JSON over TCP: `LENGTH:[0, number, command, parameters]`
is answered by `LENGTH:[1, number, error, result]`.
"""

import json
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from browsers import missing

NAMES = ("firefox-esr", "firefox")
TAB, ENTER, SHIFT = "\ue004", "\ue007", "\ue008"
_SECONDS = 120.0


def _wait(happened: Callable[[], bool]) -> None:
    end = time.monotonic() + _SECONDS
    while not happened():
        assert time.monotonic() < end, "Firefox took too long"
        time.sleep(0.05)


def path_of_firefox() -> str:
    """Path of Firefox. Without one the test is skipped, or fails if a browser is required."""
    path = next((found for name in NAMES if (found := shutil.which(name))), None)
    if path is None:
        missing("Firefox")
    return path


class Firefox:
    """One window of a headless Firefox with a fresh profile."""

    def __init__(self, connection: socket.socket) -> None:
        self._file = connection.makefile("rwb")
        self._number = 0
        self._answer()  # who it is
        self.ask(
            "WebDriver:NewSession", capabilities={"alwaysMatch": {"acceptInsecureCerts": False}}
        )

    def ask(self, command: str, **parameters: Any) -> Any:
        """Result of a command. Raises AssertionError if Firefox refuses it."""
        self._number += 1
        message = json.dumps([0, self._number, command, parameters]).encode()
        self._file.write(b"%d:%s" % (len(message), message))
        self._file.flush()
        _, number, error, result = self._answer()
        assert (number, error) == (self._number, None), error
        return result

    def goto(self, url: str) -> None:
        self.ask("WebDriver:Navigate", url=url)

    def run(self, script: str) -> Any:
        """What a script returns in the page."""
        return self.ask("WebDriver:ExecuteScript", script=script, args=[])["value"]

    def press(self, *keys: str) -> None:
        """Press and release keys, one after another, where the focus is."""
        steps = [{"type": way, "value": key} for key in keys for way in ("keyDown", "keyUp")]
        keyboard = {"type": "key", "id": "keyboard", "actions": steps}
        self.ask("WebDriver:PerformActions", actions=[keyboard])

    def wait_for(self, script: str) -> None:
        """Wait until a script returns something true in the page."""
        _wait(lambda: bool(self.run(script)))

    def _answer(self) -> Any:
        length = b""
        while (digit := self._file.read(1)) != b":":
            assert digit, "Firefox has closed the connection"
            length += digit
        return json.loads(self._file.read(int(length)))


@contextmanager
def firefox(folder: Path) -> Iterator[Firefox]:
    """Start Firefox with its profile in a folder, and end it."""
    profile, path = folder / "profile", path_of_firefox()
    profile.mkdir()
    (profile / "user.js").write_text(
        'user_pref("marionette.port", 0);\nuser_pref("datareporting.policy.dataSubmissionEnabled",'
        ' false);\nuser_pref("app.update.disabledForTesting", true);\n'
    )
    port = profile / "MarionetteActivePort"
    process = subprocess.Popen(
        [path, "--headless", "--marionette", "--no-remote", "--profile", str(profile)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={"HOME": str(folder), "MOZ_HEADLESS": "1", "PATH": "/usr/bin:/bin"},
    )
    try:
        _wait(lambda: port.exists() and port.read_text().strip() != "")
        with socket.create_connection(("127.0.0.1", int(port.read_text())), _SECONDS) as connection:
            yield Firefox(connection)
    finally:
        process.terminate()
        process.wait(60)
