"""Connections agree on their keys by X25519 and ML-KEM-768 together: what is recorded today stays
closed to a quantum computer.

gRPC has no option for it, so the ServerHello of a real run is read on its way.
"""

import asyncio
import contextlib
import importlib.util
import ssl

import pytest

if importlib.util.find_spec("grpc") is None:
    pytest.skip(
        'gRPC is not installed: python -m pip install ".[network]"', allow_module_level=True
    )

from grpc_site import Site, serving, within
from network import Relay

X25519MLKEM768, SECP256R1 = (
    0x11EC,
    0x0017,
)  # https://www.iana.org/assignments/tls-parameters, supported groups
HANDSHAKE, SERVER_HELLO, KEY_SHARE = 22, 2, 51


class Tap(Relay):
    """Keeps what each side of each connection said."""

    def __init__(self, target: int) -> None:
        super().__init__(target)
        self.said: list[bytearray] = []

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.said.append(said := bytearray())
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                said += data
                writer.write(data)
        writer.close()

    def shares(self) -> list[tuple[int, int]]:
        """Group and length of the key share in each ServerHello."""
        return [
            key_share(hello)
            for said in self.said
            if (hello := first_handshake_message(bytes(said))) and hello[0] == SERVER_HELLO
        ]


class Reader:
    """Fields one after the other, as in RFC 8446, section 3."""

    def __init__(self, encoded: bytes) -> None:
        self.rest = encoded

    def take(self, n_bytes: int) -> bytes:
        assert len(self.rest) >= n_bytes
        taken, self.rest = self.rest[:n_bytes], self.rest[n_bytes:]
        return taken

    def number(self, n_bytes: int) -> int:
        return int.from_bytes(self.take(n_bytes))

    def vector(self, n_bytes: int) -> bytes:
        """What follows its own length, which takes `n_bytes`."""
        return self.take(self.number(n_bytes))


def first_handshake_message(said: bytes) -> bytes:
    """The first message, with its type, out of the records before anything is encrypted (RFC 8446,
    sections 4 and 5.1).
    """
    records, message = Reader(said), b""
    while records.rest and records.number(1) == HANDSHAKE:
        records.take(2)
        message += records.vector(2)
    return message[: 4 + int.from_bytes(message[1:4])]


def key_share(server_hello: bytes) -> tuple[int, int]:
    """RFC 8446, sections 4.1.3 and 4.2.8."""
    fields = Reader(server_hello)
    fields.take(4 + 2 + 32)  # type and length, legacy_version, random
    fields.vector(1)  # legacy_session_id_echo
    fields.take(2 + 1)  # cipher_suite, legacy_compression_method
    extensions, found = Reader(fields.vector(2)), {}
    while extensions.rest:
        kind = extensions.number(2)
        found[kind] = extensions.vector(2)
    share = Reader(found[KEY_SHARE])
    return share.number(2), len(share.vector(2))


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("grpc_proxy", "https_proxy", "http_proxy"):
        monkeypatch.delenv(name, raising=False)


def test_every_connection_of_a_run_agrees_on_its_keys_by_x25519_and_ml_kem() -> None:
    async def test() -> None:
        site = Site()
        async with serving(site.server()) as port, Tap(port) as tap:
            site.check(await site.run_clients(tap.port))
            shares = tap.shares()
        assert len(shares) >= len(site.plan.names)
        assert set(shares) == {
            (X25519MLKEM768, 1088 + 32)
        }  # the server's share: a ciphertext and an X25519 key

    within(test)


def test_a_connection_by_another_group_would_be_seen() -> None:
    async def test() -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.set_ecdh_curve("prime256v1")
        async with serving(Site().server()) as port, Tap(port) as tap:
            with contextlib.suppress(ConnectionError, ssl.SSLError):
                _, writer = await asyncio.open_connection("127.0.0.1", tap.port, ssl=context)
                writer.close()
            assert tap.shares() == [(SECP256R1, 65)]

    within(test)
