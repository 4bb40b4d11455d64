"""Entry of a result for the public registry of deployments of differential privacy (OpenDP), and
the facts that only people know.

The entry follows the schema of github.com/opendp/deployments-registry-data. Facts in the files of
the result are filled in. Facts that only people know come from `registry.toml` in the folder of the
result. The statement (`page/questions.py`) uses the same file. If a fact is missing in it, the
entry lacks the fact, and the user is told its name.
"""

import datetime as dt
import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, Self

import msgspec

from fastlloyd.base.problems import Faults
from fastlloyd.dp.noise import Noise
from fastlloyd.errors import DataError
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.mechanisms.facts import Fact
from fastlloyd.mechanisms.mechanism import Mechanism
from fastlloyd.records.files import opened
from fastlloyd.reports.facts import sentence
from fastlloyd.reports.stored_result import StoredResult

REGISTRY, PEOPLE = "registry.yaml", "registry.toml"
_UNSAFE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff]")
_TEMPLATE = """\
# Facts that only people know, for the registry of deployments and for the statement. Fill in what
# may be published, and run `fastlloyd result FOLDER` with --registry or --statement again. Lines
# that begin with # are left out.
# name = "Groups of patients, 2026"
# intended_use = "planning of wards"
# region = "Germany"
# sector = "Healthcare"            # Technology, Healthcare, Education, Government, Energy, Finance
# authors = ["name of whoever fills this in"]
# publication_date = 2026-12-01    # default: the day of the run
# data_source = "Static"           # or Dynamic, if records are added to the data over time
# choices = "bounds, k and epsilon were chosen from ... and without a look at the records"
# justification = "epsilon was chosen because ..."
# security = "the records are kept ..., may be read by ..., and are deleted on ..."
# collection = "the records were collected for ..., by consent or by law; people were told ..."
# contact = "the office that answers questions, with its address"
# expires = 2027-12-01             # the day from which the statement must be made anew
# [[curators]]
# name = "the organisation that publishes the result"
# type = "Nonprofit"               # or Government, Industry
"""


