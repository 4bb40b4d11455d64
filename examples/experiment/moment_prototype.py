"""MomentLloyd as a float prototype: its utility, for the experiment runner. NOT PRIVATE: floats and repeatable noise.

    methods = ["fastlloyd", "moment_prototype.py:FLOATS", "moment_prototype.py:INTEGERS"]

Both follow the same steps. FLOATS asks its queries in floats, INTEGERS asks those of `fastlloyd.moments` on the problem's grid:
what separates their results is what clipping to integers costs. The arithmetic on noisy answers is that of floats in either.
"""

import warnings
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from sklearn.cluster import KMeans

from fastlloyd.clustering.domain import FloatArray
from fastlloyd.dp.gdp import gdp_mu
from fastlloyd.experiments.methods import Method, Outcome, Setting
from fastlloyd.experiments.problem import Problem
from fastlloyd.moments.asking import ask
from fastlloyd.moments.lengths import ClippedLengths
from fastlloyd.moments.offsets import ClippedOffsets
from fastlloyd.moments.second_moment import SecondMoment
from fastlloyd.moments.spaces import DIRECTION_BITS, Features, Subspace
from fastlloyd.moments.squares import ClippedSquares
from fastlloyd.moments.sums import ClippedSum
from fastlloyd.moments.votes import Votes

