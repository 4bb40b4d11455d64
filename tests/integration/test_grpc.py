"""Runs over gRPC with mutual TLS on this machine: the same results as in one process, and what goes
wrong is refused and said.

Connections are allowed to break at any time, so a pause of the machine, which breaks some, changes
nothing that is asserted. Times in here only bound how long a failing test hangs, and how long a
test waits for what must not happen.
"""

import asyncio
import base64
import contextlib
import importlib.util
import signal
import socket
import ssl
import struct
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.serialization import Encoding

from clone import SUPPORT

if importlib.util.find_spec("grpc") is None:  # not imported here: that is the business of grpc_tls
    pytest.skip(
        'gRPC is not installed: python -m pip install ".[network]"', allow_module_level=True
    )

from authorities import Issuer, key_pem, pem, self_signed
from fastlloyd.errors import NetworkError
from fastlloyd.federation.identity.certificates import make_certificate
from fastlloyd.federation.plan.plan import Masks
from fastlloyd.federation.positions import SignedPosition
from fastlloyd.federation.protocol.actions import ClientResult, Ended, Send, ServerResult
from fastlloyd.federation.protocol.messages import (
    Broadcast,
    Deal,
    Limits,
    Message,
    Upload,
    decode,
    encode,
)
from fastlloyd.federation.store.events import LogPosition
from fastlloyd.federation.transport.grpc import server as grpc_server
from fastlloyd.federation.transport.grpc import tls
from fastlloyd.federation.transport.grpc.client import check_connection
from fastlloyd.federation.transport.grpc.frames import (
    Answer,
    Attached,
    Post,
    Refused,
    encode_frame,
    max_frame_bytes,
)
from fastlloyd.federation.transport.grpc.outbox import Outbox
from fastlloyd.federation.transport.grpc.tls import (
    HEALTH,
    SERVING,
    STREAM,
    Keepalive,
    TlsIdentity,
    as_pem,
    channel_credentials,
    channel_options,
    load_grpc,
    server_credentials,
)
from fastlloyd.federation.transport.grpc.turns import Pace
from fastlloyd.federation.transport.party import Request
from federation import make_federation, make_plan
from grpc_site import CALM, HANG, Site, answer, serving, until, within
from known_to_server import broadcasts_of, confirmations_of, hellos_of, uploads_of
from network import (
    Relay,
    SessionClient,
    SessionServer,
    listening,
    position,
    remembered,
    tls_identity,
)


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("grpc_proxy", "https_proxy", "http_proxy"):
        monkeypatch.delenv(name, raising=False)


def test_a_run_over_the_network_equals_the_run_in_one_process_bit_for_bit() -> None:
    async def test() -> None:
        site = Site()
        server = site.server()
        await server.start()
        end = asyncio.create_task(server.wait())
        clients = [site.client(name, server.port) for name in site.plan.names]
        site.check(list(await asyncio.gather(*(client.run() for client in clients))))
        result = await end  # as soon as all clients have said that they are done
        assert result == ServerResult(included=(site.plan.names,) * 3)
        assert server.meter.received == sum(client.meter.sent for client in clients) > 0
        assert server.meter.sent == sum(client.meter.received for client in clients) > 0
        assert server.connected == frozenset()

    within(test)


def test_a_server_that_nobody_asks_anything_draws_noise_ahead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn = threading.Event()
    monkeypatch.setattr(SessionServer, "draw_ahead", lambda _: drawn.set())

    async def test() -> None:
        site = Site()
        async with serving(site.server()):
            assert await asyncio.to_thread(drawn.wait, HANG)

    within(test)


async def ask_again(
    site: Site, port: int, name: str, n_times: int, n_answers: int
) -> list[Message]:
    """Say Hello so often on a bare stream, and wait for so many answers, each before the next
    Hello: none piles up.
    """
    async with site.stream(name, port) as stream:
        hello, found = site.hello(name), []
        await stream.write(site.attach())
        assert isinstance(await answer(site, stream), Attached)
        for i in range(n_times):
            await stream.write(hello)
            if i < n_answers:
                found.append(await answer(site, stream))
        assert all(isinstance(frame, Answer) for frame in found), found
        return [
            decode(frame.message, Limits.of(site.plan))
            for frame in found
            if isinstance(frame, Answer)
        ]


def all_but_one_joined() -> Site:
    """A run that only c0 has not joined."""
    site = Site()
    for name in site.plan.names[1:]:
        (send,) = site.parties[name].begin()
        assert isinstance(send, Send)
        assert site.party.session.receive(name, send.message) == []
    return site


def test_who_asks_again_for_what_all_were_told_has_nothing_encoded_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    encoded: list[Message] = []

    def counted(message: Message) -> bytes:
        encoded.append(message)
        return encode(message)

    monkeypatch.setattr(grpc_server, "encode", counted)

    async def test() -> None:
        site = all_but_one_joined()
        async with serving(site.server()) as port:
            answers = await ask_again(site, port, "c0", 15, 15)
        assert [type(message) for message in answers] == [Deal] * 15
        assert len(encoded) == 2  # as it was decided on, and as it is kept

    within(test)


def test_who_asks_more_than_others_need_waits_and_holds_up_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    paces: dict[Pace, int] = Counter()

    def pause(pace: Pace, _now: float) -> float:
        """One that is heard four times, over all its streams, and then no more in the time of this
        test.
        """
        paces[pace] += 1
        return 0.0 if paces[pace] <= 4 else 100 * HANG

    async def test() -> None:
        site = all_but_one_joined()
        async with serving(site.server()) as port:
            for _ in range(2):
                assert len(await ask_again(site, port, "c0", 2, 2)) == 2
            asking = asyncio.create_task(ask_again(site, port, "c0", 9, 1))
            await until(lambda: max(paces.values()) > 4)
            assert len(await ask_again(site, port, "c1", 4, 4)) == 4
            assert [name for name, _ in site.party.received] == ["c0"] * 4 + ["c1"] * 4
            asking.cancel()
            await asyncio.wait({asking})

    monkeypatch.setattr(Pace, "pause", pause)
    within(test)


