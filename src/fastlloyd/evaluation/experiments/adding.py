"""Whether a specification may add to a folder: a trial that an earlier one asked for must be asked for in the same way."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from fastlloyd.errors import FastLloydError, OutputError
from fastlloyd.evaluation.experiments import spec as specifications
from fastlloyd.evaluation.experiments.spec import Spec
from fastlloyd.evaluation.experiments.trial import Trial


def check(every: Iterable[Trial], earlier: Mapping[str, Any] | None, source: Path, out: Path) -> None:
    """Raise OutputError where a trial has the name of one that the folder was made with, and other settings.

    The key of a trial (set, method, epsilon, options, clients and run) does not hold its delta, preset, measures and seed; rows
    of one key must agree in these. every : the trials that are asked for now; earlier : the folder's provenance, None if it is
    new; source : where the files of code lie that specifications name.
    """
    now = {trial.key: trial for trial in every}
    for spec in _specifications(earlier or {}, out):
        for before in _trials(spec, source, out):
            if (trial := now.get(before.key, before)) != before:
                raise OutputError(
                    f"{out} holds results of {trial.method} on {trial.dataset} with {_other(trial, before)}; "
                    "choose another folder for these"
                )


def remembered(earlier: Mapping[str, Any], specification: Mapping[str, Any]) -> list[Any]:
    """The specifications that a folder was made with before this one, for its provenance: each once, the oldest first."""
    before = [*earlier.get("earlier_specifications", []), earlier.get("specification")]
    return [one for at, one in enumerate(before) if one and one not in before[:at] and one != specification]


def _specifications(earlier: Mapping[str, Any], out: Path) -> list[Spec]:
    every = [*earlier.get("earlier_specifications", []), *filter(None, [earlier.get("specification")])]
    try:
        return [msgspec.convert(one["content"], Spec) for one in every]
    except (TypeError, KeyError, msgspec.ValidationError):
        raise OutputError(f"the provenance of {out} holds no specification of an experiment; choose another folder") from None


def _trials(spec: Spec, source: Path, out: Path) -> list[Trial]:
    try:
        return specifications.trials(spec, source)
    except FastLloydError as error:
        raise OutputError(f"what {out} was made with is no longer there ({error}); choose another folder") from None


def _other(trial: Trial, before: Trial) -> str:
    fields = {name for name in Trial.__struct_fields__ if getattr(trial, name) != getattr(before, name)}
    name = min(fields)
    return f"{'the ' if name == 'seed' else ''}{name.replace('_', ' ')} {getattr(before, name)!r:.80}"
