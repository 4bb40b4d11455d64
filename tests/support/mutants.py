"""The mistakes of the published code, and a few more: each a small patch of the real code, beside
the check that catches it.

`n` is about the least at which the check misses the mutant with a probability below 1e-9; that of
the law is the least at which 200 values are expected in every cell.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np
from msgspec.structs import replace
from numpy.typing import ArrayLike

import checks
from auditing import HONEST, Experiment, Setting
from bounds import N_TRIES, exceedance
from checks import EPSILON, Check
from fastlloyd.base.arrays import FloatArray, IntArray
from fastlloyd.clustering import kernels
from fastlloyd.clustering.domain import Domain
from fastlloyd.dp import noise
from fastlloyd.dp.noise import RandomBytes, SystemNoise
from fastlloyd.errors import PlanError
from fastlloyd.federation.plan.plan import Plan, TrustMode
from fastlloyd.federation.protocol.rounds import ClientRounds
from fastlloyd.federation.secagg.masks import GroupMasks, MaskContext, _Pair
from fastlloyd.mechanisms import loss
from fastlloyd.mechanisms.lloyd import design, mechanism
from fastlloyd.mechanisms.lloyd.mechanism import LloydRound
from fastlloyd.mechanisms.queries.relative import Moments
from fastlloyd.mechanisms.queries.sensitivity import Sensitivity
from fastlloyd.mechanisms.rounds import LossRound
from fastlloyd.mechanisms.settings import AnyAlgorithm, Settings
from fastlloyd.testing import SeededNoise
from kinds import lloyd_of


@dataclass(frozen=True)
class Mutant:
    """A wrong version of the code, and the check that catches it at n.

    power_at : n -> probability that it does; guarded : planning refuses the mutant, so the check is
    run without that guard.
    """

    name: str
    apply: Callable[[], AbstractContextManager[object]]
    check: Check
    n: int
    power_at: Callable[[int], float]
    guarded: bool = False

    def __str__(self) -> str:
        return f"{self.name}, by {self.check.name}"

    @property
    def power(self) -> float:
        """Probability that the check catches the mutant."""
        return self.power_at(self.n)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """The code with this mistake, and without the guarantee check of `LloydMechanism` that
        would refuse it early.
        """
        with self.apply(), patch.object(mechanism, "check_guarantee", lambda _: None):
            yield

    def is_refused_by_planning(self) -> bool:
        """Whether no plan can be designed with this mistake, in either trust mode."""
        refused = set()
        with self.apply():
            for trust in TrustMode:
                try:
                    Experiment.of(
                        Setting(trust=trust, epsilon=EPSILON, loss_share=checks.LOSS_SHARE)
                    )
                    refused.add(False)
                except PlanError:
                    refused.add(True)
        return refused == {True}


def scales_of_one_round() -> AbstractContextManager[object]:
    """Plan each round as if it were the only one: the factor sqrt T is missing."""
    genuine = design._scales

    def mutated(algorithm: Any, d: int, sensitivities: Any, _n_rounds: int, *more: Any) -> Any:
        return genuine(algorithm, d, sensitivities, 1, *more)

    return patch.object(design, "_scales", mutated)


def half_the_scales() -> AbstractContextManager[object]:
    """Plan half the noise."""
    genuine = design._scales

    def mutated(*settings: Any) -> Any:
        return {
            sensitivity: (sums / 2, counts / 2)
            for sensitivity, (sums, counts) in genuine(*settings).items()
        }

    return patch.object(design, "_scales", mutated)


def half_the_draw() -> AbstractContextManager[object]:
    """Draw half the noise that was planned."""
    genuine = noise.rounded_gaussian
    return patch.object(
        noise, "rounded_gaussian", lambda scale, size, source: genuine(scale / 2, size, source)
    )


def truncation() -> AbstractContextManager[object]:
    """Cut the noise off toward zero, as a cast to int does (W9)."""
    genuine = noise.rounded_gaussian

    def mutated(scale: Fraction, size: int, source: RandomBytes) -> IntArray:
        fine = genuine(1024 * scale, size, source)
        return np.asarray(np.sign(fine) * (np.abs(fine) >> 10))

    return patch.object(noise, "rounded_gaussian", mutated)


def reused_stream() -> AbstractContextManager[object]:
    """Draw the counts' noise from the random bytes that the sums' noise was drawn from (W3)."""
    genuine = noise.rounded_gaussian
    tape: list[bytes] = []

    def mutated(scale: Fraction, size: int, source: RandomBytes) -> IntArray:
        if tape:
            pending = [tape.pop()]
        else:
            pending = [source(8 * size)]
            tape.extend(pending)
        return genuine(scale, size, lambda n: pending.pop()[:n] if pending else source(n))

    return patch.object(noise, "rounded_gaussian", mutated)


@contextmanager
def seeded_by_the_round() -> Iterator[None]:
    """Seed the noise with a public number times the round, counted from 0 (W1, W2)."""
    source: list[SeededNoise] = []

    def mutated(genuine: Callable[..., IntArray]) -> Callable[..., IntArray]:
        def draw(plan: Plan, round: LloydRound, given: Any, *n_present: int) -> IntArray:
            number = next(i for i, other in enumerate(plan.mechanism.rounds) if other is round)
            source[:] = [SeededNoise(int(plan.clustering.public_seed, 16) * number)]
            return genuine(plan, round, given, *n_present)

        return draw

    with ExitStack() as stack:
        for name in ("draw_client_noise", "draw_server_noise"):
            stack.enter_context(patch.object(Plan, name, mutated(getattr(Plan, name))))
        stack.enter_context(
            patch.object(
                SystemNoise, "gaussian", lambda _, scale, size: source[0].gaussian(scale, size)
            )
        )
        yield


def half_the_sensitivity() -> AbstractContextManager[object]:
    """Take half the radius for the sensitivity of the sums; planner and accountant agree on it."""
    genuine = Moments.sensitivity

    def mutated(question: Moments) -> Sensitivity:
        s: Sensitivity = genuine.__get__(question)
        corners = [
            tuple((sums // 4, counts) for sums, counts in corners)
            for corners in (s.added, s.replaced)
        ]
        return replace(
            s, added=corners[0], replaced=corners[1], l1_added=(s.l1_added[0] // 2, s.l1_added[1])
        )

    return patch.object(Moments, "sensitivity", property(mutated))


def unreduced_masks() -> AbstractContextManager[object]:
    """Draw masks from half the ring, so that the top bit of an upload is the sign of what it hides
    (W8).
    """

    genuine = GroupMasks._keystreams

    def mutated(masks: GroupMasks, *settings: Any) -> list[bytes]:
        dtype = masks._ring.dtype
        return [
            (np.frombuffer(stream, dtype) >> dtype.type(1)).tobytes()
            for stream in genuine(masks, *settings)
        ]

    return patch.object(GroupMasks, "_keystreams", mutated)


def unreduced_pair_masks() -> AbstractContextManager[object]:
    """The same mistake in the masks of pairs: the second of two clients subtracts what is always
    positive.
    """
    genuine = _Pair.keystream

    def mutated(pair: _Pair, context: MaskContext, n_bytes: int) -> bytes:
        return (np.frombuffer(genuine(pair, context, n_bytes), "<u8") >> np.uint64(1)).tobytes()

    return patch.object(_Pair, "keystream", mutated)


def quantised_sums() -> AbstractContextManager[object]:
    """Keep records as real numbers and bring only their sum to the grid (W18)."""

    def mutated(domain: Domain, X: ArrayLike) -> FloatArray:
        return np.asarray(
            (np.clip(np.asarray(X, dtype=np.float64), domain.lower, domain.upper) - domain.centre)
            / domain.units
        )

    return patch.object(Domain, "to_grid", mutated)


@contextmanager
def phantom_counts() -> Iterator[None]:
    """Send an empty cluster as one record that lies at its centroid (W20)."""
    genuine = Moments.answer

    def mutated(question: Moments, X: IntArray, *, centroids: IntArray) -> IntArray:
        answer = genuine(question, X, centroids=centroids)
        centres = centroids if question.squared_radius is None else np.zeros_like(centroids)
        phantom = np.column_stack([centres, np.full(len(answer), 1 << question.count_bits)])
        return np.where(answer[:, -1:] == 0, phantom, answer)

    with patch.object(Moments, "answer", mutated):
        yield


def unclipped_loss() -> AbstractContextManager[object]:
    """Let a record count for its whole squared distance."""
    genuine = kernels.clipped_loss
    return patch.object(
        kernels,
        "clipped_loss",
        lambda X, centroids, _cap, shift: genuine(X, centroids, (1 << 53) - (1 << shift), shift),
    )


def loss_with_the_whole_budget() -> AbstractContextManager[object]:
    """Plan the noise of the loss as if the rounds cost nothing."""
    genuine = loss.loss_round

    def mutated(
        settings: Settings[AnyAlgorithm], _share: Fraction, largest: int
    ) -> LossRound | None:
        return genuine(settings, Fraction(1), largest)

    return patch.object(design, "loss_round", mutated)


class NoNoise:
    """Zeros."""

    private = False

    def gaussian(self, _scale: Fraction, size: int) -> IntArray:
        return np.zeros(size, dtype=np.int64)

    two_sided_geometric = gaussian


def omitted_share() -> AbstractContextManager[object]:
    """Let one client upload without its share of the noise."""
    genuine = ClientRounds.__init__

    def mutated(rounds: ClientRounds, *args: Any, **settings: Any) -> None:
        genuine(rounds, *args, **settings)
        if rounds.name == HONEST:
            rounds._noise = NoNoise()

    return patch.object(ClientRounds, "__init__", mutated)


MU = Setting(trust=TrustMode.SERVER_NOISE, epsilon=EPSILON).mu
ATTAINED = 0.99
"""At least this part of the plan's mu the canaries attain at EPSILON; a test holds them to it."""


