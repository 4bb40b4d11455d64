"""Recompute the privacy statement of a stored result or model from its sealed settings.

The folder of a result and the state of a model contain a statement. Every claim in it must follow
from `mechanism.toml` or `plan.toml`, so the statement is computed anew, and a contradiction is
refused. Three things are taken from the stored statement: findings of the run (`_FINDINGS`),
cautions, and the number of clients in the last sum. All other entries are left out.
"""

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from fastlloyd.base.names import NAME
from fastlloyd.errors import DataError
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.mechanisms.bounds.mechanism import BoundsMechanism
from fastlloyd.mechanisms.mechanism import Mechanism
from fastlloyd.mechanisms.private_run import AnyRun
from fastlloyd.reports.bounds_result import both_stages
from fastlloyd.reports.outside import THIS_ESTIMATOR
from fastlloyd.reports.run_result import (
    BOUNDS,
    BOUNDS_MECHANISM,
    EXACT,
    MECHANISM,
    PLAN,
    PRIVACY,
    ROUNDS,
    finite_or_none,
)
from fastlloyd.reports.statement import (
    STATEMENT_VERSION,
    PrivacyStatement,
    mechanism_statement,
    plan_statement,
)
from fastlloyd.reports.stored_files import StoredFiles
from fastlloyd.reports.stored_result import StoredResult, files_of

TOLERANCE = 1e-6  # relative, of what is worked out in floating point on another machine
# sentences, which another version may word otherwise; and what a run found out
_NOT_COMPARED = {"fastlloyd_version", "outside_the_guarantee", "cautions", "protected", "units"}

_ADDED = {"rho"}  # entries that files of earlier versions lack


class SealedSettings(NamedTuple):
    """Settings that determine a privacy statement.

    mechanism : settings of the run.
    plan : plan of a federated run, or None.
    first : first stage, which found the bounds of the clustering, or None.
    """

    mechanism: AnyRun
    plan: Plan | None = None
    first: BoundsMechanism | None = None

    @classmethod
    def of(cls, files: StoredFiles, m: AnyRun, plan: Plan | None) -> Self:
        """Return all settings of a result: the given ones, and those of the first stage, which are
        read from its file.

        files : files of the result.
        m : settings of the run.
        plan : plan of a federated run, or None.

        Raises PlanError if the file is not valid. Raises DataError if the settings do not belong
        together.
        """
        if plan is not None or not isinstance(m, Mechanism) or m.bounds_digest is None:
            return cls(m, plan)
        source = str(files.folder / BOUNDS_MECHANISM)
        first = BoundsMechanism.from_toml(files.document(BOUNDS_MECHANISM), source)
        sealed = cls(m, first=first)
        sealed.check(source, "keep the files of a result together")
        return sealed

    @property
    def charged_digest(self) -> bytes:
        """Digest by which a ledger knows the run: the digest of its plan, or of the mechanism of
        its first stage.
        """
        return (self.plan or self.first or self.mechanism).digest

    def check(self, source: str, advice: str) -> None:
        """Raise DataError unless plan and first stage belong to the mechanism.

        source : name of the file or model, for the error message.
        advice : remedy in the message.
        """
        m, first = self.mechanism, self.first
        if self.plan is not None:
            is_whole = self.plan.mechanism == m
        else:
            digest = m.bounds_digest if isinstance(m, Mechanism) else None
            is_whole = digest == (None if first is None else first.digest.hex())
        if not is_whole:
            raise DataError(f"{source} does not belong to the settings of this result; {advice}")

    def statement(self, source: str, said: dict[str, Any], n_included: int | None) -> Any:
        """Return the privacy statement that follows from the settings.

        source : name of the file or model, for error messages.
        said : stored statement. The epsilon of a run with two stages is taken from it, and must be
            large enough for both stages.
        n_included : number of clients in the last sum of a federated run, or None.

        Raises DataError if the stored epsilon is not a number, or is too small.
        """
        m = self.mechanism
        if self.plan is not None:
            return plan_statement(self.plan, n_included)
        found = mechanism_statement(m)
        if self.first is None or not isinstance(m, Mechanism):
            return found
        epsilon = said.get("epsilon")
        if not isinstance(epsilon, float | int) or not 0 < epsilon < math.inf:
            raise _contradiction(source, "epsilon", epsilon, "a number above 0")
        found = both_stages(found, self.first, m, float(epsilon), [])
        del found["bounds"]["not_found"]  # this entry is a finding
        if found["delta_accounted"] > m.delta:
            raise _contradiction(source, "epsilon", epsilon, "a larger number")
        return found


