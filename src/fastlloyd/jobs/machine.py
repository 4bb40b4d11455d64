"""Check of a machine: clock, random numbers, versions, compiler, locks and space.

Each check returns findings. A finding of the level `FAULT` says what is wrong and what to do.
"""

import enum
import mmap
import os
import re
import secrets
import shutil
import subprocess  # nosec B404 - runs this interpreter
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Final, NamedTuple

from fastlloyd.base.extras import MODULES, command, is_installed
from fastlloyd.base.files import read_start
from fastlloyd.errors import StateError
from fastlloyd.federation.store.lock import Lock, is_held

FIRST_DAY: Final = datetime(2026, 1, 1, tzinfo=UTC)
"""Day before which no copy of this version existed."""

LAST_YEAR: Final = 2099
LEAST_FREE: Final = 100 << 20
"""Free bytes below which a disk counts as full."""

_COMPILE: Final = "import numba; assert numba.njit(lambda n: n + 1)(1) == 2"
_SECONDS: Final = 120.0  # for the compiler, on a slow machine
_LOWER: Final = re.compile(r"([\w.-]+)(?:\[[^\]]*\])?\s*>=\s*([\d.]+)")
_EXTRA: Final = re.compile(r"extra == .(\w+).")
_MAX_LOCK: Final = 1 << 24
_LOCKED: Final = re.compile(r"([\w.-]+)==([^\s;\\]+)")


class Level(enum.Enum):
    """Weight of a finding. Only a fault makes a machine unsound."""

    FINE = "fine"
    NOTE = "note"
    FAULT = "fault"


class Finding(NamedTuple):
    """One result of a check.

    code : short name of the finding, by which programs recognise it.
    level : weight of the finding.
    said : sentence that says what was found.
    remedy : what to do, or "" if nothing is wrong.
    """

    code: str
    level: Level
    said: str
    remedy: str = ""


def fine(code: str, said: str) -> Finding:
    """Return a finding about something that is in order."""
    return Finding(code, Level.FINE, said)


def fault(code: str, said: str, remedy: str) -> Finding:
    """Return a finding of a fault, with its remedy."""
    return Finding(code, Level.FAULT, said, remedy)


def clock(now: datetime, latest: Mapping[str, datetime]) -> Iterator[Finding]:
    """Yield findings about the clock.

    now : time of this machine's clock.
    latest : time of the last event of each store and ledger, by its path.
    """
    remedy = "set the clock, and keep it right by a time service such as chrony"
    behind = [path for path, at in latest.items() if at > now]
    if now < FIRST_DAY or now.year > LAST_YEAR:
        yield fault("clock-implausible", f"the clock shows {now:%Y-%m-%d %H:%M:%S} UTC", remedy)
    elif behind:
        yield fault(
            "clock-behind",
            f"the clock shows {now:%Y-%m-%d %H:%M:%S} UTC, which is before the last event in"
            f" {behind[0]} ({latest[behind[0]]:%Y-%m-%d %H:%M:%S} UTC)",
            remedy,
        )
    else:
        yield fine("clock", f"the clock shows {now:%Y-%m-%d %H:%M:%S} UTC")


def entropy() -> Iterator[Finding]:
    """Yield findings about the system's source of random numbers."""
    remedy = "wait until the system has collected entropy, or repair its random number generator"
    try:
        draws = {_drawn() for _ in range(8)}
    except BlockingIOError:
        yield fault("entropy-not-ready", "the system has no random numbers yet", remedy)
        return
    if len(draws) < 8 or any(len(set(draw)) == 1 for draw in draws):
        yield fault("entropy-repeats", "the system's random numbers repeat", remedy)
    else:
        yield fine("entropy", "the system gives random numbers at once")


def _drawn() -> bytes:
    if hasattr(os, "getrandom"):
        return os.getrandom(32, os.GRND_NONBLOCK)
    return os.urandom(32)


def versions(lock: Path | None) -> Iterator[Finding]:
    """Yield findings about the versions of Python and of packages.

    lock : file of locked versions, as pip reads it, or None.
    """
    try:
        own = metadata.metadata("fastlloyd")
    except metadata.PackageNotFoundError:
        yield Finding("not-installed", Level.NOTE, "fastlloyd runs without being installed")
        return
    python, minor = sys.version.split()[0], f"{sys.version_info[0]}.{sys.version_info[1]}"
    least = _numbers(own["Requires-Python"].removeprefix(">="))
    tested = [name.rpartition(" ")[2] for name in own.get_all("Classifier", [])]
    if sys.version_info[:3] < least:
        yield fault("python-too-old", f"Python is {python}", "install a newer Python")
    elif minor not in tested:
        yield Finding(
            "python-untested", Level.NOTE, f"Python is {python}, which no test has run on"
        )
    else:
        yield fine("python", f"Python is {python}")
    yield from _packages(own.get_all("Requires-Dist", []))
    if lock is not None:
        yield from _against(lock)