COUNT_SHARE = 0.05  # of a step, for the counts
DRAWS = 4000
FEW_CANDIDATES = 400  # up to here they are spread by k-means
LOW_STEPS: tuple[float, ...] = (0.15, 0.2, 0.25)  # up to three features
HIGH_STEPS: tuple[float, ...] = (0.12, 0.13, 0.15, 0.2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row of the planner: relative shares of mu^2, and factors of radii. Found by experiment; all optima are flat."""

    mean: float
    length: float
    second: float
    votes: float
    steps: tuple[float, ...]
    first_radius: float
    last_radius: float
    n_subspace_steps: int = 0
    mean_radius: float = 0.5
    moment_radius: float = 0.8
    edge: float = 0.9
    n_directions: int = 8

    @property
    def whole(self) -> float:
        """What the shares are divided by."""
        return self.mean + self.length + self.second + self.votes + sum(self.steps)


def plan(N: int, d: int, k: int, mu: float) -> Row:
    """The row for a signal of rho = N mu / (k sqrt d) per cluster."""
    rho = N * mu / (k * d**0.5)
    if d <= 3:
        if rho < 8:
            steps, first, last = LOW_STEPS, 0.9, 0.9
        else:
            steps, first, last = HIGH_STEPS, 1.1, 2.2 if rho >= 128 else 1.1
        return Row(mean=0.03, length=0, second=0.05, votes=0.5, steps=steps, first_radius=first, last_radius=last)
    if d > 32:
        votes, steps = 0.1 if rho >= 20 else 0.0, (0.06, 0.06, 0.06, 0.2)  # the first three in the subspace
        W = float(np.clip(60 * d * 0.8**2 / (N * mu) ** 2, 0.06, 0.45))
        return Row(
            mean=W / (1 - W) * (0.02 + 0.4 + votes + sum(steps)), length=0.02, second=0.4, votes=votes, steps=steps,
            first_radius=0.9, last_radius=0.9, n_subspace_steps=3, mean_radius=0.8, edge=0.7, n_directions=12,
        )  # fmt: skip
    if rho >= 20:
        far = rho >= 64
        return Row(
            mean=0.08, length=0.03, second=0.15, votes=0.3, steps=(0.1, 0.1, 0.12, 0.15, 0.2), first_radius=0.8,
            last_radius=2.2 if far else 1.2, mean_radius=0.8 if far else 0.5, moment_radius=1.2 if far else 0.8,
        )  # fmt: skip
    steps = (0.2, 0.3) if rho < 4 else (0.17, 0.2, 0.25) if rho < 8 else (0.12, 0.14, 0.18, 0.2)
    c = 0.6 if rho < 2 else 0.8
    return Row(mean=0.1, length=0.03, second=0.15, votes=0, steps=steps, first_radius=c, last_radius=c)


class Answers(Protocol):
    """Exact answers in the units of the problem; a subspace is (origin, directions), None for all features."""

    def clipped_sum(self, g: FloatArray, R: float) -> FloatArray: ...  # noqa: D102 - see the class
    def lengths(self, g: FloatArray, R: float) -> float: ...  # noqa: D102 - see the class
    def squares(self, g: FloatArray, R: float) -> FloatArray: ...  # noqa: D102 - see the class
    def second_moment(self, g: FloatArray, R: float) -> FloatArray: ...  # noqa: D102 - see the class
    def votes(self, C: FloatArray, space: Any) -> FloatArray: ...  # noqa: D102 - see the class
    def offsets(self, C: FloatArray, R: float, space: Any) -> tuple[FloatArray, FloatArray]: ...  # noqa: D102 - see the class


@dataclass(frozen=True, slots=True)
class Floats:
    """As on paper."""

    problem: Problem

    def clipped_sum(self, g: FloatArray, R: float) -> FloatArray:  # noqa: D102 - see Answers
        return np.asarray(_clip(self.problem.X - g, R).sum(axis=0))

    def lengths(self, g: FloatArray, R: float) -> float:  # noqa: D102 - see Answers
        return float(np.minimum(np.linalg.norm(self.problem.X - g, axis=1), R).sum())

    def squares(self, g: FloatArray, R: float) -> FloatArray:  # noqa: D102 - see Answers
        return np.asarray((_clip(self.problem.X - g, R) ** 2).sum(axis=0))

    def second_moment(self, g: FloatArray, R: float) -> FloatArray:  # noqa: D102 - see Answers
        Z = _clip(self.problem.X - g, R)
        return Z.T @ Z

    def votes(self, C: FloatArray, space: Any) -> FloatArray:  # noqa: D102 - see Answers
        return np.bincount(nearest(self._points(space), C), minlength=len(C)).astype(np.float64)

    def offsets(self, C: FloatArray, R: float, space: Any) -> tuple[FloatArray, FloatArray]:  # noqa: D102 - see Answers
        Y = self._points(space)
        labels = nearest(Y, C)
        sums = np.zeros_like(C)
        np.add.at(sums, labels, _clip(Y - C[labels], R))
        return sums, np.bincount(labels, minlength=len(C)).astype(np.float64)

    def _points(self, space: Any) -> FloatArray:
        return self.problem.X if space is None else (self.problem.X - space[0]) @ space[1]


@dataclass(frozen=True, slots=True)
class Integers:
    """By the queries of `fastlloyd.moments`, with parameters rounded to the grid."""

    problem: Problem
    units: int = 1 << 16
    moment_units: int = 1 << 13

    def clipped_sum(self, g: FloatArray, R: float) -> FloatArray:  # noqa: D102 - see Answers
        question = ClippedSum(domain=self.problem.domain, units=self.units)
        return np.asarray(self._evaluate(question, centre=self._grid(g), radius=R)[0] * (R / self.units))

    def lengths(self, g: FloatArray, R: float) -> float:  # noqa: D102 - see Answers
        question = ClippedLengths(domain=self.problem.domain, units=self.units)
        return float(self._evaluate(question, centre=self._grid(g), radius=R)[0, 0] * (R / self.units))

    def squares(self, g: FloatArray, R: float) -> FloatArray:  # noqa: D102 - see Answers
        question = ClippedSquares(domain=self.problem.domain, units=self.moment_units)
        return np.asarray(self._evaluate(question, centre=self._grid(g), radius=R)[0] * (R / self.moment_units) ** 2)

    def second_moment(self, g: FloatArray, R: float) -> FloatArray:  # noqa: D102 - see Answers
        d = len(g)
        question = SecondMoment(domain=self.problem.domain, units=self.moment_units)
        answer = self._evaluate(question, centre=self._grid(g), radius=R)
        M = np.zeros((d, d))
        M[np.triu_indices(d, 1)] = answer[0, d:]
        M += M.T
        M[np.diag_indices(d)] = answer[0, :d]
        return M * (R / self.moment_units) ** 2

    def votes(self, C: FloatArray, space: Any) -> FloatArray:  # noqa: D102 - see Answers
        place, frame = self._space(space)
        question = Votes(space=place, n_candidates=len(C))
        return self._evaluate(question, candidates=self._grid(C, place.limits), **frame)[:, 0]

    def offsets(self, C: FloatArray, R: float, space: Any) -> tuple[FloatArray, FloatArray]:  # noqa: D102 - see Answers
        place, frame = self._space(space)
        question = ClippedOffsets(space=place, n_clusters=len(C), units=self.units)
        answer = self._evaluate(question, centroids=self._grid(C, place.limits), radius=R, **frame)
        return answer[:, :-1] * (R / self.units), answer[:, -1]

    def _evaluate(self, question: Any, **values: Any) -> FloatArray:
        if "radius" in values:
            values["radius"] = max(1, round(values["radius"] * 2**self.problem.domain.fraction_bits))
        return ask(question, **values).evaluate(self.problem.grid).astype(np.float64)

    def _grid(self, points: FloatArray, limits: Any = None) -> Any:
        limits = self.problem.domain.half_widths if limits is None else limits
        return np.clip(np.rint(points * 2**self.problem.domain.fraction_bits), -limits, limits).astype(np.int64)

    def _space(self, space: Any) -> tuple[Any, dict[str, Any]]:
        if space is None:
            return Features(domain=self.problem.domain), {}
        V = np.trunc(space[1] * 2**DIRECTION_BITS).astype(np.int64)
        place = Subspace(domain=self.problem.domain, n_directions=V.shape[1])
        return place, {"origin": self._grid(space[0]), "directions": V}


@dataclass(slots=True, kw_only=True)
class Run:
    """One run: what is asked of, the noise, and how much of mu^2 has been spent."""

    answers: Answers
    N: int
    d: int
    k: int
    mu: float
    row: Row
    noise: np.random.Generator
    draws: np.random.Generator
    spent: float = field(default=0.0)

    def sigma(self, sensitivity: float, weight: float) -> float:
        """The deviation that an answer of this sensitivity and share must carry; it is charged here."""
        share = weight / self.row.whole
        self.spent += share
        return float(sensitivity / (self.mu * share**0.5))

    def noisy(self, exact: Any, sigma: float) -> Any:
        """An answer, with noise."""
        return exact + self.noise.normal(0, sigma, np.shape(exact))

    def lloyd(self, X: FloatArray, k: int, restarts: int = 1, steps: int = 20, weights: Any = None) -> FloatArray:
        """k-means on public points."""
        seed = int(self.draws.integers(2**31))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # fewer distinct points than k
            fitted = KMeans(k, n_init=restarts, max_iter=steps, random_state=seed).fit(X, sample_weight=weights)
        return np.asarray(fitted.cluster_centers_, dtype=np.float64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """What location, scale and directions are; space : None for all features; box : half widths of the zoom; ll : variances."""

    g: FloatArray
    space: Any
    box: Any
    ll: Any
    R2: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Centroids of the start, sizes of the clusters, mean squared distance of the model to them."""

    C: FloatArray
    sizes: FloatArray
    spread: float


def cluster(answers: Answers, problem: Problem, setting: Setting) -> Outcome:
    """All of it."""
    N, d, k = problem.n_records, problem.n_features, problem.n_clusters
    mu = float(gdp_mu(setting.epsilon, setting.delta))
    row = plan(N, d, k, mu)
    noise = np.random.default_rng(setting.noise_seed)
    run = Run(answers=answers, N=N, d=d, k=k, mu=mu, row=row, noise=noise, draws=noise.spawn(1)[0])
    where = _zoom(run) if d <= 3 else _directions(run)
    start = _histogram(run, where) if row.votes else _gaussian(run, where)
    F = _steps(run, where, start)
    if not abs(run.spent - 1) < 1e-9:
        raise AssertionError("the shares do not add up to mu^2")
    return Outcome(centroids=F, n_iterations=len(row.steps))


def _zoom(run: Run) -> Where:
    B, N = run.d**0.5, run.N
    sigma = run.sigma(B, run.row.mean)
    g = np.clip(run.noisy(run.answers.clipped_sum(np.zeros(run.d), B), sigma) / N, -1, 1)
    se = sigma / N
    R = 0.85 * B
    sigma = run.sigma(R**2, run.row.second)
    v = np.clip(run.noisy(run.answers.squares(g, R), sigma) / N + sigma / N, 1e-6, 1)
    half = 2.7 * np.sqrt(v) + se
    return Where(g=g, space=None, box=(np.maximum(g - half, -1), np.minimum(g + half, 1)), ll=None, R2=0)


def _directions(run: Run) -> Where:
    N, d, row = run.N, run.d, run.row
    B = d**0.5
    sigma = run.sigma(row.mean_radius * B, row.mean)
    g = run.noisy(run.answers.clipped_sum(np.zeros(d), row.mean_radius * B), sigma) / N
    g = np.clip(g * max(0, 1 - (d - 2) * (sigma / N) ** 2 / (g @ g)), -1, 1)
    sigma = run.sigma(B, row.length)
    a, p, q = run.noisy(run.answers.lengths(g, B), sigma) / N, (N / sigma) ** 2, 1 / (0.04 * d)
    rb = float(np.clip((p * a + q * 0.6 * B) / (p + q), 0.05 * B, 0.9 * B))
    R2 = 1.05 * rb**2
    R = row.moment_radius * rb
    sigma = run.sigma(R**2, row.second)
    E = run.noise.normal(0, sigma, (d, d))
    M = (run.answers.second_moment(g, R) + (E + E.T) / 2) / N  # sigma on the diagonal, sigma / sqrt(2) above it
    lam, V = np.linalg.eigh(M)
    lam, V = lam[::-1], V[:, ::-1]
    full = (2 * d) ** 0.5 * sigma / N
    cut = row.edge * full
    r = int(np.clip((lam > cut).sum(), 1, min(row.n_directions, d)))
    lam, V = lam[:r], V[:, :r]
    tr = np.trace(M) if B * sigma / N < 0.05 * rb**2 else R2 * min(1, 0.55 + 0.5 * (row.moment_radius - 0.7))
    e = cut if d <= 32 else full
    lt = (lam + np.sqrt(np.maximum(lam**2 - e**2, 0))) / 2
    if d <= 32:
        ll = np.where(lam > cut, lt, R2 / d)
    else:
        ll = np.where(lam > full, lt - e**2 / (4 * np.where(lam > full, lt, 1)), 0) + R2 / d
    ll = np.clip(ll * max(1, R2 / tr), 1e-4 * d, R2)
    return Where(g=g, space=(g, V), box=None, ll=ll, R2=R2)


def _gaussian(run: Run, where: Where) -> Start:
    Y = run.draws.normal(size=(DRAWS, len(where.ll))) * np.sqrt(where.ll)
    C = run.lloyd(Y, run.k)
    return Start(C=C, sizes=np.full(run.k, run.N / run.k), spread=_loss(Y, C, np.ones(DRAWS)))


def _histogram(run: Run, where: Where) -> Start:
    sigma, low_d = run.sigma(1, run.row.votes), run.d <= 3
    C = _candidates(run, where, int(np.clip(run.N / (4 * sigma), max(4 * run.k, 8), 4096)))
    m = len(C)
    h = run.noisy(run.answers.votes(C, where.space), sigma)
    if low_d:
        e = np.full(m, run.N / m)
    else:
        Y = run.draws.normal(size=(DRAWS, len(where.ll))) * np.sqrt(where.ll)
        e = np.bincount(nearest(Y, C), minlength=m) * (run.N / DRAWS)
    ga = max(0, 1 - m * sigma**2 / ((h - e) @ (h - e)))
    h = e + ga * (h - e)
    w = _largest(h, run.N) if ga > 0.5 else _projection(h, run.N)
    kept = w > 0
    if kept.sum() < run.k:
        kept = np.isin(np.arange(m), np.argsort(-h)[: run.k])
        w = np.where(kept, np.maximum(w, 1e-9), 0)
    C, w = C[kept], w[kept]
    centroids = run.lloyd(C, run.k, restarts=20 if low_d else 5, steps=40, weights=w)
    sizes = np.bincount(nearest(C, centroids), weights=w, minlength=run.k).astype(np.float64)
    return Start(C=centroids, sizes=sizes, spread=_loss(C, centroids, w))


def _candidates(run: Run, where: Where, m: int) -> FloatArray:
    n = max(DRAWS, 8 * m) if m <= FEW_CANDIDATES else m
    if run.d > 3:
        Y = 1.3 * run.draws.normal(size=(n, len(where.ll))) * np.sqrt(where.ll)
        return run.lloyd(Y, m) if m <= FEW_CANDIDATES else Y
    low, high = where.box
    if m <= FEW_CANDIDATES:
        return run.lloyd(run.draws.uniform(low, high, (n, run.d)), m)
    per_axis = int(m ** (1 / run.d) + 1e-9)
    axes = [a + (b - a) * (np.arange(per_axis) + 0.5) / per_axis for a, b in zip(low, high, strict=True)]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, run.d)


