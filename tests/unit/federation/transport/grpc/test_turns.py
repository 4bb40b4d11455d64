"""Turns and outboxes: one at a time, in order, to the end; and never much waiting."""

import asyncio
import threading
import time
from collections.abc import Callable

import pytest

from clock import Clock
from fastlloyd.errors import RemoteProtocolError
from fastlloyd.federation.protocol.actions import Ended, Finish
from fastlloyd.federation.protocol.messages import encode
from fastlloyd.federation.transport.grpc.outbox import MAX_WAITING, Meter, Outbox
from fastlloyd.federation.transport.grpc.turns import LOOK, PAUSE, Turns
from fastlloyd.federation.transport.party import Request


class Party:
    """Notes in which thread it is called; says of its clock what it is told to, in this order, and
    then that it has none.
    """

    def __init__(self) -> None:
        self.timeouts: list[float] = []
        self.threads: set[int] = set()
        self.n_deadlines = 0

    @property
    def timeout(self) -> float | None:
        self.threads.add(threading.get_ident())
        return self.timeouts.pop(0) if self.timeouts else None

    def deadline(self) -> list[Request]:
        self.threads.add(threading.get_ident())
        self.n_deadlines += 1
        return [Finish(Ended("late"))]

    def slept(self) -> None:
        self.threads.add(threading.get_ident())


class Driver:
    """Turns of a party, and all that came of them."""

    def __init__(self) -> None:
        self.party = Party()
        self.dispatched: list[object] = []
        self.failed: list[BaseException] = []
        self.turns = self.turns_of(None)

    def turns_of(self, rest: Callable[[], None] | None) -> Turns:
        return Turns(
            self.party,
            frame=encode,
            post=lambda to, frame: self.dispatched.append((to, frame)),
            finish=self.dispatched.append,
            fail=self.failed.append,
            rest=rest,
        )

    async def until_taken(self) -> None:
        """Wait until every turn that waits now is over, with no turn: after one the party's clock
        is looked at anew.
        """
        over = asyncio.Event()
        self.turns._waiting.put(lambda: over.set)
        await over.wait()


def test_turns_are_taken_one_at_a_time_in_order_and_in_one_thread() -> None:
    async def test() -> None:
        driver, running = Driver(), []

        def work(number: int) -> list[Request]:
            running.append(number)
            assert running == [number]
            driver.party.threads.add(threading.get_ident())
            time.sleep(0.001)
            running.clear()
            return [Finish(Ended(str(number)))]

        # bound now
        await asyncio.gather(*(driver.turns.ask(lambda i=i: work(i)) for i in range(20)))  # type: ignore[misc]
        assert driver.dispatched == [Ended(str(i)) for i in range(20)]
        await driver.turns.close()
        assert len(driver.party.threads) == 1
        assert threading.get_ident() not in driver.party.threads

    asyncio.run(test())


def test_what_a_party_does_between_turns_comes_after_what_follows_and_may_fail() -> None:
    async def test() -> None:
        driver, rested, go_on = Driver(), threading.Event(), threading.Event()

        def rest() -> None:
            rested.set()
            go_on.wait(60)
            driver.party.threads.add(threading.get_ident())
            raise OSError("no randomness")

        turns = driver.turns_of(rest)
        await turns.ask(lambda: [Finish(Ended("first"))])  # does not wait for the rest
        await asyncio.to_thread(rested.wait, 60)
        assert (driver.dispatched, driver.failed) == ([Ended("first")], [])
        go_on.set()
        await turns.ask(lambda: [Finish(Ended("second"))])
        await turns.close()
        assert driver.dispatched == [Ended("first"), Ended("second")]
        assert {str(error) for error in driver.failed} == {"no randomness"}
        assert len(driver.party.threads) == 1

    asyncio.run(test())


def test_a_turn_that_has_begun_is_finished_and_dispatched_though_who_asked_is_gone() -> None:
    async def test() -> None:
        driver, begun, go_on = Driver(), threading.Event(), threading.Event()

        def work() -> list[Request]:
            begun.set()
            go_on.wait(60)
            return [Finish(Ended("done"))]

        asking = asyncio.create_task(driver.turns.ask(work))
        await asyncio.to_thread(begun.wait, 60)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        go_on.set()
        await driver.turns.close()
        assert driver.dispatched == [Ended("done")]
        await driver.turns.ask(work)  # nothing is done after close
        assert driver.dispatched == [Ended("done")]

    asyncio.run(test())


def test_a_deadline_is_looked_at_again_when_its_turn_comes() -> None:
    async def test() -> None:
        driver = Driver()
        clock = Clock(driver.until_taken)
        # over when it is first looked at, not over when its turn comes: a message came first; then
        # over both times
        driver.party.timeouts = [0.0, 3600.0, 0.0, 0.0]
        await driver.turns.watch()
        while not driver.dispatched:
            await clock.pass_time(0.01)
        assert driver.dispatched == [Ended("late")]
        assert driver.party.n_deadlines == 1
        await driver.turns.close()

    asyncio.run(test())


