"""Tables of all transitions of the two sessions: (state, event) -> the states that may follow.

Any event outside the tables is refused. A client that refuses a message ends its run (ABORTED),
because only the server can have sent it. The server refuses one client's message and keeps its
state. Two rules apply in every state and need no rows. First, a message that was handled changes
nothing when it comes again. Second, once some clients share keys, the server turns away every other
client. A restart is not an event, because a restored session has the same state. The diagrams in
the documentation are drawn from these tables.

Each state belongs to a phase of the protocol, and an object of the phase handles its messages. A
client has one such object at a time: `Joining` until keys are shared, then `ClientRounds`. The
server has one of each phase, because it still answers messages of earlier phases (`answering`).
"""

import enum
from collections.abc import Mapping
from typing import TypeVar

from fastlloyd.federation.protocol.messages import (
    Abort,
    AllReady,
    BadKeys,
    Broadcast,
    Confirmation,
    Confirmations,
    Deal,
    Hello,
    KeyBox,
    Parameters,
    Proposal,
    Ready,
    SealedKeys,
    Turn,
    Upload,
)


class Start:
    """Event: the driver starts the session."""


class Deadline:
    """Event: a wait ends. Either the time is over, or all clients that have not answered are absent
    or have left.
    """


class ClientState(enum.Enum):
    """State of a client in the run."""

    NEW = "new"
    JOINING = "joining"  # said Hello; waits for the group key
    # made its keys for the others; waits for the keys that they made
    DEALING = "dealing"
    READY = "ready"  # checked all keys; waits until all clients are ready
    AGGREGATING = "aggregating"  # uploaded for the round; waits for its broadcast
    SETTLING = "settling"  # opened a sum; waits for the parameters that follow from it
    CONFIRMING = "confirming"  # opened the last sum and confirmed; waits for the others
    FINISHED = "finished"
    ABORTED = "aborted"


class ServerState(enum.Enum):
    """State of the server in the run."""

    JOINING = "joining"  # collects Hellos
    DEALING = "dealing"  # sent a Deal; waits for the keys that clients make for each other
    AGREEING = "agreeing"  # relayed the keys; waits until all clients are ready
    AGGREGATING = "aggregating"  # collects the round's uploads
    SETTLING = "settling"  # closed a round; waits for the parameters of the next round
    CONFIRMING = "confirming"  # sent the last broadcast; collects confirmations
    FINISHED = "finished"  # still answers clients that are behind
    ABORTED = "aborted"  # answers with the reason


class Phase(enum.Enum):
    """Phase of the protocol of a run."""

    JOINING = "joining"
    SHARING = "sharing keys"
    ROUNDS = "rounds"
    CONFIRMING = "confirming"


State = TypeVar("State", ClientState, ServerState)
_C, _S = ClientState, ServerState


def _stays(state: State, *events: type) -> dict[tuple[State, type], set[State]]:
    return {(state, event): {state} for event in events}


_WAITING = _C.JOINING, _C.DEALING, _C.READY, _C.AGGREGATING, _C.SETTLING, _C.CONFIRMING
_LATER = Broadcast, Parameters, Confirmations  # messages that follow AllReady
_EARLIER = Deal, KeyBox  # messages of the phase before

# A message from a later step shows that an earlier one was lost. The client then keeps its state,
# and sends its last message again.
CLIENT_TRANSITIONS: Mapping[tuple[ClientState, type], set[ClientState]] = {
    (_C.NEW, Start): {_C.JOINING},
    (_C.JOINING, Deal): {_C.DEALING},
    (_C.DEALING, Deal): {_C.DEALING},
    (_C.DEALING, KeyBox): {_C.DEALING, _C.READY},
    (_C.READY, Deal): {_C.DEALING},
    (_C.READY, AllReady): {_C.AGGREGATING},
    (_C.AGGREGATING, Broadcast): {_C.AGGREGATING, _C.SETTLING, _C.CONFIRMING},
    (_C.SETTLING, Turn): {_C.SETTLING},
    (_C.SETTLING, Parameters): {_C.AGGREGATING, _C.CONFIRMING},
    (_C.CONFIRMING, Confirmations): {_C.FINISHED},
    **_stays(_C.JOINING, KeyBox, AllReady, *_LATER),  # early
    **_stays(_C.DEALING, AllReady, *_LATER),  # early
    **_stays(_C.READY, KeyBox, *_LATER),  # a KeyBox of another attempt, or early
    **_stays(_C.AGGREGATING, Parameters, Turn, Confirmations, *_EARLIER),  # early, or late: a Turn
    **_stays(_C.SETTLING, Broadcast, Confirmations, *_EARLIER),  # early, or late
    **_stays(_C.CONFIRMING, Turn, *_EARLIER),  # late
    **_stays(_C.FINISHED, Turn, *_EARLIER),  # late
    **{(state, event): {_C.ABORTED} for state in _WAITING for event in (Abort, Deadline)},
}

