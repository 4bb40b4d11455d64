"""A plan, from the file that someone named as one: what else fastlloyd makes is called by its name."""

from pathlib import Path

from fastlloyd.base.sealed_toml import load_text
from fastlloyd.errors import PlanError
from fastlloyd.federation.identity.identity import PRIVATE_HEADING, PUBLIC_HEADING
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.records.bounds import TEMPLATE_HEADING

OF_A_FIT = "# A fastlloyd mechanism"  # how the settings of a run of fit begin; a line of caution may stand before it
_OTHERS = {
    PRIVATE_HEADING: "a private identity, which is sent to nobody",
    PUBLIC_HEADING: "the public file of an identity",
    TEMPLATE_HEADING: "a file of public bounds",
}


def read_plan(file: Path) -> Plan:
    """The plan in a file. Raises PlanError, which of another file says what it is."""
    text = load_text(file)
    for heading, what in _OTHERS.items():
        if text.startswith(heading):
            raise PlanError(f"{file} is {what}; expected a plan, such as plan.toml")
    if OF_A_FIT in text[:400]:
        raise PlanError(
            f"{file} holds the settings of a run of fit, which is no plan of a federated one; it is text to be read as it is, "
            "and privacy.json beside it says what they protect"
        )
    return Plan.from_toml(text, str(file))
