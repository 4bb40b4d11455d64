"""What the two ends of a connection tell each other besides the protocol: why a client stops, for how
many a step waits, and that an identity is used twice.
"""

import asyncio
import importlib.util
import logging
from collections.abc import Callable

import pytest

if importlib.util.find_spec("grpc") is None:
    pytest.skip("gRPC is not installed", allow_module_level=True)

from fastlloyd.errors import (
    DataError,
    EngineError,
    OldCopyError,
    OldServerError,
    OldStoreError,
    RemoteProtocolError,
    StateError,
)
from fastlloyd.federation.protocol.actions import Ended
from fastlloyd.federation.transport.grpc import endings
from fastlloyd.federation.transport.grpc import server as grpc_server
from fastlloyd.federation.transport.grpc.endings import StopCode
from fastlloyd.federation.transport.grpc.frames import (
    Attached,
    Refused,
    Stop,
    Twice,
    Waiting,
    encode_frame,
)
from fastlloyd.federation.transport.grpc.places import Place
from grpc_site import Site, answer, serving, until, within
from network import position, remembered

MRS_ZEBRA = "the record of Mrs Zebra"
MINE, OTHERS = bytes(16), bytes([1]) * 16


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Callable[[str], list[str]]:
    """The server's lines that hold a text."""
    caplog.set_level(logging.INFO, "fastlloyd")
    return lambda text: [line for line in caplog.messages if text in line]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (OldServerError(MRS_ZEBRA), StopCode.OLD_SERVER),
        (OldStoreError(MRS_ZEBRA), StopCode.OLD_STORE),
        (StateError(MRS_ZEBRA), StopCode.STORE_FAILED),
        (DataError(MRS_ZEBRA), StopCode.RECORDS_FAILED),
        (EngineError(MRS_ZEBRA), StopCode.RECORDS_FAILED),
        (ValueError(MRS_ZEBRA), StopCode.OTHER),
    ],
)
@pytest.mark.parametrize("where", ["attached", "begin", "receive"])
def test_whatever_ends_a_client_in_the_midst_of_a_run_is_told_to_the_server_as_a_sentence_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
    said: Callable[[str], list[str]],
    error: Exception,
    code: StopCode,
    where: str,
) -> None:
    def fail(*_: object) -> None:
        raise error

    async def test() -> None:
        site = Site()
        async with serving(site.server()) as port:
            others = [asyncio.create_task(site.client(n, port).run()) for n in ("c1", "c2")]
            monkeypatch.setattr(site.parties["c0"], where, fail)
            with pytest.raises(type(error), match=MRS_ZEBRA):
                await site.client("c0", port).run()
            await until(lambda: said("client c0 has stopped"))
            monkeypatch.undo()
            for other in others:
                other.cancel()

    within(test)
    assert said("client c0 has stopped") == [f"client c0 has stopped: {endings.sentence(code)}"]
    assert said(MRS_ZEBRA) == []
    assert said("has left") == []  # it may come back


def test_a_stop_by_its_owner_and_a_quarrel_with_the_server_are_told_apart_in_the_servers_log(
    monkeypatch: pytest.MonkeyPatch, said: Callable[[str], list[str]]
) -> None:
    def refuse(_: object) -> None:
        raise RemoteProtocolError(MRS_ZEBRA)

    async def test() -> None:
        site = Site()
        async with serving(site.server()) as port:
            stopped = site.client("c0", port)
            running = asyncio.create_task(stopped.run())
            await until(lambda: site.party.received)
            stopped.stop()
            assert await running is None
            await until(lambda: said("client c0 has stopped"))
            monkeypatch.setattr(site.parties["c1"], "receive", refuse)
            outcomes = [asyncio.create_task(site.client(n, port).run()) for n in ("c0", "c1", "c2")]
            assert await outcomes[1] == Ended(MRS_ZEBRA)
            await until(lambda: said("client c1 has left the run for good"))
            for outcome in outcomes:
                outcome.cancel()

    within(test)
    assert said("client c0 has stopped")[0].endswith(endings.sentence(StopCode.STOPPED))
    (line,) = said("client c1 has left the run for good")
    assert line.endswith(endings.sentence(StopCode.SERVER_REFUSED))
    assert said(MRS_ZEBRA) == []


def test_a_client_that_gives_up_is_said_to_have_waited_too_long(
    said: Callable[[str], list[str]],
) -> None:
    async def test() -> None:
        site = Site()
        async with serving(site.server()) as port:
            client = site.client("c0", port)
            running = asyncio.create_task(client.run())
            await until(lambda: site.party.received)
            site.parties["c0"].patience = lambda: 0.0
            await client._turns.watch()
            assert isinstance(await running, Ended)
            await until(lambda: said("has left the run for good"))

    within(test)
    assert said("client c0 has left the run for good") == [
        f"client c0 has left the run for good: {endings.GAVE_UP}"
    ]


@pytest.mark.parametrize("code", [0, 99, 255])
def test_a_code_that_nobody_knows_is_an_error_like_others(code: int) -> None:
    assert endings.sentence(code) == endings.sentence(StopCode.OTHER)


