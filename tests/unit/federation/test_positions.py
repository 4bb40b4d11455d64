"""Positions of stores count only if their identity signed them; a plan can carry them from one
server to another.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fastlloyd.base.sealed_toml import to_toml
from fastlloyd.errors import OldCopyError, PlanError, RemoteProtocolError, StateError
from fastlloyd.federation.plan.design import renew
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.federation.positions import (
    MAX_EVENTS,
    KnownStore,
    KnownStoreOf,
    Positions,
    SignedPosition,
    newest,
)
from fastlloyd.federation.runs import DurableServer
from fastlloyd.federation.secagg.keys import SIGNATURE_BYTES
from fastlloyd.federation.store import History, LogPosition, Role, Store
from fastlloyd.federation.store.events import PeerForgotten, PeerSigned
from fastlloyd.testing import InjectedNoise
from federation import identity, make_plan, signed

pytestmark = pytest.mark.usefixtures("repeatable_noise")

PLAN = make_plan(3)
KEYS = {client.name: client.signing_key for client in PLAN.clients}
NEXT = bytes(range(16))


def known(name: str, length: int, head: bytes = bytes(32)) -> KnownStoreOf:
    return KnownStoreOf(
        name=name, signing_key=KEYS[name], store=KnownStore.of(signed(name, length, head))
    )


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.create(tmp_path / "server.store", role=Role.SERVER, identity=bytes(32)) as made:
        yield made


def server(store: Store, plan: Plan = PLAN) -> DurableServer:
    return DurableServer.open(plan, store=store, noise=InjectedNoise([]))


# What a server takes for a position


def test_a_signature_is_for_this_length_and_head_and_by_this_key() -> None:
    one = signed("c0", 7, b"h" * 32)
    one.check(identity("c0").public)
    others = [
        msgspec.structs.replace(one, length=8),
        msgspec.structs.replace(one, head=b"i" * 32),
        msgspec.structs.replace(one, signature=bytes(SIGNATURE_BYTES)),
        signed("c1", 7, b"h" * 32),
    ]
    for other in others:
        with pytest.raises(RemoteProtocolError):
            other.check(identity("c0").public)


@pytest.mark.parametrize("length", [1, 1 << 31, MAX_EVENTS])
@pytest.mark.parametrize(
    "signature",
    [bytes(SIGNATURE_BYTES), signed("c1", 1).signature, signed("c0", 1, b"x" * 32).signature],
)
def test_who_has_no_signing_key_locks_nobody_out(
    store: Store, length: int, signature: bytes
) -> None:
    """With a TLS key alone one could have a length remembered that the member's own store never
    reaches.
    """
    party, lie = server(store), SignedPosition(length, bytes(32), signature)
    refused = "the position of the store of client 'c0' is not signed with its key"
    with pytest.raises(RemoteProtocolError, match=refused):
        party.attach("c0", lie)
    with pytest.raises(RemoteProtocolError, match=refused):
        party.receive("c0", lie, object())  # type: ignore[arg-type]  # it is not looked at
    party.announce("c0", lie)
    assert party.attach("c0", signed("c0", 2)) == LogPosition(0, bytes(32))
    assert party.attach("c0", signed("c0", 3)) == LogPosition(2, bytes(32))


def test_a_signed_position_that_somebody_shows_again_makes_the_server_forget_nothing(
    store: Store,
) -> None:
    party = server(store)
    early, late = signed("c0", 5), signed("c0", 9)
    party.attach("c0", late)
    with pytest.raises(OldCopyError):
        party.attach("c0", early)
    party.announce("c0", early)
    assert party.attach("c0", late) == LogPosition(9, bytes(32))


# What the operator can do


def test_a_position_that_was_remembered_is_forgotten_by_its_event_and_only_by_that() -> None:
    key = KEYS["c0"]
    far = PeerSigned(name=key, client="c0", position=signed("c0", 1 << 53))
    again = PeerSigned(name=key, client="c0", position=signed("c0", 4))
    with pytest.raises(StateError, match="old copy"):
        History(Role.SERVER).followed_by([far, again])
    after = History(Role.SERVER).followed_by([far, PeerForgotten(name=key), again])
    assert after.peers == {key: LogPosition(4, bytes(32))}
    assert after.signed == {key: again}
    assert History(Role.SERVER).followed_by([again, PeerForgotten(name=key)]).signed == {}
    with pytest.raises(StateError, match="nothing to forget"):
        History(Role.SERVER).followed_by([PeerForgotten(name=key)])
    with pytest.raises(StateError, match=r"belongs.*of a server"):
        History(Role.CLIENT).followed_by([PeerForgotten(name=key)])


# From one server to another


def test_a_plan_without_positions_is_the_same_bytes_as_ever_and_one_with_them_comes_back_from_its_file() -> (
    None
):
    assert "store" not in PLAN.to_toml()
    with_them = renew(
        PLAN, run_id=NEXT, positions=[Positions(clients=(known("c1", 9), known("c0", 5)))]
    )
    assert [None if c.store is None else c.store.length for c in with_them.clients] == [5, 9, None]
    assert Plan.from_toml(with_them.to_toml()) == with_them
    assert with_them.digest != renew(PLAN, run_id=NEXT).digest
    assert renew(with_them, run_id=NEXT) == with_them  # they stay, until there are newer ones
    newer = renew(
        with_them, run_id=NEXT, positions=[Positions(clients=(known("c0", 6), known("c1", 8)))]
    )
    assert [None if c.store is None else c.store.length for c in newer.clients] == [6, 9, None]


def test_a_server_that_never_saw_a_store_refuses_one_that_is_younger_than_the_plan_says(
    store: Store,
) -> None:
    plan = renew(PLAN, run_id=NEXT, positions=[Positions(clients=(known("c0", 40, b"h" * 32),))])
    party = server(store, plan)
    for young in (signed("c0", 2), signed("c0", 39), signed("c0", 40, b"i" * 32)):
        with pytest.raises(OldCopyError, match="'c0'"):
            party.attach("c0", young)
    assert party.attach("c0", signed("c0", 42)) == LogPosition(40, b"h" * 32)
    assert party.attach("c0", signed("c0", 43)) == LogPosition(42, bytes(32))
    assert party.attach("c1", signed("c1", 2)) == LogPosition(0, bytes(32))


def test_a_server_asks_for_what_it_saw_and_for_what_the_plan_says(store: Store) -> None:
    plan = renew(PLAN, run_id=NEXT, positions=[Positions(clients=(known("c0", 40),))])
    store.append([PeerSigned(name=KEYS["c0"], client="c0", position=signed("c0", 10))])
    party = server(store, plan)
    with pytest.raises(RemoteProtocolError, match=r"20 events.*40"):
        party.attach("c0", signed("c0", 20))
    party.attach("c0", signed("c0", 50))
    with pytest.raises(RemoteProtocolError, match=r"45 events.*50"):
        party.attach("c0", signed("c0", 45))


def test_two_positions_of_one_length_are_two_copies_of_a_store() -> None:
    one, other = known("c0", 5, b"h" * 32), known("c0", 5, b"i" * 32)
    assert newest([(KEYS["c0"], one.store), (KEYS["c0"], one.store)]) == {KEYS["c0"]: one.store}
    with pytest.raises(PlanError, match=r"different.*after 5 events"):
        renew(PLAN, run_id=NEXT, positions=[Positions(clients=(one,)), Positions(clients=(other,))])


def test_a_file_of_positions_is_read_back_and_one_that_is_not_signed_is_refused(
    tmp_path: Path,
) -> None:
    path, whole = tmp_path / "positions.toml", Positions(clients=(known("c0", 5), known("c2", 7)))
    path.write_text(whole.to_toml())
    assert Positions.load(path) == whole
    for text, said in {
        PLAN.to_toml(): "has no positions",
        whole.to_toml().replace(
            "length = 5", "length = 6"
        ): "is not signed with the key|was changed",
        whole.to_toml().replace(KEYS["c0"], KEYS["c1"]): "is not signed with the key|was changed",
    }.items():
        path.write_text(text)
        with pytest.raises(PlanError, match=said):
            Positions.load(path)


def test_a_plan_with_a_position_that_its_client_did_not_sign_is_refused_when_it_is_read() -> None:
    def changed(**fields: Any) -> Plan:
        client = msgspec.structs.replace(PLAN.clients[0], **fields)
        return msgspec.structs.replace(PLAN, clients=(client, *PLAN.clients[1:]))

    for wrong in (known("c1", 5).store, msgspec.structs.replace(known("c0", 5).store, length=6)):
        with pytest.raises(PlanError, match=r"position.*'c0'.*not signed"):
            changed(store=wrong)
        made = changed()
        forged = msgspec.structs.force_setattr
        forged(made.clients[0], "store", wrong)
        with pytest.raises(PlanError, match=r"position.*not signed"):
            Plan.from_toml(to_toml(made, ""))
    with pytest.raises(PlanError, match=r"'c0'.*no signing_key"):
        changed(store=known("c0", 5).store, signing_key="")
