"""Design of the plan of a federated run, from settings or from an earlier plan.

The design chooses the grid of the counts, the slack for shares of noise, and the ring. `Mechanism`
and `Plan` check all choices again when they are made. So a mistake here costs accuracy or is
refused, but costs no privacy.
"""

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

import msgspec

from fastlloyd.base.names import unknown_name
from fastlloyd.dp.noise import Noise
from fastlloyd.errors import PlanError
from fastlloyd.federation.identity.identity import PublicIdentity
from fastlloyd.federation.plan.plan import Client, Plan, Server, Timeouts
from fastlloyd.federation.plan.quorum import MIN_SHARE_DEVIATION, Masks, TrustMode, aliasing_slack
from fastlloyd.federation.plan.study import Study
from fastlloyd.federation.plan.versions import version_of
from fastlloyd.federation.positions import Positions, newest
from fastlloyd.mechanisms.catalogue import design
from fastlloyd.mechanisms.private_run import MAX_COUNT_BITS
from fastlloyd.mechanisms.rounds import SCALE_UNITS
from fastlloyd.mechanisms.settings import RunSettings


class ProtocolChoices(msgspec.Struct, frozen=True, kw_only=True):
    """Choices about the protocol of a plan. Each field means the same as the field of `Plan` with
    its name.

    max_colluding : ignored in trust mode `server-noise`.
    ring_bits : None means 64.
    masks : None means the choice of `chosen_masks`.
    """

    trust: TrustMode = TrustMode.CLIENT_NOISE
    max_dropouts: int = 0
    max_colluding: int = 1
    ring_bits: int | None = None
    masks: Masks | None = None

    @property
    def chosen_masks(self) -> Masks:
        """Masks that were named, or pairwise masks if no client may be missing.

        Raises PlanError if clients may be missing and no masks were named, because each kind then
        has a disadvantage.
        """
        if self.masks is None and self.max_dropouts > 0:
            raise PlanError(
                f"max_dropouts is {self.max_dropouts}, and masks is missing; pass --masks pairwise"
                " or --masks group. With pairwise masks, clients may be absent when the keys are"
                " dealt; if a client is lost after that, the run ends. With group masks, clients"
                " may be absent from any round, but the server and any one client together can"
                " open every upload"
            )
        return self.masks or Masks.PAIRWISE


def design_plan(
    settings: RunSettings,
    *,
    clients: tuple[Client, ...],
    run_id: bytes,
    protocol: ProtocolChoices | None = None,
    server: Server | None = None,
    timeouts: Timeouts | None = None,
    authority: str | None = None,
    study: Study | None = None,
    host: str | None = None,
    simulated: bool = False,
) -> Plan:
    """Return the plan of a federated run with these settings. The design chooses count_bits and
    delta_slack.

    settings : settings of the mechanism.
    clients : clients of the plan.
    run_id : 16 random bytes, drawn for this plan.
    protocol : choices about the protocol, or None for the defaults of `ProtocolChoices`.
    server : server of a run over a network, or None.
    timeouts : timeouts of a run over a network, or None for the defaults of the masks.
    authority : certificate of the authority that must have issued the parties' certificates, base64
        of DER, or None.
    study : purpose and responsible people, in words, or None.
    host : name of the client on whose machine the server runs, or None.
    simulated : whether one process deals the records to the clients at random (`Plan`).

    Raises PlanError if the settings and the clients do not fit together.
    """
    chosen = ProtocolChoices() if protocol is None else protocol
    masks, trust, max_dropouts = chosen.chosen_masks, chosen.trust, chosen.max_dropouts
    persons = settings.persons
    if persons is not None and persons.max_clients > len(clients):
        raise PlanError(
            (
                f"max_clients_per_person is {persons.max_clients}, but the plan has {len(clients)}"
                " clients; state the largest number of clients that may have rows of the same"
                f" {persons.name}"
            ),
            field="max_clients_per_person",
        )
    max_colluding = 0 if trust is TrustMode.SERVER_NOISE else chosen.max_colluding
    mechanism = design(settings)
    if trust is TrustMode.CLIENT_NOISE and settings.noise is Noise.GAUSSIAN:
        M = len(clients)
        h = max(1, masks.quorum(M, M, max_dropouts, max_colluding).shares)
        slack = aliasing_slack(settings.epsilon, mechanism.n_released, h)
        settings = msgspec.structs.replace(settings, delta_slack=slack)
        count_bits = _count_bits(design(settings).count_scales, h)
        mechanism = design(msgspec.structs.replace(settings, count_bits=count_bits))
    plan = Plan(
        protocol_version=version_of(mechanism),
        run_id=run_id.hex(),
        trust=trust,
        max_dropouts=max_dropouts,
        max_colluding=max_colluding,
        ring_bits=chosen.ring_bits or 64,
        clients=clients,
        mechanism=mechanism,
        server=Server() if server is None else server,
        timeouts=masks.timeouts if timeouts is None else timeouts,
        authority=authority,
        study=study,
        masks=masks,
        host=host,
        simulated=simulated or None,
    )
    mechanism.check_noise([plan.total_scales(round) for round in mechanism.rounds])
    return plan