@pytest.mark.parametrize(
    ("trouble", "sentence"),
    [
        (
            "not in the roster",
            "the server at 127.0.0.1:{port} refused this certificate: it is not in the roster",
        ),
        (
            "client expired",
            "the server at 127.0.0.1:{port} refused this certificate: the certificate expired on 20",
        ),
        ("another server", "the server at 127.0.0.1:{port} does not have the plan's certificate"),
        (
            "server expired",
            "the certificate of the server at 127.0.0.1:{port} has expired by this machine's clock",
        ),
        ("nobody listens", "nobody listens at 127.0.0.1:{port}"),
        ("unknown host", "the host name in no-such-host.invalid:443"),
        ("plaintext", "the program that listens at 127.0.0.1:{port} does not speak TLS 1.3"),
        ("hangs up", "127.0.0.1:{port} closed the connection"),
    ],
)
def test_a_client_that_gets_no_connection_says_why_when_its_time_is_up(
    trouble: str, sentence: str
) -> None:
    async def http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()
        writer.close()

    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async def test() -> None:
        site = Site(
            expired={"client expired": ("c0",), "server expired": ("server",)}.get(trouble, ())
        )
        settings: dict[str, Any] = {}
        async with (
            serving(site.server()) as port,
            listening(http) as plain,
            listening(hang_up) as rude,
        ):
            match trouble:
                case "not in the roster":
                    settings["identity"] = tls_identity("c0")
                case "another server":
                    settings["server_certificate"] = tls_identity("server").certificate
                case "nobody listens":
                    port = 1  # noqa: PLW2901 - the port of this case
                case "unknown host":
                    settings["address"] = "no-such-host.invalid:443"
                case "plaintext":
                    port = plain  # noqa: PLW2901 - the port of this case
                case "hangs up":
                    port = rude  # noqa: PLW2901 - the port of this case
            reason = await site.until_trouble(site.client("c0", port, **settings))
        assert reason.startswith(
            "no connection to the server came about in time; " + sentence.format(port=port)
        )
        assert site.party.received == []
        assert site.party.logs == {}

    within(test)


def test_what_a_server_writes_as_its_reason_reaches_no_terminal_as_a_command() -> None:
    async def scenario() -> None:
        site, grpc = Site(), load_grpc()

        async def refuse(_request: object, context: Any) -> None:
            await context.abort(
                grpc.StatusCode.PERMISSION_DENIED, "no \x1b]0;title\x07\x1b[2J\u202e entry"
            )

        lying = grpc.aio.server()
        methods = {
            STREAM: grpc.stream_stream_rpc_method_handler,
            HEALTH: grpc.unary_unary_rpc_method_handler,
        }
        lying.add_generic_rpc_handlers(
            [
                grpc.method_handlers_generic_handler(name, {method: kind(refuse)})
                for (name, method), kind in methods.items()
            ]
        )
        server = site.identities["server"]
        port = lying.add_secure_port(
            "127.0.0.1:0", server_credentials(server, [site.identities["c0"].certificate])
        )
        await lying.start()
        try:
            outcome = await site.client("c0", port).run()
            ends: dict[str, Any] = {
                "identity": site.identities["c0"],
                "server_certificate": server.certificate,
            }
            with pytest.raises(NetworkError) as refused:
                await check_connection(site.plan, address=f"127.0.0.1:{port}", **ends)
        finally:
            await lying.stop(None)
        assert isinstance(outcome, Ended)
        for said in (outcome.reason, str(refused.value)):
            assert "no ?]0;title??[2J? entry" in said

    within(scenario)


def test_certificates_that_an_authority_issued_are_pinned_as_self_signed_ones_are() -> None:
    """Neither the authority, here of a client's name, nor anyone else it certified is let in, with
    its chain or without.
    """

    async def answered(port: int, identity: TlsIdentity, chain: bytes, server: bytes) -> bool:
        credentials = load_grpc().ssl_channel_credentials(
            as_pem(server), identity.private_key, as_pem(identity.certificate) + chain
        )
        options = [("grpc.ssl_target_name_override", "server.fastlloyd.internal")]
        async with load_grpc().aio.secure_channel(
            f"127.0.0.1:{port}", credentials, options=options
        ) as channel:
            try:
                return bool(await channel.unary_unary(f"/{HEALTH[0]}/{HEALTH[1]}")(b"") == SERVING)
            except load_grpc().RpcError:
                return False

    async def test() -> None:
        site, authority = Site(), Issuer("c2")
        chain = pem(authority.certificate)
        site.identities |= {name: authority.tls_identity(name) for name in ("c0", "server")}
        site.identities |= {name: self_signed(name) for name in ("c1", "c2")}
        mine, server = site.identities["c0"], site.identities["server"]
        async with serving(site.server()) as port:
            for sent in (b"", chain):
                assert await answered(port, mine, sent, server.certificate)
                assert not await answered(
                    port, authority.tls_identity("c0"), sent, server.certificate
                )
                assert not await answered(
                    port, authority.tls_identity("server"), sent, server.certificate
                )
                assert not await answered(
                    port, mine, sent, authority.tls_identity("server").certificate
                )
            own = TlsIdentity(
                certificate=authority.certificate.public_bytes(Encoding.DER),
                private_key=key_pem(authority.key),
            )
            assert not await answered(port, own, b"", server.certificate)
            stranger = site.client("c0", port, identity=authority.tls_identity("c0"))
            assert "refused this certificate: it is not in the roster" in await site.until_trouble(
                stranger
            )
            site.parties["c0"] = SessionClient(site.federation.client("c0"))
            deceived = site.client(
                "c0", port, server_certificate=authority.tls_identity("server").certificate
            )
            assert "does not have the plan's certificate" in await site.until_trouble(deceived)
            assert site.party.received == []
            site.parties["c0"] = SessionClient(site.federation.client("c0"))
            site.check(await site.run_clients(port))

    within(test)


