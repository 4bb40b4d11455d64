"""Who is gone costs the others a round's time once, and what the transport says of connections
decides nothing else.
"""

from collections import Counter
from collections.abc import Iterable
from itertools import chain

from hypothesis import given
from hypothesis import strategies as st

from fastlloyd.federation.protocol.actions import Action, Record, Send
from fastlloyd.federation.protocol.messages import (
    Broadcast,
    Confirmation,
    Confirmations,
    Deal,
    Hello,
    Message,
    Ready,
    SealedKeys,
    Upload,
    encode,
)
from fastlloyd.federation.protocol.roster import KeySet, Roster
from fastlloyd.federation.protocol.server import ServerSession
from fastlloyd.federation.protocol.transitions import ServerState
from fastlloyd.testing import repeatable_noise
from federation import BEGINNING, make_federation, make_plan
from known_to_server import uploads_of
from lies import run_keys

N_ROUNDS = 6
FEDERATION = make_federation(
    make_plan(5, max_dropouts=2, n_clusters=1, n_features=1, n_iterations=N_ROUNDS), seed=3
)
PLAN, NAMES = FEDERATION.plan, FEDERATION.plan.names


def messages(actions: Iterable[Action]) -> list[Message]:
    return [action.message for action in actions if isinstance(action, Send)]


def joined() -> list[tuple[str, Message]]:
    """What opens the first round: everybody's Hello, the keys that c0 deals, and that all are
    ready.
    """
    clients = {name: FEDERATION.client(name) for name in NAMES}
    said = [(name, hello) for name, client in clients.items() for hello in messages(client.start())]
    hellos = tuple(hello for _, hello in said if isinstance(hello, Hello))
    key_set = KeySet(Roster.of(PLAN), Deal(BEGINNING, 1, hellos))
    for name, client in clients.items():
        said += [(name, sealed) for sealed in messages(client.receive(key_set.deal))]
    sealed = {name: message for name, message in said if isinstance(message, SealedKeys)}
    for name, client in clients.items():
        said += [(name, ready) for ready in messages(client.receive(key_set.key_box(name, sealed)))]
    return said


JOINED = joined()
KEY_SET = KeySet(
    Roster.of(PLAN),
    Deal(BEGINNING, 1, tuple(hello for _, hello in JOINED if isinstance(hello, Hello))),
)


def confirmation(name: str) -> Confirmation:
    """That client's word on an end that the server cannot check, signed with its run key."""
    return Confirmation(bytes(32), run_keys(name).sign(KEY_SET.confirmation(name, bytes(32))))


assert isinstance(JOINED[-1][1], Ready)


class Rounds:
    """A server whose clients upload what they are told to; `n_deadlines` : how often a whole step's
    time had to pass.
    """

    def __init__(self) -> None:
        self.server = FEDERATION.server()
        self.recorded: list[Message] = []
        self.n_deadlines = 0
        for name, message in JOINED:
            self.note(self.server.receive(name, message))
        assert self.server.state is ServerState.AGGREGATING

    def note(self, actions: list[Action]) -> None:
        self.recorded += [action.message for action in actions if isinstance(action, Record)]

    def is_in(self, state: ServerState) -> bool:
        return self.server.state is state

    @property
    def included(self) -> list[str]:
        """Of every closed round, the clients by their digits."""
        closed = [message for message in self.recorded if isinstance(message, Broadcast)]
        return ["".join(name[1:] for name in broadcast.included(NAMES)) for broadcast in closed]

    def upload(self, digits: str) -> None:
        number = len(self.included) + 1
        n_bytes = PLAN.n_words(PLAN.mechanism.all_rounds[number - 1]) * PLAN.ring.dtype.itemsize
        for digit in digits:
            self.note(
                self.server.receive(
                    f"c{digit}", Upload(number, number.to_bytes(8, "big"), bytes(n_bytes))
                )
            )

    def away(self, digits: str) -> None:
        for digit in digits:
            self.note(self.server.away(f"c{digit}"))

    def back(self, digits: str) -> None:
        for digit in digits:
            self.server.back(f"c{digit}")

    def deadline(self) -> None:
        self.n_deadlines += 1
        self.note(self.server.deadline())

    @repeatable_noise()
    def restart(self) -> None:
        self.server = ServerSession(PLAN, FEDERATION.server()._noise)
        self.server.restore([encode(message) for message in self.recorded])


