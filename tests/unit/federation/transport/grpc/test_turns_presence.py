"""Who is there, and who is reported to be away: once, and only after the grace."""

import asyncio

from clock import Clock
from fastlloyd.federation.transport.grpc.turns import Presence


def test_a_peer_is_reported_once_when_its_last_stream_has_ended_for_the_grace() -> None:
    async def test() -> None:
        clock, reported = Clock(), list[str]()

        async def after(seconds: float) -> list[str]:
            await clock.pass_time(seconds)
            return reported

        presence = Presence(1000.0, reported.append)
        presence.watch(["a", "b"])
        presence.came("a")
        assert await after(1000) == ["b"]  # never came
        presence.came("a")
        presence.went("a")
        assert presence.n_streams["a"] == 1
        assert await after(1000) == ["b"]
        presence.went("a")
        assert await after(999) == ["b"]
        presence.came("a")  # back in time
        assert await after(1000) == ["b"]
        presence.went("a")
        assert await after(1000) == ["b", "a"]
        assert await after(1000) == ["b", "a"]
        presence.came("b")
        presence.went("b")
        presence.close()
        assert await after(1000) == ["b", "a"]

    asyncio.run(test())