def _packages(requirements: list[str]) -> Iterator[Finding]:
    """Yield findings about the packages that this installation needs, and those of the extras that
    are installed.
    """
    wrong = False
    for requirement in requirements:
        if (found := _LOWER.match(requirement)) is None:
            continue
        (name, least), extra = found.groups(), _EXTRA.search(requirement)
        if extra and extra[1] not in MODULES:  # of developers
            continue
        version = _version(name)
        if (version is None and not extra) or (version and _numbers(version) < _numbers(least)):
            wrong = True
            yield fault(
                "package-missing" if version is None else "package-too-old",
                f"{name} is {version or 'not installed'}; fastlloyd needs {least} or later",
                f'python -m pip install "{name}>={least}"',
            )
    if not wrong:
        yield fine("packages", "all packages have versions that fastlloyd allows")


def _against(lock: Path) -> Iterator[Finding]:
    """Yield a finding about installed packages whose version is not in the lock file.

    A lock file may have several versions of a package, for different versions of Python. Any of
    them is accepted.
    """
    versions: dict[str, list[str]] = {}
    try:
        lines = read_start(lock, _MAX_LOCK).decode().splitlines()
        for name, locked in (found.groups() for found in map(_LOCKED.match, lines) if found):
            versions.setdefault(name, []).append(locked)
        why = "" if versions else "no line names a package and its version, as in numpy==2.0.0"
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "it is no text"
    if why:
        yield fault("lock-unreadable", f"{lock} cannot be read ({why})", "name the lock file")
        return
    differing = [
        f"{name} {version} instead of {' or '.join(locked)}"
        for name, locked in versions.items()
        if (version := _version(name)) not in (None, *locked)
    ]
    if differing:
        remedy = f"python -m pip install --require-hashes -r {lock}"
        yield fault("package-not-locked", f"differing from {lock}: {', '.join(differing)}", remedy)
    else:
        yield fine("locked", f"installed packages have the versions in {lock}")


def _version(name: str) -> str | None:
    with suppress(metadata.PackageNotFoundError):
        return metadata.version(name)
    return None


def _numbers(version: str) -> tuple[int, ...]:
    numbers = re.match(r"[\d.]*", version)
    return tuple(int(part) for part in numbers[0].split(".") if part) if numbers else ()


def extras(*, needs_network: bool) -> Iterator[Finding]:
    """Yield findings about the extras that are installed.

    needs_network : whether the extra `network` is needed.
    """
    there = [name for name in MODULES if is_installed(name)]
    gone = [name for name in MODULES if name not in there]
    if needs_network and "network" in gone:
        said = "the packages for runs over a network are not installed (fastlloyd[network])"
        yield fault("network-missing", said, command("network"))
    said = f"extras installed: {', '.join(there) or 'none'}"
    yield fine("extras", f"{said}; not installed: {', '.join(gone)}" if gone else said)


def compiler(run: Callable[[], int] | None = None) -> Iterator[Finding]:
    """Yield findings about the compiler, which needs memory that is writable and then executable.

    run : function that compiles in a process of its own and returns its exit code, or None for
        `compiles`.
    """
    if not is_installed("fast"):
        said = (
            "the optional packages fastlloyd[fast] are not installed, so computations take"
            " longer; results are the same"
        )
        yield Finding("compiler-missing", Level.NOTE, said, command("fast"))
    elif (compiles if run is None else run)() == 0:
        yield fine("compiler", "numba compiles and runs code on this machine")
    else:
        yield fault(
            "compiler-fails",
            "numba cannot run compiled code; the system may forbid executable memory",
            "allow it (systemd: MemoryDenyWriteExecute=no), or remove numba: computations then"
            " take longer, with the same results",
        )


def compiles() -> int:
    """Compile and run a function by numba in a process of its own, and return its exit code."""
    if os.name == "posix":
        try:
            mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC).close()
        except OSError:
            return 1
    try:
        # this interpreter, with a fixed program
        done = subprocess.run(  # noqa: S603  # nosec B603
            [sys.executable, "-c", _COMPILE], capture_output=True, timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return 1
    return done.returncode


def drive(folder: Path) -> Iterator[Finding]:
    """Yield findings about the drive of a folder: locks, and free space. A file is made in the
    folder and removed.

    folder : existing folder of a store or ledger.
    """
    if not os.access(folder, os.W_OK | os.X_OK):
        said = f"this user may not write in {folder}"
        yield fault("folder-not-writable", said, "name a store and a ledger in a folder of yours")
        return
    probe = folder / f".fastlloyd-check-{secrets.token_hex(8)}"
    try:
        lock = Lock(probe)
        try:
            holds = is_held(probe) is not False
        finally:
            lock.release()
    except StateError as error:
        yield fault("no-file-locks", str(error), "keep stores and ledgers on a local disk of yours")
    else:
        if holds:
            yield fine("locks", f"file locks work in {folder}")
        else:
            said = f"two processes can lock the same file at the same time in {folder}"
            yield fault("no-file-locks", said, "move stores and ledgers to a local disk")
    with suppress(OSError):
        probe.with_name(f"{probe.name}-lock").unlink(missing_ok=True)
    free = shutil.disk_usage(folder).free
    if free < LEAST_FREE:
        said = f"{free >> 20} MB are free in {folder}"
        yield fault("disk-full", said, f"free at least {LEAST_FREE >> 20} MB")
    else:
        yield fine("disk", f"{free >> 20} MB are free in {folder}")
