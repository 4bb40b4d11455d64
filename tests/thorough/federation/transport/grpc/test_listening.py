"""Why an address cannot be listened at: each reason is told from the others."""

import errno
import os
import socket
from typing import Any

import pytest

from fastlloyd.federation.transport.grpc import listening


def test_a_port_that_another_has_and_one_that_is_free_are_told_apart() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen(1)
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert "another program listens" in listening.why_not(address)
    assert "the same command" in listening.why_not(address)


@pytest.mark.parametrize("address", ["192.0.2.1:8443", "[2001:db8::1]:8443"])
def test_an_address_of_another_machine_is_called_that(address: str) -> None:
    said = listening.why_not(address)
    assert "belong to this machine" in said or "IPv6 may be switched off" in said


@pytest.mark.parametrize("name", ["no-such-host.invalid", "x" * 64 + ".example"])
def test_a_name_without_a_host_is_called_that(name: str) -> None:
    assert "cannot be resolved" in listening.why_not(f"{name}:8443")


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.EACCES, "AmbientCapabilities=CAP_NET_BIND_SERVICE"),
        (errno.EPERM, "below 1024"),
        (errno.ENOBUFS, os.strerror(errno.ENOBUFS)),
    ],
)
def test_a_right_that_is_missing_is_told_from_what_else_the_system_refuses(
    monkeypatch: pytest.MonkeyPatch, number: int, said: str
) -> None:
    class Refusing(socket.socket):
        def bind(self, _: Any) -> None:
            raise OSError(number, os.strerror(number))

    monkeypatch.setattr(socket, "socket", Refusing)
    assert said in listening.why_not("127.0.0.1:443")


def test_a_port_that_another_has_in_one_address_family_is_refused() -> None:
    """gRPC would listen in the other family, and clients would reach the other program."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen(1)
        port = taken.getsockname()[1]
        for host in ("localhost", "[::]"):
            with pytest.raises(RuntimeError, match="another program"):
                listening.check_free(f"{host}:{port}")
    listening.check_free(f"127.0.0.1:{port}")
