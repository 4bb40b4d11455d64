"""The page to sign says what the plan says: digest, fingerprints, guarantee, parties; and it fits
on paper.
"""

import functools
import re
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from designs import design_plan
from fastlloyd.base.randomness import PublicSeed
from fastlloyd.base.sealed_toml import in_groups
from fastlloyd.clustering.domain import Domain
from fastlloyd.federation.identity.identity import PrivateIdentity
from fastlloyd.federation.plan.plan import Masks, Plan, Server, Timeouts, TrustMode
from fastlloyd.federation.plan.study import Study
from fastlloyd.mechanisms.lloyd.algorithm import FASTLLOYD
from fastlloyd.reports.agreement import PAGE_HEADING, WIDTH, page
from fastlloyd.reports.explain import explain

EXPIRES = datetime.now(UTC).date() + timedelta(days=50)
PUBLIC = {
    name: PrivateIdentity.make(name, EXPIRES).public for name in ("clinic-a", "clinic-b", "sums")
}


@functools.cache
def plan(trust: TrustMode = TrustMode.CLIENT_NOISE, masks: Masks = Masks.PAIRWISE) -> Plan:
    return design_plan(
        FASTLLOYD,
        Domain(features=("age", "dose"), lower=(0.0, 0.5), upper=(100.0, 5.0), fraction_bits=16),
        clients=(PUBLIC["clinic-a"].client(400), PUBLIC["clinic-b"].client(300)),
        server=PUBLIC["sums"].server("sums.example.org:8443"),
        timeouts=Timeouts(round=1234),
        run_id=bytes(range(16)),
        n_clusters=3,
        epsilon=1.5,
        public_seed=PublicSeed.from_int(1),
        trust=trust,
        masks=masks,
    )


def words(text: str) -> str:
    return " ".join(text.split())


def test_digits_are_grouped_by_four() -> None:
    assert in_groups("0123456789abcdef") == "0123 4567 89ab cdef"
    assert in_groups("") == ""


@pytest.mark.parametrize("masks", Masks)
@pytest.mark.parametrize("trust", list(TrustMode))
def test_the_page_has_digest_and_fingerprints_in_groups_and_what_is_agreed(
    trust: TrustMode, masks: Masks
) -> None:
    text = page(plan(trust, masks))
    assert text.startswith(PAGE_HEADING)
    for digest in (
        plan(trust, masks).digest.hex(),
        *(public.fingerprint for public in PUBLIC.values()),
    ):
        assert in_groups(digest) in words(text)
    for said in (
        "3 clusters",
        "'age' from 0 to 100; 'dose' from 0.5 to 5.",
        "epsilon 1.5",
        trust.value,
        "clinic-a: at most 400 records",
        "sums.example.org:8443",
        f"with {masks.value} masks",
        "1234 s for ",
        str(EXPIRES),
        bytes(range(16)).hex(),
        "Against them, every record",
        "who was 50 % certain before the run",
        "A person with several records",
        "two organisations, each can",
        "As `fastlloyd ledger show` says: epsilon ____________ at delta __________",
    ):
        assert said in words(text), said
    assert max(map(len, text.splitlines())) <= WIDTH
    assert text.isascii()


def test_everyone_has_a_line_to_sign_on() -> None:
    signatures = page(plan()).partition("Signatures\n")[2]
    assert re.findall(r"^(\S+)\n  name _+  date _+  signature _+$", signatures, re.MULTILINE) == [
        "sums",
        "clinic-a",
        "clinic-b",
    ]


def test_no_item_of_the_page_has_two_dashes() -> None:
    assert not [line for line in page(plan()).splitlines() if line.startswith("- -")]
    assert re.search(
        r"\n\nSuppose that the parties [^-]+, at\s+delta\s+=\s+[0-9e.-]+:\n- the server and",
        page(plan()),
    )


def test_the_page_says_what_the_study_is_for_and_what_was_spent_before() -> None:
    told = Study(name="Falls", controller="Clinic A")
    text = page(
        msgspec.structs.replace(plan(), study=told),
        "On the data set 'patients' 2 runs spent epsilon 1.5.",
    )
    assert "- Study: Falls\n- Controller: Clinic A\n- Algorithm" in text
    assert (
        "Budget spent on our records before\n----------------------------------\nOn the data"
        " set 'patients' 2" in text
    )
    assert "______ at delta" not in text
    assert "dealer" not in text


def test_pages_of_two_plans_differ_where_the_plans_do() -> None:
    other = msgspec.structs.replace(plan(), timeouts=Timeouts())
    a, b = page(plan()).splitlines(), page(other).splitlines()
    assert a != b
    assert page(plan()) == page(Plan.from_toml(plan().to_toml()))


def test_a_plan_for_simulations_says_so_on_the_page_and_in_words() -> None:
    draft = msgspec.structs.replace(plan(), server=Server())
    for text in (page(draft), explain(draft)):
        assert "For simulations only: the plan has no certificate of the server" in words(text)
        assert "the server, at no address; no certificate" in words(text)
    for text in (page(plan()), explain(plan())):
        assert "simulations" not in text


def test_a_plan_in_words_names_everyone_with_fingerprint_address_and_timeouts() -> None:
    text = explain(plan())
    for name, role in (
        ("sums", "the server, at sums.example.org:8443"),
        ("clinic-a", "at most 400 records"),
        ("clinic-b", "at most 300 records"),
    ):
        assert f"- {name}: {role}; {in_groups(PUBLIC[name].fingerprint)}, until {EXPIRES}" in text
    assert (
        "A run waits 1 hour for everyone to join, 1234 s for everyone's keys and for the uploads of"
        " each round, and" in text
    )
