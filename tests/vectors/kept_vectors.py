"""What users of earlier versions have on disk, and what today's program says of it: digests,
states, labels, tables.

`kept/` is listed in `keep.py`, which made it. It is read from a copy: reading a store leaves files
beside it.
"""

import json
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from command_vectors import said
from recorded import KEPT, copy_kept, digest, key_paths, plain

from fastlloyd import FastLloyd, Lloyd, MomentLloyd, Plan, read_mechanism

RESULTS = {
    "fit-momentlloyd": MomentLloyd,
    "fit-fastlloyd": FastLloyd,
    "fit-lloyd": Lloyd,
    "simulate": MomentLloyd,
    "finished/result-a": FastLloyd,
}
"""Folders of results, with the estimator of each."""
LATER = [("dataset", None)]
"""Parameters that came later, with the values that leave all as it was."""
OF_VERSION_4 = [f"version-4/{masks}" for masks in ("group", "pairwise")]
STORES = [
    *(f"{run}/{name}.store" for run in ("finished", "interrupted") for name in ("a", "b", "sums")),
    *(f"{kind}/finished/{name}.store" for kind in OF_VERSION_4 for name in ("a", "sums")),
    *(
        f"{kind}/interrupted/{name}.store"
        for kind in OF_VERSION_4
        for name in ("a", "b", "c", "sums")
    ),
]
IDENTITIES = ("a", "b", "c", "sums")


def copied(folder: Path) -> Path:
    """`kept/`, to be read; stores beside the identities they belong to."""
    there = folder / "kept"
    copy_kept(".", there)
    for run in ("finished", "interrupted"):
        copy_kept("identities", there / run)
    return there


def answers(folder: Path) -> dict[str, Any]:
    """What the program says of all that is kept; what depends on the day or the machine is left
    out.
    """
    kept = copied(folder)
    return {name: plain(value) for name, value in _answers(kept)}


def _answers(kept: Path) -> Iterator[tuple[str, Any]]:
    for path in sorted((kept / "mechanisms").iterdir()):
        m = read_mechanism(path.read_text())
        yield (
            f"mechanisms/{path.stem}",
            {"digest": m.digest.hex(), "written_again": digest(m.to_toml()), "name": m.name},
        )
    for path in _plans(kept):
        name = path.relative_to(kept).as_posix()
        plan = Plan.from_toml(path.read_text())
        yield (
            name,
            {
                "digest": plan.digest.hex(),
                "written_again": digest(plan.to_toml()),
                "names": list(plan.names),
            },
        )
        yield f"{name}, shown", _told("plan", "show", str(path), "--json")
        for word in ("explain", "digest"):
            yield f"{name}, {word}", {"code": said(["plan", word, str(path)])[0]}
    for name in STORES:
        for command in (["status"], ["ledger", "show"], ["ledger", "verify"]):
            yield f"{name}, {' '.join(command)}", _told(*command, str(kept / name), "--json")
    yield (
        "finished/sums.store, positions",
        _told("ledger", "positions", str(kept / "finished" / "sums.store"), "--json"),
    )
    for name in IDENTITIES:
        found = _told("status", str(kept / "finished" / f"{name}.identity.toml"), "--json")
        yield f"identities/{name}", {"code": found["code"]}
    for name, kind in RESULTS.items():
        yield f"{name}, assign", _assigned(kept, name)
        model = kind.from_result(kept / name)
        yield (
            f"{name}, estimator",
            {
                "cluster_centers": model.cluster_centers_,
                "noisy_counts": model.noisy_counts_,
                "status": model.cluster_status_.tolist(),
                "digest": model.mechanism_.digest.hex(),
                "parameters": {
                    key: str(value)
                    for key, value in model.get_params().items()
                    if (key, value) not in LATER
                },
            },
        )
    for form in ("csv", "markdown", "text"):
        code, out = said(["experiment", "table", str(kept / "experiment"), "--format", form])
        yield (
            f"experiment, table, {form}",
            {"code": code} | ({"rows": _numbers(out)} if form == "csv" else {}),
        )


def _plans(kept: Path) -> list[Path]:
    runs = [
        "finished",
        "simulate",
        *(f"{kind}/{run}" for kind in OF_VERSION_4 for run in ("finished", "interrupted")),
    ]
    return [
        *sorted((kept / "plans").glob("*[!s].toml")),
        *(kept / run / "plan.toml" for run in runs),
    ]


def _told(*arguments: str) -> dict[str, Any]:
    """What a command prints as JSON; without the names of files, which lie somewhere else each
    time.
    """
    code, out = said(list(arguments))
    content = json.loads(out) if out else None
    values = {
        path: value
        for path, value in _leaves(content)
        if not (isinstance(value, str) and "/" in value)
    }
    return {"code": code, "keys": sorted(key_paths(content)), "values": values}


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(item, f"{path}.{key}")
    elif isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        for number, item in enumerate(value):
            yield from _leaves(item, f"{path}[{number}]")
    else:
        yield path, value


def _assigned(kept: Path, name: str) -> dict[str, Any]:
    code, out = said(["assign", str(kept / name), str(kept / "records.csv")])
    return {"code": code, "labels": digest(out), "first": out.split()[:10]}


def _numbers(table: str) -> list[Any]:
    """Cells of a table, numbers as numbers."""

    def cell(text: str) -> float | str:
        try:
            return float(text)
        except ValueError:
            return text

    return [[cell(text) for text in line.split(",")] for line in table.splitlines()]


def pickled(name: str) -> dict[str, Any]:
    """What an estimator that was pickled says today of the records it was fitted to."""
    X = np.array(recorded_pickles()["X"])
    # our own file
    model = pickle.loads((KEPT / "pickles" / f"{name}.pickle").read_bytes())  # noqa: S301
    return {
        "labels": model.predict(X).tolist(),
        "cluster_centers": model.cluster_centers_.tolist(),
        "noisy_counts": model.noisy_counts_.tolist(),
        "mechanism_digest": model.mechanism_.digest.hex(),
    }


def recorded_pickles() -> dict[str, Any]:
    """What they said when they were pickled, the records, and the versions of scikit-learn and
    NumPy.
    """
    content: dict[str, Any] = json.loads((KEPT / "pickles" / "said.json").read_text())
    return content
