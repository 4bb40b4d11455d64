"""`fastlloyd app` as a process, for tests of its door and its pages."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np


class App(NamedTuple):
    """A running app. address : its address, with a slash. code : code printed at its start."""

    process: "subprocess.Popen[str]"
    address: str
    code: str
    state: Path

    @property
    def host(self) -> str:
        """Host with port."""
        return self.address.removeprefix("http://").rstrip("/")

    @property
    def port(self) -> int:
        """Port."""
        return int(self.host.rpartition(":")[2])

    @property
    def opener(self) -> str:
        """Address of the file that opens the app."""
        return (self.state / "fastlloyd/app/open.html").as_uri()

    def kill(self) -> None:
        """Kill -9."""
        self.process.kill()
        self.process.wait()

    def line(self) -> str:
        """The next line that the app prints."""
        assert self.process.stdout is not None
        return self.process.stdout.readline()


@contextmanager
def running(here: Path, *options: str, **variables: str) -> Iterator[App]:
    """The app, started in the folder `here`, with a state folder of its own in it."""
    state = here / "state"
    environment = {**os.environ, "XDG_STATE_HOME": str(state), **variables}
    environment["FASTLLOYD_LEDGER"] = str(here / "ledger.store")
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "fastlloyd", "app", "--no-browser", *options],
        cwd=here,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            said = process.stdout.readline() + process.stdout.readline()
            found = re.search(r"(http://\S+)\n.*: (\S+)\n", said)
            if found is None:
                process.kill()
                raise AssertionError(said + (process.stderr.read() if process.stderr else ""))
            yield App(process, found[1], found[2], state)
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
                try:
                    process.wait(20)
                except subprocess.TimeoutExpired:
                    process.kill()


def write_patients(path: Path, n: int = 3000) -> None:
    """Made-up patients of three kinds: one row each visit, ids, age, bmi and creatinine."""
    rng = np.random.default_rng(1)
    kind = rng.integers(0, 3, n)
    age = np.clip(np.array([35, 60, 75])[kind] + rng.normal(0, 6, n), 18, 100)
    bmi = np.array([23, 31, 25])[kind] + rng.normal(0, 2, n)
    creatinine = np.exp(np.log(np.array([0.8, 1.0, 2.5])[kind]) + rng.normal(0, 0.2, n))
    rows = [
        f"P{number % 2000:05d},{a:.0f},{b:.1f},{c:.2f}\n"
        for number, (a, b, c) in enumerate(zip(age, bmi, creatinine, strict=True))
    ]
    path.write_text("patient_id,age,bmi,creatinine\n" + "".join(rows))
