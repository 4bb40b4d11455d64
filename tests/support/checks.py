"""Checks that the genuine code passes and each mutant fails: one function, run on both.

Genuine code fails a check with probability below 1e-9, and never one that compares integers
exactly. The level is 1e-12 (ALPHA) because a chi-square law is not exact that far out: where 200
values are expected in a cell, the tail of a single cell is some 60 times that of the law.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.special import ndtr, ndtri
from scipy.stats import binom, chi2, ncx2, pearsonr

from auditing import (
    MANY_CLUSTERS,
    N_CLUSTERS,
    PUBLIC_SEED,
    Experiment,
    FloatArray,
    Setting,
    observe,
    scales_of_one_draw,
)
from bounds import audits_until_one_holds, refute
from designs import design_mechanism
from fastlloyd.base.arrays import IntArray
from fastlloyd.base.randomness import PublicSeed
from fastlloyd.clustering.domain import Domain
from fastlloyd.dp.gdp import gdp_mu
from fastlloyd.dp.noise import SystemNoise
from fastlloyd.federation.plan.plan import Masks, Plan, TrustMode
from fastlloyd.federation.protocol.messages import Message, Upload
from fastlloyd.mechanisms.lloyd.algorithm import FASTLLOYD, GLLOYD, Algorithm
from fastlloyd.mechanisms.lloyd.mechanism import LloydMechanism, LloydRound
from fastlloyd.mechanisms.queries.query import ask
from fastlloyd.mechanisms.rounds import Round
from kinds import lloyd_of
from lloyd_queries import around, bounds

ALPHA = 1e-12
LOSS_SHARE = 0.25  # of the budget, where the loss is checked
LOSS_ALPHA = 1e-9
EPSILON = (
    8.0  # where a wrong scale shows in the fewest runs, and a wrong rounding in the fewest values
)


@dataclass(frozen=True)
class Verdict:
    """Whether what was checked holds, and what was seen."""

    holds: bool
    evidence: str


@dataclass(frozen=True)
class Check:
    """What is done with n `unit`s."""

    name: str
    unit: str
    run: Callable[[int], Verdict]

    def __call__(self, n: int) -> Verdict:
        return self.run(n)


Cdf = Callable[[FloatArray], FloatArray]


def audit(setting: Setting, n: int) -> Verdict:
    """The plan's epsilon is not refuted by N_TRIES audits in a row with `n` trials on each side."""
    audits = audits_until_one_holds(setting, n, observe=observe)
    found = ", ".join(f"{a.epsilon:.2f}" for a in audits)
    return Verdict(
        not refute(audits, setting), f"epsilon at least {found}; claimed {setting.epsilon:g}"
    )


