"""What a lying server may send, and that it ends the run of the client that gets it."""

from collections.abc import Sequence
from typing import TypeVar, cast

import msgspec
import pytest

from fastlloyd.errors import RemoteProtocolError
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.federation.protocol.actions import Ended, Finish, Record
from fastlloyd.federation.protocol.messages import Abort, Deal, Hello, Message
from fastlloyd.federation.protocol.roster import KeySet, Roster, _statement
from fastlloyd.federation.protocol.transitions import ClientState
from fastlloyd.federation.secagg.pairs import CIPHERTEXT_BYTES, PairKey, RunKeys
from federation import Federation, client_after, entropy, identity, over_the_wire

M = TypeVar("M", bound=msgspec.Struct)


def changed(message: M, **changes: object) -> M:
    """That message with other fields."""
    return msgspec.structs.replace(message, **changes)


def flipped(field: bytes, at: int = 0) -> bytes:
    """Those bytes with one bit of one byte flipped."""
    return field[:at] + bytes([field[at] ^ 1]) + field[at:][1:]


def run_keys(name: str, seed: str = "") -> RunKeys:
    """The keys that `Federation.client` draws for the client of that name."""
    return RunKeys.draw(entropy(name + seed))


def forged_hello(plan: Plan, name: str, signer: str, **changes: object) -> Hello:
    """A Hello in a client's name with other keys, signed by the identity of `signer` and then
    changed.
    """
    return changed(Roster.of(plan).hello(name, run_keys("forger"), identity(signer)), **changes)


def owned_hello(plan: Plan, hello: Hello, **keys: bytes) -> Hello:
    """What the client of that Hello would have signed for these public keys."""
    said = changed(hello, **keys)
    assert Roster.of(plan).signing_keys[hello.name] == identity(hello.name).public
    return changed(said, signature=identity(hello.name).sign(_statement(said)))


def with_hello(deal: Deal, position: int, hello: Hello) -> Deal:
    """That Deal with another Hello at one place."""
    return Deal(
        deal.beginning, deal.attempt, (*deal.hellos[:position], hello, *deal.hellos[position + 1 :])
    )


def pair_of(plan: Plan, deal: Deal, earlier: str, later: str, message: bytes) -> PairKey:
    """The key of two clients, as the later one derives it from the pair message that it is sent."""
    key_set, keys, ciphertext = (
        KeySet(Roster.of(plan), deal),
        run_keys(later),
        message[:CIPHERTEXT_BYTES],
    )
    return PairKey.agree(
        key_set.pair(earlier, later),
        exchange_secret=keys.exchange(key_set.hellos[earlier].exchange_key),
        kem_secret=keys.decapsulate(ciphertext),
        ciphertext=ciphertext,
    )


def refused(
    federation: Federation, name: str, before: Sequence[Message], message: Message, match: str
) -> None:
    """The message ends the run of a client that came so far honestly, it says why, and the client
    never speaks again.
    """
    client = client_after(federation, name, before)
    with pytest.raises(RemoteProtocolError, match=match):
        client.receive(over_the_wire(federation.plan, message))
    assert client.state is ClientState.ABORTED
    assert client.resend() == client.reconnect() == []
    assert client._phase is None
    record, finish = client.ending()
    assert isinstance(record, Record)
    assert isinstance(finish, Finish)
    assert finish.outcome == client.outcome == Ended(cast("Abort", record.message).reason)
    for anything in [*before, message]:
        with pytest.raises(RemoteProtocolError, match="run had ended"):
            client.receive(anything)
    assert client.ending() == []
