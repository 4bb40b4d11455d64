"""A machine that is down for the better part of a day, at any step of a run with pairwise masks,
loses nothing.

Every client of the key set must answer every round, so the others wait for it: a day in every step
but joining, which takes an hour. Only parameters are asked of the next client after a minute. The
result is that of an uninterrupted run, bit for bit.
"""

from pathlib import Path

import pytest

from fastlloyd.federation.plan.plan import Masks, TrustMode
from fastlloyd.federation.protocol.actions import SERVER, Ended
from fastlloyd.federation.protocol.messages import Deal, Parameters, decode
from federation import starts_cheaply
from mortal_parties import AFTER, BEFORE, World
from runs_with_deaths import (
    FEDERATIONS,
    MOMENTS,
    N_COMMITS,
    N_COMMITS_OF_MOMENTS,
    RESULTS,
    expected,
    run_to_the_end,
)

KIND = TrustMode.CLIENT_NOISE, Masks.PAIRWISE
HOUR = 3600.0


class LongReboots(World):
    """Who dies is gone for 23 hours, or 55 minutes while clients join; the others wait for it, by
    their clocks.
    """

    def _deliver(self, sender: str, name: str, data: bytes) -> None:
        if not isinstance(self.parties[name].party.outcome, Ended):  # who has ended listens no more
            super()._deliver(sender, name, data)

    def _bury(self, name: str) -> None:
        super()._bury(name)
        has_joined = any(isinstance(decode(data, self.limits), Deal) for _, data in self.sent)
        back = self.clock.now + (23 * HOUR if has_joined else HOUR - 300)
        while True:
            while self.queue:
                self._deliver(*self.queue.popleft())
            living = {
                who: mortal.party
                for who, mortal in self.parties.items()
                if mortal.party is not None
            }
            waits = [
                (party.timeout, who) for who, party in living.items() if party.timeout is not None
            ]
            if not waits or self.clock.now + min(waits)[0] > back:
                break
            timeout, who = min(waits)
            self.clock.now += timeout
            self._post(who, living[who].deadline())
        self.clock.now = back


@pytest.mark.parametrize("when", [BEFORE, AFTER])
@pytest.mark.parametrize(
    ("name", "commit"),
    [(name, n) for name, n_commits in N_COMMITS[KIND[1]].items() for n in range(n_commits)],
)
def test_whoever_is_down_for_a_day_at_any_commit_is_waited_for(
    name: str, commit: int, when: str, tmp_path: Path
) -> None:
    deaths = {name: [(commit, when)]}
    world = run_to_the_end(FEDERATIONS[KIND], RESULTS[KIND], tmp_path, deaths, LongReboots)
    assert world.died == {name: 1}
    assert world.clock.now > HOUR - 600


def test_with_group_masks_nobody_is_waited_for_so_long(tmp_path: Path) -> None:
    """What tells that the clock of these tests bites: the others have ended the run when the client
    is back.
    """
    federation = FEDERATIONS[TrustMode.CLIENT_NOISE, Masks.GROUP]
    with LongReboots(federation.plan, federation.X, tmp_path, {"c1": [(5, AFTER)]}) as world:
        assert world.run() == {}
        for name in ("c0", "c1", "c2"):
            store = world.parties[name].store
            assert store is not None
            ended = store.history.runs[bytes.fromhex(federation.plan.run_id)].ended
            assert ended is not None
            assert (
                "2 clients answered in round 2 (missing: c1), and at least 3 are needed"
                in ended.reason
            )


@pytest.mark.parametrize(("name", "first"), [("c0", 0), ("c0", 1), ("c1", 0), (SERVER, 0)])
def test_where_parameters_travel_a_leader_that_is_down_is_replaced_and_takes_the_run_up(
    name: str, first: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At every commit, in turn before and after it."""
    starts_cheaply(monkeypatch)
    moments = MOMENTS[Masks.PAIRWISE]
    right, leaders = expected(moments), set[str]()
    for commit in range(N_COMMITS_OF_MOMENTS[Masks.PAIRWISE][name]):
        deaths = {name: [(commit, (BEFORE, AFTER)[(commit + first) % 2])]}
        world = run_to_the_end(moments, right, tmp_path / str(commit), deaths, LongReboots)
        assert world.died == {name: 1}
        relayed = [decode(data, world.limits) for sender, data in world.sent if sender == SERVER]
        leaders |= {message.client for message in relayed if isinstance(message, Parameters)}
    assert leaders == ({"c0", "c1"} if name == "c0" else {"c0"})
