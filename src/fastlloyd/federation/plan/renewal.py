"""The plan of the next run: the same mechanism under a fresh run id, with new public files, or without some clients."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from fastlloyd.base.names import unknown_name
from fastlloyd.errors import PlanError
from fastlloyd.federation.identity.identity import PublicIdentity
from fastlloyd.federation.plan.plan import PROTOCOL_VERSION, Client, Plan, Server, Timeouts
from fastlloyd.federation.plan.quorum import Masks
from fastlloyd.federation.plan.shares import TrustMode
from fastlloyd.federation.positions import Positions, newest


def renew(
    plan: Plan,
    *,
    run_id: bytes,
    members: Sequence[PublicIdentity] = (),
    server: PublicIdentity | None = None,
    address: str | None = None,
    timeouts: Mapping[str, int] | None = None,
    leave_out: Sequence[str] = (),
    authority: str | None = None,
    positions: Iterable[Positions] = (),
    masks: Masks | None = None,
    host: str | None = None,
) -> Plan:
    """The plan with these public files in place of those of the same names, and without the clients left out.

    The mechanism stays as it is, so records, caps and noise of a sum too; with fewer clients each adds a larger share of it.
    None: as before. timeouts : seconds by step. authority : its certificate, base64 of DER. positions : of clients' stores, as
    servers export them; those of the plan stay where none is newer. masks : with others, the steps for which the plan waits as
    long as the masks before have it wait as long as these have. host : "" for none.

    Raises PlanError for unknown or repeated names, for certificates that the authority did not issue, where what is left
    cannot give the guarantee or half of the clients would be enough for a round, and if one identity signed two positions of a
    length.
    """
    kind = masks or plan.masks_kind
    clients = {client.name: client for client in plan.clients}
    for name in leave_out:
        if name not in clients:
            raise PlanError(f"the client to leave out, {unknown_name(name, list(clients))}")
        del clients[name]
    new = _members(members, clients, leave_out)
    M, D, t = len(clients), plan.max_dropouts, plan.max_colluding
    if plan.trust is TrustMode.CLIENT_NOISE and kind.quorum(M, M, D, t).shares > plan.n_shares:
        raise PlanError(
            f"max_dropouts is {D}: with {kind.value} masks there would be more shares of noise than the plan was made for; "
            f"make one with `plan new --masks {kind.value}`"
        )
    identity = plan.server if server is None else server.server(plan.server.address)
    renewed = msgspec.structs.replace(
        plan,
        protocol_version=PROTOCOL_VERSION,
        masks=kind,
        run_id=run_id.hex(),
        clients=with_positions((clients | new).values(), positions),
        server=Server(
            name=identity.name, certificate=identity.certificate, address=plan.server.address if address is None else address
        ),
        authority=plan.authority if authority is None else authority,
        timeouts=msgspec.structs.replace(_timeouts(plan, kind), **dict(timeouts or {})),
        host=plan.host if host is None else host or None,
    )
    renewed.check_undivided()
    return renewed


def _members(members: Sequence[PublicIdentity], clients: Mapping[str, Client], leave_out: Sequence[str]) -> dict[str, Client]:
    """The clients whose public files are new, by name, with the caps that they had."""
    new: dict[str, Client] = {}
    for member in members:
        if member.name in leave_out:
            raise PlanError(f"{member.name!r} is both to be left out and to take part; do one of the two")
        if member.name in new:
            raise PlanError(f"there are two public files of {member.name!r}; give one")
        if member.name not in clients:
            raise PlanError(
                f"member {unknown_name(member.name, list(clients))}; a further client changes the mechanism: use `plan new`"
            )
        old = clients[member.name]
        known = old.store if old.signing_key == member.signing_key else None
        new[member.name] = msgspec.structs.replace(member.client(old.max_records), store=known)
    return new


def _timeouts(plan: Plan, masks: Masks) -> Timeouts:
    """How long the plan waits, for each step that was not set by its makers as long as these masks need."""
    waits, usual, now = (msgspec.structs.asdict(each) for each in (plan.timeouts, plan.masks_kind.timeouts, masks.timeouts))
    return Timeouts(**{step: now[step] if seconds == usual[step] else seconds for step, seconds in waits.items()})


def with_positions(clients: Iterable[Client], exported: Iterable[Positions]) -> tuple[Client, ...]:
    """The clients with the newest known position of the store of each; positions of others are left aside. Raises PlanError."""
    clients = tuple(clients)
    planned = [(client.signing_key, client.store) for client in clients if client.store is not None]
    known = newest([*planned, *((one.signing_key, one.store) for positions in exported for one in positions.clients)])
    return tuple(msgspec.structs.replace(client, store=known.get(client.signing_key)) for client in clients)
