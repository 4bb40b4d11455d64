"""Tests in `tests/unit` start no process and talk to nobody: one that tries to fails.

So `make quick` needs neither, takes no port and leaves nothing behind.
"""

import multiprocessing.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import pytest

from clone import ROOT
from fastlloyd.federation.transport.grpc.tls import load_grpc

grpc = load_grpc()  # with TLS 1.2 refused, which later tests need
UNIT = ROOT / "tests/unit"
# Events of Python's own: https://docs.python.org/3/library/audit_events.html
EVENTS = {
    "os.exec",
    "os.fork",
    "os.forkpty",
    "os.posix_spawn",
    "os.spawn",
    "os.system",
    "socket.bind",
    "socket.connect",
    "socket.getaddrinfo",
    "socket.gethostbyname",
    "socket.sendto",
    "subprocess.Popen",
}
# What starts processes or opens sockets from C code, which says nothing of it.
CALLS = (
    (multiprocessing.util, "spawnv_passfds"),
    *((grpc, name) for name in ("server", "secure_channel", "insecure_channel")),
    *((grpc.aio, name) for name in ("server", "secure_channel", "insecure_channel")),
)


class _Watch:
    is_on = is_hooked = False


def _refuse(what: str) -> NoReturn:
    pytest.fail(f"{what} in a test of tests/unit: it belongs in tests/thorough, which says why")


def _heard(event: str, _arguments: tuple[Any, ...]) -> None:
    if _Watch.is_on and event in EVENTS:
        _refuse(event)


@contextmanager
def alone() -> Iterator[None]:
    """Fail a test that starts a process, looks up a name, or binds or connects a socket."""
    if not _Watch.is_hooked:  # nothing takes a hook away again
        sys.addaudithook(_heard)
        _Watch.is_hooked = True
    with pytest.MonkeyPatch.context() as patch:
        for module, name in CALLS:
            patch.setattr(module, name, lambda *_, name=name, **__: _refuse(name))
        _Watch.is_on = True
        try:
            yield
        finally:
            _Watch.is_on = False


@pytest.fixture(autouse=True)
def unit_tests_are_alone(request: pytest.FixtureRequest) -> Iterator[None]:
    if UNIT in request.path.parents:
        with alone():
            yield
    else:
        yield
