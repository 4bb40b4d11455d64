"""A plan holds what it promises: noise shares, ring, caps, names; and no file, however sealed,
promises more than it gives.
"""

import dataclasses
import functools
import hashlib
import json
import math
import re
import tomllib
from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import Any

import mpmath
import msgspec
import numpy as np
import pytest
import tomli_w
from scipy.special import ndtr

from designs import design_plan
from fastlloyd.base.arrays import FloatArray
from fastlloyd.base.randomness import PublicSeed
from fastlloyd.clustering.domain import Domain
from fastlloyd.clustering.packing import RadiusSearch
from fastlloyd.dp.gdp import gdp_mu
from fastlloyd.dp.neighboring import NeighboringRelation
from fastlloyd.dp.noise import Noise
from fastlloyd.errors import CHANGED_FILE, BudgetError, OverflowRisk, PlanError
from fastlloyd.federation.identity.parties import MAX_CLIENTS
from fastlloyd.federation.plan.plan import Client, Masks, Plan, TrustMode, ring_load
from fastlloyd.federation.plan.quorum import MIN_SHARE_DEVIATION, aliasing_slack
from fastlloyd.mechanisms.lloyd.algorithm import FASTLLOYD, GLLOYD, LLOYD, SULLOYD, Algorithm
from fastlloyd.testing import InjectedNoise, SeededNoise
from kinds import lloyd_of
from refusals import raises_code

RUN_ID = bytes(range(16))
CLIENT_NOISE, SERVER_NOISE = TrustMode.CLIENT_NOISE, TrustMode.SERVER_NOISE


@functools.cache
def cube(d: int, q: int = 16) -> Domain:
    return Domain(
        features=tuple(f"f{i}" for i in range(d)),
        lower=(-1.0,) * d,
        upper=(1.0,) * d,
        fraction_bits=q,
    )


def hospitals(M: int, max_records: int = 400) -> tuple[Client, ...]:
    return tuple(Client(name=f"hospital-{i}", max_records=max_records) for i in range(M))


def design(
    algorithm: Algorithm = FASTLLOYD,
    d: int = 2,
    q: int = 16,
    M: int = 3,
    cap: int = 400,
    **changes: Any,
) -> Plan:
    arguments: dict[str, Any] = {
        "clients": hospitals(M, cap),
        "run_id": RUN_ID,
        "n_clusters": 3,
        "epsilon": 1.0,
        "public_seed": PublicSeed.from_int(1),
        "masks": Masks.GROUP,
    }
    return design_plan(algorithm, cube(d, q), **(arguments | changes))


def reseal(text: str, change: Callable[[dict[str, Any]], None]) -> str:
    """Change the content of a file and seal it again, as anyone can: by a second implementation of
    the digest.
    """
    content = tomllib.loads(text)
    del content["seal"]
    change(content)
    digest = hashlib.sha256(
        json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
    ).hexdigest()
    return tomli_w.dumps(content | {"seal": {"digest": digest}})


def setting(*path: str | int, value: object) -> Callable[[dict[str, Any]], None]:
    def change(content: dict[str, Any]) -> None:
        table: Any = content
        for key in path[:-1]:
            table = table[key]
        table[path[-1]] = value

    return change


# What every accepted plan holds


