"""What a run leaves behind: one folder, made in one step, in which everything but a picture with records is private.

The files are rendered in memory and written to a folder beside the destination, which is then renamed: a crash, a full
disk or Ctrl-C leaves either the whole result or nothing.
"""

import csv
import io
import json
import math
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from itertools import count as counted
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from fastlloyd.base.arrays import FloatArray
from fastlloyd.base.files import replacing, temporary_name
from fastlloyd.base.precision import rounded
from fastlloyd.dp.noise import Noise
from fastlloyd.errors import OutputError
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.federation.plan.uncertainty import loss_estimate_of_run, noise_deviation_of_run
from fastlloyd.federation.protocol import ClientResult
from fastlloyd.mechanisms.accuracy import Accuracy, Status, assess
from fastlloyd.mechanisms.mechanism import Clustering, Mechanism
from fastlloyd.mechanisms.uncertainty import LossEstimate, NoiseDeviation
from fastlloyd.reports.statement import NOT_COVERED, mechanism_statement, plan_statement, with_leaks
from fastlloyd.reports.stored_result import (
    CENTROIDS,
    CLUSTER,
    COUNT_ERROR,
    EXACT,
    FILES,
    MECHANISM,
    NOISY_COUNT,
    PLAN,
    PRIVACY,
    ROUNDS,
    STATUS,
)

NOT_PRIVATE = "NOT PRIVATE"
MARK = "privacy"  # the column, or key, that says so
OTHER_COLUMNS = (CLUSTER, NOISY_COUNT, COUNT_ERROR, STATUS, MARK)  # of centroids.csv, beside features and their standard errors


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What a run found out, in original units, and the settings that say how private it is.

    centroids : float64 (n_clusters, n_features). noisy_counts : float64 (n_clusters,), records per cluster in the last round
    and noise, as they came: they may be negative. count_error : the standard error of each of them, records. accuracy : the
    centroids' standard errors and status. leaks : sentences, what was taken from the data although the guarantee does not
    cover it. Of a federated run: plan; included, the clients in every round's sum; unconfirmed, those of the last round that
    did not confirm that they ended with the same centroids. cautions : sentences for the statement, beside those on the
    mechanism. loss : the estimate of the loss, where the mechanism asks for it.
    """

    mechanism: Mechanism
    centroids: FloatArray
    noisy_counts: FloatArray
    count_error: float
    accuracy: Accuracy
    leaks: tuple[str, ...] = ()
    plan: Plan | None = None
    included: tuple[tuple[str, ...], ...] = ()
    unconfirmed: tuple[str, ...] = ()
    cautions: tuple[str, ...] = ()
    loss: LossEstimate | None = None

    @classmethod
    def of(cls, mechanism: Mechanism, clustering: Clustering, noise: NoiseDeviation, **others: Any) -> "Result":
        """The result of a mechanism's loop, brought into original units; noise : in its last answer; `others` are fields."""
        return cls(
            mechanism=mechanism,
            centroids=mechanism.domain.from_grid(clustering.centroids),
            noisy_counts=clustering.noisy_counts(mechanism.count_bits),
            count_error=noise.counts,
            accuracy=assess(mechanism, clustering, noise),
            **others,
        )

    @classmethod
    def of_run(cls, plan: Plan, run: ClientResult, *, leaks: tuple[str, ...] = (), cautions: tuple[str, ...] = ()) -> "Result":
        """What a client of a federated run ended with."""
        n_included = len(run.included[len(plan.mechanism.clustering_rounds) - 1])
        return cls.of(
            plan.mechanism,
            run.clustering,
            noise_deviation_of_run(plan, n_included),
            leaks=leaks,
            plan=plan,
            included=run.included,
            unconfirmed=run.unconfirmed,
            loss=loss_estimate_of_run(plan, run.clustering, len(run.included[-1])),
            cautions=cautions,
        )

    @property
    def errors(self) -> FloatArray:
        """Standard errors of the centroids, float64 (n_clusters, n_features), original units; NaN where one stayed."""
        return self.accuracy.errors

    @property
    def updated(self) -> NDArray[np.bool_]:
        """Bool (n_clusters,), False where a centroid stayed in the last round."""
        return np.array([status is not Status.STAYED for status in self.accuracy.status])

    @property
    def has_noise(self) -> bool:
        """Whether there is noise in it."""
        return self.mechanism.noise is not Noise.NONE

    @property
    def private(self) -> bool:
        """Whether the guarantee holds: there is noise, and no setting was taken from the data."""
        return self.has_noise and not self.leaks