def noise_follows_its_law(n: int) -> Verdict:
    """`n` values of the noise on sums and of that on counts, in both trust modes, by chi-square
    against exact probabilities.
    """
    p_values = []
    for trust in TrustMode:
        plan = Experiment.of(Setting(trust=trust, epsilon=EPSILON)).plan
        round = lloyd_of(plan).rounds[0]
        noise = np.concatenate([draw_noise(plan, round) for _ in range(-(-n // N_CLUSTERS))])
        p_values += [
            law_p_value(noise[:, j], float(scale))
            for j, scale in enumerate(scales_of_one_draw(plan, round))
        ]
    return Verdict(
        min(p_values) > ALPHA / len(p_values),
        f"least of {len(p_values)} p-values {min(p_values):.1e}",
    )


def draw_noise(plan: Plan, round: Round) -> IntArray:
    """What one party draws for a round of the plan: the server all of the noise, or a client its
    share.
    """
    if plan.trust is TrustMode.SERVER_NOISE:
        return plan.draw_server_noise(round, SystemNoise())
    return plan.draw_client_noise(round, SystemNoise(), plan.n_clients)


def law_p_value(values: IntArray, scale: float) -> float:
    """Pearson's chi-square test that `values` are rounded N(0, scale^2)."""
    ends = cell_ends(scale, values.size)
    expected = cell_probabilities(rounded_cdf(scale), ends) * values.size
    observed = np.bincount(np.searchsorted(ends, values), minlength=expected.size)
    return float(chi2.sf(((observed - expected) ** 2 / expected).sum(), expected.size - 1))


def law_power(wrong_cdf: Cdf, scale: float, n: int, alpha: float = ALPHA / 4) -> float:
    """Probability that `law_p_value` of n values is below alpha when they have another law."""
    ends = cell_ends(scale, n)
    p, q = cell_probabilities(rounded_cdf(scale), ends), cell_probabilities(wrong_cdf, ends)
    return float(ncx2.sf(chi2.isf(alpha, p.size - 1), p.size - 1, n * ((q - p) ** 2 / p).sum()))


def cell_ends(scale: float, n: int) -> IntArray:
    """Right ends of about eight cells of similar probability, with the integer 0 in one of its own
    if it is expected in it.

    A cell in which less than one value is expected would refute a genuine law whenever one falls
    there.
    """
    eighths = np.floor(scale * ndtri(np.arange(1, 8) / 8) + 0.5).astype(np.int64)
    around_zero = [-1, 0] if n >= 10 * scale * math.sqrt(2 * math.pi) else []
    return np.unique(np.concatenate([eighths, np.array(around_zero, dtype=np.int64)]))


def rounded_cdf(scale: float) -> Cdf:
    """P(floor(scale Z + 1/2) <= m)."""
    return lambda m: np.asarray(ndtr((m + 0.5) / scale))


def truncated_cdf(scale: float) -> Cdf:
    """P(trunc(scale Z) <= m), truncation toward zero."""
    return lambda m: np.asarray(ndtr(np.where(m < 0, m, m + 1) / scale))


def cell_probabilities(cdf: Cdf, ends: IntArray) -> FloatArray:
    """Probabilities of (-inf, e_1], (e_1, e_2], ..., (e_n, inf)."""
    return np.diff(np.concatenate([[0.0], cdf(ends.astype(np.float64)), [1.0]]))


def sums_and_counts_are_independent(n: int) -> Verdict:
    """Correlation of the noise on the sum and on the count of one cluster, over the 8 pairs of each
    of `n` runs.
    """
    p_values = []
    for trust in TrustMode:
        noise = observe(Setting(trust=trust), n * N_CLUSTERS // 2).noise.reshape(-1, 2)
        p_values.append(float(pearsonr(noise[:, 0], noise[:, 1]).pvalue))
    return Verdict(min(p_values) > ALPHA / 2, f"p-values {p_values[0]:.1e}, {p_values[1]:.1e}")


def noise_is_fresh(n: int) -> Verdict:
    """No noise on an answer comes twice in `n` runs of one plan and `n` of another one."""
    seen: list[bytes] = []
    for trust in TrustMode:
        for public_seed in (PUBLIC_SEED, PUBLIC_SEED + 1):
            experiment = Experiment.of(Setting(trust=trust), public_seed)
            for _ in range(n):
                run = experiment.play(np.zeros(N_CLUSTERS, dtype=np.bool_))
                seen += [
                    answer.tobytes() + trust.value.encode() for answer in experiment.residuals(run)
                ]
    repeated = len(seen) - len(set(seen))
    return Verdict(repeated == 0, f"{repeated} of {len(seen)} noises came before")


def uploads_are_uniform(masks: Masks, n: int) -> Verdict:
    """Every bit position of what the server receives in `n` runs, by the binomial law."""
    payloads: list[bytes] = []

    def listening(_sender: str, _recipient: str, message: Message, data: bytes) -> Iterable[bytes]:
        if isinstance(message, Upload):
            payloads.append(message.payload)
        return (data,)

    experiment = Experiment.of(Setting(trust=TrustMode.CLIENT_NOISE, masks=masks))
    for _ in range(n):
        experiment.play(np.ones(N_CLUSTERS, dtype=np.bool_), listening)
    words = np.frombuffer(b"".join(payloads), dtype="<u8")
    bits = np.unpackbits(words.view(np.uint8).reshape(words.size, 8), axis=1, bitorder="little")
    ones = bits.sum(axis=0, dtype=np.int64)
    p_value = float(2 * binom.sf(np.maximum(ones, words.size - ones) - 1, words.size, 0.5).min())
    return Verdict(p_value > ALPHA / 64, f"{words.size} words, least p-value {p_value:.1e}")


def one_record_moves_the_answer_within_the_sensitivity(n: int) -> Verdict:
    """`n` pairs of neighbours in original units, through the grid and the query, against its
    sensitivity.
    """
    rng = np.random.default_rng(20)
    mechanisms = [_small_mechanism(FASTLLOYD), _small_mechanism(GLLOYD)]
    n_violations = sum(not _pair_is_within(mechanisms[i % 2], rng) for i in range(n))
    return Verdict(n_violations == 0, f"{n_violations} of {n} pairs exceed it")


def _small_mechanism(algorithm: Algorithm, *, estimate_loss: bool = False) -> LloydMechanism:
    return design_mechanism(
        algorithm,
        Domain(features=("x", "y"), lower=(-1.0, -1.0), upper=(1.0, 1.0), fraction_bits=8),
        n_clusters=3,
        n_records=100,
        epsilon=1.0,
        n_iterations=2,
        public_seed=PublicSeed.from_int(1),
        estimate_loss=estimate_loss,
    )


def _pair_is_within(mechanism: LloydMechanism, rng: np.random.Generator) -> bool:
    round, domain = mechanism.rounds[-1], mechanism.domain
    B = domain.half_widths
    centroids = rng.integers(-B, B + 1, (mechanism.n_clusters, len(B)))
    others = rng.uniform(-1, 1, (rng.integers(0, 4), len(B)))
    record = _extreme_record(round, centroids[0], B, rng) / B
    asked = around(mechanism, round, centroids)
    before, after = (
        asked.evaluate(domain.to_grid(X)) for X in (others, np.vstack([others, record]))
    )
    change, s = after - before, bounds(round.question(mechanism))
    sums, counts = change[:, :-1], change[:, -1]
    return bool(
        np.count_nonzero(change.any(axis=1)) <= 1
        and (sums**2).sum() <= s.squared_l2
        and np.abs(sums).sum() <= s.l1
        and np.abs(sums).max() <= s.coordinate
        and np.abs(counts).max() <= s.count
    )


def one_record_moves_the_loss_within_the_cap(n: int) -> Verdict:
    """`n` pairs of neighbours with a record anywhere in the domain, through the query of the loss,
    against its cap.
    """
    rng = np.random.default_rng(21)
    mechanism = _small_mechanism(FASTLLOYD, estimate_loss=True)
    loss, B = mechanism.loss, mechanism.domain.half_widths
    assert loss is not None
    n_violations = 0
    for _ in range(n):
        asked = ask(
            loss.question(mechanism),
            centroids=rng.integers(-B, B + 1, (mechanism.n_clusters, len(B))),
        )
        others, record = rng.integers(-B, B + 1, (3, len(B))), rng.integers(-B, B + 1, (1, len(B)))
        moved = int((asked.evaluate(np.vstack([others, record])) - asked.evaluate(others))[0, 0])
        n_violations += not 0 <= moved <= loss.cap
    return Verdict(n_violations == 0, f"{n_violations} of {n} pairs exceed it")


def noise_of_the_loss_follows_its_law(n: int) -> Verdict:
    """`n` values of the noise on the loss, in both trust modes, by chi-square against what its
    guarantee needs.

    The scale is computed here, from the cap and the loss's share of mu^2: the planner's own figure
    would hide its mistakes.
    """
    p_values = []
    for trust in TrustMode:
        plan = Experiment.of(Setting(trust=trust, epsilon=EPSILON, loss_share=LOSS_SHARE)).plan
        m, loss = plan.clustering, plan.clustering.loss
        assert loss is not None
        noise = np.array([draw_noise(plan, loss)[0, 0] for _ in range(n)])
        needed = (
            loss.cap
            / gdp_mu(m.epsilon, m.delta - m.delta_slack)
            / LOSS_SHARE**0.5
            / plan.n_shares**0.5
        )
        p_values.append(law_p_value(noise, needed))
    return Verdict(
        min(p_values) > LOSS_ALPHA / len(p_values),
        f"least of {len(p_values)} p-values {min(p_values):.1e}",
    )


def _extreme_record(
    round: LloydRound, centroid: IntArray, B: IntArray, rng: np.random.Generator
) -> FloatArray:
    """A record just within the radius of a centroid or, without a radius, in a corner of the box;
    in grid units.
    """
    direction = rng.standard_normal(len(B))
    if round.squared_radius is None:
        return np.asarray(np.sign(direction) * B)
    return np.asarray(
        centroid + direction / np.linalg.norm(direction) * round.squared_radius**0.5 * (1 - 1e-12)
    )


def _audit_of(name: str, setting: Setting) -> Check:
    return Check(f"audit, {name}", "trials per side", partial(audit, setting))


AUDIT_SERVER_NOISE = _audit_of(
    "server-noise", Setting(trust=TrustMode.SERVER_NOISE, epsilon=EPSILON, n_clusters=MANY_CLUSTERS)
)
AUDIT_CLIENT_NOISE = _audit_of(
    "client-noise", Setting(trust=TrustMode.CLIENT_NOISE, epsilon=EPSILON, n_clusters=MANY_CLUSTERS)
)
# both unknown shares are needed: an honest client that omits its own halves the noise
AUDIT_ALL_PRESENT = _audit_of(
    "client-noise, all present",
    Setting(
        trust=TrustMode.CLIENT_NOISE, epsilon=EPSILON, all_present=True, n_clusters=MANY_CLUSTERS
    ),
)
LAW = Check("chi-square of the law", "values", noise_follows_its_law)
INDEPENDENCE = Check("correlation of sums and counts", "runs", sums_and_counts_are_independent)
FRESHNESS = Check("equality across runs", "runs per plan", noise_is_fresh)
UNIFORMITY = Check("binomial law of upload bits", "runs", partial(uploads_are_uniform, Masks.GROUP))
PAIRWISE_UNIFORMITY = Check(
    "binomial law of upload bits, pairwise", "runs", partial(uploads_are_uniform, Masks.PAIRWISE)
)
SENSITIVITY = Check(
    "sensitivity of random pairs", "pairs", one_record_moves_the_answer_within_the_sensitivity
)
LOSS_SENSITIVITY = Check("loss of random pairs", "pairs", one_record_moves_the_loss_within_the_cap)
LOSS_LAW = Check("chi-square of the loss's noise", "values", noise_of_the_loss_follows_its_law)