def random_settings(generator: np.random.Generator) -> dict[str, Any]:
    trust = TrustMode(generator.choice(["client-noise", "server-noise"]))
    algorithm = (FASTLLOYD, GLLOYD, SULLOYD)[generator.integers(3 if trust is SERVER_NOISE else 2)]
    M = int(generator.integers(1 if trust is SERVER_NOISE else 2, 13))
    return {
        "algorithm": algorithm,
        "d": int(generator.choice([1, 2, 3, 10, 64])),
        "q": int(generator.choice([4, 12, 16, 20])),
        "M": M,
        "cap": int(10 ** generator.uniform(0.5, 9)),
        "trust": trust,
        "n_clusters": int(generator.integers(1, 4)),
        "epsilon": float(generator.choice([0.01, 0.1, 0.5, 1.0, 4.0, 20.0, 50.0])),
        "delta": float(generator.choice([1e-12, 1e-9, 1e-6, 1e-4])),
        "max_dropouts": int(generator.integers(0, M)),
        "max_colluding": int(generator.integers(1, max(2, M // 2))),
        "masks": Masks(generator.choice(["group", "pairwise"])),
        "ring_bits": [None, 32, 64][generator.integers(3)],
        "n_iterations": [None, 1, 3][generator.integers(3)],
        "n_expected": int(10 ** generator.uniform(1, 6)),
        "neighboring_relation": NeighboringRelation(
            generator.choice(["add_or_remove_one", "replace_one"])
        ),
        "initialization": RadiusSearch.HALVING,
    }


def worst_value(plan: Plan, column: str) -> float:
    """The ring bound of the proof in floats, from the plan's numbers alone: data, tail of the
    noise, roundings.
    """
    m = lloyd_of(plan)
    K = len(m.rounds) * m.n_clusters * (m.n_features + 1)
    L = 40 * math.log(2) + math.log(2 * K)
    shared = plan.trust is CLIENT_NOISE
    M, D, t = plan.n_clients, plan.max_dropouts, plan.max_colluding
    shares = {n: n - t if plan.masks is Masks.PAIRWISE else M - D - t for n in range(M - D, M + 1)}
    worst = 0.0
    for r in m.rounds:
        if column == "count":
            bound, scale = 2**m.count_bits, float(r.count_scale)
        else:
            bound, scale = 2**m.domain.fraction_bits, float(r.sum_scale)
            if r.squared_radius is not None:
                bound = math.isqrt(r.squared_radius)
        if shared:
            scale = max(max(4.0, scale / math.sqrt(h)) * math.sqrt(n) for n, h in shares.items())
        reach = L * scale if m.noise is Noise.LAPLACE else math.sqrt(2 * L) * scale
        worst = max(worst, m.n_records * bound + reach + (M if shared else 1) / 2)
    return worst


def check_accepted(plan: Plan) -> None:
    m = lloyd_of(plan)
    half = 2 ** (plan.ring_bits - 1)
    assert max(worst_value(plan, "sum"), worst_value(plan, "count")) < half * (1 + 1e-9)
    assert ring_load(plan).required_bits <= plan.ring_bits
    # the worst data and noise, through the ring and back
    extreme = min(half - 1, int(worst_value(plan, "sum")))
    values = np.array([extreme, -extreme], dtype=np.int64)
    assert np.array_equal(plan.ring.centre(plan.ring.wrap(values)), values)
    assert sum(client.max_records for client in plan.clients) <= m.n_records
    if plan.trust is SERVER_NOISE:
        assert (plan.max_colluding, m.count_bits, m.delta_slack, plan.n_shares) == (0, 0, 0.0, 1)
        return
    least = plan.n_clients - plan.max_dropouts
    h = plan.n_shares
    assert h == (plan.n_clients if plan.masks is Masks.PAIRWISE else least) - plan.max_colluding
    for n, r in product(range(least, plan.n_clients + 1), m.rounds):
        unknown = plan.quorum(n).needed - plan.max_colluding  # shares in every sum, and none more
        assert unknown >= 1
        for share, total in zip(plan.share_scales(r, n), (r.sum_scale, r.count_scale), strict=True):
            assert unknown * share**2 >= total**2
            assert share >= MIN_SHARE_DEVIATION
            assert (
                share == MIN_SHARE_DEVIATION
                or unknown * (share - Fraction(1, 2**16)) ** 2 < total**2
            )
    slack = (1 + math.exp(m.epsilon)) * m.n_released * 5 * h * math.exp(-8 * math.pi**2)
    assert m.delta_slack >= slack * (1 - 1e-12)
    assert m.delta_slack <= max(slack * (1 + 1e-12) * 4, 1e-300)
    # c is the least: on a grid half as fine a share would be short of 4 units, but for what
    # rounding up added
    if m.count_bits:
        coarser = float(min(r.count_scale for r in m.rounds)) / 2
        assert coarser**2 < 16 * h * 1.0001
    assert m.accountant().mu_squared <= Fraction(
        gdp_mu(m.epsilon, m.delta - m.delta_slack)
    ) ** 2 * (1 + Fraction(1, 10**12))


def test_every_accepted_plan_of_two_thousand_random_ones_holds_its_promises() -> None:
    """Ring bound, noise shares and slack by independent formulas; refusals are of the three kinds
    there are, with a remedy.
    """
    generator = np.random.default_rng(2026)
    accepted = {CLIENT_NOISE: 0, SERVER_NOISE: 0}
    refused = {"ring": 0, "slack": 0, "clients": 0, "clusters": 0}
    for _ in range(2000):
        public = random_settings(generator)
        try:
            plan = design(**public)
        except OverflowRisk as refusal:
            refused["ring"] += 1
            # one kind of several
            assert re.search(r"need a ring of \d+ bits.*; (pass|use|cap)", str(refusal))  # noqa: PT017
        except BudgetError as refusal:
            refused["slack"] += 1
            assert "use a smaller epsilon or server-noise" in str(refusal)  # noqa: PT017 - the same
            assert public["epsilon"] == 50.0
        except PlanError as refusal:
            kind = "clients" if "no share of noise is left" in str(refusal) else "clusters"
            refused[kind] += 1
            assert kind == "clients" or "n_clusters is" in str(refusal)  # noqa: PT017 - the same
        else:
            accepted[plan.trust] += 1
            check_accepted(plan)
    assert min(accepted.values()) > 500
    assert refused["ring"] > 200
    assert refused["slack"] > 10
    assert refused["clients"] > 10


@pytest.mark.parametrize("trust", list(TrustMode))
@pytest.mark.parametrize("algorithm", [FASTLLOYD, GLLOYD], ids=lambda a: a.name)
def test_the_last_record_a_32_bit_ring_holds_is_accepted_and_one_more_is_refused_with_that_number(
    algorithm: Algorithm, trust: TrustMode
) -> None:
    def plan(n_records: int) -> Plan:
        return design(
            algorithm,
            n_records=n_records,
            cap=1,
            delta=1e-6,
            n_expected=1000,
            n_iterations=3,
            ring_bits=32,
            trust=trust,
        )

    with pytest.raises(
        OverflowRisk,
        match=r"ring_bits=64.*\d+ fractional.*cap n_records",
    ) as caught:
        plan(10**6)
    cap = int(re.findall(r"cap n_records at (\d+)", str(caught.value))[0])
    assert 10_000 < cap < 2**15
    check_accepted(plan(cap))
    with pytest.raises(OverflowRisk, match=f"n_records at {cap}.*{cap + 1}"):
        plan(cap + 1)
    fewer = int(re.findall(r"use (\d+) fractional bits", str(caught.value))[0])
    check_accepted(
        design(
            algorithm,
            q=fewer,
            n_records=10**6,
            cap=1,
            delta=1e-6,
            n_expected=1000,
            n_iterations=3,
            ring_bits=32,
            trust=trust,
        )
    )


def test_the_ring_holds_counts_on_their_finer_grid_too() -> None:
    # on a grid this coarse the counts, in thirty-seconds of a record, outgrow the sums
    plan = design(q=2, M=10, epsilon=40.0, delta=1e-6, n_iterations=2)
    m, load = plan.mechanism, ring_load(plan)
    assert m.count_bits == 5
    assert load.counts.bound == 32 > load.sums.bound == math.isqrt(2 * 4**2)
    assert load.n_rounding_terms == 10
    with pytest.raises(OverflowRisk, match="cap n_records at") as caught:
        design(
            q=2,
            M=10,
            epsilon=40.0,
            delta=1e-6,
            n_iterations=2,
            n_records=2**31,
            ring_bits=32,
            n_expected=1000,
        )
    cap = int(re.findall(r"cap n_records at (\d+)", str(caught.value))[0])
    assert 32 * cap < 2**31 < 33 * cap
    check_accepted(
        design(
            q=2,
            M=10,
            cap=1,
            epsilon=40.0,
            delta=1e-6,
            n_iterations=2,
            n_records=cap,
            ring_bits=32,
            n_expected=9,
        )
    )


def test_w26_counts_travel_unscaled_so_that_48842_records_fit_a_32_bit_ring() -> None:
    public: dict[str, Any] = {
        "n_records": 48_842,
        "cap": 1,
        "delta": 1e-6,
        "n_expected": 1000,
        "trust": SERVER_NOISE,
        "ring_bits": 32,
    }
    plan = design(q=8, **public)
    load = ring_load(plan)
    assert (plan.mechanism.count_bits, load.counts.bound) == (0, 1)
    # counts scaled as sums are, by 2**16, would not have fitted; nor do sums on that grid
    assert dataclasses.replace(load, counts=load.counts._replace(bound=2**16)).required_bits > 32
    with pytest.raises(OverflowRisk, match="ring of 34"):
        design(q=16, **public)


@pytest.mark.parametrize(
    ("M", "t", "D", "factor"),
    [
        (2, 1, 0, 1.414), (3, 1, 0, 1.225), (5, 1, 0, 1.118), (5, 2, 1, 1.581), (10, 1, 0, 1.054), (10, 3, 1, 1.291),
        (10, 5, 0, 1.414), (20, 5, 2, 1.240), (100, 10, 10, 1.118), (100, 33, 10, 1.325), (100, 50, 0, 1.414),
    ],
)  # fmt: skip
def test_the_noise_of_all_clients_exceeds_the_needed_one_by_the_published_factor(
    M: int, t: int, D: int, factor: float
) -> None:
    plan = design(M=M, max_colluding=t, max_dropouts=D, epsilon=0.5, delta=1e-6)
    for r in lloyd_of(plan).rounds:
        for share, total in zip(
            plan.share_scales(r, plan.n_clients), (r.sum_scale, r.count_scale), strict=True
        ):
            assert float(share / total) * math.sqrt(M) == pytest.approx(factor, abs=6e-4)
            assert math.sqrt(M / plan.n_shares) == pytest.approx(factor, abs=6e-4)


def test_a_grid_of_counts_fine_enough_before_rounding_is_never_refused_after_it() -> None:
    # The count scale is 1 - 1e-5 records, rounded up to 1: on the grid of 1/4 it is not 4 units.
    plan = design(M=2, cap=100, epsilon=15.027870583597805, delta=1e-5, n_iterations=2)
    assert plan.mechanism.count_bits == 3
    check_accepted(plan)
    generator = np.random.default_rng(0)
    for _ in range(25):
        check_accepted(
            design(M=3, delta=1e-6, epsilon=float(generator.uniform(5, 40)), n_iterations=2)
        )


# The slack


def lattice_law(s: float, h: int, reach: int) -> FloatArray:
    """The h-fold convolution of the law of floor(s Z + 1/2), on -reach..reach."""
    n = np.arange(-reach, reach + 1)
    one = np.where(
        n < 0, ndtr((n + 0.5) / s) - ndtr((n - 0.5) / s), ndtr((0.5 - n) / s) - ndtr((-0.5 - n) / s)
    )
    law = one
    for _ in range(h - 1):
        law = np.convolve(law, one)[reach:-reach]
    return law


def ideal_law(s: float, h: int, reach: int) -> FloatArray:
    """The density of N(0, h s^2) plus h uniforms at the integers, by Fourier: a post-processed
    rounded Gaussian.
    """
    w = np.linspace(-12 / s, 12 / s, 20_001)
    transform = np.exp(-h * s * s * w * w / 2) * np.sinc(w / (2 * np.pi)) ** h
    n = np.arange(-reach, reach + 1)
    law: FloatArray = (np.cos(np.outer(n, w)) @ transform) * (w[1] - w[0]) / (2 * np.pi)
    return law


@pytest.mark.parametrize(
    ("s", "h"), [(0.7, 2), (1.0, 2), (1.0, 3), (1.0, 8), (1.3, 2), (1.3, 5), (2.0, 2)]
)
def test_sums_of_rounded_shares_are_as_close_to_a_rounded_gaussian_as_the_slack_says(
    s: float, h: int
) -> None:
    """At the least deviation of a plan, 4 units, the distance is far below float64; below it the
    bound can be seen to hold.
    """
    reach = math.ceil(9 * s * math.sqrt(h)) + h
    real, ideal = lattice_law(s, h, reach), ideal_law(s, h, reach)
    assert real.sum() == pytest.approx(1, abs=1e-12)
    distance = np.abs(real - ideal).sum() / 2
    assert distance <= 5 * h * math.exp(-(math.pi**2) * s * s / 2) + 1e-13
    if (s, h) == (1.0, 2):
        assert distance == pytest.approx(2.1e-5, rel=0.02)  # there is something to bound


def test_a_single_share_needs_no_slack() -> None:
    assert np.abs(lattice_law(1.0, 1, 12) - ideal_law(1.0, 1, 12)).sum() < 1e-12


@pytest.mark.parametrize(
    ("epsilon", "K", "h"),
    [(0.1, 1, 1), (1.0, 90, 2), (10.0, 10**6, 9), (50.0, 3, 99), (1e-9, 7, 1)],
)
def test_the_slack_is_its_formula_rounded_up(epsilon: float, K: int, h: int) -> None:
    with mpmath.workdps(80):
        exact = (1 + mpmath.exp(mpmath.mpf(epsilon))) * K * 5 * h * mpmath.exp(-8 * mpmath.pi**2)
        assert (
            exact <= mpmath.mpf(aliasing_slack(epsilon, K, h)) <= exact * (1 + mpmath.mpf(2) ** -50)
        )


def test_a_slack_without_meaning_is_infinite_and_such_a_plan_is_refused() -> None:
    assert aliasing_slack(100.0, 10, 2) == aliasing_slack(1e12, 1, 1) == math.inf
    for epsilon in (70.0, 1e3, 1e12):
        with pytest.raises(BudgetError, match=r"smaller epsilon.*server-noise"):
            design(epsilon=epsilon)
        assert design(epsilon=epsilon, trust=SERVER_NOISE).mechanism.epsilon == epsilon


def test_planning_works_at_its_own_precision_whatever_the_global_one() -> None:
    expected = design().digest
    with mpmath.workprec(20):
        assert aliasing_slack(1.0, 90, 2) == pytest.approx(
            (1 + math.e) * 900 * math.exp(-8 * math.pi**2), rel=1e-12
        )
        assert design().digest == expected
        assert mpmath.mp.prec == 20


# Files


def test_the_digest_of_a_plan_is_the_one_written_here() -> None:
    plan = design()
    assert plan.digest.hex() == "4cbe88157c2caa61e78a52323be747a00c3e2437e1991d2e3a5791cd1fbc76b6"
    again = Plan.from_toml(plan.to_toml())
    assert again == plan
    assert again.to_toml() == plan.to_toml()
    assert (
        reseal(plan.to_toml(), lambda _: None).splitlines()[-1] == f'digest = "{plan.digest.hex()}"'
    )


@pytest.mark.parametrize("trust", list(TrustMode))
@pytest.mark.parametrize("algorithm", [FASTLLOYD, GLLOYD, SULLOYD], ids=lambda a: a.name)
def test_a_plan_file_is_read_back_as_the_same_plan(algorithm: Algorithm, trust: TrustMode) -> None:
    if algorithm is SULLOYD and trust is CLIENT_NOISE:
        with pytest.raises(
            PlanError,
            match=r"sulloyd.*Laplace noise.*server-noise",
        ):
            design(algorithm, trust=trust)
        return
    plan = design(algorithm, trust=trust, M=5, max_dropouts=1, min_count=Fraction(0))
    assert Plan.from_toml(plan.to_toml()) == plan


def halve_noise(field: str) -> Callable[[dict[str, Any]], None]:
    def change(content: dict[str, Any]) -> None:
        r = content["mechanism"]["rounds"][0]
        r[field] = str(Fraction(r[field]) / 2)

    return change


def repeat(field: str) -> Callable[[dict[str, Any]], None]:
    def change(content: dict[str, Any]) -> None:
        content["clients"][2][field] = content["clients"][0][field]

    return change


def more_counts(content: dict[str, Any]) -> None:
    content["mechanism"]["count_bits"] -= 1
    for r in content["mechanism"]["rounds"]:
        r["count_scale"] = str(Fraction(r["count_scale"]) / 2)


TAMPERED: dict[str, tuple[Callable[[dict[str, Any]], None], str]] = {
    "the protocol before": (setting("protocol_version", value=1), r"protocol_version is 1; .* make the plan anew"),
    "a newer protocol": (setting("protocol_version", value=99), r"protocol_version is 99; .* install the version"),
    "a short run id": (setting("run_id", value="00"), r"run_id is not 32 hex digits"),
    "an upper-case run id": (setting("run_id", value="A" * 32), r"run_id is not 32 hex digits"),
    "a ring of 48 bits": (setting("ring_bits", value=48), r"ring_bits is 48; expected 32 or 64"),
    "no dropouts but one less": (setting("max_dropouts", value=-1), r"max_dropouts is -1; expected 0 to 4"),
    "everyone may drop out": (setting("max_dropouts", value=5), r"max_dropouts is 5; expected 0 to 4"),
    "nobody pools": (setting("max_colluding", value=0), r"max_colluding is 0; expected at least 1"),
    "all but the absent pool": (setting("max_colluding", value=4), r"no share of noise is left"),
    "more pool than there are": (setting("max_colluding", value=10**9), r"no share of noise is left"),
    "less noise on sums": (halve_noise("sum_scale"), r"the noise scales do not give epsilon"),
    "less noise on counts": (halve_noise("count_scale"), r"the noise scales do not give epsilon"),
    "counts on too coarse a grid": (more_counts, r"count_bits is 1, too few for shares of noise"),
    "no slack": (setting("mechanism", "delta_slack", value=0.0), r"delta_slack is 0.0, too small to add up 3 shares"),
    "slack from nowhere": (setting("mechanism", "delta_slack", value=-0.5), r"delta_slack is -0.5"),
    "a name with a slash": (setting("clients", 0, "name", value="../x"), r"client name '../x' is not usable"),
    "a name with a line break": (setting("clients", 0, "name", value="x\n"), r"client name 'x\\n' is not usable"),
    "no name": (setting("clients", 0, "name", value=""), r"client name '' is not usable"),
    "a name too long": (setting("clients", 0, "name", value="x" * 65), r"is not usable"),
    "one name twice": (repeat("name"), r"two clients have the name 'hospital-0'"),
    "a cap below nothing": (setting("clients", 0, "max_records", value=-1), r"max_records of client 'hospital-0' is -1"),
    "a cap above the sum": (setting("clients", 0, "max_records", value=401), r"add up to 2001, above n_records 2000"),
    "a key that is none": (setting("clients", 0, "signing_key", value="00"), r"signing_key of client 'hospital-0'"),
    "no clients": (setting("clients", value=[]), r"names 0 clients; expected 1 to 1000"),
    "trust in nobody": (setting("trust", value="none"), r"Invalid enum value 'none' - at `\$\.trust`"),
    "a flag of one's own": (setting("noise_off", value=True), r"unknown field `noise_off`"),
    "a flag of a client's own": (setting("clients", 0, "noise_off", value=True), r"unknown field `noise_off`"),
}  # fmt: skip


@pytest.mark.parametrize(("change", "message"), TAMPERED.values(), ids=TAMPERED)
def test_a_tampered_plan_with_a_valid_seal_is_refused_and_the_field_named(
    change: Callable[[dict[str, Any]], None], message: str
) -> None:
    # epsilon 8, so that the counts need a finer grid
    text = design(M=5, max_dropouts=1, epsilon=8.0, delta=1e-6, n_iterations=2).to_toml()
    assert Plan.from_toml(text).mechanism.count_bits == 2
    with pytest.raises(PlanError, match=rf"^plan\.toml: .*{message}"):
        Plan.from_toml(reseal(text, change))


def test_a_repeated_signing_key_is_refused() -> None:
    clients = tuple(msgspec.structs.replace(c, signing_key="ab" * 32) for c in hospitals(2))
    with pytest.raises(PlanError, match=r"two clients.*signing_key"):
        design(clients=clients)
    distinct = tuple(
        msgspec.structs.replace(c, signing_key=f"{i}" * 64) for i, c in enumerate(hospitals(2))
    )
    assert design(clients=distinct).client("hospital-1").signing_key == "1" * 64


def test_a_ring_too_narrow_for_the_caps_is_refused_in_a_file_too() -> None:
    text = design(cap=10**6).to_toml()
    with pytest.raises(
        PlanError,
        match=r"^plan\.toml.*ring_bits is 32",
    ):
        Plan.from_toml(reseal(text, setting("ring_bits", value=32)))


def test_switching_a_file_between_trust_modes_never_weakens_it_silently() -> None:
    shared, central = design(), design(trust=SERVER_NOISE)
    with pytest.raises(PlanError, match=r"max_colluding.*client-noise"):
        Plan.from_toml(reseal(shared.to_toml(), setting("trust", value="server-noise")))
    with pytest.raises(PlanError, match="max_colluding is 0;"):
        Plan.from_toml(reseal(central.to_toml(), setting("trust", value="client-noise")))

    def both(content: dict[str, Any]) -> None:
        content |= {"trust": "client-noise", "max_colluding": 1}

    with pytest.raises(PlanError, match=r"delta_slack.*0\.0, too small"):
        Plan.from_toml(reseal(central.to_toml(), both))


def test_any_changed_digit_of_a_plan_is_refused() -> None:
    text = design(n_iterations=1).to_toml()
    for position in [match.start() for match in re.finditer(r"[0-9]", text)]:
        other = str((int(text[position]) + 1 + position % 9) % 10)
        with raises_code(PlanError, CHANGED_FILE):
            Plan.from_toml(text[:position] + other + text[position + 1 :])


# Settings


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"clients": ()}, "n_records is 0"),
        ({"clients": (), "n_records": 10}, "names 0 clients; expected 1 to 1000"),
        ({"M": MAX_CLIENTS + 1, "cap": 1}, "names 1001 clients; expected 1 to 1000"),
        (
            {"M": 1},
            "the plan has 1 client; 0 may be absent (max_dropouts), and 1 may pool what they see",
        ),
        (
            {"M": 3, "max_dropouts": 2},
            "the plan has 3 clients; 2 may be absent (max_dropouts), and 1 may pool what they see",
        ),
        ({"max_dropouts": -1}, "max_dropouts is -1"),
        ({"max_colluding": 0}, "max_colluding is 0; expected at least 1"),
        ({"max_colluding": -5}, "max_colluding is -5"),
        ({"run_id": b""}, "run_id is not 32 hex digits"),
        ({"ring_bits": 16}, "ring_bits is 16; expected 32 or 64"),
        ({"n_records": 1199}, "the clients' caps add up to 1200, above n_records 1199"),
        ({"algorithm": LLOYD}, "lloyd adds no noise and protects nobody"),
        ({"algorithm": LLOYD, "trust": SERVER_NOISE}, "lloyd adds no noise and protects nobody"),
    ],
    ids=str,
)
def test_a_plan_that_cannot_hold_is_refused_by_the_name_of_the_setting(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(PlanError, match=re.escape(message)):
        design(**changes)


def test_one_client_alone_can_use_a_server_that_adds_the_noise() -> None:
    plan = design(M=1, trust=SERVER_NOISE, max_colluding=7)
    assert plan.max_colluding == 0
    assert plan.n_shares == plan.min_present == 1


def test_caps_may_leave_room_and_a_client_may_hold_nothing() -> None:
    plan = design(clients=(*hospitals(2), Client(name="empty", max_records=0)), n_records=5000)
    assert plan.mechanism.n_records == 5000
    assert plan.client("empty").max_records == 0
    with pytest.raises(PlanError, match=r"'absent'.*hospital-0, hospital-1, empty"):
        plan.client("absent")


def test_w23_the_plan_is_a_function_of_public_settings() -> None:
    assert design() == design()
    assert design().digest == design().digest
    other = design(run_id=bytes(16))
    assert other.mechanism == design().mechanism
    assert other.digest != design().digest


def test_n_words_counts_the_statistics_and_a_checksum() -> None:
    plan = design(d=5, n_clusters=4)
    assert plan.n_words(plan.mechanism.rounds[0]) == 4 * 6 + 1
    assert plan.names == ("hospital-0", "hospital-1", "hospital-2")


# Who draws which noise


def test_every_client_draws_its_share_and_the_server_nothing_or_the_other_way_round() -> None:
    plan = design(n_clusters=2, d=1)
    r = lloyd_of(plan).rounds[0]
    noise = [np.array([5, 6]), np.array([7, 8])]
    assert plan.draw_client_noise(r, InjectedNoise(noise), plan.n_clients).tolist() == [
        [5, 7],
        [6, 8],
    ]
    assert plan.draw_server_noise(r, InjectedNoise([])).tolist() == [[0, 0], [0, 0]]
    served = design(n_clusters=2, d=1, trust=SERVER_NOISE)
    assert served.draw_server_noise(r, InjectedNoise(noise)).tolist() == [[5, 7], [6, 8]]
    assert served.draw_client_noise(r, InjectedNoise([]), served.n_clients).tolist() == [
        [0, 0],
        [0, 0],
    ]


def test_a_plan_of_lists_is_the_plan_of_tuples() -> None:
    plan = design(M=3)
    domain = plan.mechanism.domain
    again = msgspec.structs.replace(domain, features=list(domain.features))
    listed = msgspec.structs.replace(
        plan,
        clients=list(plan.clients),
        mechanism=msgspec.structs.replace(plan.mechanism, domain=again),
    )
    assert listed == plan
    assert hash(listed) == hash(plan)
    assert listed.digest == plan.digest


def test_a_share_is_drawn_with_the_scale_of_a_share() -> None:
    asked: list[Fraction] = []

    class Recorder(SeededNoise):
        def gaussian(self, scale: Fraction, size: int) -> Any:
            asked.append(scale)
            return np.zeros(size, dtype=np.int64)

    plan = design(M=6, max_dropouts=1)
    for r in lloyd_of(plan).rounds:
        asked.clear()
        plan.draw_client_noise(r, Recorder(0), plan.n_clients)
        assert asked == list(plan.share_scales(r, plan.n_clients))
        assert 4 * asked[0] ** 2 >= r.sum_scale**2 > 4 * (asked[0] - Fraction(1, 2**16)) ** 2