def test_a_client_that_is_gone_costs_the_others_one_deadline_and_is_waited_for_again_when_it_is_back() -> (
    None
):
    run = Rounds()
    run.upload("0123")
    run.away("4")
    assert run.included == []  # it was never late before: it may be starting again
    assert run.server.awaited == ("c4",)
    run.deadline()
    assert run.server.awaited == NAMES[:4]
    run.upload("0123")
    assert run.included == ["0123", "0123"]
    run.upload("012")
    run.back("4")
    run.upload("3")
    assert run.server.awaited == ("c4",)
    run.upload("4")
    assert run.included == ["0123", "0123", "01234"]
    assert run.n_deadlines == 1


def test_a_round_closes_when_the_last_that_is_waited_for_is_found_to_be_away() -> None:
    run = Rounds()
    run.upload("0123")
    run.deadline()
    run.upload("0123")
    assert run.included == ["0123"]  # c4 is connected, and has until the deadline
    run.away("4")
    assert run.included == ["0123", "0123"]
    assert run.n_deadlines == 1


def test_a_client_that_is_connected_and_silent_has_every_deadline() -> None:
    run = Rounds()
    for _ in range(N_ROUNDS):
        run.upload("0123")
        run.back("4")
        run.deadline()
    assert run.n_deadlines == N_ROUNDS


def test_a_client_that_comes_and_goes_costs_no_more_than_one_that_stays_away() -> None:
    """It answers, goes, is late, comes back, answers, goes, ...: after the first time nobody waits
    once it is away.
    """
    run = Rounds()
    for number in range(N_ROUNDS):
        if number % 2 == 0:
            run.back("4")
            run.upload("01234")
        else:
            run.away("4")
            run.upload("0123")
            if len(run.included) == number:
                run.deadline()
    assert run.included == ["01234", "0123"] * 3
    assert run.n_deadlines == 1


def test_no_round_closes_early_with_fewer_clients_than_its_sum_needs() -> None:
    run = Rounds()
    run.upload("012")
    run.deadline()
    run.away("34")
    run.upload("012")
    assert run.included == ["012", "012"]
    run.away("2")  # it missed no round: two answers are one too few anyway
    run.upload("01")
    assert run.included == ["012", "012"]
    run.deadline()
    assert run.is_in(ServerState.ABORTED)
    assert run.n_deadlines == 2


def test_those_that_missed_a_round_are_too_many_to_go_on_without() -> None:
    run = Rounds()
    run.upload("012")
    run.deadline()
    run.upload("0134")
    run.deadline()
    run.away("234")
    run.upload("01")
    assert run.included == ["012", "0134"]  # of five, three are needed
    assert run.is_in(ServerState.AGGREGATING)
    run.back("2")
    run.upload("2")
    assert run.included == ["012", "0134", "012"]


def test_a_server_that_is_started_again_knows_who_was_late_and_waits_until_it_hears_that_it_is_away() -> (
    None
):
    run = Rounds()
    run.upload("0123")
    run.deadline()
    run.away("4")
    run.restart()
    run.upload("0123")
    assert run.included == ["0123"]  # all connections are new: c4 may just be coming
    run.away("4")
    assert run.included == ["0123", "0123"]
    run.upload("0123")
    assert run.included == ["0123"] * 3
    assert run.n_deadlines == 1


