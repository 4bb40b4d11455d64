"""What a run is for is free text that stays out of plans which do not say it, and cannot deceive
whoever reads it.
"""

import msgspec
import pytest

from fastlloyd.base.sealed_toml import to_builtins
from fastlloyd.errors import PlanError
from fastlloyd.federation.plan.design import renew
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.federation.plan.study import MAX_TEXT_LENGTH, Study
from federation import make_plan

TOLD = Study(
    name="Stürze",
    purpose="groups of patients",
    controller="Clinic A, Anytown",
    contact="dpo@clinic-a.example",
)


def test_a_plan_without_words_is_as_it_was() -> None:
    plan = make_plan()
    assert plan.study is None
    assert "study" not in to_builtins(plan)
    assert "study" not in plan.to_toml()


def test_words_are_part_of_what_is_agreed_and_come_back_from_the_file() -> None:
    plan = make_plan()
    told = msgspec.structs.replace(plan, study=TOLD)
    assert told.digest != plan.digest
    assert Plan.from_toml(told.to_toml()) == told
    partly = msgspec.structs.replace(plan, study=Study(contact="dpo@clinic-a.example"))
    assert Plan.from_toml(partly.to_toml()).study == Study(contact="dpo@clinic-a.example")
    assert hash(told) != hash(plan)


def test_a_renewed_plan_is_for_the_same_study() -> None:
    told = msgspec.structs.replace(make_plan(), study=TOLD)
    assert renew(told, run_id=bytes(16)).study == TOLD


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "two\nlines",
        "x" * (MAX_TEXT_LENGTH + 1),
        " space before",
        "\x1b[2J",
        "left\u202eright",
        "tab\there",
        "\ud800",
    ],
)
def test_text_that_does_not_print_as_it_is_is_refused(text: str) -> None:
    for field in ("name", "purpose", "controller", "contact"):
        with pytest.raises(PlanError, match=f"{field} of the study"):
            Study(**{field: text})
    assert Study(name="x" * MAX_TEXT_LENGTH).texts == {"name": "x" * MAX_TEXT_LENGTH}


def test_a_study_of_no_words_is_refused() -> None:
    with pytest.raises(PlanError, match="study is empty"):
        Study()