def _steps(run: Run, where: Where, start: Start) -> FloatArray:
    row, N, d = run.row, run.N, run.d
    C = start.C
    if where.space is None:
        F, r2, r2s = np.clip(C, -1, 1), start.spread, 0.0
        V = np.eye(d)
    else:
        V = where.space[1]
        between = float(start.sizes @ (C**2).sum(axis=1) / start.sizes.sum())
        r2 = max(where.R2 - between, 0.15 * where.R2, start.spread)
        lt = float(where.ll.sum())
        r2s = max(lt - between, 0.15 * lt, start.spread)
        F = np.clip(where.g + C @ V.T, -1, 1)
    for t, (c, w) in enumerate(zip(np.linspace(row.first_radius, row.last_radius, len(row.steps)), row.steps, strict=True)):
        inside = t < row.n_subspace_steps
        eta = float(np.clip(c * (r2s if inside else r2) ** 0.5, 1e-3, d**0.5))
        S, counts = run.answers.offsets(C if inside else F, eta, where.space if inside else None)
        sigma_s, sigma_c = run.sigma(eta, w * (1 - COUNT_SHARE)), run.sigma(1, w * COUNT_SHARE)
        n = _sizes(run.noisy(counts, sigma_c), sigma_c, N)
        moves, variance = run.noisy(S, sigma_s) / n[:, None], (sigma_s / n) ** 2
        if inside:
            C = C + _shrunk(moves, variance, n)
            F = np.clip(where.g + C @ V.T, -1, 1)
        else:
            along = moves @ V
            rest = moves - along @ V.T
            F = np.clip(F + _shrunk(along, variance, n) @ V.T + _shrunk(rest, variance, n, d - V.shape[1]), -1, 1)
    return F