def test_the_last_word_is_not_awaited_from_who_is_gone_and_enough_of_the_last_round_must_say_it() -> (
    None
):
    run = Rounds()
    run.upload("0123")
    run.deadline()
    run.away("4")
    for _ in range(N_ROUNDS - 1):
        run.upload("0123")
    assert run.is_in(ServerState.CONFIRMING)
    for name in NAMES[:4]:
        assert run.is_in(ServerState.CONFIRMING)
        run.note(run.server.receive(name, confirmation(name)))
    assert isinstance(run.recorded[-1], Confirmations)
    assert run.is_in(ServerState.FINISHED)
    assert run.n_deadlines == 1
    assert (run.server.away("c4"), run.server.away("c0")) == ([], [])


def test_confirmations_close_when_who_missed_a_round_is_found_to_be_away() -> None:
    run = Rounds()
    run.upload("0123")
    run.deadline()
    for _ in range(N_ROUNDS - 1):
        run.upload("01234")
    for name in NAMES[:4]:
        run.note(run.server.receive(name, confirmation(name)))
    assert run.is_in(ServerState.CONFIRMING)
    run.away("4")
    assert run.is_in(ServerState.FINISHED)


def test_in_a_step_that_has_no_answers_to_count_the_transports_word_does_nothing() -> None:
    server = FEDERATION.server()
    awaited = {ServerState.DEALING: ("c0",), ServerState.AGREEING: ("c4",)}
    for name, message in JOINED[:-1]:
        assert server.away(name) == []
        server.receive(name, message)
        if isinstance(message, Hello) and name == "c4":
            assert server.awaited == awaited[server.state] == ("c0",)
            assert server.away("c0") == []
    assert server.state is ServerState.AGREEING
    assert server.away("c4") == []
    assert server.awaited == awaited[server.state]


DIGITS = st.sampled_from("01234")
UPLOADS = st.permutations("01234").flatmap(
    lambda digits: st.sampled_from([2, 3, 4, 5]).map(
        lambda n: [("upload", digit) for digit in digits[:n]]
    )
)
EVENTS = st.one_of(
    st.tuples(st.sampled_from(["away", "back"]), DIGITS),
    st.sampled_from([("deadline", ""), ("restart", "")]),
).map(lambda event: [event])
LEFT_OUT = DIGITS.map(
    lambda one: [
        *(("upload", digit) for digit in "01234" if digit != one),
        ("deadline", ""),
        ("away", one),
    ]
)
STEPS = st.lists(UPLOADS | EVENTS | LEFT_OUT, min_size=10, max_size=24).map(
    lambda parts: list(chain(*parts))
)


def test_whatever_the_transport_says_no_round_is_closed_early_but_over_those_that_were_late_and_are_away() -> (
    None
):
    """Against the rule in words: who missed a round and is away is not waited for, and enough must
    have answered.
    """
    met = Counter[str]()

    @given(steps=STEPS)
    def check(steps: list[tuple[str, str]]) -> None:
        run, late, gone = Rounds(), set[str](), set[str]()
        for step, digit in steps:
            if not run.is_in(ServerState.AGGREGATING):
                break
            n_closed, n_deadlines = len(run.included), run.n_deadlines
            changed = {"away": gone | {digit}, "back": gone - {digit}, "restart": set[str]()}
            gone = changed.get(step, gone)
            getattr(run, step)(*([digit] if digit else []))
            if run.is_in(ServerState.ABORTED):
                assert step == "deadline"
            elif len(run.included) > n_closed:
                included = run.included[-1]
                assert len(included) >= PLAN.quorum(5).needed
                left_out = set("01234").difference(included)
                if run.n_deadlines == n_deadlines:
                    assert left_out <= late & gone
                    met["early" if left_out else "complete"] += 1
                late |= left_out
            elif (
                run.is_in(ServerState.AGGREGATING)
                and len(uploads_of(run.server)) >= PLAN.quorum(5).needed
            ):
                assert {name[1:] for name in run.server.awaited} - (late & gone)
                met["awaited"] += 1

    check()
    assert min(met[each] for each in ("early", "complete", "awaited")) > 0, met