def _count_bits(count_scales: tuple[Fraction, ...], n_shares: int) -> int:
    """Return c, the number of fractional bits of the counts. Their unit is 2**-c records.

    c is the smallest number for which each share of the counts' noise has a standard deviation of
    at least 4 units.

    count_scales : standard deviations of the counts' noise.
    n_shares : number of shares that make up this noise.
    """
    # Rounding up added less than one unit. On a finer grid it adds less.
    smallest = min(count_scales) - Fraction(1, SCALE_UNITS)
    c = 0
    while c <= MAX_COUNT_BITS and (smallest * 2**c) ** 2 < MIN_SHARE_DEVIATION**2 * n_shares:
        c += 1
    return c


def renew(
    plan: Plan,
    *,
    run_id: bytes,
    members: Sequence[PublicIdentity] = (),
    server: Server | None = None,
    timeouts: Mapping[str, int] | None = None,
    leave_out: Sequence[str] = (),
    authority: str | None = None,
    positions: Iterable[Positions] = (),
    masks: Masks | None = None,
    host: str | None = None,
) -> Plan:
    """Return the plan of the next run, with new public files of some parties, and without the
    clients to leave out.

    The mechanism stays the same, and so do the caps and the noise of a sum. With fewer clients,
    each client adds a larger share of the noise. A parameter that is None leaves its field as it
    was.

    plan : plan of the earlier run.
    run_id : 16 random bytes, drawn for the new plan.
    members : public identities that replace those of the same names.
    server : new entry of the server.
    timeouts : new timeouts, in seconds, by name of the field.
    leave_out : names of the clients to leave out.
    authority : certificate of the authority, base64 of DER.
    positions : positions of clients' stores, as servers export them. The plan keeps its own
        positions unless these are newer.
    masks : kind of masks. If it changes, each timeout that was the default of the old masks becomes
        the default of the new masks.
    host : name of the client on whose machine the server runs, or "" for none.

    Raises PlanError if the plan is for a simulation, a name is unknown or repeated, or the
    authority did not issue a certificate. Also if the remaining clients cannot give the guarantee,
    or two groups of clients could confirm different results. Also if an identity signed two
    different positions with the same number of events.
    """
    plan.check_apart()
    kind = masks or plan.masks
    clients = {client.name: client for client in plan.clients}
    for name in leave_out:
        if name not in clients:
            raise PlanError(
                f"client {unknown_name(name, list(clients))}: correct the name of the client to"
                " leave out"
            )
        del clients[name]
    new = _members(members, clients, leave_out)
    M, D, t = len(clients), plan.max_dropouts, plan.max_colluding
    if plan.trust is TrustMode.CLIENT_NOISE and kind.quorum(M, M, D, t).shares > plan.n_shares:
        raise PlanError(
            f"max_dropouts is {D}: with {kind.value} masks there would be more shares of noise"
            f" than the plan was made for; make a new plan with `plan new --masks {kind.value}`"
        )
    renewed = msgspec.structs.replace(
        plan,
        protocol_version=version_of(plan.mechanism),
        masks=kind,
        run_id=run_id.hex(),
        clients=with_positions((clients | new).values(), positions),
        server=plan.server if server is None else server,
        authority=plan.authority if authority is None else authority,
        timeouts=msgspec.structs.replace(_timeouts(plan, kind), **dict(timeouts or {})),
        host=plan.host if host is None else host or None,
    )
    renewed.check_undivided()
    return renewed


def _members(
    members: Sequence[PublicIdentity], clients: Mapping[str, Client], leave_out: Sequence[str]
) -> dict[str, Client]:
    """Return the clients that have new public files, by name. Their caps do not change.

    members : public identities of these clients.
    clients : clients that stay in the plan, by name.
    leave_out : names of the clients to leave out.

    Raises PlanError for a name that is unknown, repeated, or to be left out.
    """
    new: dict[str, Client] = {}
    for member in members:
        if member.name in leave_out:
            raise PlanError(
                f"{member.name!r} is both to be left out and to take part; do one of the two"
            )
        if member.name in new:
            raise PlanError(f"there are two public files of {member.name!r}; give one")
        if member.name not in clients:
            raise PlanError(
                f"member {unknown_name(member.name, list(clients))}; a further client changes the"
                " mechanism: use `plan new`"
            )
        old = clients[member.name]
        known = old.store if old.signing_key == member.signing_key else None
        new[member.name] = msgspec.structs.replace(member.client(old.max_records), store=known)
    return new


def _timeouts(plan: Plan, masks: Masks) -> Timeouts:
    """Return the plan's timeouts, changed for other masks.

    A timeout that equals the default of the plan's masks becomes the default of `masks`.
    """
    waits, usual, now = (
        msgspec.structs.asdict(each)
        for each in (plan.timeouts, plan.masks.timeouts, masks.timeouts)
    )
    return Timeouts(
        **{
            step: now[step] if seconds == usual[step] else seconds
            for step, seconds in waits.items()
        }
    )


def with_positions(clients: Iterable[Client], exported: Iterable[Positions]) -> tuple[Client, ...]:
    """Return the clients, each with the newest known position of its store.

    exported : positions that servers exported. Positions of other stores are ignored.

    Raises PlanError if an identity signed two different positions with the same number of events.
    """
    clients = tuple(clients)
    planned = [(client.signing_key, client.store) for client in clients if client.store is not None]
    known = newest(
        [
            *planned,
            *((one.signing_key, one.store) for positions in exported for one in positions.clients),
        ]
    )
    return tuple(
        msgspec.structs.replace(client, store=known.get(client.signing_key)) for client in clients
    )
