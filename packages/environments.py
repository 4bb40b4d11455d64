"""Install the wheels in clean environments on every Python at hand, and try them outside the clone.

For each Python: without extras, with the versions of the lock file, and with the newest versions;
for the oldest Python also with the lowest versions. Without extras the commands of a first result
run; otherwise the tests named by --tests, and with the newest versions the notebooks.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from wheels import ROOT, exported, run

DIST = ROOT / "dist"
FIRST = ROOT / "packages/first_result.py"
KINDS = "base", "locked", "newest", "lowest"


class Environment(NamedTuple):
    """Clean environment with the wheels.

    version : version of Python, such as 3.12.
    kind : one of `KINDS`.
    folder : folder of the environment.
    """

    version: str
    kind: str
    folder: Path

    @property
    def python(self) -> Path:
        """Path of the interpreter."""
        return self.folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")

    def make(self, interpreter: str) -> None:
        """Make the environment, and install the wheels and what they need."""
        uv("venv", "--quiet", "--python", interpreter, self.folder)
        made = run(self.python, "-c", "import sys; print('{}.{}'.format(*sys.version_info))")
        if made.strip() != self.version:
            raise AssertionError(f"{interpreter} made Python {made.strip()}, not {self.version}")
        lab, product = (self.wheel(name) for name in ("fastlloyd_lab", "fastlloyd"))
        if self.kind == "newest":
            self.install(f"fastlloyd[dev] @ {product.as_uri()}", lab, "--upgrade")
            return
        locks = {
            "base": "requirements-run-base.lock",
            "locked": "requirements.lock",
            "lowest": "requirements-lowest.lock",
        }
        lock = ROOT / locks[self.kind]
        self.install("--require-hashes", "--only-binary", ":all:", "--requirements", lock)
        self.install("--no-deps", product, *([] if self.kind == "base" else [lab]))

    def install(self, *arguments: str | Path) -> None:
        """Install something with uv."""
        uv("pip", "install", "--quiet", "--python", self.python, *arguments)

    @staticmethod
    def wheel(name: str) -> Path:
        """Return the path of the wheel of a package."""
        (path,) = DIST.glob(f"{name}-*.whl")
        return path

    def check(self, clone: Path, tests: Sequence[str], *, notebooks: bool) -> None:
        """Run what shows that the wheels work here. Raises CalledProcessError if they do not.

        clone : copy of the clone without the sources of the packages.
        """
        if self.kind == "base":
            with tempfile.TemporaryDirectory() as empty:
                run(self.python, FIRST, folder=Path(empty))
            return
        lowest = ["-W", "default::DeprecationWarning"] if self.kind == "lowest" else []
        pytest = [str(self.python), "-m", "pytest", "-q", "-n", "auto"]
        subprocess.run([*pytest, *lowest, *tests], cwd=clone, check=True)
        if self.kind == "newest" and notebooks:
            run(self.python, clone / "examples/execute.py", folder=clone)


def uv(*arguments: str | Path) -> str:
    """Run uv, which copies what it has from its cache, and return what it prints."""
    return run(Path(sys.executable).with_name("uv"), *arguments).strip()


def pythons() -> dict[str, str]:
    """Return the interpreters on this machine by version, the oldest first, of the versions that
    pyproject.toml names.
    """
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    named = [
        match[1]
        for line in settings["project"]["classifiers"]
        if (match := re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", line))
    ]
    found = {}
    for version in named:
        try:
            found[version] = uv("python", "find", "--no-python-downloads", version)
        except subprocess.CalledProcessError:
            print(f"Python {version} is not on this machine: not tried")
    return found


def tried(environment: Environment, interpreter: str, clone: Path, given: Any) -> bool:
    """Make an environment, try it, and print a line. Return whether the wheels work there.

    interpreter : path of the Python.
    clone : copy of the clone without the sources of the packages.
    given : options of the command line.
    """
    began = time.monotonic()
    try:
        environment.make(interpreter)
        environment.check(clone, given.tests, notebooks=not given.no_notebooks)
        outcome, works = "works", True
    except subprocess.CalledProcessError as error:
        outcome, works = f"FAILED: {' '.join(map(str, error.cmd))[:300]}", False
    seconds = time.monotonic() - began
    print(
        f"Python {environment.version}, {environment.kind}: {outcome} ({seconds:.0f} s)", flush=True
    )
    return works


def main() -> None:
    """Try all environments, and print a line for each."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--tests", nargs="+", default=["tests/unit", "tests/commands"])
    options.add_argument("--kinds", nargs="+", default=KINDS, choices=KINDS)
    options.add_argument("--pythons", nargs="+", help="versions, such as 3.12; default: all")
    options.add_argument("--no-notebooks", action="store_true")
    given, at_hand, works = options.parse_args(), pythons(), []
    lowest = next(iter(at_hand))
    with tempfile.TemporaryDirectory(prefix="fastlloyd-") as name:
        commit = exported(Path(name))  # once: the last commit may become another meanwhile
        for sources in (commit / "src", commit / "lab/src"):
            shutil.rmtree(sources)
        for version in given.pythons or at_hand:
            for kind in given.kinds:
                if kind == "lowest" and version != lowest:
                    continue
                folder = Path(name) / f"{version}-{kind}"
                clone = shutil.copytree(commit, folder / "clone")
                environment = Environment(version, kind, folder / "environment")
                works.append(tried(environment, at_hand[version], clone, given))
                shutil.rmtree(folder)
    sys.exit(not all(works))


if __name__ == "__main__":
    main()
