"""Everything all parties of a federated run agree on: the mechanism, who takes part, and how. Public, frozen, sealed."""

import enum
import math
import re
from datetime import UTC, datetime
from fractions import Fraction
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np

from fastlloyd.base.arrays import IntArray
from fastlloyd.base.precision import working_precision
from fastlloyd.base.sealed_toml import digest, from_toml, to_toml
from fastlloyd.dp.noise import Noise, NoiseSource
from fastlloyd.errors import PlanError
from fastlloyd.federation.identity.certificates import Authority, Certificate
from fastlloyd.federation.identity.parties import (
    MAX_CLIENTS,
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
from fastlloyd.federation.secagg.ring import NOTHING, Load, Ring, RingLoad, choose_ring
from fastlloyd.mechanisms.catalogue import AnyMechanism
from fastlloyd.mechanisms.mechanism import Clustering
from fastlloyd.mechanisms.rounds import Round, draw, sqrt_up
from fastlloyd.mechanisms.uncertainty import LossEstimate, NoiseDeviation, loss_estimate, noise_deviation

__all__ = [
    "MAX_CLIENTS", "MIN_SHARE_DEVIATION", "PROTOCOL_VERSION", "Client", "Plan", "Server", "Timeouts", "TrustMode",
    "aliasing_distance", "aliasing_slack", "ring_load",
]  # fmt: skip

PROTOCOL_VERSION = 3
MAX_TEXT_LENGTH = 500  # characters
MIN_SHARE_DEVIATION = 4  # grid units: below it, sums of separately rounded shares are too far from a rounded sum


class TrustMode(enum.Enum):
    """Who adds the noise, and so against whom the guarantee holds.

    # Departs from the paper, which has the server's noise only: shares from the clients are the default.
    """

    SERVER_NOISE = "server-noise"  # the paper's: the server adds all of it and must never see a result
    CLIENT_NOISE = "client-noise"  # every client adds a share; the server may see results


class Study(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a run is for and who answers for it, in words for people; no decision of the program depends on it.

    Each is on one line of at most 500 printable characters; None is left out of a plan and its digest.

    name : the study's. purpose : what the result is wanted for. controller : who decides about purpose and means, and so
    answers for the processing. contact : whom people ask.
    """

    name: str | None = None
    purpose: str | None = None
    controller: str | None = None
    contact: str | None = None

    def __post_init__(self) -> None:
        texts = self.texts
        if not texts:
            raise PlanError("a study says nothing; expected a name, a purpose, a controller or a contact, or no study at all")
        for what, text in texts.items():
            if not (text.isprintable() and text == text.strip() and 1 <= len(text) <= MAX_TEXT_LENGTH):
                raise PlanError(
                    f"{what} of the study is {text!r:.100}; expected 1 to {MAX_TEXT_LENGTH} printable characters on one line, "
                    "without spaces around them"
                )

    @property
    def texts(self) -> dict[str, str]:
        """The texts that are given, by field, in the order of the fields."""
        return {what: text for what, text in msgspec.structs.asdict(self).items() if text is not None}


class Plan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, cache_hash=True):
    """A mechanism plus who takes part and how. Made by `design_plan`; good for one run.

    max_dropouts : D, how many clients may be missing from a round; max_colluding : t, how many clients may pool what they see
    (client-noise). h = M - D - t shares of noise must be in every sum. ring_bits : 32 or 64. run_id : 32
    hex digits, fresh for every run. server, timeouts : for a run over a network; a simulation needs neither. authority : the
    certificate, base64 of DER, of the only one that may have issued the parties'; None: who issued them does not matter.
    study : what it is for and who answers for it, in words.
    """

    protocol_version: int
    run_id: str
    trust: TrustMode
    max_dropouts: int
    max_colluding: int
    ring_bits: int
    clients: tuple[Client, ...]
    mechanism: AnyMechanism
    server: Server = Server()
    timeouts: Timeouts = Timeouts()
    authority: str | None = None  # None is left out of the digest
    study: Study | None = None  # None is left out of the digest

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "clients", tuple(self.clients))  # plans are hashed
        _check_run(self)
        check_clients(self.clients)
        check_network(self.clients, self.server, self.timeouts)
        check_issued(self.clients, self.server, self.issuer)
        total, n_records = sum(client.max_records for client in self.clients), self.mechanism.n_records
        if total > n_records:
            raise PlanError(f"the clients' caps add up to {total}, above n_records {n_records}; lower a cap or raise n_records")
        _check_trust(self)
        choose_ring(ring_load(self), self.ring_bits, self.mechanism.domain.fraction_bits)

    @property
    def n_clients(self) -> int:
        """M, how many clients take part."""
        return len(self.clients)

    @property
    def n_shares(self) -> int:
        """h, how many shares of noise are enough for the guarantee (1 in server-noise: the server's)."""
        if self.trust is TrustMode.SERVER_NOISE:
            return 1
        return self.n_clients - self.max_dropouts - self.max_colluding

    @property
    def min_included(self) -> int:
        """The fewest clients a round may be closed with."""
        return self.n_clients - self.max_dropouts

    @property
    def is_divisible(self) -> bool:
        """Whether two groups of clients, without one in common, are each enough to close every round (client-noise)."""
        return self.trust is TrustMode.CLIENT_NOISE and 2 * self.min_included <= self.n_clients

    def check_undivided(self) -> None:
        """Raise PlanError if the plan `is_divisible`: a server that lies could then lead two groups to two results."""
        if self.is_divisible:
            raise PlanError(
                f"max_dropouts is {self.max_dropouts} of {self.n_clients} clients; expected at most "
                f"{(self.n_clients - 1) // 2}, so that every round needs more than half of them: else a server that breaks the "
                "protocol leads two groups to two results, which nobody notices who does not compare them"
            )

    @property
    def ring(self) -> Ring:
        """The ring in which masked sums are added up."""
        return Ring.of(self.ring_bits)

    def n_words(self, round: Round) -> int:
        """Ring elements of one upload or broadcast: all entries of the round's answer and the checksum."""
        return math.prod(self.mechanism.shape(round)) + 1

    @property
    def names(self) -> tuple[str, ...]:
        """The clients' names in the order of the plan."""
        return tuple(client.name for client in self.clients)

    @property
    def digest(self) -> bytes:
        """SHA-256 of the canonical content, 32 bytes."""
        return _digest(self)

    def client(self, name: str) -> Client:
        """The client of that name, or PlanError listing the names there are."""
        for client in self.clients:
            if client.name == name:
                return client
        raise PlanError(f"there is no client {name!r} in the plan; it names {', '.join(self.names)}")

    @property
    def lacking(self) -> str:
        """The first thing a run over a network would lack, in a sentence; nothing if everything is there."""
        return lacking(self.clients, self.server)

    def certificates(self) -> list[Certificate]:
        """The certificates that the plan has, parsed, the server's first."""
        return certificates(self.clients, self.server)

    @property
    def issuer(self) -> Authority | None:
        """What the certificate of the plan's authority says, if it names one."""
        return authority_of(self.authority)

    def check_networked(self, now: datetime | None = None) -> None:
        """Raise PlanError, one sentence, if a run over a network lacks something or a certificate is not valid now.

        now : a time that knows its zone; None: the system's clock.
        """
        check_networked(self.clients, self.server, self.issuer, datetime.now(UTC) if now is None else now)

    def share_scales(self, round: Round) -> tuple[Fraction, ...]:
        """Standard deviations of one client's share of the noise, per part of the answer: h of them make the round's total.

        Raises PlanError in server-noise, where there are no shares.
        """
        if self.trust is TrustMode.SERVER_NOISE:
            raise PlanError("in server-noise nobody has a share of the noise: the server draws all of it")
        return _shares(self, round)

    def total_scales(self, round: Round) -> tuple[Fraction, ...]:
        """Scales of the noise of an answer that no client misses, per part of it, rounded up."""
        if self.trust is TrustMode.SERVER_NOISE:
            return round.scales
        return tuple(sqrt_up(scale**2 * self.n_clients) for scale in self.share_scales(round))

    def deviations(self, round: Round, n_included: int) -> tuple[float, ...]:
        """Standard deviations of the Gaussian noise in a sum over so many clients, per part of the answer."""
        if self.trust is TrustMode.SERVER_NOISE:
            return tuple(map(float, round.scales))
        return tuple(math.sqrt(n_included) * float(scale) for scale in self.share_scales(round))

    def draw_client_noise(self, round: Round, source: NoiseSource) -> IntArray:
        """Draw what a client adds before masking, int64 of the answer's shape: its share, or zeros in server-noise."""
        question = round.question(self.mechanism)
        if self.trust is TrustMode.SERVER_NOISE:
            return np.zeros(question.shape, dtype=np.int64)
        shares = zip(question.parts, self.share_scales(round), strict=True)
        return draw(Noise.GAUSSIAN, question.n_rows, shares, source)

    def draw_server_noise(self, round: Round, source: NoiseSource) -> IntArray:
        """Draw what the server adds to the masked sum, int64 of the answer's shape: all noise, or zeros in client-noise."""
        if self.trust is TrustMode.SERVER_NOISE:
            return self.mechanism.draw_noise(round, source)
        return np.zeros(self.mechanism.shape(round), dtype=np.int64)

    @property
    def distance(self) -> Fraction:
        """tau: how far a run is at most, in total variation, from one with exactly its mechanism's noise; 0 in server-noise."""
        if self.trust is TrustMode.SERVER_NOISE:
            return Fraction(0)
        return Fraction(aliasing_distance(self.mechanism.n_released, self.n_shares))

    def to_toml(self) -> str:
        """The text of the file `plan.toml`."""
        return to_toml(self, "A fastlloyd plan: settings, no records, good for one run. The last line seals the content.")

    @classmethod
    def from_toml(cls, text: str, source: str = "plan.toml") -> "Plan":
        """Read `plan.toml`; raises PlanError if it was changed or cannot give the guarantee it states."""
        return from_toml(text, cls, source)


def aliasing_slack(epsilon: float, n_released: int, n_shares: int) -> float:
    """What adding up separately rounded shares can add to delta, rounded up (docs/proofs/shares-of-noise.md).

    (1 + e^epsilon) times the distance. inf where epsilon is too large for the bound to mean anything.
    """
    with working_precision(170) as mp:
        bound = (1 + mp.exp(epsilon)) * _distance(mp, n_released, n_shares)
        return math.nextafter(float(bound), math.inf) if bound < 1 else math.inf


def aliasing_distance(n_released: int, n_shares: int) -> float:
    """tau: how far separately rounded shares are from one rounded Gaussian, in total variation, rounded up."""
    with working_precision(170) as mp:
        return math.nextafter(float(_distance(mp, n_released, n_shares)), math.inf)


def _distance(mp: Any, n_released: int, n_shares: int) -> Any:
    """The number of released coordinates times 5 h exp(-pi^2 s^2 / 2), s = 4 grid units the smallest deviation of a share."""
    return n_released * 5 * n_shares * mp.exp(-(mp.pi**2) * MIN_SHARE_DEVIATION**2 / 2)


def noise_deviation_of_run(plan: Plan, n_included: int) -> NoiseDeviation:
    """The noise in the last round, which included `n_included` clients: in `client-noise` each of them added a share.

    That is sqrt(n_included / h) times what the guarantee needs (see `explain.noise_factor`), shares being rounded up.
    """
    if plan.trust is TrustMode.SERVER_NOISE:
        return noise_deviation(plan.mechanism)
    sums, counts = plan.deviations(plan.mechanism.rounds[-1], n_included)
    return NoiseDeviation(sums=sums, counts=counts / 2**plan.mechanism.count_bits)


def loss_estimate_of_run(plan: Plan, clustering: Clustering, n_included: int) -> LossEstimate | None:
    """The loss of a run whose round for the loss included `n_included` clients; None where the plan does not ask for it."""
    loss = plan.mechanism.loss
    if plan.trust is TrustMode.SERVER_NOISE or loss is None:
        return loss_estimate(plan.mechanism, clustering)
    (deviation,) = plan.deviations(loss, n_included)
    return loss_estimate(plan.mechanism, clustering, deviation * loss.unit(plan.mechanism.domain.fraction_bits))


def ring_load(plan: Plan) -> RingLoad:
    """What the plan's ring must hold: worst-case sums of the capped records, and the noise of all clients."""
    m = plan.mechanism
    loads = [
        [Load(part.bound, scale) for part, scale in zip(m.parts(round), plan.total_scales(round), strict=True)]
        for round in set(m.rounds)
    ]
    sums, counts, others = NOTHING, NOTHING, set[Load]()
    if m.sums_are_in_grid_units:
        sums, counts = (Load(*map(max, zip(*each, strict=True))) for each in zip(*loads, strict=True))
    else:
        others.update(*loads)
    return RingLoad(
        n_records=m.n_records,
        sums=sums,
        counts=counts,
        loss=Load(m.loss.cap, *plan.total_scales(m.loss)) if m.loss else NOTHING,
        others=tuple(sorted(others)),
        n_rounding_terms=plan.n_clients if plan.trust is TrustMode.CLIENT_NOISE else 1,
        n_released=m.n_released,
        noise=m.noise,
    )


@lru_cache(maxsize=16)  # all parties of a simulation ask
def _digest(plan: Plan) -> bytes:
    return digest(plan)


@lru_cache(maxsize=64)  # asked for in every round, by every client
def _shares(plan: Plan, round: Round) -> tuple[Fraction, ...]:
    return tuple(max(Fraction(MIN_SHARE_DEVIATION), sqrt_up(scale**2 / plan.n_shares)) for scale in round.scales)


def _check_run(plan: Plan) -> None:
    if plan.protocol_version != PROTOCOL_VERSION:
        raise PlanError(
            f"protocol_version is {plan.protocol_version}; this program speaks version {PROTOCOL_VERSION}: make the plan anew"
        )
    if not re.fullmatch(r"[0-9a-f]{32}", plan.run_id):
        raise PlanError("run_id is not 32 hex digits; make a new plan")
    if plan.ring_bits not in (32, 64):
        raise PlanError(f"ring_bits is {plan.ring_bits}; expected 32 or 64")


def _check_trust(plan: Plan) -> None:
    m, M = plan.mechanism, plan.n_clients
    if m.noise is Noise.NONE:
        raise PlanError(f"{m.name} adds no noise and protects nobody; a federated run needs a private algorithm")
    if not 0 <= plan.max_dropouts < M:
        raise PlanError(f"max_dropouts is {plan.max_dropouts}; expected 0 to {M - 1} with {M} clients")
    if plan.trust is TrustMode.SERVER_NOISE:
        if plan.max_colluding != 0:
            raise PlanError("max_colluding is for client-noise; server-noise holds against any number of clients: set it to 0")
        return
    if m.noise is Noise.LAPLACE:
        raise PlanError(f"{m.name} uses Laplace noise, which cannot be added in shares; use server-noise or another algorithm")
    if plan.max_colluding < 1:
        raise PlanError(
            f"max_colluding is {plan.max_colluding}; expected at least 1: every client knows its own share of the noise"
        )
    if plan.n_shares < 1:
        raise PlanError(
            f"{M} client{'s' if M > 1 else ''}, of which {plan.max_dropouts} may be absent (max_dropouts) and "
            f"{plan.max_colluding} may pool what they see (max_colluding), leave no share of noise that protects; name more "
            "clients, allow less of either, or use server-noise"
        )
    if any(scale**2 < MIN_SHARE_DEVIATION**2 * plan.n_shares for scale in m.count_scales):
        raise PlanError(
            f"count_bits is {m.count_bits}, too few for shares of noise of at least {MIN_SHARE_DEVIATION} units; "
            "design the plan anew"
        )
    if aliasing_slack(m.epsilon, m.n_released, plan.n_shares) > m.delta_slack:
        raise PlanError(
            f"delta_slack is {m.delta_slack}, too small to add up {plan.n_shares} shares of noise; design the plan anew"
        )
