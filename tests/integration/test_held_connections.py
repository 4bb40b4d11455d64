"""Somebody who only holds connections, without a certificate or with one of the plan: the members
get in all the same.
"""

import asyncio
import contextlib
import importlib.util
import logging
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

if importlib.util.find_spec("grpc") is None:
    pytest.skip('gRPC is not installed: pip install "fastlloyd[network]"', allow_module_level=True)

from fastlloyd.federation.transport.grpc import tls
from fastlloyd.federation.transport.grpc.tls import TlsIdentity, as_pem
from grpc_site import HANG, Site, serving, until, within
from network import tls_identity

MANY = 4 * 3 + 16  # connections of three clients that were all there were once
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes.fromhex(
    "000000040000000000"
)  # of HTTP/2, with empty settings


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("grpc_proxy", "https_proxy", "http_proxy"):
        monkeypatch.delenv(name, raising=False)


@contextlib.asynccontextmanager
async def held(
    port: int, n: int, certificate: ssl.SSLContext | None = None
) -> AsyncIterator[list[asyncio.StreamReader]]:
    """So many open connections on which nothing more is said; with a certificate, the handshakes of
    TLS and HTTP/2 are done.
    """
    connections = [
        await asyncio.open_connection("127.0.0.1", port, ssl=certificate) for _ in range(n)
    ]
    if certificate is not None:
        for _, writer in connections:
            writer.write(PREFACE)
    try:
        yield [reader for reader, _ in connections]
    finally:
        for _, writer in connections:
            writer.transport.abort()


def certificate_of(identity: TlsIdentity, folder: Path) -> ssl.SSLContext:
    (folder / "key.pem").write_bytes(identity.private_key + as_pem(identity.certificate))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_cert_chain(folder / "key.pem")
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    return context


async def gone(readers: list[asyncio.StreamReader]) -> None:
    for reader in readers:
        with contextlib.suppress(ConnectionError):
            while await reader.read(65536):
                pass


def test_sockets_without_a_certificate_keep_nobody_out_and_are_counted_in_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """They are held as long as the members' whole run takes."""
    monkeypatch.setattr(tls, "_HANDSHAKE_SECONDS", round(HANG))
    monkeypatch.setattr(tls, "SECONDS_TO_BE_HEARD", 0.2)
    caplog.set_level(logging.INFO, "fastlloyd")

    n_held: list[int] = []

    async def test() -> None:
        site = Site()
        async with serving(site.server()) as port, held(port, MANY) as readers:
            await until(lambda: any(f"{MANY} in all" in line for line in caplog.messages))
            site.parties["c0"].on_message = lambda _: n_held.append(
                sum(not reader.at_eof() for reader in readers)
            )
            site.check(await site.run_clients(port))

    within(test)
    assert set(n_held[:-1]) == {MANY}  # after its last message the server ends, and closes them all


def test_a_member_that_holds_connections_keeps_nobody_out_and_loses_those_that_idle(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tls, "_IDLE_SECONDS", 2)

    async def test() -> None:
        site = Site()
        certificate = certificate_of(site.identities["c1"], tmp_path)
        async with serving(site.server()) as port, held(port, MANY, certificate) as readers:
            site.check(await site.run_clients(port))
            await gone(readers)

    within(test)


def test_where_every_connection_is_held_clients_are_told_so_and_get_in_when_the_handshakes_time_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tls, "_HANDSHAKE_SECONDS", 2)

    async def test() -> None:
        site = Site()
        async with serving(site.server(max_connections=MANY)) as port, held(port, MANY) as readers:
            # one more is turned away at once, though it would be an honest client's
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""
            writer.close()
            site.check(await site.run_clients(port))  # they try again until there is room
            await gone(readers)

    within(test)


def test_a_client_that_finds_a_full_server_does_not_say_that_it_speaks_no_tls() -> None:
    async def test() -> None:
        site = Site()
        async with serving(site.server(max_connections=MANY)) as port, held(port, MANY):
            reason = await site.until_trouble(site.client("c0", port))
        assert "closed the connection" in reason

    within(test)


def test_refused_certificates_are_counted_and_members_are_not(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tls, "SECONDS_TO_BE_HEARD", 0.1)
    caplog.set_level(logging.INFO, "fastlloyd")

    async def test() -> None:
        site = Site()
        async with serving(site.server()) as port:
            first = asyncio.create_task(site.client("c1", port).run())
            stranger = asyncio.create_task(
                site.client("c0", port, identity=tls_identity("c0")).run()
            )
            await until(
                lambda: any("did not identify themselves" in line for line in caplog.messages)
            )
            stranger.cancel()
            await asyncio.wait({stranger})
            n_lines = len(lines := unheard(caplog))
            others = [asyncio.create_task(site.client(name, port).run()) for name in ("c0", "c2")]
            site.check([await others[0], await first, await others[1]])
            assert unheard(caplog)[:n_lines] == lines

    within(test)
    assert all(line.endswith("certificate was unknown or missing") for line in unheard(caplog))


def unheard(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [line for line in caplog.messages if "did not identify themselves" in line]
