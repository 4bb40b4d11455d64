"""Plan: everything that all parties of a federated run agree on. It contains the mechanism, the
parties, and the way in which they take part. It is public and sealed, and cannot be changed.
"""

import math
import re
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import lru_cache

import msgspec
import numpy as np

from fastlloyd.base.arrays import IntArray
from fastlloyd.base.sealed_toml import digest, from_toml, to_toml
from fastlloyd.dp.noise import Noise, NoiseSource
from fastlloyd.errors import PlanError
from fastlloyd.federation.identity.certificates import Authority, Certificate
from fastlloyd.federation.identity.parties import (
    Client,
    Server,
    Timeouts,
    authority_of,
    certificates,
    check_clients,
    check_issued,
    check_network,
    check_networked,
    lacking,
)
from fastlloyd.federation.plan.quorum import (
    MIN_SHARE_DEVIATION,
    Masks,
    Quorum,
    TrustMode,
    aliasing_distance,
    aliasing_slack,
    share_scales,
)
from fastlloyd.federation.plan.study import Study
from fastlloyd.federation.plan.versions import version_of
from fastlloyd.federation.secagg.ring import NOTHING, Load, Ring, RingLoad, choose_ring
from fastlloyd.mechanisms.catalogue import AnyPlanned
from fastlloyd.mechanisms.mechanism import Clustering, Mechanism
from fastlloyd.mechanisms.rounds import Round, draw, sqrt_up
from fastlloyd.mechanisms.uncertainty import (
    LossEstimate,
    NoiseDeviation,
    loss_estimate,
    noise_deviation,
)

__all__ = ["Client", "Masks", "Plan", "Server", "Timeouts", "TrustMode", "ring_load"]

SIMULATED = (
    "the plan is for a simulation, whose clients' caps may add up to more than n_records; make"
    " another plan with `fastlloyd plan new`"
)