def checked_files(path: Path) -> StoredFiles:
    """Read the files of a result, and check that settings, numbers and statement belong together.

    path : folder of the result, or a table of centroids in it.

    Raises DataError or PlanError if they do not belong together, or if the path is not a result.
    """
    folder = path if path.is_dir() else path.parent
    files = StoredFiles.read(folder)
    if not is_of_bounds(files):
        files = files_of(path)
    stored_statement(files, sealed_settings(files))
    return files


def is_of_bounds(files: StoredFiles) -> bool:
    """Return whether these are the files of bounds alone, without clusters."""
    return BOUNDS in files.contents and EXACT not in files.contents


def sealed_settings(files: StoredFiles) -> SealedSettings:
    """Return the settings of a result.

    Raises DataError or PlanError if the settings are not valid, or do not fit the result's numbers.
    """
    if is_of_bounds(files):
        return _of_bounds(files)
    stored = StoredResult.of(files)
    return SealedSettings.of(files, stored.mechanism, stored.plan)


def _of_bounds(files: StoredFiles) -> SealedSettings:
    if PLAN in files.contents:
        plan = Plan.from_toml(files.document(PLAN), str(files.folder / PLAN))
        return SealedSettings(plan.mechanism, plan)
    source = str(files.folder / MECHANISM)
    return SealedSettings(BoundsMechanism.from_toml(files.document(MECHANISM), source))


def stored_statement(files: StoredFiles, sealed: SealedSettings) -> PrivacyStatement:
    """Return the privacy statement of a stored result.

    files : files of the result.
    sealed : settings that are stored with them.

    Raises DataError if privacy.json is not a privacy statement, or contradicts the settings. The
    message names the entry. Cautions that do not follow from the settings are kept, such as those
    about a picture with records.
    """
    path = files.folder / PRIVACY
    said = files.json(PRIVACY)
    if not isinstance(said, dict) or said.get("mechanism_digest") != sealed.mechanism.digest.hex():
        raise DataError(
            f"{path} is not the privacy statement of the settings next to it; keep the"
            " files of a result together"
        )
    n = None if sealed.plan is None else _n_included(files, sealed.plan)
    return _checked(str(path), said, sealed, n)


def state_statement(source: str, said: Any, sealed: SealedSettings) -> PrivacyStatement:
    """Return the privacy statement in a model's saved state, after a check against its settings.

    source : name of the model, for error messages.
    said : statement in the state.
    sealed : settings of the model.

    Raises DataError if the statement contradicts the settings. The message names the entry.
    """
    if not isinstance(said, dict):
        raise _contradiction(source, "privacy_spent_", said, "a table")
    sealed.check(source, "fit it again")
    n, federated = None, said.get("federated")
    if sealed.plan is not None:
        n = federated.get("n_included") if isinstance(federated, dict) else None
        if type(n) is not int or not sealed.plan.min_present <= n <= sealed.plan.n_clients:
            raise _contradiction(source, "federated.n_included", n, "a number of clients")
    return _checked(source, said, sealed, n)


def _checked(
    source: str, said: dict[str, Any], sealed: SealedSettings, n: int | None
) -> PrivacyStatement:
    """Return the statement that follows from the settings, with the findings of the run.

    source : name of the file or model, for error messages.
    said : stored statement.
    sealed : settings.
    n : number of clients in the last sum, or None.
    """
    if said.get("statement_version") != STATEMENT_VERSION:
        raise DataError(
            f"{source}: statement_version is {said.get('statement_version')!r:.40}; this version of"
            f" fastlloyd reads {STATEMENT_VERSION}"
        )
    found = finite_or_none(sealed.statement(source, said, n))
    if said.get("covers") == THIS_ESTIMATOR:  # less than the run
        found["covers"] = THIS_ESTIMATOR
    said = finite_or_none(said)
    _compare(source, "", said, found)
    return PrivacyStatement(_with_findings(source, said, found, sealed))


def _n_included(files: StoredFiles, plan: Plan) -> int:
    """Return the number of clients in the last sum.

    Raises DataError if `rounds.json` does not belong to a run of the plan.
    """
    rounds = files.json(ROUNDS)
    try:
        included = rounds[-1]["included"]
        is_possible = (
            len(rounds) == plan.mechanism.n_rounds
            and len(included) == len(set(included)) >= plan.min_present
            and set(included) <= set(plan.names)
        )
    except (TypeError, KeyError, IndexError):
        is_possible = False
    if not is_possible:
        raise DataError(
            f"{files.folder / ROUNDS} does not belong to the plan next to it; keep the files of a"
            " result together"
        )
    return len(included)