def _sizes(counts: FloatArray, sigma: float, N: int) -> FloatArray:
    k = len(counts)
    excess = counts + (N - counts.sum()) / k - N / k
    squared = float(excess @ excess)
    factor = max(0, 1 - (k - 1) * sigma**2 / squared) if squared else 0
    return np.asarray(np.maximum(N / k + factor * excess, max(1, 0.5 * min(sigma, N / k))))


def _shrunk(part: FloatArray, variance: FloatArray, n: FloatArray, dimensions: int | None = None) -> FloatArray:
    """Pooled empirical Bayes with known variances."""
    dimensions = part.shape[1] if dimensions is None else dimensions
    if dimensions == 0:
        return np.zeros_like(part)
    tau = float(n @ np.maximum((part**2).sum(axis=1) / dimensions - variance, 0) / n.sum())
    return np.asarray(part * (tau / (tau + variance))[:, None])


def _largest(h: FloatArray, N: int) -> FloatArray:
    """The largest entries, until they sum to N."""
    order = np.argsort(-h)
    before = np.concatenate([[0], np.cumsum(h[order])[:-1]])
    w = np.zeros_like(h)
    w[order] = np.where(h[order] > 0, np.clip(N - before, 0, np.maximum(h[order], 0)), 0)
    return w


def _projection(h: FloatArray, N: int) -> FloatArray:
    """The nearest point of {w >= 0, sum w = N}."""
    u = np.sort(h)[::-1]
    excess = (np.cumsum(u) - N) / np.arange(1, len(u) + 1)
    return np.asarray(np.maximum(h - excess[np.flatnonzero(u > excess)[-1]], 0))


def nearest(X: FloatArray, C: FloatArray) -> Any:
    """Index of the nearest row of C."""
    return ((C**2).sum(axis=1) - 2 * X @ C.T).argmin(axis=1)


def _loss(X: FloatArray, C: FloatArray, w: FloatArray) -> float:
    return float(w @ ((X - C[nearest(X, C)]) ** 2).sum(axis=1) / w.sum())


def _clip(Z: FloatArray, R: float) -> FloatArray:
    return np.asarray(Z * np.minimum(1, R / np.maximum(np.linalg.norm(Z, axis=1), 1e-300))[:, None])


FLOATS = Method(name="moments-floats", label="moments, floats", cluster=lambda p, s: cluster(Floats(p), p, s))
INTEGERS = Method(name="moments-integers", label="moments, integers", cluster=lambda p, s: cluster(Integers(p), p, s))
