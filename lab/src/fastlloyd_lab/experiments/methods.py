"""Methods of clustering that experiments compare: fastlloyd's algorithms, PE-means, and methods of
users.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

from fastlloyd.base.arrays import FloatArray
from fastlloyd.base.names import choose, unknown_name
from fastlloyd.base.randomness import PublicSeed
from fastlloyd.clustering.packing import RadiusSearch
from fastlloyd.dp.noise import Noise
from fastlloyd.errors import PlanError
from fastlloyd.federation.dealing import deal
from fastlloyd.federation.plan.design import ProtocolChoices, design_plan
from fastlloyd.federation.plan.plan import Masks, TrustMode
from fastlloyd.federation.simulation import roster, simulate
from fastlloyd.mechanisms.answering import LocalRecords
from fastlloyd.mechanisms.catalogue import design, preset
from fastlloyd.mechanisms.central import cluster
from fastlloyd.mechanisms.lloyd.algorithm import FASTLLOYD, GLLOYD, LLOYD, SULLOYD
from fastlloyd.mechanisms.mechanism import Clustering, Mechanism
from fastlloyd.mechanisms.moment_lloyd.rounds import MOMENTLLOYD
from fastlloyd.mechanisms.settings import AnyAlgorithm, Settings
from fastlloyd.testing import SeededNoise, repeatable_noise
from fastlloyd_lab.experiments import pe_means
from fastlloyd_lab.experiments.problem import Problem
from fastlloyd_lab.experiments.references import is_reference, resolve

Option = bool | int | float | str
ALGORITHM_OPTIONS = frozenset({"alpha", "radius", "postprocessing", "clipping"})
START_OPTIONS = frozenset({"preset", "initialization"})
FEDERATION_OPTIONS = frozenset({"trust"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Input of one trial of a method.

    epsilon, delta : guarantee of the trial, or inf and 0 for a method without privacy.
    clients : number of clients, or 1 for the central model.
    preset : name of the preset.
    public_seed : seed of public random choices. It depends only on the data set and the run.
    noise_seed : seed of the noise, 0 to 2**256 - 1. It depends on all settings of the trial.
    options : values of the swept options that the method accepts.
    """

    epsilon: float
    delta: float
    clients: int
    preset: str
    public_seed: PublicSeed
    noise_seed: int
    options: Mapping[str, Option] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Result of one trial of a method.

    centroids : float64 (k, d), in the scaled units of the problem, whose box is [-1, 1]^d.
    n_iterations : number of iterations of the method.
    """

    centroids: FloatArray
    n_iterations: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """Method of clustering, with its name in results and the label that figures show.

    options : swept options that the method accepts.
    private : whether the method uses epsilon. If not, there is only one trial for each combination
        of set, options and run.
    central : whether the method gives the same result for every number of clients.
    """

    name: str
    label: str
    cluster: Callable[[Problem, Setting], Outcome]
    options: frozenset[str] = frozenset()
    private: bool = True
    central: bool = False


def load_method(name: str, folder: Path) -> Method:
    """Return the method with this name, or the method that FILE.py:NAME refers to.

    folder : folder that FILE.py is relative to.

    Raises PlanError if there is no such method, or if it cannot be used.
    """
    if is_reference(name):
        method = resolve(name, folder)
        if not isinstance(method, Method):
            raise PlanError(
                f"{name!r:.200} is not a method; expected a"
                " fastlloyd_lab.experiments.methods.Method"
            )
        _check_fields(method, name)
        if method.name in METHODS:
            raise PlanError(
                f"{name!r:.200} has the name of the product's {method.name!r}; give it another"
            )
        return method
    if name not in METHODS:
        raise PlanError(
            f"method {unknown_name(name, list(METHODS))}; one of your own is written FILE.py:NAME"
        )
    return METHODS[name]


def _check_fields(method: Method, where: str) -> None:
    """Raise PlanError if a field of the method has a wrong type. Code of users may contain
    anything.
    """
    options: object = method.options
    are_names = isinstance(options, (frozenset, set, tuple, list)) and all(
        isinstance(each, str) for each in options
    )
    for field_name, holds, expected in (
        ("name", _is_text(method.name), "a text"),
        ("label", _is_text(method.label), "a text"),
        ("cluster", callable(method.cluster), "a function of a problem and a setting"),
        ("private", isinstance(method.private, bool), "True or False"),
        ("central", isinstance(method.central, bool), "True or False"),
        ("options", are_names, 'names of options, as in frozenset({"rounds"})'),
    ):
        if not holds:
            raise PlanError(
                f"{where!r:.200}: {field_name} is {getattr(method, field_name)!r:.80}; expected"
                f" {expected}"
            )


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value.strip() == value != ""


def sampler_digest() -> str:
    """Return the SHA-256 digest of noise that the sampler draws from fixed bits.

    The noise is of both laws, at scales that the sampler treats in different ways. The digest is
    the same on all machines. It changes when the sampler reads its bits in another order. Trials
    with the same seed then have other noise, of the same law.
    """
    source, digest = SeededNoise(0), hashlib.sha256()
    for bits in (-1, 0, 24, 30, 44):
        for draw in (source.gaussian, source.two_sided_geometric):
            digest.update(draw(Fraction(2) ** bits, 4096).astype("<i8").tobytes())
    return digest.hexdigest()


def check_option(name: str, value: Option) -> None:
    """Raise PlanError if no algorithm accepts this value of the option `name`."""
    if name in ALGORITHM_OPTIONS:
        if (name == "clipping") is not isinstance(value, bool):
            raise PlanError(
                f"option {name} is {value!r}; expected "
                + ("true or false" if name == "clipping" else "no truth value")
            )
        changed = FASTLLOYD.varied(**{name: value})
        if not 0 < changed.alpha <= 4:
            raise PlanError(f"option alpha is {value!r}; expected a number above 0 and at most 4")
    elif name == "preset":
        preset(str(value))
    elif name == "initialization":
        choose(RadiusSearch, str(value), name)
    elif name == "trust":
        choose(TrustMode, str(value), name)


def _run(algorithm: AnyAlgorithm, problem: Problem, setting: Setting) -> Outcome:
    """Run one of fastlloyd's algorithms: in the central model for one client, with messages and
    masks for several.

    An algorithm without noise always runs in the central model, because clients would get the same
    result.
    """
    if "trust" in setting.options and setting.clients == 1:
        raise PlanError("option trust is about federated runs; expected clients = 2 or more")
    settings = _settings(algorithm, problem, setting)
    with repeatable_noise():
        if setting.clients == 1 or algorithm.noise is Noise.NONE:
            mechanism: Mechanism = design(settings)
            clustering = cluster(
                mechanism,
                LocalRecords(problem.domain, problem.grid),
                SeededNoise(setting.noise_seed),
            )
        else:
            mechanism, clustering = _federated(settings, problem, setting)
    centroids = clustering.centroids / 2**problem.domain.fraction_bits
    return Outcome(centroids=centroids, n_iterations=mechanism.n_iterations)


def _federated(
    settings: Settings[AnyAlgorithm], problem: Problem, setting: Setting
) -> tuple[Mechanism, Clustering]:
    """Run a federation. Unless the option trust says otherwise, the server adds all noise, as in
    the paper.

    The result is then that of the central model. No client is missing, so the random split of
    records into clients does not matter.
    """
    clients, identities = roster(
        (f"client-{i + 1}" for i in range(setting.clients)), problem.n_records
    )
    plan = design_plan(
        settings,
        clients=clients,
        run_id=setting.noise_seed.to_bytes(32)[:16],
        protocol=ProtocolChoices(
            trust=choose(
                TrustMode, str(setting.options.get("trust", TrustMode.SERVER_NOISE.value)), "trust"
            ),
            # the quicker kind: masks come off every sum, and leave the noise as it is
            masks=Masks.GROUP,
        ),
        simulated=True,
    )
    parts = deal(plan, LocalRecords(problem.domain, problem.grid))
    result = simulate(plan, identities, parts, noise=SeededNoise(setting.noise_seed))
    return plan.clustering, result.clustering


def _settings(
    algorithm: AnyAlgorithm, problem: Problem, setting: Setting
) -> Settings[AnyAlgorithm]:
    search = setting.options.get("initialization")
    return Settings(
        algorithm=algorithm.varied(
            **{name: setting.options[name] for name in ALGORITHM_OPTIONS & setting.options.keys()}
        ),
        domain=problem.domain,
        n_clusters=problem.n_clusters,
        n_records=problem.n_records,
        epsilon=setting.epsilon,
        delta=setting.delta,
        public_seed=setting.public_seed,
        preset=preset(str(setting.options.get("preset", setting.preset))),
        initialization=(
            None if search is None else choose(RadiusSearch, str(search), "initialization")
        ),
    )


def _pe_means(problem: Problem, setting: Setting) -> Outcome:
    """Run PE-means in the central model, for any number of clients.

    The votes of several clients add up. So a run in which the server adds the noise would have the
    same result.
    """
    plan = pe_means.PEMeans(
        domain=problem.domain,
        n_clusters=problem.n_clusters,
        n_records=problem.n_records,
        epsilon=setting.epsilon,
        delta=setting.delta,
    )
    centroids = pe_means.cluster(
        plan, problem.grid, setting.public_seed, SeededNoise(setting.noise_seed)
    )
    return Outcome(
        centroids=centroids / 2**problem.domain.fraction_bits, n_iterations=plan.n_generations
    )


def _method(algorithm: AnyAlgorithm, label: str, options: frozenset[str]) -> Method:
    return Method(
        name=algorithm.name,
        label=label,
        cluster=lambda problem, setting: _run(algorithm, problem, setting),
        options=options,
        private=algorithm.noise is not Noise.NONE,
        central=algorithm.noise is Noise.NONE,
    )


METHODS = {
    method.name: method
    for method in (
        _method(LLOYD, "Lloyd", START_OPTIONS),
        _method(SULLOYD, "SuLloyd", START_OPTIONS),
        _method(GLLOYD, "GLloyd", START_OPTIONS | FEDERATION_OPTIONS),
        _method(FASTLLOYD, "FastLloyd", START_OPTIONS | ALGORITHM_OPTIONS | FEDERATION_OPTIONS),
        _method(MOMENTLLOYD, "MomentLloyd", FEDERATION_OPTIONS),
        Method(name="pe-means", label="PE-means", cluster=_pe_means, central=True),
    )
}