def test_clients_are_told_how_many_a_step_waits_for_and_forget_it_with_the_next_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(grpc_server, "_TELL_SECONDS", 0.02)

    async def test() -> None:
        site = Site()
        async with serving(site.server()) as port:
            clients = {name: site.client(name, port) for name in site.plan.names}
            running = [asyncio.create_task(clients[name].run()) for name in ("c0", "c1")]
            await until(lambda: [clients[name].n_awaited for name in ("c0", "c1")] == [1, 1])
            running.append(asyncio.create_task(clients["c2"].run()))
            site.check(list(await asyncio.gather(*running)))

    within(test)


def test_the_same_number_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc_server, "_TELL_SECONDS", 0.001)

    async def test() -> None:
        site = Site()
        async with serving(site.server()) as port, site.stream("c0", port) as stream:
            await stream.write(site.attach())
            assert isinstance(await answer(site, stream), Attached)
            assert await answer(site, stream) == Waiting(3)
            await stream.write(site.hello("c0"))
            assert await answer(site, stream) == Waiting(2)
            further = asyncio.create_task(answer(site, stream))
            await asyncio.wait({further}, timeout=0.2)  # in which nothing must come
            assert not further.done()
            further.cancel()

    within(test)


@pytest.mark.parametrize("host", ["127.0.0.1", "192.0.2.7"])
def test_another_process_takes_a_place_when_it_speaks_and_both_and_the_server_are_told(
    monkeypatch: pytest.MonkeyPatch, said: Callable[[str], list[str]], host: str
) -> None:
    """The first process is on that host, as the server sees it."""
    of = Place.of
    monkeypatch.setattr(
        Place,
        "of",
        lambda number, peer: Place(number, host) if number == MINE else of(number, peer),
    )

    async def test() -> None:
        site = Site()
        server = site.server()
        async with (
            serving(server) as port,
            site.stream("c0", port) as first,
            site.stream("c0", port) as second,
        ):
            await first.write(site.attach(process=MINE))
            assert isinstance(await answer(site, first), Attached)
            await second.write(site.attach(process=OTHERS))
            assert isinstance(await answer(site, second), Attached)
            hello = site.hello("c0")
            await first.write(hello)  # its place is still its own
            await until(lambda: len(site.party.received) == 1)
            await second.write(hello)
            refusal = await answer(site, first)
            assert isinstance(refusal, Refused)
            assert (
                f"the other process is at 127.0.0.1, and this process is at {host}"
                in refusal.reason
            )
            assert "stop one of the two" in refusal.reason
            if host != "127.0.0.1":  # else it may be the same one, started again
                assert await answer(site, second) == Twice(host)
            assert server.connected == {"c0"}

    within(test)
    (line,) = said("is used twice")
    assert f"at 127.0.0.1 took the place of a process at {host}" in line


def test_a_process_whose_store_is_not_the_one_that_was_seen_throws_nobody_out(
    monkeypatch: pytest.MonkeyPatch, said: Callable[[str], list[str]]
) -> None:
    async def test() -> None:
        site = Site()
        server = site.server()

        def attach(_name: str, log: object) -> object:
            if log == position(5):
                return remembered(position(7))
            raise OldCopyError("the store of client 'c0' is an old copy", "bring back the newest")

        async with serving(server) as port, site.stream("c0", port) as first:
            await first.write(site.attach(process=MINE))
            assert isinstance(await answer(site, first), Attached)
            monkeypatch.setattr(site.party, "attach", attach)
            async with site.stream("c0", port) as second:
                await second.write(site.attach(process=OTHERS, log=position(5)))
                assert isinstance(await answer(site, second), Attached)
                await second.write(encode_frame(Stop(StopCode.OLD_STORE)))
                await until(lambda: said("has stopped"))
            async with site.stream("c0", port) as third:
                await third.write(site.attach(process=OTHERS))
                refusal = await answer(site, third)
            assert isinstance(refusal, Refused)
            assert refusal.reason.startswith(
                "the store of client 'c0' is an old copy. The identity"
            )
            assert "last seen at 127.0.0.1, and this process is at 127.0.0.1" in refusal.reason
            assert "bring back" not in refusal.reason
            monkeypatch.undo()
            await first.write(site.hello("c0"))
            await until(lambda: site.party.received)
            assert server.connected == {"c0"}

    within(test)
    (line,) = said("has stopped")
    assert line.endswith("with its identity was last seen at 127.0.0.1")


def test_a_client_that_is_told_of_its_double_says_so_and_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test() -> None:
        site = Site()
        server = site.server()
        async with serving(server) as port:
            client = site.client("c0", port)
            running = asyncio.create_task(client.run())
            await until(lambda: site.party.received)
            server._streams.outboxes["c0"].put(encode_frame(Twice("192.0.2.7")))
            await until(lambda: "192.0.2.7" in caplog.text)
            client.stop()
            assert await running is None

    within(test)
    assert "make sure that the other process" in caplog.text


@pytest.mark.parametrize(
    ("peer", "host"),
    [
        ("ipv4:192.0.2.7:51234", "192.0.2.7"),
        ("ipv6:%5B2001:db8::1%5D:51234", "2001:db8::1"),
        ("ipv6:[::1]:1", "::1"),
        ("", "an unknown address"),
    ],
)
def test_a_peers_address_is_found_in_what_grpc_says(peer: str, host: str) -> None:
    assert Place.of(MINE, peer).host == host