def statement(result: Result) -> dict[str, Any]:
    """The content of `privacy.json`: what is promised, and what was taken from the data outside of it."""
    said = mechanism_statement(result.mechanism) if result.plan is None else plan_statement(result.plan)
    said = with_leaks(said, result.leaks)
    said["cautions"] = [*said["cautions"], *result.cautions]
    if result.plan is not None:
        said["federated"]["unconfirmed"] = list(result.unconfirmed)
    if result.loss is not None:
        n = result.mechanism.n_expected
        said["loss_estimate"] |= {
            "value": result.loss.value,
            "standard_error": result.loss.standard_error,
            "per_expected_record": result.loss.value / n,
            "standard_error_per_expected_record": result.loss.standard_error / n,
            "n_expected": n,
        }
        if result.plan is not None:
            said["loss_estimate"]["included"] = list(result.included[-1])
    finite: dict[str, Any] = _finite_or_none(said)
    return finite


def summary(result: Result) -> dict[str, Any]:
    """The whole result for machines (`--json`); `standard_errors` is null where a centroid stayed in the last round."""
    return {
        "private": result.private,
        "features": list(result.mechanism.domain.features),
        "clusters": _clusters(result),
        "leaks": list(result.leaks),
        "privacy": statement(result),
    } | ({"rounds": _rounds(result)} if result.plan else {})


def files(result: Result) -> dict[str, bytes]:
    """The text files of a result, by name: everything but the picture."""
    settings = {MECHANISM: result.mechanism.to_toml()} if result.plan is None else {PLAN: result.plan.to_toml()}
    if not result.has_noise:  # a comment: the seal covers the content only
        settings = {name: f"# {NOT_PRIVATE}: this run added no noise\n{text}" for name, text in settings.items()}
    elif result.leaks:
        settings = {name: f"# {NOT_COVERED}\n{text}" for name, text in settings.items()}
    texts = {CENTROIDS: centroids_csv(result), EXACT: centroids_json(result), PRIVACY: to_json(statement(result)), **settings}
    if result.plan is not None:
        texts[ROUNDS] = to_json(_rounds(result))
    return {name: text.encode() for name, text in texts.items()}


def centroids_csv(result: Result) -> str:
    """One row per cluster, for people: number from 0, centroid in original units, noisy count, their standard errors, status.

    Digits are those that the standard errors warrant; `centroids.json` has all of them. Standard errors are empty where a
    centroid stayed in the last round; `accuracy.Status` says what each status means. Without noise, or with bounds or caps
    taken from the data, there is one more column, `privacy`, that says so. A feature that is called as one of the other columns
    is called `feature_...` here.
    """
    features = _columns(result.mechanism.domain.features)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    mark = {MARK: _mark(result)} if _mark(result) else {}
    writer.writerow([CLUSTER, *features, NOISY_COUNT, *map(_error_of, features), COUNT_ERROR, STATUS, *mark])
    rows = zip(result.centroids, result.noisy_counts, result.errors, result.accuracy.status, strict=True)
    for number, (centroid, count, errors, status) in enumerate(rows):
        values = map(rounded, [*centroid.tolist(), float(count)], [*errors.tolist(), result.count_error])
        cells = map(rounded, errors.tolist(), errors.tolist()) if status is not Status.STAYED else [""] * len(features)
        of_count = rounded(result.count_error, result.count_error)
        writer.writerow([number, *values, *cells, of_count, status.value, *mark.values()])
    return text.getvalue()