_JOINED = Hello, SealedKeys, Ready, BadKeys
_SAID = *_JOINED, Upload, Proposal, Confirmation
_CLOSED = {_S.AGGREGATING, _S.SETTLING, _S.CONFIRMING}

# In any later state, a message that a client repeats is answered from stored messages.
SERVER_TRANSITIONS: Mapping[tuple[ServerState, type], set[ServerState]] = {
    (_S.JOINING, Hello): {_S.JOINING, _S.DEALING},
    (_S.JOINING, Deadline): {_S.DEALING, _S.ABORTED},
    (_S.DEALING, SealedKeys): {_S.DEALING, _S.AGREEING},
    (_S.DEALING, Deadline): {_S.DEALING, _S.ABORTED},
    (_S.AGREEING, Ready): {_S.AGREEING, _S.AGGREGATING},
    (_S.AGREEING, BadKeys): {_S.DEALING, _S.ABORTED},
    (_S.AGREEING, Deadline): {_S.DEALING, _S.ABORTED},
    (_S.AGGREGATING, Upload): _CLOSED,
    (_S.AGGREGATING, Deadline): {*_CLOSED, _S.ABORTED},
    (_S.SETTLING, Proposal): {_S.AGGREGATING, _S.CONFIRMING},
    (_S.SETTLING, Deadline): {_S.SETTLING, _S.ABORTED},
    (_S.CONFIRMING, Confirmation): {_S.CONFIRMING, _S.FINISHED},
    (_S.CONFIRMING, Deadline): {_S.FINISHED, _S.ABORTED},
    **_stays(_S.JOINING, SealedKeys, Ready, BadKeys),  # late: from an earlier start of the run
    **_stays(_S.DEALING, Hello, Ready, BadKeys),  # late: from an earlier attempt
    **_stays(_S.AGREEING, Hello, SealedKeys),
    **_stays(_S.AGGREGATING, *_JOINED, Proposal),
    **_stays(_S.SETTLING, *_JOINED, Upload),
    **_stays(_S.CONFIRMING, *_JOINED, Upload, Proposal),
    **_stays(_S.FINISHED, *_SAID),
    **_stays(_S.ABORTED, *_SAID),
}

PHASE_OF: Mapping[ServerState, Phase] = {
    _S.JOINING: Phase.JOINING,
    _S.DEALING: Phase.SHARING,
    _S.AGREEING: Phase.SHARING,
    _S.AGGREGATING: Phase.ROUNDS,
    _S.SETTLING: Phase.ROUNDS,
    _S.CONFIRMING: Phase.CONFIRMING,
}
"""Phase of the run in each state of the server. The states after the end have no phase."""

_ANSWERED_BY: Mapping[type, Phase] = {
    Hello: Phase.SHARING,
    SealedKeys: Phase.SHARING,
    Ready: Phase.SHARING,
    BadKeys: Phase.SHARING,
    Upload: Phase.ROUNDS,
    Proposal: Phase.ROUNDS,
    Confirmation: Phase.CONFIRMING,
}


def answering(state: ServerState, message: type) -> Phase:
    """Return the phase whose object answers `message` in this state of the server.

    In the state JOINING it is the phase of joining. In later states it is the phase of the message,
    even if the message is late.
    """
    return Phase.JOINING if state is _S.JOINING else _ANSWERED_BY[message]