def audit_power(factor: float, n: int) -> float:
    """Probability that N_TRIES audits in a row exceed EPSILON when the true mu is `factor` times
    the planned one.
    """
    return exceedance(ATTAINED * factor * MU, MU, n) ** N_TRIES


def law_power(wrong_cdf: Callable[[float], checks.Cdf], n: int) -> float:
    """Power of the test of the least noise that is checked: the server's on the counts."""
    plan = Experiment.of(Setting(trust=TrustMode.SERVER_NOISE, epsilon=EPSILON)).plan
    scale = float(lloyd_of(plan).rounds[0].count_scale)
    return checks.law_power(wrong_cdf(scale), scale, n)


def loss_law_power(n: int) -> float:
    """The same for the noise on the loss, which is drawn with half the scale where the whole budget
    is four times its share.
    """
    plan = Experiment.of(
        Setting(trust=TrustMode.SERVER_NOISE, epsilon=EPSILON, loss_share=checks.LOSS_SHARE)
    ).plan
    assert plan.clustering.loss is not None
    scale = float(plan.clustering.loss.scale)
    return checks.law_power(_halved_cdf(scale), scale, n, checks.LOSS_ALPHA / 2)


def pairs_power(share_of_violations: float, n: int) -> float:
    """Probability of at least one violation among n pairs; the share was counted in 2000 pairs."""
    return 1 - (1 - share_of_violations) ** n