@pytest.mark.parametrize("kind", ["RSA", "RSA-PSS", "P-521", "Ed25519"])
def test_whatever_key_an_authority_has_what_it_issued_is_pinned(kind: str) -> None:
    keys: dict[str, Callable[[], dict[str, Any]]] = {
        "RSA": lambda: {"key": rsa.generate_private_key(65537, 2048)},
        "RSA-PSS": lambda: {
            "key": rsa.generate_private_key(65537, 2048),
            "rsa_padding": padding.PSS(padding.MGF1(hashes.SHA256()), 32),
        },
        "P-521": lambda: {
            "key": ec.generate_private_key(ec.SECP521R1()),
            "algorithm": hashes.SHA512(),
        },
        "Ed25519": lambda: {"key": ed25519.Ed25519PrivateKey.generate(), "algorithm": None},
    }

    async def test() -> None:
        site, authority = Site(), Issuer(**keys[kind]())
        site.identities |= {name: authority.tls_identity(name) for name in ("c0", "c1", "server")}
        async with serving(site.server()) as port:
            stranger = site.client("c0", port, identity=authority.tls_identity("c0"))
            assert "refused this certificate: it is not in the roster" in await site.until_trouble(
                stranger
            )
            site.parties["c0"] = SessionClient(site.federation.client("c0"))
            site.check(await site.run_clients(port))

    within(test)


def test_a_certificate_speaks_for_its_own_client_only() -> None:
    async def test() -> None:
        site = Site()
        async with serving(site.server()) as port:
            swapped = await site.client("c0", port, identity=site.identities["c1"]).run()
            assert swapped == Ended(
                "the server refuses this client: client 'c1' said Hello in the name of 'c0'"
            )
            site.parties["c0"] = SessionClient(site.federation.client("c0"))
            site.party.logs.clear()  # under c1's certificate c0's log was seen as c1's
            site.check(await site.run_clients(port))

    within(test)


def test_the_servers_own_certificate_is_no_clients() -> None:
    async def test() -> None:
        site = Site()
        async with serving(site.server()) as port:
            outcome = await site.client("c0", port, identity=site.identities["server"]).run()
        assert isinstance(outcome, Ended)
        assert (
            "refuses this client: PERMISSION_DENIED, this certificate does not belong"
            in outcome.reason
        )

    within(test)


def test_tls_1_2_is_refused_and_1_3_is_spoken() -> None:
    async def handshake(port: int, version: ssl.TLSVersion) -> str:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.minimum_version = context.maximum_version = version
        context.set_alpn_protocols(["h2"])
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        spoken: str = writer.get_extra_info("ssl_object").version()
        writer.close()
        return spoken

    async def test() -> None:
        async with serving(Site().server()) as port:
            assert await handshake(port, ssl.TLSVersion.TLSv1_3) == "TLSv1.3"
            with pytest.raises((ConnectionError, ssl.SSLError)):
                await handshake(port, ssl.TLSVersion.TLSv1_2)

    within(test)


@pytest.mark.parametrize(
    ("frames", "reason"),
    [
        (lambda _: [b""], "a frame begins with nothing"),
        (lambda _: [b"GET / HTTP/1.1\r\n\r\n"], "a frame begins with 47"),
        (lambda _: [b"\x03\xc1"], "a frame of 2 bytes cannot be read"),
        (lambda _: [b"\x03" + b"\x91" * 500], "cannot be read"),
        (lambda site: [site.attach() + b"\x00"], "cannot be read"),
        (lambda site: [site.attach(plan_digest=bytes(32))], "your plan has digest 0000"),
        (lambda site: [site.attach(run_id=bytes(16))], "your run id is 0000"),
        (
            lambda _: [encode_frame(Post(position(0), b""))],
            "a stream began with Post; expected Attach",
        ),
        (lambda _: [encode_frame(Attached(LogPosition(0, bytes(32))))], "cannot be read"),
        (lambda site: [site.attach(), site.attach()], "a stream is attached once"),
        (
            lambda site: [site.attach(), encode_frame(Post(position(0), b"garbage"))],
            "a message begins with 67",
        ),
        (lambda site: [site.attach(), encode_frame(Answer(b""))], "cannot be read"),
        (
            lambda site: [
                site.attach(),
                encode_frame(Post(position(0), encode(Upload(1, bytes(8), bytes(56))))),
            ],
            "Upload, which is not expected by a server that is joining",
        ),
    ],
)
def test_what_no_honest_client_says_is_refused_with_a_reason_and_the_run_goes_on(
    frames: Callable[[Site], list[bytes]], reason: str
) -> None:
    async def test() -> None:
        site = Site()
        async with serving(site.server()) as port:
            async with site.stream("c0", port) as stream:
                for frame in frames(site):
                    await stream.write(frame)
                said = [await answer(site, stream) for _ in frames(site)]
                assert isinstance(said[-1], Refused)
                assert reason in said[-1].reason
                assert await answer(site, stream) is None
            site.check(await site.run_clients(port))

    within(test)


def test_a_frame_longer_than_any_of_the_run_is_refused_before_it_is_read() -> None:
    async def test() -> None:
        grpc, site = load_grpc(), Site()
        async with serving(site.server()) as port:
            async with site.stream("c0", port) as stream:
                await stream.write(bytes(max_frame_bytes(Limits.of(site.plan)) + 1))
                with pytest.raises(grpc.aio.AioRpcError) as failure:
                    await stream.read()
                assert failure.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            site.check(await site.run_clients(port))

    within(test)