def _columns(features: Sequence[str]) -> list[str]:
    """What the columns of features are called, so that no two columns of the table are called alike."""
    others = {*OTHER_COLUMNS, *map(_error_of, features)}
    taken = others.union(features)
    names = []
    for feature in features:
        name = feature
        while name in others or (name != feature and (name in taken or _error_of(name) in taken)):
            name = f"feature_{name}"
        taken |= {name, _error_of(name)}
        names.append(name)
    return names


def _error_of(feature: str) -> str:
    return f"se_{feature}"


def _mark(result: Result) -> str:
    """What every file says of a result that is not private."""
    return NOT_PRIVATE if not result.has_noise else NOT_COVERED if result.leaks else ""


def centroids_json(result: Result) -> str:
    """The same with every digit, for programs: `StoredResult` reads it."""
    content = {"features": list(result.mechanism.domain.features), "clusters": _clusters(result)}
    return to_json(({MARK: _mark(result)} if _mark(result) else {}) | content)


def _clusters(result: Result) -> list[dict[str, Any]]:
    rows = zip(result.centroids, result.noisy_counts, result.errors, result.accuracy.status, strict=True)
    return [
        {
            "cluster": number,
            "centroid": centroid.tolist(),
            "noisy_count": float(count),
            "noisy_count_standard_error": result.count_error,
            "standard_errors": errors.tolist() if status is not Status.STAYED else None,
            "status": status.value,
        }
        for number, (centroid, count, errors, status) in enumerate(rows)
    ]


def to_json(content: Any) -> str:
    """Strict JSON in ASCII, indented: no NaN, no infinity."""
    return json.dumps(content, indent=2, allow_nan=False) + "\n"


def check_destination(out: Path, *, force: bool, files: Sequence[str] = FILES) -> None:
    """Refuse, before anything is computed, a destination that could not or must not be written.

    With `force` a folder is replaced only if it is empty or holds an earlier result and nothing else: the first of the
    `files`, which every result has, and others of them. Raises OutputError.
    """
    target = out.resolve()
    if target.exists():
        _check_replaceable(out, force=force, files=files)
    parent = _nearest_existing(target.parent)
    probe = parent / temporary_name(target)
    try:
        probe.mkdir()
        probe.rmdir()
    except OSError as error:
        raise OutputError(f"{out} cannot be made: {parent} is not a folder one can write to ({error.strerror})") from None