class Curator(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Organisation that publishes a result."""

    name: str
    type: Literal["Government", "Industry", "Nonprofit"]


class PeopleFacts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Facts about a deployment that only people know. An absent fact is None.

    name : name of the published result.
    curators : organisations that publish it.
    intended_use : use for which it was made.
    region : region that the data describe.
    authors : people who wrote the entry.
    sector : industry or domain.
    publication_date : date of publication. Without it, the day of the run is taken.
    data_source : whether records are added to the data over time.
    choices : how settings were chosen, and whether records were looked at.
    justification : reasons for the choices, such as epsilon.
    security : how the records are kept, who may read them, and when they are deleted.
    collection : how and for what the records were collected, and what people were told.
    contact : person or office that answers questions.
    expires : day from which the statement must be made anew.
    """

    name: str | None = None
    curators: tuple[Curator, ...] | None = None
    intended_use: str | None = None
    region: str | None = None
    authors: tuple[str, ...] | None = None
    sector: (
        Literal["Technology", "Healthcare", "Education", "Government", "Energy", "Finance"] | None
    ) = None
    publication_date: dt.date | None = None
    data_source: Literal["Static", "Dynamic"] | None = None
    choices: str | None = None
    justification: str | None = None
    security: str | None = None
    collection: str | None = None
    contact: str | None = None
    expires: dt.date | None = None

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read `registry.toml`, or return no facts if there is no such file.

        Raises Problems with a DataError for each key that cannot be used, or DataError if the file
        is not TOML.
        """
        if not path.exists():
            return cls()
        with opened(path) as text:
            try:
                given = tomllib.loads(text.read())
            except (ValueError, RecursionError) as error:
                raise DataError(f"{path} is not TOML: {error}") from None
        faults, found = Faults(), dict[str, Any]()
        fields = {field.name: field.type for field in msgspec.structs.fields(cls)}
        for key, value in given.items():
            with faults.noted(key):
                if key not in fields:
                    raise DataError(
                        f"{path}: {key} is not a key of this file; expected {', '.join(fields)}"
                    )
                try:
                    found[key] = msgspec.convert(value, fields[key])
                except msgspec.ValidationError as error:
                    raise DataError(f"{path}: {key}: {error}") from None
        faults.check()
        return cls(**{key: value for key, value in found.items() if value not in ("", ())})

    @property
    def missing(self) -> list[str]:
        """Names of the facts that the registry requires and that are absent."""
        required = ("name", "curators", "intended_use", "region", "authors")
        return [name for name in required if getattr(self, name) is None]


def template() -> str:
    """Return a `registry.toml` without facts, with a line of explanation for each."""
    return _TEMPLATE


def registry_entry(
    result: StoredResult, statement: Mapping[str, Any], people: PeopleFacts
) -> dict[str, Any]:
    """Return the entry of a result. It lacks the facts that are missing in `people`.

    result : result of a clustering.
    statement : its privacy statement (`stored_statement`).
    people : facts that only people know.

    Raises DataError for a result without a guarantee.
    """
    check_private(statement)
    entry = {
        "url_slug": None if people.name is None else _slug(people.name),
        "deployment": {
            "basic": _basic(result, statement, people),
            "dp_variant": _variant(result.mechanism, statement),
            "privacy_loss": _privacy_loss(result, statement),
            "deployment_model": _model(result, statement, people),
            "implementation": _implementation(result, statement, people),
            "administrative": {
                "status": "Draft",
                "registry_authors": None if people.authors is None else list(people.authors),
                "tier": 2 if people.choices is None or people.justification is None else 3,
            },
        },
    }
    return dict(_without_none(entry))


def check_private(statement: Mapping[str, Any]) -> None:
    """Raise DataError unless the guarantee of this privacy statement holds."""
    if not statement["private"]:
        raise DataError(
            "the guarantee does not hold for this result, so there is nothing to state; run again"
            " with noise and with settings that are public"
        )


def noise_from(plan: Plan | None) -> Fact:
    """Return the fact that says who holds the records, and who adds the noise.

    plan : plan of a federated run, or None.
    """
    if plan is None or plan.simulated:
        return Fact.of("registry_central")
    trust = plan.trust.value.replace("-", "_")
    return Fact.of(f"registry_{trust}", n=plan.n_clients, t=plan.max_colluding)


def bounds_from(statement: Mapping[str, Any]) -> Fact:
    """Return the fact that says where the bounds of a clustering come from."""
    found = "bounds" in statement
    return Fact.of("registry_bounds_found" if found else "registry_bounds_stated")


def to_yaml(value: Mapping[str, Any]) -> str:
    """Return a tree of tables, lists, strings and numbers as YAML."""
    return "".join(f"{line}\n" for line in _yaml_lines(value))


def _basic(
    result: StoredResult, statement: Mapping[str, Any], people: PeopleFacts
) -> dict[str, Any]:
    m, day = result.mechanism, people.publication_date or statement.get("day")
    return {
        "name": people.name,
        "data_curators": [
            {"data_curator_name": each.name, "data_curator_type": each.type}
            for each in people.curators or ()
        ]
        or None,
        "description": _said(
            "registry_description",
            m,
            n_clusters=m.n_clusters,
            n_features=m.n_features,
            algorithm=m.name,
        ),
        "intended_use": people.intended_use,
        "data_product_type": "Summary statistics",
        "data_product_region": people.region,
        "data_product_sector": people.sector,
        "publication_date": None if day is None else str(day),
    }


def _variant(m: Mechanism, statement: Mapping[str, Any]) -> dict[str, Any]:
    pure = m.noise is Noise.LAPLACE
    return {
        "variant_name": "Pure DP" if pure else "Approximate DP",
        "data_domain": _said("registry_domain", m, n=m.n_records, n_features=m.n_features),
        "unprotected_quantities": _listed(statement["outside_the_guarantee"], "sentence"),
    }


def _privacy_loss(result: StoredResult, statement: Mapping[str, Any]) -> dict[str, Any]:
    total = max(0.0, float(result.noisy_counts.sum()))
    parameters = {name: statement[name] for name in ("epsilon", "delta", "rho")}
    return {
        "privacy_unit": statement["unit_of_protection"],
        "privacy_unit_details": _said(
            f"registry_{statement['neighboring_relation']}", result.mechanism
        ),
        "number_of_privacy_units": round(total),
        "privacy_parameters": {name: value for name, value in parameters.items() if value},
        "privacy_parameters_details": _said("registry_parameters", result.mechanism),
    }


def _model(
    result: StoredResult, statement: Mapping[str, Any], people: PeopleFacts
) -> dict[str, Any]:
    m, plan = result.mechanism, result.plan
    name = "Central" if plan is None or plan.simulated else "Federated"
    trusted = None if plan is None else statement["federated"]["holds_against"]
    return {
        "model_name": name,
        "model_name_details": sentence(noise_from(plan), m.unit),
        "trust_assumptions": (
            None if trusted is None else _said("registry_trust", m, against=trusted)
        ),
        "release_type": "One release",
        "release_type_details": _said("registry_release", m),
        "data_source_type": people.data_source,
        "access_type": "Non-interactive",
    }


def _implementation(
    result: StoredResult, statement: Mapping[str, Any], people: PeopleFacts
) -> dict[str, Any]:
    m = result.mechanism
    bounds = sentence(bounds_from(statement), m.unit)
    choices = people.choices or _said("registry_choices_unknown", m)
    return {
        "preprocessing_and_hyperparameter_tuning": f"{bounds} {choices}",
        "mechanisms": _said(
            "registry_mechanisms",
            m,
            noise=statement["noise"],
            n=statement["n_rounds"],
            version=statement["fastlloyd_version"],
            digest=statement["mechanism_digest"],
        ),
        "composition": _said(f"registry_composition_{m.noise.value}", m),
        "post_processing": _said("registry_post_processing", m),
        "justification": people.justification,
        "utility": _said("registry_utility", m, error=result.count_error),
    }


def _said(name: str, m: Mechanism, **values: Any) -> str:
    return sentence(Fact.of(name, **values), m.unit)


def _listed(rows: list[Mapping[str, str]], key: str) -> str:
    return "\n".join(f"- {row[key]}" for row in rows)


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    return value


def _yaml_lines(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            if isinstance(item, Mapping | list):
                yield f"{key}:"
                yield from (f"  {line}" for line in _yaml_lines(item))
            else:
                yield f"{key}: {_scalar(item)}"
    else:
        for item in value:
            first, *others = _yaml_lines(item) if isinstance(item, Mapping) else [_scalar(item)]
            yield f"- {first}"
            yield from (f"  {line}" for line in others)


def _scalar(value: str | float) -> str:
    """Return a string in double quotes, or a number as YAML 1.1 reads it: with a point before an
    exponent.
    """
    if isinstance(value, str):
        quoted = json.dumps(value, ensure_ascii=False)
        return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", quoted)
    text = repr(value)
    return text.replace("e", ".0e") if "e" in text and "." not in text else text