def _compare(source: str, field: str, said: Any, found: Any) -> None:
    """Raise DataError for the first entry of the stored statement that differs from the settings.

    field : path of the entry, or "" for the whole statement.
    said, found : stored entry, and the entry that follows from the settings.
    """
    if isinstance(found, dict):
        if not isinstance(said, dict):
            raise _contradiction(source, field or "all", said, "a table")
        for name, value in found.items():
            if name not in _NOT_COMPARED and (name in said or name not in _ADDED):
                inner = f"{field}.{name}" if field else name
                if name not in said:
                    raise _contradiction(source, inner, None, value)
                _compare(source, inner, said[name], value)
    elif isinstance(found, list):
        if not isinstance(said, list) or len(said) != len(found):
            raise _contradiction(source, field, said, found)
        for number, (one, other) in enumerate(zip(said, found, strict=True)):
            _compare(source, f"{field}[{number}]", one, other)
    elif not _alike(said, found):
        raise _contradiction(source, field, said, found)


def _alike(said: Any, found: Any) -> bool:
    is_number = isinstance(found, float | int) and not isinstance(found, bool)
    if is_number and isinstance(said, float | int) and not isinstance(said, bool):
        return math.isclose(said, found, rel_tol=TOLERANCE)
    if isinstance(found, str) and " " in found:
        return isinstance(said, str)
    return type(said) is type(found) and bool(said == found)


def _contradiction(source: str, field: str, said: Any, found: Any) -> DataError:
    return DataError(
        f"{source}: {field} is {said!r:.60}, but the sealed settings give {found!r:.60}; get the"
        " original"
    )


def _with_findings(
    source: str, said: dict[str, Any], found: dict[str, Any], sealed: SealedSettings
) -> dict[str, Any]:
    """Return the statement with the findings of the run, which do not follow from the settings."""
    whole = dict(found)
    for (table, name), is_right in _FINDINGS.items():
        of, into = (said.get(table), whole.get(table)) if table else (said, whole)
        if not isinstance(of, dict) or not isinstance(into, dict) or name not in of:
            continue
        if not is_right(of[name], sealed):
            where = f"{table}.{name}" if table else name
            raise _contradiction(source, where, of[name], "something else")
        into[name] = of[name]
    more = [
        caution
        for caution in said.get("cautions", [])
        if isinstance(caution, str) and caution not in found["cautions"]
    ]
    return whole | {"cautions": [*found["cautions"], *more]}


def _is_number(value: Any, _: SealedSettings) -> bool:
    return value is None or (isinstance(value, float | int) and not isinstance(value, bool))


def _is_radius(value: Any, sealed: SealedSettings) -> bool:
    features = sealed.mechanism.domain.features
    return value is None or (
        isinstance(value, dict)
        and list(value) == list(features)
        and all(_is_number(R, sealed) for R in value.values())
    )


def _is_expected(value: Any, sealed: SealedSettings) -> bool:
    return type(value) is int and value == sealed.mechanism.n_expected


def _are_features(value: Any, sealed: SealedSettings) -> bool:
    return isinstance(value, list) and all(one in sealed.mechanism.domain.features for one in value)


def _are_clients(value: Any, sealed: SealedSettings) -> bool:
    names = () if sealed.plan is None else sealed.plan.names
    return isinstance(value, list) and all(one in names for one in value)


def _is_day(value: Any, _: SealedSettings) -> bool:
    return isinstance(value, str) and re.fullmatch(r"\d{4}-\d{2}-\d{2}", value) is not None


def _is_name(value: Any, _: SealedSettings) -> bool:
    return value is None or (isinstance(value, str) and NAME.fullmatch(value) is not None)


# by table, "" for the whole, and name: what a run found out, and whether a value can be that
_FINDINGS: Final[dict[tuple[str, str], Callable[[Any, SealedSettings], bool]]] = {
    ("intervals", "radius"): _is_radius,
    ("loss_estimate", "value"): _is_number,
    ("loss_estimate", "standard_error"): _is_number,
    ("loss_estimate", "per_expected_record"): _is_number,
    ("loss_estimate", "standard_error_per_expected_record"): _is_number,
    ("loss_estimate", "per_expected_person"): _is_number,
    ("loss_estimate", "standard_error_per_expected_person"): _is_number,
    ("loss_estimate", "n_expected"): _is_expected,
    ("loss_estimate", "included"): _are_clients,
    ("bounds", "not_found"): _are_features,
    ("", "not_found"): _are_features,
    ("federated", "unconfirmed"): _are_clients,
    ("", "data_set"): _is_name,
    ("", "day"): _is_day,
}