class Plan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, cache_hash=True):
    """Plan of one run, made by `design_plan`.

    A field that is None is not part of the digest.

    Attributes
    ----------
    protocol_version : int
        Version of the protocol and of the plan's format.
    run_id : str
        32 hex digits, drawn for every run.
    trust : TrustMode
        Party that adds the noise.
    max_dropouts : int
        D, number of clients that may be missing from a sum. With pairwise masks the missing clients
        are the same in all rounds, with group masks they may differ.
    max_colluding : int
        t, number of clients that may pool what they see (`client-noise`).
    ring_bits : int
        32 or 64.
    clients : tuple of Client
        Clients that take part.
    mechanism : Mechanism, or another PrivateRun
        Rounds of the run, and their noise.
    server : Server
        Server of a run over a network. A simulation needs none.
    timeouts : Timeouts
        Timeouts of a run over a network.
    authority : str or None
        Certificate (base64 of DER) of the authority that must have issued the parties'
        certificates, or None if any issuer is allowed.
    study : Study or None
        Purpose and responsible people, in words, or None.
    masks : Masks
        Kind of keys from which masks are made.
    host : str or None
        Name of the client on whose machine the server runs, or None if the server has a machine of
        its own.
    simulated : bool or None
        True only if one process deals the records to the clients at random. The caps may then add
        up to more than n_records, which that process checks. Parties with records of their own
        refuse such a plan.

    Raises
    ------
    PlanError
        If the fields contradict each other or cannot give the guarantee.

    Examples
    --------
    >>> from pathlib import Path
    >>> from fastlloyd import Plan
    >>> plan = Plan.from_toml(Path("plan.toml").read_text())
    >>> [client.name for client in plan.clients]
    ['a', 'b', 'c']
    >>> len(plan.digest)
    32
    """

    protocol_version: int
    run_id: str
    trust: TrustMode
    max_dropouts: int
    max_colluding: int
    ring_bits: int
    clients: tuple[Client, ...]
    mechanism: AnyPlanned
    server: Server = Server()
    timeouts: Timeouts = Timeouts()
    authority: str | None = None
    study: Study | None = None
    masks: Masks
    host: str | None = None
    simulated: bool | None = None

    def __post_init__(self) -> None:
        # a plan is hashed, so it contains no lists
        msgspec.structs.force_setattr(self, "clients", tuple(self.clients))
        _check_run(self)
        check_clients(self.clients)
        check_network(self.clients, self.server, self.timeouts)
        check_issued(self.clients, self.server, self.issuer)
        m, total = self.mechanism, sum(client.max_records for client in self.clients)
        if total > m.n_records and not self.simulated:
            counted = f" ({m.unit.a} counts once at each client)" if m.persons else ""
            raise PlanError(
                f"the clients' caps add up to {total}{counted}, above n_records {m.n_records};"
                " lower a cap or raise n_records"
            )
        _check_trust(self)
        _check_masks(self)
        choose_ring(ring_load(self), self.ring_bits, self.mechanism.domain.fraction_bits)

    @property
    def clustering(self) -> Mechanism:
        """Mechanism of a plan that clusters records. Raises TypeError if the plan computes
        something else.
        """
        if not isinstance(self.mechanism, Mechanism):
            raise TypeError(f"this plan is for {self.mechanism.name}, which is not a clustering")
        return self.mechanism

    @property
    def n_clients(self) -> int:
        """M, the number of clients."""
        return len(self.clients)

    @property
    def min_present(self) -> int:
        """Smallest number of clients that may share keys: `n_clients` - `max_dropouts`, which is
        more than `max_colluding`.
        """
        return self.n_clients - self.max_dropouts

    def quorum(self, n_present: int) -> Quorum:
        """Return the number of clients that each step needs, if `n_present` clients share keys.

        Raises PlanError unless `n_present` is between `min_present` and `n_clients`.
        """
        if not self.min_present <= n_present <= self.n_clients:
            raise PlanError(
                f"{n_present} clients are present; expected {self.min_present} to {self.n_clients}"
            )
        return self.masks.quorum(n_present, self.n_clients, self.max_dropouts, self.max_colluding)

    @property
    def n_shares(self) -> int:
        """Number of shares that together are the noise that the guarantee needs, if all clients
        share keys. In `server-noise` it is 1, the server's.
        """
        return 1 if self.trust is TrustMode.SERVER_NOISE else self.quorum(self.n_clients).shares

    @property
    def patience(self) -> int:
        """Seconds that the server waits for a message that only one client can send. With group
        masks it is the timeout `dealing`, and with pairwise masks the timeout `round`.
        """
        return self.timeouts.dealing if self.masks is Masks.GROUP else self.timeouts.round

    @property
    def grace(self) -> int:
        """Seconds that a client waits longer than the server: for the answer on its way, and for a
        restart of the server.
        """
        return self.masks.grace

    @property
    def most_dropouts(self) -> int:
        """Largest `max_dropouts` with which no two different results can be confirmed.

        With this number, any two groups of clients that each confirm a result share an honest
        client, even if colluding clients tell each group something else. Let M be `n_clients`, D be
        `max_dropouts` and t be `max_colluding`. Suppose that the groups share only the t colluding
        clients. Then they have at least 2 (M - D - t) honest clients, but there are only M - t
        (docs/proofs/quorum.md).
        """
        return max(0, (self.n_clients - self.max_colluding - 1) // 2)

    @property
    def is_divisible(self) -> bool:
        """Return whether a dishonest server can make two groups of clients confirm different
        results.

        This is possible only with `client-noise`, and only if some clients that collude with the
        server are in both groups.
        """
        return self.trust is TrustMode.CLIENT_NOISE and self.max_dropouts > self.most_dropouts

    def check_undivided(self) -> None:
        """Raise PlanError if the plan `is_divisible`."""
        if self.is_divisible:
            raise PlanError(
                f"max_dropouts is {self.max_dropouts} of {self.n_clients} clients; expected at"
                f" most {self.most_dropouts} if max_colluding is {self.max_colluding}: with more"
                " dropouts, the colluding clients and a server that breaks the protocol could lead"
                " two groups of the other clients to different confirmed results"
            )

    @property
    def ring(self) -> Ring:
        """Ring in which masked sums are added up."""
        return Ring.of(self.ring_bits)

    def n_words(self, round: Round) -> int:
        """Return the number of ring elements in one upload or broadcast of the round: all entries
        of the answer, and the checksum word.
        """
        return math.prod(self.mechanism.shape(round)) + 1

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the clients, in the order of the plan."""
        return tuple(client.name for client in self.clients)

    @property
    def digest(self) -> bytes:
        """SHA-256 of the canonical content, 32 bytes."""
        return _digest(self)

    def client(self, name: str) -> Client:
        """Return the client named `name`. Raises PlanError if there is none."""
        for client in self.clients:
            if client.name == name:
                return client
        raise PlanError(f"the plan has no client {name!r}; its clients are {', '.join(self.names)}")

    @property
    def lacking(self) -> str:
        """Sentence about the first thing that the plan lacks for a run over a network, or "" if it
        is complete.
        """
        return SIMULATED if self.simulated else lacking(self.clients, self.server)

    def check_apart(self) -> None:
        """Raise PlanError if the plan is `simulated`. Parties with records of their own cannot run
        such a plan, because each checks only its own cap.
        """
        if self.simulated:
            raise PlanError(SIMULATED)

    def certificates(self) -> list[Certificate]:
        """Return the parsed certificates of the plan, first the server's."""
        return certificates(self.clients, self.server)

    @property
    def issuer(self) -> Authority | None:
        """Authority of the plan, parsed, or None."""
        return authority_of(self.authority)

    def expiring(self, now: datetime) -> list[Certificate | Authority]:
        """Return the certificates of parties and of their authority that may expire before the end
        of a run that starts at `now`.

        The run may use all its timeouts: for joining, for keys, for each round and for
        confirmations.
        """
        end = now + timedelta(seconds=(self.mechanism.n_rounds + 3) * self.timeouts.round)
        issuer = [self.issuer] if self.issuer else []
        known: list[Certificate | Authority] = [*self.certificates(), *issuer]
        return [certificate for certificate in known if certificate.ends < end]

    def check_networked(self, now: datetime | None = None) -> None:
        """Raise PlanError if the plan lacks something for a run over a network, or if a certificate
        is not valid.

        now : time at which certificates must be valid, with a time zone, or None for the system's
            clock.
        """
        self.check_apart()
        check_networked(
            self.clients, self.server, self.issuer, datetime.now(UTC) if now is None else now
        )

    def share_scales(self, round: Round, n_present: int) -> tuple[Fraction, ...]:
        """Return the standard deviations of one client's share of the noise, one for each part of
        the answer.

        n_present : number of clients that share keys.

        Raises PlanError in `server-noise`, which has no shares.
        """
        if self.trust is TrustMode.SERVER_NOISE:
            raise PlanError("server-noise has no shares of noise: the server draws all of it")
        return _share_scales(round.scales, self.quorum(n_present).shares)

    def total_scales(self, round: Round) -> tuple[Fraction, ...]:
        """Return the largest scales that the noise of an answer can have, one for each part of the
        answer, rounded up.

        With pairwise masks, n shares together have the scale sqrt(n) max(4, S / sqrt(n - t)). S is
        the scale that the guarantee needs, and t is max_colluding. The largest value is at the
        largest or the smallest n.
        """
        if self.trust is TrustMode.SERVER_NOISE:
            return round.scales
        worst = (
            [scale**2 * n for scale in self.share_scales(round, n)]
            for n in (self.min_present, self.n_clients)
        )
        return tuple(sqrt_up(max(of_part)) for of_part in zip(*worst, strict=True))

    def deviations(self, round: Round, n_included: int) -> tuple[float, ...]:
        """Return the standard deviations of the Gaussian noise in a sum of `n_included` clients,
        one for each part of the answer.
        """
        if self.trust is TrustMode.SERVER_NOISE:
            return tuple(map(float, round.scales))
        scales = self.share_scales(round, n_included)
        return tuple(math.sqrt(n_included) * float(scale) for scale in scales)

    def n_draws(self, n_included: int) -> int:
        """Return the number of separately rounded draws of noise in a sum of `n_included`
        clients.
        """
        return 1 if self.trust is TrustMode.SERVER_NOISE else n_included

    def draw_client_noise(self, round: Round, source: NoiseSource, n_present: int) -> IntArray:
        """Return fresh noise that a client adds before masking, int64 of the answer's shape. It is
        the client's share, or zeros in `server-noise`.

        n_present : number of clients that share keys.
        """
        question = self.mechanism.question(round)
        if self.trust is TrustMode.SERVER_NOISE:
            return np.zeros(question.shape, dtype=np.int64)
        shares = zip(question.parts, self.share_scales(round, n_present), strict=True)
        return draw(Noise.GAUSSIAN, question.n_rows, shares, source)

    def draw_server_noise(self, round: Round, source: NoiseSource) -> IntArray:
        """Return fresh noise that the server adds to the masked sum, int64 of the answer's shape.
        It is all of the noise, or zeros in `client-noise`.
        """
        if self.trust is TrustMode.SERVER_NOISE:
            return self.mechanism.draw_noise(round, source)
        return np.zeros(self.mechanism.shape(round), dtype=np.int64)

    @property
    def distance(self) -> Fraction:
        """tau, the largest total variation distance of a run from a run with exactly the
        mechanism's noise. In `server-noise` it is 0.
        """
        if self.trust is TrustMode.SERVER_NOISE:
            return Fraction(0)
        return Fraction(aliasing_distance(self.mechanism.n_released, self.n_shares))

    def to_toml(self) -> str:
        """Return the text of the file `plan.toml`."""
        return to_toml(
            self,
            "A fastlloyd plan: settings, no records, good for one run. The last line seals the"
            " content.",
        )

    @classmethod
    def from_toml(cls, text: str, source: str = "plan.toml") -> "Plan":
        """Return the plan in the text of a file `plan.toml`.

        source : name of the file, for error messages.

        Raises PlanError if the text was changed, or if the plan cannot give the guarantee that it
        states.
        """
        return from_toml(text, cls, source)


def noise_deviation_of_run(plan: Plan, n_included: int) -> NoiseDeviation:
    """Return the standard deviations of the noise in the last round, which included `n_included`
    clients.

    In `client-noise` each of them added a share, rounded up. The guarantee needs only h shares
    (`Plan.n_shares`). So the noise is sqrt(n_included / h) times the noise that the guarantee needs
    (`explain.noise_factor`).
    """
    if plan.trust is TrustMode.SERVER_NOISE:
        return noise_deviation(plan.clustering)
    sums, counts = plan.deviations(plan.mechanism.rounds[-1], n_included)
    return NoiseDeviation(sums=sums, counts=counts / 2**plan.mechanism.number_bits)


def loss_estimate_of_run(
    plan: Plan, clustering: Clustering, n_included: int
) -> LossEstimate | None:
    """Return the estimated loss of a clustering, or None if the plan does not ask for it.

    n_included : number of clients in the sum of the round for the loss.
    """
    m = plan.clustering
    if plan.trust is TrustMode.SERVER_NOISE or m.loss is None:
        return loss_estimate(m, clustering)
    (deviation,) = plan.deviations(m.loss, n_included)
    return loss_estimate(m, clustering, deviation * m.loss_unit)


def ring_load(plan: Plan) -> RingLoad:
    """Return the largest numbers that the plan's ring must represent: sums of the capped records,
    and the noise of all clients.
    """
    m = plan.mechanism
    loads = [
        [
            Load(part.bound, scale)
            for part, scale in zip(m.parts(round), plan.total_scales(round), strict=True)
        ]
        for round in set(m.rounds)
    ]
    sums, counts, loss, others = NOTHING, NOTHING, NOTHING, set[Load]()
    for round in m.all_rounds[len(m.rounds) :]:
        loss = Load(m.parts(round)[0].bound, *plan.total_scales(round))
    if m.sums_are_in_grid_units:
        sums, counts = (
            Load(*map(max, zip(*each, strict=True))) for each in zip(*loads, strict=True)
        )
    else:
        others.update(*loads)
    return RingLoad(
        n_records=m.n_records,
        sums=sums,
        counts=counts,
        loss=loss,
        others=tuple(sorted(others)),
        n_rounding_terms=plan.n_draws(plan.n_clients),
        n_released=m.n_released,
        noise=m.noise,
    )


@lru_cache(maxsize=16)  # all parties of a simulation call this
def _digest(plan: Plan) -> bytes:
    return digest(plan)


_share_scales = lru_cache(maxsize=64)(share_scales)  # every client calls this in every round


def _check_run(plan: Plan) -> None:
    expected = version_of(plan.mechanism)
    if plan.protocol_version != expected:
        is_newer = plan.protocol_version > expected
        remedy = (
            "install the version of fastlloyd that the other parties have"
            if is_newer
            else "make the plan anew"
        )
        raise PlanError(
            f"protocol_version is {plan.protocol_version}; for this kind of plan, this program"
            f" reads version {expected}: {remedy}"
        )
    if not re.fullmatch(r"[0-9a-f]{32}", plan.run_id):
        raise PlanError("run_id is not 32 hex digits; make a new plan")
    if plan.ring_bits not in (32, 64):
        raise PlanError(f"ring_bits is {plan.ring_bits}; expected 32 or 64")
    if plan.mechanism.persons is not None and plan.ring_bits != 64:
        raise PlanError(
            f"ring_bits is {plan.ring_bits}; expected 64 to protect {plan.mechanism.unit.many},"
            " because their sums need more bits"
        )


def _check_trust(plan: Plan) -> None:
    m, M = plan.mechanism, plan.n_clients
    if m.noise is Noise.NONE:
        raise PlanError(
            f"{m.name} adds no noise and protects nobody; a federated run needs a private algorithm"
        )
    if not 0 <= plan.max_dropouts < M:
        raise PlanError(
            f"max_dropouts is {plan.max_dropouts}; expected 0 to {M - 1} with {M} clients"
        )
    if plan.trust is TrustMode.SERVER_NOISE:
        _check_server_noise(plan)
        return
    if m.noise is Noise.LAPLACE:
        raise PlanError(
            f"{m.name} uses Laplace noise, which cannot be added in shares; use server-noise or"
            " another algorithm"
        )
    if plan.max_colluding < 1:
        raise PlanError(
            f"max_colluding is {plan.max_colluding}; expected at least 1: every client knows its"
            " own share of the noise"
        )
    if plan.min_present <= plan.max_colluding:
        raise PlanError(
            f"the plan has {M} client{'s' if M > 1 else ''}; {plan.max_dropouts} may be absent"
            f" (max_dropouts), and {plan.max_colluding} may pool what they see (max_colluding)."
            " Then no share of noise is left to protect the records; name more clients, allow less"
            " of either, or use server-noise"
        )
    if any(scale**2 < MIN_SHARE_DEVIATION**2 * plan.n_shares for scale in m.count_scales):
        raise PlanError(
            f"count_bits is {m.count_bits}, too few for shares of noise of at least"
            f" {MIN_SHARE_DEVIATION} units; design the plan anew"
        )
    if aliasing_slack(m.epsilon, m.n_released, plan.n_shares) > m.delta_slack:
        raise PlanError(
            f"delta_slack is {m.delta_slack}, too small to add up {plan.n_shares} shares of noise;"
            " design the plan anew"
        )


def _check_server_noise(plan: Plan) -> None:
    if not (m := plan.mechanism).bears_server_noise:
        raise PlanError(
            f"trust is server-noise, but a plan that finds {m.finds.value} needs client-noise: the"
            f" next plan publishes the {m.finds.value}, and a server that adds the noise could"
            " compute exact answers from them"
        )
    if plan.max_colluding != 0:
        raise PlanError(
            "max_colluding is for client-noise: set it to 0, because with server-noise the"
            " guarantee holds even if any number of clients pool what they see"
        )


def _check_masks(plan: Plan) -> None:
    most = plan.masks.max_clients
    if plan.n_clients > most:
        raise PlanError(
            f"the plan names {plan.n_clients} clients; expected at most {most} with"
            f" {plan.masks.value} masks, because the bytes that they send each other grow with the"
            " square of their number: name fewer, or use group masks"
        )
    if plan.host is None:
        return
    if plan.host not in plan.names:
        raise PlanError(
            f"host is {plan.host!r:.80}, which is not a client of the plan; choose one of"
            f" {', '.join(plan.names)}"
        )
    if plan.masks is not Masks.PAIRWISE:
        raise PlanError(
            f"client {plan.host!r} is to host the server, and with group masks a party that has"
            " the key and the uploads can open every upload; use pairwise masks, or a server on a"
            " machine of its own"
        )
    if plan.trust is TrustMode.SERVER_NOISE:
        raise PlanError(
            f"client {plan.host!r} is to host the server, and with server-noise it would know the"
            " noise and the result; use client-noise, or a server on a machine of its own"
        )
