"""Which event may follow which, and what they add up to."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastlloyd.errors import StateError
from fastlloyd.federation.store import History, LogPosition, Role
from fastlloyd.federation.store.events import (
    ClientJoined,
    ClientLeft,
    Event,
    ExchangeCharged,
    HandedBack,
    LimitSet,
    MessageRecorded,
    Outcome,
    RunCharged,
    RunEnded,
)
from stores import reserved, run_id, seen

A, B = run_id(1), run_id(2)
MESSAGE = MessageRecorded(run_id=A, kind="Upload", digest=bytes(32))
AGREED = MessageRecorded(run_id=A, kind="AllReady", digest=bytes(32))
CHARGE = ExchangeCharged(run_id=A, number=1)
LIMIT = LimitSet(dataset="patients", epsilon=1.0, delta=0.0)
JOINED = ClientJoined(run_id=A, client="clinic-a")
LEFT = ClientLeft(run_id=A, client="clinic-a")
SEEN = seen("clinic-a", LogPosition(3, bytes(32)))
WHOLE: list[Event] = [reserved(A), RunCharged(run_id=A)]


def _end(*released: int) -> RunEnded:
    return RunEnded(run_id=A, outcome=Outcome.FINISHED, reason="", released=released)


def _back(*numbers: int) -> HandedBack:
    return HandedBack(run_id=A, numbers=numbers)


def _charged(*numbers: int) -> list[Event]:
    return [ExchangeCharged(run_id=A, number=number) for number in numbers]


@pytest.mark.parametrize(
    ("role", "events", "said"),
    [
        (Role.CLIENT, [MESSAGE], "never reserved"),
        (Role.CLIENT, [CHARGE], "never reserved"),
        (Role.CLIENT, [_end()], "never reserved"),
        (Role.CLIENT, [reserved(A), reserved(A)], "joined before"),
        (Role.CLIENT, [reserved(A), CHARGE, CHARGE], "is already charged"),
        (
            Role.CLIENT,
            [reserved(A, n_exchanges=1), ExchangeCharged(run_id=A, number=2)],
            "or was never reserved",
        ),
        (Role.CLIENT, [reserved(A), CHARGE, _end(1, 2, 3)], "release exactly"),
        (Role.CLIENT, [reserved(A), CHARGE, _end(2)], "release exactly"),
        (Role.CLIENT, [reserved(A), CHARGE, _end(3, 2)], "release exactly"),
        (Role.CLIENT, [reserved(A), _end(1, 2, 3), CHARGE], "has ended"),
        (Role.CLIENT, [reserved(A), _end(1, 2, 3), MESSAGE], "has ended"),
        (Role.CLIENT, [reserved(A), _end(1, 2, 3), _end(1, 2, 3)], "has ended"),
        (Role.CLIENT, [reserved(A), CHARGE, _end(2, 3), reserved(A)], "joined before"),
        (Role.CLIENT, [SEEN], "store of a server"),
        (Role.CLIENT, [reserved(A), JOINED], "store of a server"),
        (Role.SERVER, [JOINED, JOINED], "client clinic-a has already joined run"),
        (Role.SERVER, [JOINED, AGREED, _end(), JOINED], "has ended"),
        (Role.CLIENT, [reserved(A), LEFT], "store of a server"),
        (Role.SERVER, [JOINED, LEFT, LEFT], "client clinic-a has already left run"),
        (Role.SERVER, [JOINED, AGREED, _end(), LEFT], "has ended"),
        (Role.SERVER, [JOINED, _end(), LEFT], "has ended"),
        (Role.SERVER, [reserved(A)], "store of a client"),
        (Role.SERVER, [CHARGE], "store of a client"),
        (Role.SERVER, [LIMIT], "store of a client"),
        (Role.SERVER, [MESSAGE, _end(1)], "release exactly"),
        (Role.SERVER, [AGREED, MESSAGE, _end(), MESSAGE], "has ended"),
        (
            Role.SERVER,
            [SEEN, seen("clinic-a", LogPosition(2, bytes(32)))],
            "old copy",
        ),
        (
            Role.SERVER,
            [SEEN, seen("clinic-a", LogPosition(3, b"x" * 32))],
            "old copy",
        ),
    ],
)
def test_what_cannot_follow_is_refused(role: Role, events: list[Event], said: str) -> None:
    history = History(role).followed_by(events[:-1])
    with pytest.raises(StateError, match=said):
        history.add(events[-1])


def test_a_run_that_cost_nothing_begins_again() -> None:
    client = History(Role.CLIENT).followed_by([reserved(A), _end(1, 2, 3), reserved(A)])
    server = History(Role.SERVER).followed_by([JOINED, _end(), JOINED])
    for history in (client, server):
        assert history.runs[A].is_open
        assert not history.runs[A].charged


def test_a_history_that_refuses_stays_as_it_was() -> None:
    history = History(Role.CLIENT).followed_by([reserved(A)])
    with pytest.raises(StateError, match="already charged"):
        history.followed_by([CHARGE, LIMIT, reserved(B), CHARGE])
    assert history.runs[A].charged == ()
    assert (list(history.runs), history.limits) == ([A], {})


@pytest.mark.parametrize(
    ("events", "said"),
    [
        ([_back(1)], "never reserved"),
        ([reserved(A), _back(1)], "cannot release"),
        (
            [reserved(A), *_charged(1, 2, 3), _back(3)],
            "cannot release",
        ),  # a client's run, all of it answered
        ([*WHOLE, _back(3, 3)], "cannot release"),
        ([*WHOLE, _back(3, 2)], "cannot release"),
        ([*WHOLE, _back(4)], "cannot release"),
        ([*WHOLE, _back(0, 1)], "cannot release"),
        ([*WHOLE, _back(3), _back(3)], "cannot release"),
        ([*WHOLE, _back(3), _back(2)], "cannot release"),
        ([*WHOLE, _end(), _back(3)], "has ended"),
        ([*WHOLE, *WHOLE[1:]], "is already charged"),
        ([reserved(A), *_charged(1), *WHOLE[1:]], "is already charged"),
        ([*WHOLE, _back(3), *WHOLE[1:]], "is already charged"),
        ([*WHOLE, _back(1, 2, 3), *WHOLE[1:]], "is already charged"),
    ],
)
def test_only_what_was_charged_whole_is_handed_back_and_once(
    events: list[Event], said: str
) -> None:
    history = History(Role.HOLDER).followed_by(events[:-1])
    before = history.runs.get(A)
    with pytest.raises(StateError, match=said):
        history.add(events[-1])
    assert history.runs.get(A) == before


@pytest.mark.parametrize("role", [Role.CLIENT, Role.SERVER])
@pytest.mark.parametrize("event", [WHOLE[1], _back(1)])
def test_nothing_is_charged_whole_or_handed_back_outside_a_ledger(role: Role, event: Event) -> None:
    history = History(role).followed_by([reserved(A)] if role is Role.CLIENT else [JOINED])
    with pytest.raises(StateError, match=f"{type(event).__name__} belongs.*ledger"):
        history.add(event)


def test_what_is_handed_back_counts_no_more_and_the_rest_does() -> None:
    run = History(Role.HOLDER).followed_by([*WHOLE, _back(2, 3)]).runs[A]
    assert (run.charged, run.counted, run.uncharged, run.is_open) == ((1,), (1,), (2, 3), False)


@given(st.integers(1, 12), st.data())
def test_charged_and_released_are_all_that_was_reserved_and_have_nothing_in_common(
    n: int, data: st.DataObject
) -> None:
    charged = data.draw(st.lists(st.integers(1, n), unique=True))
    history = History(Role.CLIENT).followed_by(
        [
            reserved(A, n_exchanges=n),
            *(ExchangeCharged(run_id=A, number=number) for number in charged),
        ]
    )
    assert history.runs[A].counted == tuple(range(1, n + 1))
    end = history.runs[A].end(Outcome.ABORTED, "a reason\nof two lines")
    after = history.followed_by([end]).runs[A]
    assert set(after.charged).isdisjoint(end.released)
    assert sorted((*after.charged, *end.released)) == list(range(1, n + 1))
    assert after.counted == tuple(sorted(charged))
    assert end.reason == "a reason of two lines"


def test_the_last_limit_holds_and_a_server_learns_new_positions() -> None:
    other = LimitSet(dataset="patients", epsilon=3.0, delta=0.0)
    assert History(Role.CLIENT).followed_by([LIMIT, other]).limits == {("patients", None): other}
    later = LogPosition(4, b"x" * 32)
    following = [SEEN, SEEN, seen("clinic-a", later)]
    assert History(Role.SERVER).followed_by(following).peers == {"clinic-a": later}