def write_folder(out: Path, contents: Mapping[str, bytes], *, force: bool, files: Sequence[str] = FILES) -> list[Path]:
    """Make the folder `out` with these files, or leave everything as it was. Returns their paths. Raises OutputError.

    They are on disk when this returns: a client of a run wipes all it could make them from.
    `files` are the names that an earlier result, which is replaced with `force`, may have.
    """
    check_destination(out, force=force, files=files)
    target = out.resolve()
    temporary = target.parent / temporary_name(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary.mkdir()
        for name, content in contents.items():
            (temporary / name).write_bytes(content)
            _sync_file(temporary / name)
        _sync_folder(temporary)
        _rename(temporary, target, files)
        _sync_folder(target.parent)
    except OSError as error:
        raise OutputError(f"{out} cannot be written ({error.strerror}); nothing was left there") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return [out / name for name in contents]


def free_name(folder: Path) -> Path:
    """The first of folder, folder-2, folder-3, ... that does not exist."""
    names = chain([folder], (folder.with_name(f"{folder.name}-{number}") for number in counted(2)))
    return next(name for name in names if not name.exists())


def write_new_folder(folder: Path, contents: Mapping[str, bytes]) -> list[Path]:
    """As `write_folder`, under a name that is free; nothing is ever replaced, not what somebody else makes meanwhile."""
    while True:
        name = free_name(folder)
        try:
            return write_folder(name, contents, force=False)
        except OutputError:
            if not name.exists():  # it was not taken meanwhile
                raise


def check_file(path: Path, *, heading: str, force: bool) -> None:
    """Refuse a file that exists; with `force`, only one that does not begin with `heading`. Raises OutputError."""
    if not path.exists():
        return
    if not force:
        raise OutputError(f"{path} exists already; choose another name, or replace it with --force")
    if not path.is_file():  # a folder; or a device or pipe, which may have no end
        raise OutputError(f"{path} is not a file that can be replaced; choose another name")
    try:
        with path.open("rb") as file:
            beginning = file.read(len(heading.encode()))
    except OSError as error:
        raise OutputError(f"{path} cannot be read ({error.strerror}); choose another name") from None
    if beginning != heading.encode():
        raise OutputError(f"{path} is not a file of this kind and is left alone; choose another name")


def write_file(path: Path, text: str) -> None:
    """Make or replace the file `path`, or leave everything as it was. Raises OutputError."""
    write_chunks(path, [text])


def write_chunks(path: Path, chunks: Iterable[str]) -> None:
    """As `write_file`, of text that is made while it is written; what making it raises leaves everything as it was, too."""
    try:
        with replacing(path.resolve()) as file:
            file.writelines(chunk.encode() for chunk in chunks)
    except OSError as error:
        raise OutputError(f"{path} cannot be written ({error.strerror})") from None


def _sync_file(path: Path) -> None:
    with path.open("r+b") as file:
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    """Make names in a folder durable; where a folder cannot be opened or synchronised, renaming does what it can."""
    if os.name == "posix":
        with suppress(OSError):
            descriptor = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def _rename(temporary: Path, target: Path, files: Sequence[str]) -> None:
    """Put the new folder in the place of the old one, which is deleted last and comes back if the new one cannot take it."""
    if not target.exists():
        temporary.rename(target)
        return
    aside = target.parent / temporary_name(target)
    target.rename(aside)
    try:
        temporary.rename(target)
    finally:
        if target.exists():
            _discard(aside, target, files)
        else:
            aside.rename(target)


def _discard(old: Path, new: Path, files: Sequence[str]) -> None:
    """Delete the earlier result and nothing else: what was put beside it since it was looked at moves to the new folder."""
    for name in files:
        with suppress(OSError):
            (old / name).unlink()
    with suppress(OSError):
        for entry in list(old.iterdir()):
            entry.rename(new / entry.name)
        old.rmdir()


def _check_replaceable(out: Path, *, force: bool, files: Sequence[str]) -> None:
    if not out.is_dir():
        raise OutputError(f"{out} is a file; name a folder to be made")
    try:
        found = sorted(entry.name for entry in out.iterdir())
    except OSError as error:
        raise OutputError(f"{out} cannot be read ({error.strerror}); choose another folder") from None
    if not force:
        raise OutputError(f"{out} exists already; choose another folder, or replace it with --force")
    others = [name for name in found if name not in files or not (out / name).is_file()]
    if others or (found and files[0] not in found):
        what = f"holds {others[0]!r}" if others else f"has no {files[0]}"
        raise OutputError(f"{out} {what}, so it is not a result of fastlloyd alone and is left alone; choose another folder")


def _nearest_existing(folder: Path) -> Path:
    while not folder.exists():
        folder = folder.parent
    return folder


def _rounds(result: Result) -> list[dict[str, Any]]:
    T = len(result.mechanism.clustering_rounds)  # what comes after them is the loss
    return [
        {"round": number, "included": list(names)} | ({"of": "loss"} if number > T else {})
        for number, names in enumerate(result.included, 1)
    ]


def _finite_or_none(value: Any) -> Any:
    """JSON has no infinity: an epsilon that does not exist is null."""
    if isinstance(value, dict):
        return {key: _finite_or_none(item) for key, item in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [_finite_or_none(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
