"""Who may take part in a run, and how the others can tell: names in the order of the plan, signing keys, signed Hellos."""

from collections.abc import Container, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Self

import msgspec

from fastlloyd.base.randomness import length_prefixed
from fastlloyd.errors import PlanError, RemoteProtocolError
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.federation.protocol.messages import Hello
from fastlloyd.federation.secagg.keys import SIGNATURE_BYTES, Identity, verify
from fastlloyd.federation.secagg.masks import encode_name
from fastlloyd.federation.secagg.pairs import RunKeys, check_run_keys

_HELLO_LABEL = b"fastlloyd/v1/hello"
_NAMED = 3  # clients, in a reason


@dataclass(frozen=True, slots=True)
class Roster:
    """What both roles take from the plan about each other.

    names : in the order of the plan. signing_keys : 32 bytes per name, in the same order; not to be changed. min_present : the
    fewest clients that may share keys.
    """

    plan_digest: bytes
    run_id: bytes
    names: tuple[str, ...]
    signing_keys: dict[str, bytes]
    min_present: int

    @classmethod
    @lru_cache(maxsize=16)  # all parties of a simulation ask
    def of(cls, plan: Plan) -> Self:
        """Roster of `plan`; PlanError if a client has no signing key yet, or if the plan can only be read."""
        plan.check_current()
        for client in plan.clients:
            if not client.signing_key:
                raise PlanError(f"client {client.name!r} has no signing_key in the plan; add the key its owner sent")
        keys = {client.name: bytes.fromhex(client.signing_key) for client in plan.clients}
        return cls(plan.digest, bytes.fromhex(plan.run_id), plan.names, keys, plan.min_present)

    def hello(self, name: str, keys: RunKeys, identity: Identity) -> Hello:
        """Client `name`'s signed word that it takes part in this run with these keys."""
        public = keys.exchange_key, keys.encapsulation_key, keys.run_key
        unsigned = Hello(self.plan_digest, self.run_id, name, *public, bytes(SIGNATURE_BYTES))
        return msgspec.structs.replace(unsigned, signature=identity.sign(_statement(unsigned)))

    def checked(self, hello: Hello) -> Hello:
        """Raise RemoteProtocolError unless that client said this, about this run of this plan; with usable keys.

        Returns the first that was equal to it, so that the parties of a simulation share one copy.
        """
        if hello.plan_digest != self.plan_digest:
            raise RemoteProtocolError(
                f"client {hello.name!r} holds another plan, with digest {hello.plan_digest.hex()[:16]}..., "
                f"not {self.plan_digest.hex()[:16]}...; everyone must be given the same plan.toml"
            )
        if hello.run_id != self.run_id:
            raise RemoteProtocolError(f"client {hello.name!r} speaks of another run, {hello.run_id.hex()}")
        if hello.name not in self.signing_keys:
            raise RemoteProtocolError(f"there is no client {hello.name!r} in the plan")
        return _checked(self.signing_keys[hello.name], hello)

    def check_members(self, what: str, names: Sequence[str], among: Container[str], at_least: int) -> None:
        """Raise RemoteProtocolError unless `names` are enough, known, in the order of the plan, and none stands twice."""
        if not all(map(among.__contains__, names)):
            stranger = next(name for name in names if name not in among)
            raise RemoteProtocolError(f"{what} names {stranger!r}, which is not one of the clients it may name")
        if tuple(names) != self.names:  # all of the plan are in its order
            if len(set(names)) != len(names):
                raise RemoteProtocolError(f"{what} names a client twice")
            if list(names) != self.in_order(set(names)):
                raise RemoteProtocolError(f"{what} is not in the order of the plan")
        if len(names) < at_least:
            raise RemoteProtocolError(f"{what} has {len(names)} clients; at least {at_least} are needed")

    def in_order(self, names: Container[str]) -> list[str]:
        """The clients that are in `names`, in the order of the plan."""
        return [name for name in self.signing_keys if name in names]


@lru_cache(maxsize=2048)  # more than a plan has clients: all parties of a simulation ask about all
def _checked(signing_key: bytes, hello: Hello) -> Hello:
    try:
        verify(signing_key, hello.signature, _statement(hello))
    except RemoteProtocolError:
        raise RemoteProtocolError(f"the Hello of client {hello.name!r} is not signed with its key in the plan") from None
    try:
        check_run_keys(hello.exchange_key, hello.encapsulation_key, hello.run_key)
    except RemoteProtocolError as error:
        raise RemoteProtocolError(f"the Hello of client {hello.name!r} has a key that cannot be used: {error}") from None
    return hello


def _statement(hello: Hello) -> bytes:
    keys = hello.exchange_key, hello.encapsulation_key, hello.run_key
    return length_prefixed(_HELLO_LABEL, hello.plan_digest, hello.run_id, encode_name(hello.name), *keys)


def missing_of(names: Sequence[str], there: Container[str]) -> str:
    """Who is not there, for a reason, which must not be long."""
    missing = [name for name in names if name not in there]
    more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
    return f" (missing: {', '.join(missing[:_NAMED])}{more})" if missing else ""
