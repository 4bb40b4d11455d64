"""Clusterings in the central model and of federated runs, by public seed and known noise: what is
asked, and what comes out.
"""

import zlib
from collections.abc import Iterator
from typing import Any

import internals
import numpy as np
from recorded import digest, plain

from fastlloyd import Domain
from fastlloyd.testing import repeatable_noise

Case = dict[str, Any]
KS, DS = (1, 2, 5, 15), (1, 2, 4, 16, 40, 80)


def central_cases() -> Iterator[tuple[str, Case]]:
    """A name and what is asked, for each clustering of the central model."""
    for number, (k, d) in enumerate((k, d) for k in KS for d in DS):
        relation = ("add_or_remove_one", "replace_one")[(number + number // 6) % 2]
        loss = number % 3 == 0
        common: Case = {
            "n_clusters": k,
            "d": d,
            "neighboring_relation": relation,
            "estimate_loss": loss,
        }
        common["epsilon"] = (1.0, 8.0)[number // 2 % 2]
        for algorithm, preset in (
            ("momentlloyd", "default"),
            ("fastlloyd", "default"),
            ("fastlloyd", "paper"),
        ):
            yield (
                f"{algorithm} {preset} k={k} d={d}",
                {"algorithm": algorithm, "preset": preset, **common},
            )
        if number % 2 == 0:
            for algorithm in ("glloyd", "sulloyd", "lloyd"):
                preset = ("default", "paper")[number // 2 % 2]
                yield (
                    f"{algorithm} {preset} k={k} d={d}",
                    {"algorithm": algorithm, "preset": preset, **common},
                )
    yield from _moment_corners()
    yield from _variants()


def _moment_corners() -> Iterator[tuple[str, Case]]:
    moments: Case = {"algorithm": "momentlloyd", "n_clusters": 5, "d": 2}
    corners: dict[str, Case] = {
        "fewer than one expected record per cluster": {"n_clusters": 15, "n_expected": 5},
        "one record expected, in many features": {"n_clusters": 15, "n_expected": 1, "d": 40},
        "no records": {"n": 0},
        "one record": {"n": 1, "n_records": 1, "n_clusters": 1},
        "as many clusters as records": {"n": 15, "n_records": 15, "n_clusters": 15},
        "little budget": {"epsilon": 0.02, "estimate_loss": True},
        "large budget": {"epsilon": 20.0, "n_records": 20_000},
        "large budget, many features": {"epsilon": 20.0, "n_records": 100_000, "d": 40},
        "large budget, very many features": {
            "epsilon": 9.0,
            "n_records": 100_000,
            "d": 80,
            "n_clusters": 2,
        },
        "large budget, replace_one, loss": {
            "epsilon": 8.0,
            "neighboring_relation": "replace_one",
            "estimate_loss": True,
        },
        "scaling common": {"scaling": "common", "epsilon": 4.0},
        "few bits": {"fraction_bits": 8},
        "many bits": {"fraction_bits": 20, "d": 4},
        "share of the loss": {"estimate_loss": True, "loss_share": 0.3},
        "all records in one place": {"spread": 0.0, "epsilon": 5.0},
        "more records": {"n": 3000, "n_records": 5000, "epsilon": 3.0, "d": 4},
    }
    for name, said in corners.items():
        yield f"momentlloyd, {name}", moments | said


def _variants() -> Iterator[tuple[str, Case]]:
    fast: Case = {"algorithm": "fastlloyd", "n_clusters": 5, "d": 4, "epsilon": 2.0}
    variants: dict[str, Case] = {
        "constant radius": {"variant": {"radius": "constant"}},
        "no radius": {"variant": {"radius": "none", "clipping": False}},
        "no clipping": {"variant": {"clipping": False}},
        "no postprocessing": {"variant": {"postprocessing": "none"}},
        "truncation": {"variant": {"postprocessing": "truncate"}, "epsilon": 0.1},
        "alpha": {"variant": {"alpha": 0.3}},
        "laplace": {"variant": {"noise": "laplace"}},
        "laplace, replace_one, loss": {
            "variant": {"noise": "laplace"}, "neighboring_relation": "replace_one", "estimate_loss": True,
        },
        "no floor under counts": {"min_count": "0", "epsilon": 0.2, "n_clusters": 15},
        "high floor under counts": {"min_count": "80", "n_clusters": 15},
        "halving": {"initialization": "halving"},
        "one iteration": {"n_iterations": 1},
        "ten iterations": {"n_iterations": 10},
        "share of the loss": {"estimate_loss": True, "loss_share": 0.3},
        "scaling common": {"scaling": "common"},
        "few bits": {"fraction_bits": 8},
        "no records": {"n": 0, "estimate_loss": True},
        "little budget": {"epsilon": 0.02},
        "large budget": {"epsilon": 50.0},
        "delta": {"delta": 1e-9},
        "fewer than one expected record per cluster": {"n_clusters": 15, "n_expected": 5},
        "more records": {"n": 3000, "n_records": 5000},
    }  # fmt: skip
    for name, said in variants.items():
        yield f"fastlloyd, {name}", fast | said
    yield "glloyd, laplace", fast | {"algorithm": "glloyd", "variant": {"noise": "laplace"}}
    yield "sulloyd, gaussian", fast | {"algorithm": "sulloyd", "variant": {"noise": "gaussian"}}
    yield (
        "sulloyd, folded",
        fast | {"algorithm": "sulloyd", "variant": {"postprocessing": "fold"}, "epsilon": 0.2},
    )
    yield (
        "glloyd, truncated",
        fast | {"algorithm": "glloyd", "variant": {"postprocessing": "truncate"}, "epsilon": 0.2},
    )
    yield "lloyd, loss", fast | {"algorithm": "lloyd", "estimate_loss": True, "n_iterations": 4}


def federated_cases() -> Iterator[tuple[str, Case]]:
    """The same for runs: clients, drops, and who adds noise."""
    moments: Case = {"algorithm": "momentlloyd", "n_clusters": 3, "d": 2, "epsilon": 4.0}
    fast: Case = {
        "algorithm": "fastlloyd",
        "n_clusters": 3,
        "d": 2,
        "epsilon": 4.0,
        "estimate_loss": True,
    }
    dropped = {"max_dropouts": 1, "drops": ["c2@2"]}
    gone = {"max_dropouts": 2, "drops": ["c1@3", "c4@2+"]}
    for trust in ("client-noise", "server-noise"):
        for n_clients, drops in ((2, {}), (3, dropped), (5, gone)):
            common: Case = {"trust": trust, "n_clients": n_clients, **drops}
            named = f"{trust}, {n_clients} clients{', drops' if drops else ''}"
            yield f"momentlloyd, {named}", moments | common
            yield f"fastlloyd, {named}", fast | common
        three = {"trust": trust, "n_clients": 3}
        yield (
            f"momentlloyd in directions, {trust}",
            moments | three | {"d": 40, "n_records": 100_000, "epsilon": 9.0},
        )
        yield (
            f"momentlloyd in directions, {trust}, replace_one, loss, drops",
            moments | three | dropped
            | {"d": 40, "n_records": 100_000, "neighboring_relation": "replace_one", "estimate_loss": True},
        )  # fmt: skip
        yield f"glloyd, {trust}", fast | three | {"algorithm": "glloyd"}
    yield (
        "momentlloyd, the first client is gone",
        moments | {"n_clients": 5, "max_dropouts": 1, "drops": ["c1@1+"]},
    )
    yield (
        "momentlloyd, the first client is gone later",
        moments | {"n_clients": 5, "max_dropouts": 1, "drops": ["c1@3+"]},
    )
    pairwise: Case = {"n_clients": 3, "masks": "pairwise"}
    for trust in ("client-noise", "server-noise"):
        yield f"momentlloyd, pairwise masks, {trust}", moments | pairwise | {"trust": trust}
        yield f"fastlloyd, pairwise masks, {trust}", fast | pairwise | {"trust": trust}
    lacking: Case = pairwise | {"n_clients": 5, "max_dropouts": 1, "max_colluding": 2}
    yield (
        "momentlloyd, pairwise masks, one may be missing",
        moments | lacking | {"estimate_loss": True},
    )
    yield "fastlloyd, pairwise masks, one may be missing", fast | lacking | {"epsilon": 1.0}
    yield "fastlloyd, three colluding", fast | {"n_clients": 5, "max_colluding": 3, "epsilon": 1.0}
    yield (
        "fastlloyd, a client misses the loss",
        fast | {"n_clients": 5, "max_dropouts": 1, "n_iterations": 3, "drops": ["c3@4"]},
    )
    server: Case = {"trust": "server-noise", "n_clients": 3}
    yield "sulloyd", fast | server | {"algorithm": "sulloyd"}
    yield (
        "sulloyd, drops",
        fast | server | dropped | {"algorithm": "sulloyd", "estimate_loss": False},
    )
    yield "fastlloyd, laplace", fast | server | {"variant": {"noise": "laplace"}}
    yield "fastlloyd, narrow ring", fast | {"n_clients": 3, "fraction_bits": 6, "ring_bits": 32}


def central_answer(name: str, case: Case) -> dict[str, Any]:
    """What the central model makes of a case."""
    within, X, settings = _posed(name, case)
    m = internals.mechanism(within, settings)
    with repeatable_noise():
        clustering = internals.clustered(m, X, zlib.crc32(name.encode()))
    return _answer(m.to_toml(), clustering, internals.figures_of(m, clustering)) | {
        "statement": _without_version(internals.mechanism_statement(m))
    }


def federated_answer(name: str, case: Case) -> dict[str, Any]:
    """What the clients of a simulated run make of a case."""
    rest = dict(case)
    n_clients, drops = rest.pop("n_clients"), rest.pop("drops", [])
    within, X, settings = _posed(name, rest)
    p = internals.plan(within, settings, n_clients)
    with repeatable_noise():
        run = internals.federated(p, X, drops, zlib.crc32(name.encode()))
    return _answer(
        p.to_toml(), run.clustering, internals.figures_of(p.clustering, run.clustering, (p, run))
    ) | {
        "included": [list(names) for names in run.included],
        "unconfirmed": list(run.unconfirmed),
        "coalitions": plain(internals.coalitions(internals.between_parties(p))),
        "statement": _without_version(internals.plan_statement(p)),
        "mechanism_text": digest(p.mechanism.to_toml()),
    }


def settings_text(case: Case) -> str:
    """`mechanism.toml` of a case."""
    within, _, settings = _posed("", case)
    return internals.mechanism(within, settings).to_toml()


def _posed(name: str, case: Case) -> tuple[Domain, internals.IntArray, dict[str, Any]]:
    """The domain, made-up records on its grid, and the settings."""
    settings = dict(case)
    d, n = settings.pop("d"), settings.pop("n", 250)
    lower, upper = -np.arange(1.0, d + 1), 2 * np.arange(1.0, d + 1)[::-1]
    within = internals.domain(
        lower.tolist(), upper.tolist(), scaling=settings.pop("scaling", "per-feature"),
        fraction_bits=settings.pop("fraction_bits", 16),
    )  # fmt: skip
    rng = np.random.RandomState(zlib.crc32(name.encode()))  # whose numbers never change
    groups = rng.uniform(0.15, 0.85, (settings["n_clusters"], d))
    spread = settings.pop("spread", 0.05)
    at = groups[
        rng.randint(len(groups), size=n) if spread else np.zeros(n, dtype=int)
    ] + spread * rng.normal(size=(n, d))
    X = within.to_grid(lower + at * (upper - lower))
    settings.setdefault("n_records", 400)
    settings.setdefault("epsilon", 1.0)
    return within, X, settings


def _answer(text: str, clustering: internals.Clustering, figures: dict[str, Any]) -> dict[str, Any]:
    numbers = {
        name: getattr(clustering, name)
        for name in ("centroids", "previous", "answer", "updated", "loss")
    }
    return {"text": digest(text), **plain(numbers), **plain(figures)}


def _without_version(statement: dict[str, Any]) -> dict[str, Any]:
    said: dict[str, Any] = plain(statement)
    del said["fastlloyd_version"]
    return said
