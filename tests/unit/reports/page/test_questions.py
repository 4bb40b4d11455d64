"""The statement by the questions of NIST SP 800-226: each is answered with evidence, or printed as
unanswered.
"""

import datetime as dt
from pathlib import Path

import pytest

from fastlloyd.errors import DataError
from fastlloyd.reports.outside import OUTSIDE
from fastlloyd.reports.page.questions import AUDITS, CAUGHT, SECTIONS, Sources
from fastlloyd.reports.registry import PeopleFacts
from fastlloyd.reports.run_result import RunResult
from fastlloyd.reports.stored_files import StoredFiles
from fastlloyd.reports.stored_statement import sealed_settings
from fastlloyd.testing import repeatable_noise
from pages import Seen, statement
from screens import found

ALL = PeopleFacts(
    name="Groups of patients",
    choices="k by the table of the planner",
    justification="the ethics committee asked for it",
    security="a locked room, until 2030",
    collection="routine care; a leaflet told patients",
    contact="data office, office@example.org",
    expires=dt.date(2027, 12, 1),
)


@pytest.fixture(scope="module")
def results() -> dict[str, RunResult]:
    with repeatable_noise():
        return found()


def _seen(result: RunResult, people: PeopleFacts) -> Seen:
    return Seen(statement(result, people))


def test_every_private_result_answers_under_every_heading_or_says_unanswered(
    results: dict[str, RunResult],
) -> None:
    for name, result in results.items():
        if not result.private:
            with pytest.raises(DataError, match=r"guarantee.*not hold"):
                _seen(result, PeopleFacts())
            continue
        seen = _seen(result, PeopleFacts())
        headings = [attributes["id"] for tag, attributes in seen.tags if tag == "h2"]
        assert headings == list(SECTIONS), name
        questions = sum(tag == "section" for tag, _ in seen.tags)
        n_open = seen.text.count("Unanswered.")
        assert seen.text.count("Evidence: ") + n_open == questions
        assert n_open == seen.text.count("An answer would be in: ") == 8  # six of people, a ledger
        assert "answers its questions" in seen.text
        assert "compl" not in seen.text.lower().replace("completely", "")


@pytest.mark.parametrize("name", AUDITS)
def test_the_power_of_an_audit_is_that_of_its_page(name: str) -> None:
    page = Path(__file__).parents[4] / AUDITS[name]
    rows = [line.strip("| ").split(" | ") for line in page.read_text().splitlines() if "|" in line]
    epsilon = next(row for row in rows if "epsilon" in row).index("epsilon")
    assert {row[-1] for row in rows if row[epsilon : epsilon + 1] == ["1"]} == {CAUGHT[name]}


def test_facts_of_people_answer_the_other_questions(results: dict[str, RunResult]) -> None:
    nothing, everything = (_seen(results["fastlloyd"], each) for each in (PeopleFacts(), ALL))
    assert nothing.text.count("Unanswered.") - everything.text.count("Unanswered.") == 6
    assert "2027-12-01" in everything.text
    assert "office@example.org" in everything.text
    files = StoredFiles(Path("result"), results["fastlloyd"].files())
    settings = sealed_settings(files)
    assert Sources.of(files, settings, ALL, None).missing == []
    assert len(Sources.of(files, settings, PeopleFacts(), None).missing) == 6


def test_a_run_of_several_says_who_must_not_pool_what_they_see(
    results: dict[str, RunResult],
) -> None:
    text = _seen(results["a run of fastlloyd, patients"], PeopleFacts()).text
    assert "not both together" in text
    assert "nothing is protected" in text
    assert "NOT FOR PUBLICATION" in _seen(
        results["a run of fastlloyd, server-noise"], PeopleFacts()
    ).text  # fmt: skip


def test_whatever_the_guarantee_leaves_out_has_its_place() -> None:
    placed = [code for _, codes in SECTIONS.values() for code in codes]
    assert sorted(placed) == sorted(OUTSIDE)
