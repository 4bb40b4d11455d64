"""The privacy statement in the folder of a result, worked out anew from the sealed settings there.

Every claim follows from `mechanism.toml` or `plan.toml`, so none is taken from `privacy.json`. What
a run found out, such as the noisy loss, is taken from there. A contradiction is refused.
"""

import json
import math
from pathlib import Path
from typing import Any

from fastlloyd.base.sealed_toml import load_text
from fastlloyd.dp.noise import Noise
from fastlloyd.errors import DataError
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.mechanisms.bounds.mechanism import BoundsMechanism
from fastlloyd.mechanisms.mechanism import Mechanism
from fastlloyd.mechanisms.private_run import AnyRun
from fastlloyd.records.files import opened
from fastlloyd.reports.bounds_result import both_stages
from fastlloyd.reports.run_result import (
    BOUNDS_MECHANISM,
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

TOLERANCE = 1e-6  # relative, of what is worked out in floating point on another machine
# sentences, which another version may word otherwise; and what a run found out
_NOT_COMPARED = {"fastlloyd_version", "outside_the_guarantee", "cautions", "protected", "units"}


def stored_statement(folder: Path, m: AnyRun, plan: Plan | None = None) -> PrivacyStatement:
    """Return the statement of the result in a folder with these settings.

    Raises DataError if privacy.json is none, or says something else than the settings: the sentence
    names the field. Cautions that the settings do not explain, such as those on a picture with
    records, are kept.
    """
    path = folder / PRIVACY
    said = _json(path)
    if not isinstance(said, dict) or said.get("mechanism_digest") != m.digest.hex():
        raise DataError(
            f"{path} is not the privacy statement of the settings beside it; keep a result together"
        )
    if said.get("statement_version") != STATEMENT_VERSION:
        raise DataError(
            f"{path}: statement_version is {said.get('statement_version')!r:.40}; this version of"
            f" fastlloyd reads {STATEMENT_VERSION}"
        )
    found = finite_or_none(_worked_out(folder, path, said, m, plan))
    if found.get("loss_estimate") is not None:
        found["loss_estimate"]["n_expected"] = m.n_expected
    _compare(path, "", said, found)
    return PrivacyStatement(_with_findings(said, found))


def check_claims(source: str, said: Any, m: Mechanism) -> None:
    """Raise DataError if a statement contradicts its mechanism in a claim that is quick to check.

    source : named in the message.
    """
    private = m.noise is not Noise.NONE
    found = {
        "private": private and not m.taken_from_the_data,
        "mechanism": m.name,
        "delta": m.delta if private else None,
        "neighboring_relation": m.neighboring_relation.value,
        "n_records_cap": m.n_records,
        "taken_from_the_data": list(m.taken_from_the_data or ()),
        "mechanism_digest": m.digest.hex(),
    }
    if m.bounds_digest is None:  # otherwise epsilon is of both stages
        found["epsilon"] = m.epsilon if private else None
    _compare(source, "", said, found)


def _worked_out(
    folder: Path, path: Path, said: dict[str, Any], m: AnyRun, plan: Plan | None
) -> dict[str, Any]:
    if plan is not None:
        return plan_statement(plan, _n_included(folder / ROUNDS, plan))
    found = mechanism_statement(m)
    if not isinstance(m, Mechanism) or m.bounds_digest is None:
        return found
    source = folder / BOUNDS_MECHANISM
    first = BoundsMechanism.from_toml(load_text(source), str(source))
    if first.digest.hex() != m.bounds_digest:
        raise DataError(
            f"{source} is not that of the bounds of this result; keep a result together"
        )
    epsilon = said.get("epsilon")
    if not isinstance(epsilon, float | int) or not 0 < epsilon < math.inf:
        raise _contradiction(path, "epsilon", epsilon, "a number above 0")
    found = both_stages(found, first, m, float(epsilon), [])
    del found["bounds"]["not_found"]  # a finding
    if found["delta_accounted"] > m.delta:
        raise _contradiction(path, "epsilon", epsilon, "a larger number")
    return found


def _n_included(path: Path, plan: Plan) -> int:
    """Return how many clients were in the last sum. Raises DataError if `rounds.json` is not that
    of a run of the plan.
    """
    rounds = _json(path)
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
        raise DataError(f"{path} does not belong to the plan beside it; keep a result together")
    return len(included)


def _json(path: Path) -> Any:
    with opened(path) as text:
        try:
            return json.load(text)
        except (ValueError, RecursionError):
            return None


def _compare(path: Path | str, field: str, said: Any, found: Any) -> None:
    """Raise DataError for the first claim that is not what the settings give."""
    if isinstance(found, dict):
        if not isinstance(said, dict):
            raise _contradiction(path, field or "all", said, "a table")
        for name, value in found.items():
            if name not in _NOT_COMPARED:
                inner = f"{field}.{name}" if field else name
                if name not in said:
                    raise _contradiction(path, inner, None, value)
                _compare(path, inner, said[name], value)
    elif isinstance(found, list):
        if not isinstance(said, list) or len(said) != len(found):
            raise _contradiction(path, field, said, found)
        for number, (one, other) in enumerate(zip(said, found, strict=True)):
            _compare(path, f"{field}[{number}]", one, other)
    elif not _alike(said, found):
        raise _contradiction(path, field, said, found)


def _alike(said: Any, found: Any) -> bool:
    is_number = isinstance(found, float | int) and not isinstance(found, bool)
    if is_number and isinstance(said, float | int) and not isinstance(said, bool):
        return math.isclose(said, found, rel_tol=TOLERANCE)
    if isinstance(found, str) and " " in found:
        return isinstance(said, str)
    return type(said) is type(found) and bool(said == found)


def _contradiction(path: Path | str, field: str, said: Any, found: Any) -> DataError:
    return DataError(
        f"{path}: {field} is {said!r:.60}, and the sealed settings give {found!r:.60}; get the"
        " original"
    )


def _with_findings(said: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """Return the statement with all that a run found out, which no setting gives."""
    whole: dict[str, Any] = _merged(said, found)
    more = [
        caution
        for caution in said.get("cautions", [])
        if isinstance(caution, str) and caution not in found["cautions"]
    ]
    return whole | {"cautions": [*found["cautions"], *more]}


def _merged(said: Any, found: Any) -> Any:
    """Return what the settings give, and the entries of tables that they do not have."""
    if not isinstance(found, dict) or not isinstance(said, dict):
        return found
    return said | {name: _merged(said.get(name), value) for name, value in found.items()}