def certain(_n: int) -> float:
    """Caught whatever the random numbers."""
    return 1.0


def _halved_cdf(scale: float) -> checks.Cdf:
    return checks.rounded_cdf(scale / 2)


MUTANTS = (
    Mutant(
        "missing sqrt T",
        scales_of_one_round,
        checks.AUDIT_SERVER_NOISE,
        900,
        partial(audit_power, 2**0.5),
        guarded=True,
    ),
    Mutant(
        "half sigma, planned",
        half_the_scales,
        checks.AUDIT_CLIENT_NOISE,
        180,
        partial(audit_power, 2.0),
        guarded=True,
    ),
    Mutant("half sigma, drawn", half_the_draw, checks.LAW, 4000, partial(law_power, _halved_cdf)),
    Mutant(
        "truncation of the noise",
        truncation,
        checks.LAW,
        4000,
        partial(law_power, checks.truncated_cdf),
    ),
    Mutant("reused stream", reused_stream, checks.INDEPENDENCE, 2, certain),
    Mutant("seed times round", seeded_by_the_round, checks.FRESHNESS, 2, certain),
    # one word in nine is a random checksum; if the top bits of all of those are against it, the
    # least p-value is 2e-21
    Mutant("unreduced mask", unreduced_masks, checks.UNIFORMITY, 4, certain),
    # the later of two clients has no other mask, and one word in nine is a checksum: 624 ones of
    # 864 are expected, 544 too many
    Mutant("unreduced pair mask", unreduced_pair_masks, checks.PAIRWISE_UNIFORMITY, 24, certain),
    # the sums have two thirds of mu^2, and now cost four times as much
    Mutant(
        "sensitivity eta / 2",
        half_the_sensitivity,
        checks.AUDIT_CLIENT_NOISE,
        330,
        partial(audit_power, 3**0.5),
    ),
    Mutant(
        "sensitivity eta / 2",
        half_the_sensitivity,
        checks.SENSITIVITY,
        10,
        partial(pairs_power, 0.80),
    ),
    Mutant(
        "float quantise-after-sum",
        quantised_sums,
        checks.SENSITIVITY,
        260,
        partial(pairs_power, 0.055),
    ),
    Mutant("phantom count", phantom_counts, checks.SENSITIVITY, 120, partial(pairs_power, 0.118)),
    Mutant(
        "unclipped loss", unclipped_loss, checks.LOSS_SENSITIVITY, 40, partial(pairs_power, 0.43)
    ),
    Mutant(
        "loss as if alone",
        loss_with_the_whole_budget,
        checks.LOSS_LAW,
        500,
        loss_law_power,
        guarded=True,
    ),
    Mutant(
        "noise omitted by one client",
        omitted_share,
        checks.AUDIT_ALL_PRESENT,
        900,
        partial(audit_power, 2**0.5),
    ),
)
