"""Proxies in between: whatever one does is not blamed on the server, and settings that no proxy is
asked by are called that. A small proxy on this machine does it.
"""

import asyncio
import contextlib
import importlib.util
from collections.abc import AsyncIterator

import pytest

if importlib.util.find_spec("grpc") is None:
    pytest.skip("gRPC is not installed", allow_module_level=True)

from fastlloyd.errors import NetworkError
from fastlloyd.federation.transport.grpc import client as grpc_client
from fastlloyd.federation.transport.grpc import proxies
from fastlloyd.federation.transport.grpc.client import check_connection
from grpc_site import Site, serving, within

EVERY = (
    *proxies.SETTINGS,
    *(name.upper() for name in (*proxies.SETTINGS, "all_proxy", "no_proxy")),
    "all_proxy",
    "no_proxy",
    "no_grpc_proxy",
)


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in EVERY:
        monkeypatch.delenv(name, raising=False)


class Proxy:
    """A proxy that does one thing wrong; it counts who came. answer : after CONNECT; None: never.

    With `closes` it hangs up before it was asked anything.
    """

    def __init__(self, answer: str | None = None, *, closes: bool = False) -> None:
        self.answer, self.closes, self.n_came, self.port = answer, closes, 0, 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.n_came += 1
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            if not self.closes:
                await reader.readuntil(b"\r\n\r\n")
                if self.answer is None:
                    await reader.read()
                writer.write((self.answer or "").encode())
                await writer.drain()
        writer.close()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[int]:
        async with await asyncio.start_server(self.serve, "127.0.0.1", 0) as server:
            yield server.sockets[0].getsockname()[1]


async def said(site: Site, port: int, host: str = "127.0.0.1") -> str:
    """What a rehearsal says of the connection; nothing if it stands."""
    try:
        await check_connection(
            site.plan,
            address=f"{host}:{port}",
            identity=site.identities["c0"],
            server_certificate=site.identities["server"].certificate,
        )
    except NetworkError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("proxy", "what"),
    [
        (Proxy(closes=True), "through the proxy in https_proxy was closed"),
        (Proxy(answer=""), "through the proxy in https_proxy was closed"),
        (
            Proxy(answer="HTTP/1.1 200 OK\r\n\r\n"),
            "through the proxy in https_proxy was closed",
        ),
        (Proxy(answer="HTTP/1.1 407 No\r\n\r\n"), "does not connect to"),
        (Proxy(answer="SSH-2.0-x\r\n"), "is not an HTTP proxy"),
        (Proxy(), "no answer from 127.0.0.1"),
    ],
    ids=["hangs up", "hangs up when asked", "cuts", "refuses", "is none", "is silent"],
)
def test_what_a_proxy_does_is_not_blamed_on_the_server_alone(
    monkeypatch: pytest.MonkeyPatch, proxy: Proxy, what: str
) -> None:
    monkeypatch.setattr(grpc_client, "_CHECK_SECONDS", 2.0)

    async def test() -> None:
        site = Site()
        async with serving(site.server()) as port, proxy.running() as middle:
            monkeypatch.setenv("https_proxy", f"http://me:secret@127.0.0.1:{middle}")
            sentence = await said(site, port)
        assert proxy.n_came == 1
        assert what in sentence
        assert "the server at" not in sentence
        assert "https_proxy" in sentence
        assert "secret" not in sentence

    within(test)


@pytest.mark.parametrize(
    ("value", "what"),
    [
        ("http://127.0.0.1:9", "no proxy listens"),
        ("http://no-such-host.invalid:3128", "the host name in http_proxy"),
    ],
)
def test_a_proxy_that_is_not_there_is_not_taken_for_a_server_that_is_not(
    monkeypatch: pytest.MonkeyPatch, value: str, what: str
) -> None:
    async def test() -> None:
        site = Site()
        async with serving(site.server()) as port:
            monkeypatch.setenv("http_proxy", value)
            sentence = await said(site, port)
        assert what in sentence
        assert "the server is not started" not in sentence

    within(test)


@pytest.mark.parametrize(
    ("name", "form", "what"),
    [
        ("https_proxy", "127.0.0.1:{}", "does not begin with 'http://'"),
        ("https_proxy", "socks5h://127.0.0.1:{}", "does not begin with 'http://'"),
        ("https_proxy", "https://127.0.0.1:{}", "does not begin with 'http://'"),
        ("HTTPS_PROXY", "http://127.0.0.1:{}", "only https_proxy in lower case counts"),
        ("all_proxy", "http://127.0.0.1:{}", "only https_proxy in lower case counts"),
        ("ALL_PROXY", "socks5h://127.0.0.1:{}", "only https_proxy in lower case counts"),
    ],
)
def test_a_setting_that_no_proxy_is_asked_by_is_called_that(
    monkeypatch: pytest.MonkeyPatch, name: str, form: str, what: str
) -> None:
    """The proxy would refuse everything, so that it is seen whether gRPC asks it."""

    async def test() -> None:
        proxy, site = Proxy(closes=True), Site()
        async with proxy.running() as middle:
            monkeypatch.setenv(name, form.format(middle))
            async with serving(site.server()) as port:
                assert await said(site, port) == ""
            sentence = await said(site, port)
        assert proxy.n_came == 0
        assert "nobody listens at 127.0.0.1" in sentence
        assert f"the environment sets {name}, and no proxy is asked" in sentence
        assert what in sentence

    within(test)


@pytest.mark.parametrize(
    ("setting", "excepted", "host", "is_asked"),
    [
        ("https_proxy", "", "127.0.0.1", True),
        ("grpc_proxy", "other.example", "127.0.0.1", True),
        ("http_proxy", "other.example, 127.0.0.1", "127.0.0.1", False),
        ("https_proxy", "127.0.0.0/8", "127.0.0.1", False),
        ("https_proxy", "10.0.0.0/8", "127.0.0.1", True),
        ("https_proxy", "localhost", "localhost", False),
        ("https_proxy", "LocalHost", "localhost", False),
        ("https_proxy", "host", "localhost", True),
    ],
)
def test_whether_a_proxy_is_asked_is_known_as_grpc_knows_it(
    monkeypatch: pytest.MonkeyPatch, setting: str, excepted: str, host: str, is_asked: bool
) -> None:
    async def test() -> None:
        proxy, site = Proxy(closes=True), Site()
        async with serving(site.server()) as port, proxy.running() as middle:
            monkeypatch.setenv(setting, f"http://127.0.0.1:{middle}")
            monkeypatch.setenv("no_proxy", excepted)
            assert proxies.in_between(f"{host}:{port}") == (setting if is_asked else "")
            assert (await said(site, port, host) == "") == (not is_asked)
            assert bool(proxy.n_came) == is_asked

    within(test)


def test_a_silent_middle_gives_the_hint_in_the_spelling_of_every_wait() -> None:
    from fastlloyd.federation.transport.grpc.failures import explain

    for spelling in (
        "Deadline Exceeded",
        "last error: UNAVAILABLE: ipv4:192.0.2.7:443: Endpoint closing",
        "Failed to connect to remote host: Timeout occurred: FD Shutdown",
    ):
        sentence = explain(spelling, address="a:1", planned="a:1", own_certificate=b"")
        assert "no answer from a:1: a firewall may be in between" in sentence