def test_a_connection_on_which_nothing_is_said_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls, "_HANDSHAKE_SECONDS", 1)

    async def test() -> None:
        async with serving(Site().server()) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            assert await reader.read() == b""
            writer.close()

    within(test)


def test_a_stream_on_which_nothing_is_said_is_ended_and_holds_up_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(grpc_server, "_FIRST_FRAME_SECONDS", 1.0)

    async def test() -> None:
        site = Site()
        async with serving(site.server()) as port, site.stream("c1", port) as silent:
            site.check(await site.run_clients(port))
            assert await answer(site, silent) == Refused(
                "no frame arrived on a new stream for 1 seconds"
            )

    within(test)


def test_a_client_that_drips_its_first_bytes_is_cut_off(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tls, "_HANDSHAKE_SECONDS", 1)

    async def test() -> None:
        site = Site()
        mine = site.identities["c0"]
        (tmp_path / "key.pem").write_bytes(mine.private_key + as_pem(mine.certificate))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_cert_chain(tmp_path / "key.pem")
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.set_alpn_protocols(["h2"])
        async with serving(site.server()) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
            end = asyncio.create_task(reader.read())
            with contextlib.suppress(ConnectionError):
                while not end.done():
                    writer.write(b"P")  # of "PRI * HTTP/2.0", for ever
                    await asyncio.sleep(0.1)
            with contextlib.suppress(ConnectionError):
                await end
            writer.transport.abort()

    within(test)


def test_a_second_stream_of_a_client_takes_the_place_of_the_first() -> None:
    async def test() -> None:
        site = Site()
        server = site.server()
        async with serving(server) as port, site.stream("c0", port) as first:
            await first.write(site.attach())
            assert isinstance(await answer(site, first), Attached)
            async with site.stream("c0", port) as second:
                await second.write(site.attach())
                assert isinstance(await answer(site, second), Attached)
                assert await answer(site, first) == Refused(
                    "another connection of this process took the place of this one"
                )
                assert await answer(site, first) is None
                assert server.connected == {"c0"}

    within(test)