class Patient(Party):
    """Waits ten seconds of a clock; notes every sleep, after which the ten seconds begin again."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.clock, self.since, self.n_slept = clock, clock.now, 0

    @property
    def timeout(self) -> float | None:
        return None if self.n_deadlines else self.since + 10.0 - self.clock.now

    def slept(self) -> None:
        self.n_slept += 1
        self.since = self.clock.now


@pytest.mark.parametrize("seconds", [LOOK + PAUSE + 0.1, 1000.0])
def test_a_process_that_was_stopped_gives_the_step_its_time_again_before_the_deadline_is_looked_at(
    seconds: float,
) -> None:
    async def test() -> None:
        driver = Driver()
        clock = Clock(driver.until_taken)
        driver.party = driver.turns._party = party = Patient(clock)
        await driver.turns.watch()
        await clock.pass_time(2.0)
        clock.stop(seconds)
        await clock.pass_time(0.5)
        assert (party.n_slept, party.n_deadlines) == (1, 0)
        await clock.pass_time(9.0)
        assert (party.n_slept, party.n_deadlines) == (1, 0)
        await clock.pass_time(1.0)
        assert (party.n_slept, party.n_deadlines) == (1, 1)
        await driver.turns.close()

    asyncio.run(test())


def test_a_turn_in_progress_while_the_process_is_stopped_hides_the_sleep_from_nobody() -> None:
    async def test() -> None:
        driver, begun, go_on = Driver(), threading.Event(), threading.Event()
        clock = Clock(driver.until_taken)
        driver.party = driver.turns._party = party = Patient(clock)
        await driver.turns.watch()

        def work() -> list[Request]:
            begun.set()
            go_on.wait(60)
            return []

        asking = asyncio.create_task(driver.turns.ask(work))
        await asyncio.to_thread(begun.wait, 60)
        clock.stop(1000.0)
        go_on.set()
        while not driver.turns._following:
            time.sleep(0)  # the turn is over before the loop looks at its timers again
        await asking
        await clock.pass_time(0.5)
        assert (party.n_slept, party.n_deadlines) == (1, 0)
        await driver.turns.close()

    asyncio.run(test())


def test_a_party_that_is_long_at_work_has_not_slept() -> None:
    async def test() -> None:
        driver, begun, go_on = Driver(), threading.Event(), threading.Event()
        clock = Clock()
        driver.party = driver.turns._party = party = Patient(clock)
        await driver.turns.watch()

        def work() -> list[Request]:
            begun.set()
            go_on.wait(60)
            return []

        asking = asyncio.create_task(driver.turns.ask(work))
        await asyncio.to_thread(begun.wait, 60)
        await clock.pass_time(60.0)
        go_on.set()
        await asking
        await driver.until_taken()
        assert (party.n_slept, party.n_deadlines) == (0, 1)
        await driver.turns.close()

    asyncio.run(test())


def test_what_a_peer_did_wrong_is_raised_and_what_went_wrong_here_is_told_too() -> None:
    async def test() -> None:
        driver = Driver()

        def refuse() -> list[Request]:
            raise RemoteProtocolError("no")

        def fail() -> list[Request]:
            raise OSError("the disk is full")

        with pytest.raises(RemoteProtocolError, match="no"):
            await driver.turns.ask(refuse)
        assert driver.failed == []
        with pytest.raises(OSError, match="full"):
            await driver.turns.ask(fail)
        await driver.turns.close()
        assert [str(error) for error in driver.failed] == ["the disk is full"]

    asyncio.run(test())


def test_an_outbox_writes_in_order_what_was_put_before_it_was_closed() -> None:
    async def test() -> None:
        outbox, written, meter = Outbox(), [], Meter()

        async def write(frame: bytes) -> None:
            await asyncio.sleep(0)
            written.append(frame)

        writer = asyncio.create_task(outbox.write_all(write, meter))
        for frame in (b"a", b"b"):
            outbox.put(frame)
            while frame not in written:
                await asyncio.sleep(0)
        outbox.put(b"c")
        outbox.close(b"last")
        outbox.put(b"too late")
        await writer
        assert written == [b"a", b"b", b"c", b"last"]
        assert meter.sent == 7

    asyncio.run(test())


def test_an_outbox_of_a_peer_that_does_not_read_is_emptied_and_closed() -> None:
    async def test() -> None:
        outbox = Outbox()
        for _ in range(MAX_WAITING):
            outbox.put(b"frame")
        assert not outbox.closed.is_set()
        outbox.put(b"one too many")
        assert outbox.closed.is_set()
        written: list[bytes] = []

        async def write(frame: bytes) -> None:
            written.append(frame)

        await outbox.write_all(write, Meter())
        assert written == []

    asyncio.run(test())
