"""A server and clients of one run over gRPC in this process, with certificates of their own; and
bare streams for attacks.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from fastlloyd.federation.protocol.actions import ClientResult, Ended, Send
from fastlloyd.federation.protocol.messages import Limits, encode
from fastlloyd.federation.transport.grpc.client import GrpcClient
from fastlloyd.federation.transport.grpc.frames import (
    Attach,
    Post,
    ServerFrame,
    decode_server_frame,
    encode_frame,
)
from fastlloyd.federation.transport.grpc.server import GrpcServer
from fastlloyd.federation.transport.grpc.tls import (
    Keepalive,
    TlsIdentity,
    channel_credentials,
    channel_options,
    load_grpc,
)
from fastlloyd.federation.transport.in_process import run_in_process
from federation import Federation, make_federation, make_plan, same_clustering
from network import SessionClient, SessionServer, position, tls_identity

HANG = 60.0  # seconds after which a test that waits has failed
CALM = Keepalive(interval=60.0, timeout=60.0)  # a machine that pauses breaks no connection
Outcome = ClientResult | Ended | None


class Site:
    """Everyone of one run: sessions, parties, certificates."""

    def __init__(
        self, federation: Federation | None = None, *, expired: tuple[str, ...] = ()
    ) -> None:
        self.federation = federation or make_federation(make_plan(3))
        self.plan = self.federation.plan
        self.identities = {
            name: tls_identity(name, days=-1 if name in expired else 365)
            for name in (*self.plan.names, "server")
        }
        self.party = SessionServer(self.federation.server())
        self.parties = {
            name: SessionClient(self.federation.client(name)) for name in self.plan.names
        }

    def server(self, port: int = 0, **settings: Any) -> GrpcServer:
        certificates = {name: self.identities[name].certificate for name in self.plan.names}
        identity = self.identities["server"]
        settings = {"linger": 5.0, "keepalive": CALM, **settings}
        return GrpcServer(
            self.party,
            self.plan,
            address=f"127.0.0.1:{port}",
            identity=identity,
            certificates=certificates,
            **settings,
        )

    def client(self, name: str, port: int, **settings: Any) -> GrpcClient:
        defaults = {
            "address": f"127.0.0.1:{port}",
            "identity": self.identities[name],
            "server_certificate": self.identities["server"].certificate,
            "keepalive": CALM,
        }
        return GrpcClient(self.parties[name], self.plan, **{**defaults, **settings})

    async def until_trouble(self, client: GrpcClient) -> str:
        """Have `c0` give up as soon as there is something that keeps it from the server: the reason
        it gives.
        """
        run = asyncio.create_task(client.run())
        await until(lambda: client.trouble)
        self.parties["c0"].patience = lambda: 0.0
        outcome = await run
        assert isinstance(outcome, Ended)
        return outcome.reason

    async def run_clients(self, port: int, *names: str) -> list[Outcome]:
        """Run these clients, or all, to their ends."""
        return list(
            await asyncio.gather(
                *(self.client(name, port).run() for name in names or self.plan.names)
            )
        )

    def check(self, outcomes: list[Outcome]) -> None:
        """Each client has the result of the same run in this process, bit for bit."""
        reference = run_in_process(self.federation.server(), self.federation.clients())
        for name, outcome in zip(self.plan.names, outcomes, strict=True):
            expected = reference.clients[name]
            assert isinstance(outcome, ClientResult), outcome
            assert isinstance(expected, ClientResult)
            assert same_clustering(outcome.clustering, expected.clustering)
            assert outcome.included == expected.included
            assert outcome.unconfirmed == ()

    def stream(self, name: str, port: int) -> contextlib.AbstractAsyncContextManager[Any]:
        """A bare stream with this client's certificate, for what no client of ours says."""
        return bare_stream(self.identities[name], self.identities["server"], self.federation, port)

    def channel(self, name: str, port: int) -> contextlib.AbstractAsyncContextManager[Any]:
        """A bare channel with this client's certificate."""
        return bare_channel(self.identities[name], self.identities["server"], self.federation, port)

    def attach(self, **changed: Any) -> bytes:
        fields = {
            "plan_digest": self.plan.digest,
            "run_id": bytes.fromhex(self.plan.run_id),
            "log": position(0),
            "process": bytes(16),
            **changed,
        }
        return encode_frame(Attach(**fields))

    def hello(self, name: str) -> bytes:
        (send,) = self.parties[name].begin()
        assert isinstance(send, Send)
        return encode_frame(Post(position(0), encode(send.message)))


@contextlib.asynccontextmanager
async def serving(server: GrpcServer) -> AsyncIterator[int]:
    """The port of a server that is stopped in the end."""
    await server.start()
    end = asyncio.create_task(server.wait())
    try:
        yield server.port
    finally:
        server.stop()
        await end


@contextlib.asynccontextmanager
async def bare_channel(
    mine: TlsIdentity, server: TlsIdentity, federation: Federation, port: int
) -> AsyncIterator[Any]:
    limits = Limits.of(federation.plan)
    options = dict(channel_options(limits, server.certificate, CALM))
    options |= {
        "grpc.max_send_message_length": -1,
        "grpc.http2.bdp_probe": 0,
    }  # sends what it likes; takes 64 KiB unread
    credentials = channel_credentials(mine, server.certificate)
    async with load_grpc().aio.secure_channel(
        f"127.0.0.1:{port}", credentials, options=list(options.items())
    ) as channel:
        yield channel


@contextlib.asynccontextmanager
async def bare_stream(
    mine: TlsIdentity, server: TlsIdentity, federation: Federation, port: int
) -> AsyncIterator[Any]:
    async with bare_channel(mine, server, federation, port) as channel:
        yield channel.stream_stream("/fastlloyd.Run/Stream")()


def within(test: Callable[[], Awaitable[None]]) -> None:
    """Run a test's coroutine in a loop of its own."""

    async def bounded() -> None:
        async with asyncio.timeout(HANG):
            await test()

    asyncio.run(bounded())


async def until(happened: Callable[[], object]) -> None:
    """Wait for it; the test's own limit ends a wait in vain."""
    while not happened():
        await asyncio.sleep(0.01)


async def answer(site: Site, stream: Any) -> ServerFrame | None:
    data = await stream.read()
    return decode_server_frame(data, Limits.of(site.plan)) if data else None