def test_an_old_copy_of_a_clients_log_is_refused_by_both_sides(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test() -> None:
        site = Site()
        async with serving(site.server()) as port:
            later = position(7)
            async with site.stream("c0", port) as stream:
                await stream.write(site.attach(log=later))
                assert await answer(site, stream) == Attached(remembered(later))
            outcome = await site.client("c0", port).run()
            assert outcome == Ended(
                "the server refuses this client: the log of client c0 is older than what the server"
                " remembers of it"
            )
            monkeypatch.setattr(
                site.party, "attach", lambda _name, _log: remembered(later)
            )  # a server that lets it pass
            outcome = await site.client("c0", port).run()
            assert outcome == Ended("the server remembers more of this log than there is")

    within(test)


def test_a_client_whose_connection_breaks_in_every_round_comes_back_and_ends_with_the_same_result() -> (
    None
):
    async def test() -> None:
        site = Site()
        async with serving(site.server()) as port, Relay(port) as relay:
            loop = asyncio.get_running_loop()

            def cut(message: Message) -> None:
                if isinstance(message, Broadcast):
                    loop.call_soon_threadsafe(relay.cut)

            site.parties["c1"].on_message = cut
            clients = [
                site.client(name, relay.port if name == "c1" else port) for name in site.plan.names
            ]
            site.check(list(await asyncio.gather(*(client.run() for client in clients))))
        assert site.parties["c1"].n_begun > 1
        assert site.parties["c1"].remembered[-1].length > 0

    within(test)


@pytest.mark.parametrize("how", ["hangs up", "is reset", "nobody listens"])
def test_after_a_connection_that_broke_a_client_doubts_neither_certificate_nor_port(
    how: str,
) -> None:
    """The server, or the network, lets it in once and never again."""

    async def test() -> None:
        site = Site()
        async with serving(site.server()) as port, Relay(port) as relay:
            client = site.client("c0", relay.port)
            run = asyncio.create_task(client.run())
            await until(lambda: client._is_attached)

            async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                if how == "is reset":
                    no_linger = struct.pack("ii", 1, 0)
                    writer.get_extra_info("socket").setsockopt(
                        socket.SOL_SOCKET, socket.SO_LINGER, no_linger
                    )
                writer.close()

            # it listens no more; what is connected stays, for which wait_closed would wait
            relay._server.close()
            other = (
                None
                if how == "nobody listens"
                else await asyncio.start_server(hang_up, "127.0.0.1", relay.port)
            )
            relay.cut()
            await until(lambda: "lost" in client.trouble or "any more" in client.trouble)
            site.parties["c0"].patience = lambda: 0.0
            outcome = await run
            if other is not None:
                other.close()
        assert isinstance(outcome, Ended)
        for doubt in ("certificate", "check the port", "wrong", "TLS"):
            assert doubt not in outcome.reason

    within(test)


def test_a_server_that_stops_and_starts_again_goes_on_with_its_clients() -> None:
    async def test() -> None:
        site = Site()
        first = site.server()
        await first.start()
        loop = asyncio.get_running_loop()

        def stop(message: Message) -> None:
            if isinstance(message, Broadcast) and message.round == 1:
                loop.call_soon_threadsafe(first.stop)

        site.parties["c0"].on_message = stop
        clients = asyncio.gather(*(site.client(name, first.port).run() for name in site.plan.names))
        assert await first.wait() is None
        async with serving(site.server(first.port)):
            site.check(list(await clients))
        assert all(party.n_begun > 1 for party in site.parties.values())

    within(test)


def test_a_client_that_stops_and_starts_again_goes_on() -> None:
    async def test() -> None:
        site = Site()
        loop = asyncio.get_running_loop()
        async with serving(site.server()) as port:
            client = site.client("c2", port)

            def stop(_: Message) -> None:
                loop.call_soon_threadsafe(client.stop)

            site.parties["c2"].on_message = stop
            others = asyncio.gather(*(site.client(name, port).run() for name in ("c0", "c1")))
            assert await client.run() is None
            site.parties["c2"].on_message = lambda _: None
            last = await site.client("c2", port).run()
            site.check([*await others, last])

    within(test)


def test_nobody_waits_for_a_client_whose_run_has_ended_for_good() -> None:
    """It finds its broadcast spoiled and refuses it; no step has a deadline here."""

    async def test() -> None:
        site = Site(make_federation(make_plan(3, masks=Masks.PAIRWISE)))
        party = site.parties["c1"]
        genuine = party.receive

        def spoiled(message: Message) -> list[Request]:
            if isinstance(message, Broadcast):
                message = msgspec.structs.replace(message, payload=bytes(len(message.payload)))
            return genuine(message)

        party.receive = spoiled  # type: ignore[method-assign]
        async with serving(site.server()) as port:
            outcomes = await site.run_clients(port)
        ended = [outcome for outcome in outcomes if isinstance(outcome, Ended)]
        assert len(ended) == len(outcomes)
        reasons = {
            name: outcome.reason for name, outcome in zip(site.plan.names, ended, strict=True)
        }
        assert reasons["c0"] == reasons["c2"] != reasons["c1"]
        assert "c1" in reasons["c0"]

    within(test)


def test_a_client_whose_process_fails_has_not_left_and_goes_on_when_it_is_started_again() -> None:
    async def test() -> None:
        site = Site(make_federation(make_plan(3, masks=Masks.PAIRWISE)))

        def full(message: Message) -> None:
            if isinstance(message, Broadcast):
                raise OSError("the disk is full")

        site.parties["c1"].on_message = full
        async with serving(site.server()) as port:
            others = asyncio.gather(*(site.client(name, port).run() for name in ("c0", "c2")))
            with pytest.raises(OSError, match="disk is full"):
                await site.client("c1", port).run()
            site.parties["c1"].on_message = lambda _: None
            (again,) = await site.run_clients(port, "c1")
            first, last = await others
            site.check([first, again, last])

    within(test)


def ending_without_a_result(away: str) -> Site:
    """A run that ends at once when all but one have joined."""
    site = Site()
    here = set(site.plan.names) - {away}
    site.party.patience = lambda: (
        0.0
        if set(hellos_of(site.party.session)) == here and not site.party.session.outcome
        else None
    )
    return site


def test_after_an_end_without_a_result_nobody_is_waited_for_who_is_away() -> None:
    async def test() -> None:
        site = ending_without_a_result("c1")
        server = site.server(linger=100 * HANG, grace=0.1)
        await server.start()
        end = asyncio.create_task(server.wait())
        outcomes = await site.run_clients(server.port, "c0", "c2")
        result = await end
        assert result is not None
        assert result.reason is not None
        for outcome in outcomes:
            assert isinstance(outcome, Ended)
            assert result.reason in outcome.reason

    within(test)


def test_who_comes_within_the_grace_is_told_why_there_is_no_result_and_is_the_last() -> None:
    async def test() -> None:
        site = ending_without_a_result("c1")
        server = site.server(linger=100 * HANG, grace=100 * HANG)
        await server.start()
        assert (server.not_told, server.stays) == ((), None)
        end = asyncio.create_task(server.wait())
        await site.run_clients(server.port, "c0", "c2")
        while set(server.not_told) != {"c1"}:  # before the end of the run, nobody
            await asyncio.sleep(0.01)
        assert server.stays is not None
        assert 0 < server.stays <= 100 * HANG
        assert not end.done()
        (late,) = await site.run_clients(server.port, "c1")
        result = await end
        assert result is not None
        assert not server.not_told
        assert isinstance(late, Ended)
        assert str(result.reason) in late.reason

    within(test)


def test_a_result_is_kept_for_a_client_that_is_behind_however_short_the_grace() -> None:
    async def test() -> None:
        site = Site()
        server = site.server(linger=100 * HANG, grace=0.0)
        await server.start()
        end = asyncio.create_task(server.wait())
        loop, behind = asyncio.get_running_loop(), site.client("c2", server.port)

        def stop(message: Message) -> None:
            if isinstance(message, Broadcast) and message.round == site.plan.mechanism.n_rounds:
                loop.call_soon_threadsafe(behind.stop)

        site.parties["c2"].on_message = stop
        others = asyncio.gather(*(site.client(name, server.port).run() for name in ("c0", "c1")))
        assert await behind.run() is None
        results = await others
        await asyncio.sleep(0.2)
        assert not end.done()
        site.parties["c2"].on_message = lambda _: None
        (last,) = await site.run_clients(server.port, "c2")
        site.check([*results, last])
        assert await end is not None

    within(test)


def test_a_round_is_closed_at_its_deadline_without_the_client_that_is_away() -> None:
    async def test() -> None:
        site = Site(make_federation(make_plan(3, max_dropouts=1)))
        session = site.party.session

        def patience() -> float | None:
            """None is left once both that are there have answered, so that neither can be late."""
            answers: dict[str, Collection[str]]
            answers = {
                "joining": hellos_of(session),
                "aggregating": uploads_of(session),
                "confirming": confirmations_of(session),
            }
            return 0.0 if set(answers.get(session.state.value, ())) == {"c0", "c2"} else None

        site.party.patience = patience
        async with serving(site.server()) as port:
            outcomes = await site.run_clients(port, "c0", "c2")
        for outcome in outcomes:
            assert isinstance(outcome, ClientResult)
            assert outcome.included == (("c0", "c2"),) * 3

    within(test)


def test_who_missed_a_round_and_is_gone_costs_no_second_deadline_and_is_in_again_when_it_is_back() -> (
    None
):
    async def test() -> None:
        site = Site(make_federation(make_plan(3, max_dropouts=1, n_iterations=6)))
        session, loop, back = site.party.session, asyncio.get_running_loop(), threading.Event()
        server = site.server(grace=0.05)
        n_late = 0

        def patience() -> float | None:
            """The time of the first round that it misses is over once the others have answered; no
            other's ever is.
            """
            is_late = (
                n_late == 0
                and "c2" not in server.connected
                and set(uploads_of(session)) == {"c0", "c1"}
            )
            return 0.0 if is_late else None

        def late() -> list[Request]:
            nonlocal n_late
            n_late += 1
            return deadline()

        deadline, site.party.deadline, site.party.patience = site.party.deadline, late, patience  # type: ignore[method-assign]
        async with serving(server) as port:
            leaving = site.client("c2", port)

            def stop(message: Message) -> None:
                if isinstance(message, Broadcast):
                    loop.call_soon_threadsafe(leaving.stop)

            def hold(message: Message) -> None:
                if isinstance(message, Broadcast) and message.round == 4:
                    back.wait(HANG)

            site.parties["c2"].on_message, site.parties["c0"].on_message = stop, hold
            others = asyncio.gather(*(site.client(name, port).run() for name in ("c0", "c1")))
            assert await leaving.run() is None
            await until(lambda: len(broadcasts_of(session)) == 4)
            site.parties["c2"].on_message = lambda _: None
            last = asyncio.create_task(site.client("c2", port).run())
            await until(lambda: "c2" in server.connected)
            back.set()
            outcomes = [*await others, await last]
        for outcome in outcomes:
            assert isinstance(outcome, ClientResult)
            n_before = outcome.included.index(
                ("c0", "c1")
            )  # whether what it said last still arrived, the machine decides
            assert n_before in (1, 2)
            without = [("c0", "c1")] * (4 - n_before)
            assert outcome.included == (
                *[site.plan.names] * n_before,
                *without,
                *[site.plan.names] * 2,
            )
        assert n_late == 1

    within(test)


def test_a_client_gives_up_at_its_deadline() -> None:
    async def test() -> None:
        site = Site()
        end = time.monotonic() + 0.2
        site.parties["c0"].patience = lambda: end - time.monotonic()
        async with serving(site.server()) as port:
            outcome = await site.client("c0", port).run()
        assert isinstance(outcome, Ended)  # connected or not: a slow machine decides
        assert time.monotonic() >= end

    within(test)


def test_stopping_finishes_the_step_in_progress_and_sends_what_follows_from_it() -> None:
    async def test() -> None:
        site = Site(make_federation(make_plan(2)))
        begun, go_on = threading.Event(), threading.Event()
        receive = site.party.receive

        def slowly(name: str, log: SignedPosition, message: Message) -> list[Request]:
            begun.set()
            go_on.wait(HANG)
            return receive(name, log, message)

        server = site.server()
        await server.start()
        end = asyncio.create_task(server.wait())
        async with (
            site.stream("c0", server.port) as stream,
            site.stream("c1", server.port) as other,
        ):
            await other.write(site.attach())
            await stream.write(site.attach())
            assert isinstance(await answer(site, stream), Attached)
            await other.write(site.hello("c1"))
            await until(lambda: site.party.received)
            site.party.receive = slowly  # type: ignore[method-assign]  # from here on
            await stream.write(site.hello("c0"))
            await asyncio.to_thread(begun.wait, HANG)
            server.stop()
            await asyncio.sleep(0.05)
            assert not end.done()
            go_on.set()
            assert isinstance(
                await answer(site, stream), Answer
            )  # the dealer's task: what follows from the last Hello
            assert await answer(site, stream) is None
            assert await end is None

    within(test)


def test_a_party_that_takes_long_holds_up_no_stream() -> None:
    async def test() -> None:
        site = Site()
        receive = site.party.receive
        begun, go_on = threading.Event(), threading.Event()

        def slowly(name: str, log: SignedPosition, message: Message) -> list[Request]:
            begun.set()
            go_on.wait(HANG)
            return receive(name, log, message)

        # takes as long as the test wants
        site.party.receive = slowly  # type: ignore[method-assign]
        async with serving(site.server()) as port:
            run = asyncio.create_task(site.run_clients(port))
            await asyncio.to_thread(begun.wait, HANG)
            assert (
                await health(site, port) == b"\x08\x01"
            )  # over a connection of its own, while the party is at work
            go_on.set()
            site.check(await run)

    within(test)


def test_a_party_learns_of_all_whose_messages_have_come_before_it_answers_the_next() -> None:
    """So that it can make durable at once what it saw of them."""

    async def test() -> None:
        site = Site()
        receive, announced = site.party.receive, site.party.announced
        begun, go_on = threading.Event(), threading.Event()
        known: list[tuple[str, list[str]]] = []

        def slowly(name: str, log: SignedPosition, message: Message) -> list[Request]:
            known.append((name, sorted(announced)))
            begun.set()
            go_on.wait(HANG)
            return receive(name, log, message)

        # takes as long as the test wants
        site.party.receive = slowly  # type: ignore[method-assign]
        server = site.server()
        async with serving(server) as port, contextlib.AsyncExitStack() as stack:
            streams = {
                name: await stack.enter_async_context(site.stream(name, port))
                for name in site.plan.names
            }
            for stream in streams.values():
                await stream.write(site.attach())
                assert isinstance(await answer(site, stream), Attached)
            await streams["c0"].write(site.hello("c0"))
            await asyncio.to_thread(begun.wait, HANG)
            for name in ("c1", "c2"):
                await streams[name].write(site.hello(name))
            await until(lambda: len(server._waiting) == 2)
            go_on.set()
            await until(lambda: len(site.party.received) == 3)
        assert known[0] == ("c0", ["c0"])
        assert [everyone for _, everyone in known[1:]] == [["c0", "c1", "c2"]] * 2

    within(test)


def test_a_reader_that_does_not_read_is_cut_off_and_holds_up_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test() -> None:
        site = Site(make_federation(make_plan(2)))
        server = site.server()
        async with serving(server) as port:
            first = asyncio.create_task(site.client("c0", port).run())
            async with site.stream("c1", port) as stream:
                hello = site.hello("c1")
                await stream.write(site.attach())
                await until(lambda: "c1" in server.connected)

                async def flood() -> None:
                    while (
                        True
                    ):  # each is answered with the client's box of keys, which it does not read
                        await stream.write(hello)

                flooding = asyncio.create_task(flood())
                await until(lambda: "c1" not in server.connected)
                flooding.cancel()
                await asyncio.wait({flooding})
            site.parties["c1"] = SessionClient(site.federation.client("c1"))
            second = await site.client("c1", port).run()
            site.check([await first, second])

    monkeypatch.setattr(Pace, "pause", lambda _pace, _now: 0.0)  # or it would take long
    within(test)


def test_the_streams_that_a_client_leaves_unread_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client floods stream after stream and reads none, until it is refused another.

    On a slow machine a stream may be cut off before it is full; it ends then, and does not count.
    """

    async def test() -> None:
        site = Site(make_federation(make_plan(2)))
        server = site.server()
        async with serving(server) as port:
            first = asyncio.create_task(site.client("c0", port).run())
            hello, floods = site.hello("c1"), set[asyncio.Task[None]]()

            async def flood(stream: Any) -> None:
                while True:
                    await stream.write(hello)

            async with contextlib.AsyncExitStack() as unread:
                while True:
                    stream = await unread.enter_async_context(site.stream("c1", port))
                    with contextlib.suppress(Exception):  # one that is refused cannot be written
                        await stream.write(site.attach())
                    refused = asyncio.create_task(stream.code())
                    heard = asyncio.create_task(until(lambda: "c1" in server.connected))
                    await asyncio.wait([refused, heard], return_when=asyncio.FIRST_COMPLETED)
                    heard.cancel()
                    if refused.done():
                        break
                    floods.add(asyncio.create_task(flood(stream)))
                    await until(lambda: "c1" not in server.connected)
                assert refused.result().name == "UNAVAILABLE"
                assert "too many streams" in await stream.details()
                assert len(floods) >= 2
                for each in floods:
                    each.cancel()
                await asyncio.wait(floods)
            site.parties["c1"] = SessionClient(site.federation.client("c1"))
            second = await site.client("c1", port).run()
            site.check([await first, second])

    monkeypatch.setattr(grpc_server, "_MAX_STREAMS", 2)
    monkeypatch.setattr(Pace, "pause", lambda _pace, _now: 0.0)
    within(test)


def test_the_linger_ends_though_somebody_moves_in_the_moment_in_which_it_is_over() -> None:
    """In Python 3.11, of two timeouts one inside the other, the outer is lost if what is waited for
    happens with it.
    """

    async def test() -> None:
        server = Site().server(linger=0.2, grace=HANG)
        await server.start()
        server._streams.outboxes["c0"] = Outbox()  # connected, and never leaves
        server._outcome.set_result(ServerResult(included=(), reason="too few"))
        server._over.set()
        waiting = asyncio.create_task(server.wait())

        def busy() -> None:
            time.sleep(0.06)  # the end of the linger is due, too
            server._moved.set()

        asyncio.get_running_loop().call_later(0.19, busy)
        done, _ = await asyncio.wait({waiting}, timeout=30)
        assert done

    within(test)


def test_seconds_in_which_the_process_was_stopped_do_not_shorten_the_linger() -> None:
    """Otherwise a server that wakes is gone before those that are behind have asked for the end."""

    async def test() -> None:
        loop, server = asyncio.get_running_loop(), Site().server(linger=20.0, grace=HANG)
        genuine, moved = loop.time, 0.0
        loop.time = lambda: genuine() + moved  # type: ignore[method-assign]
        await server.start()
        server._outcome.set_result(ServerResult(included=()))
        server._over.set()
        waiting = asyncio.create_task(server.wait())
        for _ in range(3):
            await asyncio.sleep(0.05)
            moved += 15.0  # more than the linger in all, and less than within() allows
        done, _ = await asyncio.wait({waiting}, timeout=0.1)
        assert not done
        server.stop()
        await waiting

    within(test)


def test_an_error_of_a_party_ends_its_transport_and_is_raised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test() -> None:
        site = Site()

        def full(*_: object) -> list[Request]:
            raise OSError("the disk is full")

        server = site.server()
        monkeypatch.setattr(site.party, "receive", full)
        await server.start()
        client = asyncio.create_task(site.client("c0", server.port).run())
        with pytest.raises(OSError, match="disk is full"):
            await server.wait()
        client.cancel()
        await asyncio.wait({client})

        site = Site()
        monkeypatch.setattr(site.parties["c0"], "begin", full)
        async with serving(site.server()) as port:
            with pytest.raises(OSError, match="disk is full"):
                await site.client("c0", port).run()

    within(test)


def test_an_address_that_is_taken_is_named() -> None:
    async def test() -> None:
        async with serving(Site().server()) as port:
            with pytest.raises(NetworkError, match=f"listen.*127.0.0.1:{port}"):
                await Site().server(port).start()

    within(test)


async def health(site: Site, port: int) -> bytes:
    credentials = channel_credentials(
        site.identities["server"], site.identities["server"].certificate
    )
    options = channel_options(Limits.of(site.plan), site.identities["server"].certificate, CALM)
    async with load_grpc().aio.secure_channel(
        f"127.0.0.1:{port}", credentials, options=options
    ) as channel:
        said: bytes = await channel.unary_unary("/grpc.health.v1.Health/Check")(b"")
        return said


def test_a_monitor_with_the_servers_certificate_is_told_that_the_server_serves() -> None:
    async def test() -> None:
        site = Site()
        async with serving(site.server()) as port:
            assert await health(site, port) == b"\x08\x01"

    within(test)


def test_a_client_that_asks_is_told_whether_the_server_serves_its_very_plan() -> None:
    async def test() -> None:
        site = Site()
        own, server = site.identities["c0"], site.identities["server"].certificate
        other = msgspec.structs.replace(site.plan, run_id="ab" * 16)
        async with serving(site.server()) as port:
            await check_connection(
                site.plan, address=f"127.0.0.1:{port}", identity=own, server_certificate=server
            )
            with pytest.raises(
                NetworkError,
                match=f"another plan.*{other.digest.hex()}",
            ):
                await check_connection(
                    other, address=f"127.0.0.1:{port}", identity=own, server_certificate=server
                )

    within(test)


def test_the_first_bytes_of_a_connection_name_no_party() -> None:
    async def first_bytes(server: bytes) -> bytes:
        heard: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

        async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if not heard.done():
                heard.set_result(await reader.read(65536))
            writer.close()

        site = Site()
        listener = await asyncio.start_server(listen, "127.0.0.1", 0)
        port = listener.sockets[0].getsockname()[1]
        ends: dict[str, Any] = {
            "identity": site.identities["c0"],
            "server_certificate": server,
            "address": f"127.0.0.1:{port}",
        }
        with contextlib.suppress(NetworkError):
            await check_connection(site.plan, **ends)
        listener.close()
        return await heard

    async def test() -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        tomorrow = datetime.now(UTC).date() + timedelta(days=1)
        new = base64.b64decode(make_certificate("clinic-a", bytes(32), key, tomorrow))
        before = tls_identity("clinic-a").certificate  # of one host
        named = b"clinic-a.fastlloyd.internal"
        assert named in await first_bytes(before)
        said = await first_bytes(new)
        assert b"server.fastlloyd.internal" in said
        assert named not in said

    within(test)


def test_a_client_that_is_frozen_is_noticed_by_keepalive_and_goes_on_when_it_thaws(
    tmp_path: Path,
) -> None:
    async def test() -> None:
        site = Site()
        for name in ("c0", "server"):
            identity = site.identities[name]
            (tmp_path / f"{name}.pem").write_bytes(identity.private_key)
            (tmp_path / f"{name}.der").write_bytes(identity.certificate)
        server = site.server(keepalive=Keepalive(interval=1.0, timeout=1.0))
        async with serving(server) as port:
            script = str(SUPPORT / "grpc_client_process.py")
            process = await asyncio.create_subprocess_exec(
                sys.executable, script, str(port), str(tmp_path)
            )
            try:
                await until(lambda: "c0" in server.connected)
                process.send_signal(signal.SIGSTOP)
                await until(
                    lambda: "c0" not in server.connected
                )  # without ping timeouts this takes a minute
                process.send_signal(signal.SIGCONT)
                others = await site.run_clients(port, "c1", "c2")
                assert await process.wait() == 0
            finally:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
            assert all(isinstance(outcome, ClientResult) for outcome in others)

    within(test)


def test_a_run_passes_through_the_http_proxy_that_the_environment_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test() -> None:
        site = Site()
        async with serving(site.server()) as port, Relay(port, connect=True) as proxy:
            monkeypatch.setenv("https_proxy", f"http://someone:secret@127.0.0.1:{proxy.port}")
            # a name that only the proxy can resolve
            address = f"aggregator.invalid:{port}"
            clients = [site.client(name, port, address=address) for name in site.plan.names]
            site.check(list(await asyncio.gather(*(client.run() for client in clients))))
        assert set(proxy.connected_to) == {address}
        assert proxy.credentials == {base64.b64encode(b"someone:secret")}

    within(test)


def test_a_proxy_that_refuses_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 403 Forbidden\r\n\r\n")
        await writer.drain()
        writer.close()

    async def test() -> None:
        site = Site()
        async with listening(refuse) as port:
            monkeypatch.setenv("https_proxy", f"http://someone:secret@127.0.0.1:{port}")
            reason = await site.until_trouble(
                site.client("c0", 443, address="aggregator.invalid:443")
            )
        assert (
            "the HTTP proxy in between does not connect to aggregator.invalid:443 (response code"
            " 403)" in reason
        )
        assert "the environment sets https_proxy" in reason
        assert "secret" not in reason

    within(test)


@pytest.mark.parametrize("masks", Masks)
def test_a_round_takes_one_round_trip_however_slow_the_line(
    masks: Masks, record_property: Callable[[str, object], None]
) -> None:
    async def test() -> None:
        plan = make_plan(5, n_iterations=7, masks=masks)
        site = Site(make_federation(plan))
        async with serving(site.server()) as port, Relay(port, delay=0.04) as line:
            begun = time.monotonic()
            site.check(await site.run_clients(line.port))
            record_property("seconds", time.monotonic() - begun)
        # what a client waits for beside Attached: who shares keys, its keys, that all are ready,
        # seven broadcasts, the confirmations
        assert [len(party.received) for party in site.parties.values()] == [1 + 1 + 1 + 7 + 1] * 5
        assert all(party.n_begun == 1 for party in site.parties.values())
        n_speakers = len(masks.speakers(plan.names))
        assert len(site.party.received) == 5 * (1 + 1 + 7 + 1) + n_speakers

    within(test)
