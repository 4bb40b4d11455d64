"""The page of a result: a function of its other files, that shows every text as it is."""

import json
import math
import time
from pathlib import Path
from statistics import NormalDist

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from designs import design_plan
from fastlloyd.base.files import write_folder
from fastlloyd.base.randomness import PublicSeed
from fastlloyd.clustering.domain import Domain, Scaling
from fastlloyd.dp.neighboring import NeighboringRelation
from fastlloyd.errors import DataError
from fastlloyd.federation.plan.plan import Client, Masks, TrustMode
from fastlloyd.federation.plan.study import Study
from fastlloyd.mechanisms.lloyd.algorithm import FASTLLOYD, GLLOYD, LLOYD, SULLOYD
from fastlloyd.mechanisms.persons import Persons
from fastlloyd.mechanisms.suggestion import Split
from fastlloyd.mechanisms.uncertainty import Status
from fastlloyd.records.recipe.feature import Feature
from fastlloyd.reports.facts import sentence
from fastlloyd.reports.names import LONGEST, Names
from fastlloyd.reports.page.frame import page_of
from fastlloyd.reports.page.run_view import of_ten
from fastlloyd.reports.page.view import View
from fastlloyd.reports.run_result import NAMES, PAGE
from fastlloyd.reports.stored_files import StoredFiles
from fastlloyd.reports.telling import suggestions
from pages import HEBREW, NASTY, Seen, page, random_result, replaced, result_of, structure

APART = np.array([[20.0, 50.0, 50.0], [50.0, 50.0, 50.0], [80.0, 50.0, 50.0]])


def test_the_page_of_a_folder_has_the_same_bytes_as_the_page_of_the_run(tmp_path: Path) -> None:
    contents = random_result(5, 8).files()
    made = page_of(StoredFiles(tmp_path / "elsewhere", contents))
    others = {"clusters.png": b"x", "comparison-NOT-PRIVATE.json": b"{}", PAGE: b"old"}
    write_folder(tmp_path / "result", contents | others, force=False)
    assert page_of(StoredFiles.read(tmp_path / "result")) == made


def test_the_page_asks_for_nothing_and_runs_nothing() -> None:
    seen = Seen(page(random_result(5, 9)))
    policy = {
        "http-equiv": "Content-Security-Policy",
        "content": "default-src 'none'; style-src 'unsafe-inline'",
    }
    assert ("meta", policy) in seen.tags
    assert not {tag for tag, _ in seen.tags} & {"script", "img", "link", "iframe", "form", "object"}
    for _, attributes in seen.tags:
        assert (attributes.get("href") or "#").startswith("#")
        assert not any(name.startswith("on") or name in ("src", "style") for name in attributes)
    assert "url(" not in page(random_result(2, 2))


@settings(max_examples=25, deadline=None)
@given(names=st.lists(
    st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=60),
    min_size=3, max_size=3, unique=True,
), title=st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=LONGEST))  # fmt: skip
def test_names_are_read_back_and_never_change_the_elements(names: list[str], title: str) -> None:
    def seen(features: list[str], given_title: str) -> Seen:
        texts = Names(given_title, {1: given_title}).to_toml().encode()
        return Seen(page(result_of(APART, features=features), {NAMES: texts}))

    found, plain = seen(names, title), seen(["a", "b", "c"], "t")
    without = [each for each in structure(found) if each[0] != "wbr"]
    assert without == [each for each in structure(plain) if each[0] != "wbr"]
    assert all(name in found.text for name in [*names, title])


def test_markup_in_a_name_is_shown_as_text() -> None:
    html = page(result_of(APART, features=[NASTY, HEBREW, "c"]))
    assert NASTY not in html
    assert NASTY in Seen(html).text
    assert HEBREW in Seen(html).text


def test_a_card_says_what_distinguishes_its_group() -> None:
    text = Seen(page(result_of(APART))).text
    assert "Its centre has the lowest x0 (20; all together" in text
    assert "Its centre has the highest x0" in text
    assert "size in the last round between" in text  # centres moved afterwards


@pytest.mark.parametrize("status", [Status.FEW, Status.MOVING, Status.STAYED])
def test_nothing_is_concluded_from_a_group_that_did_not_settle(status: Status) -> None:
    text = Seen(page(result_of(APART, status=status))).text
    assert "Its centre has" not in text
    assert "0 of 3 groups settled" in text


def test_warnings_come_first() -> None:
    taken = random_result(3, 3)
    leaking = replaced(
        taken,
        mechanism=replaced(taken.mechanism, taken_from_the_data=("bounds were taken",)),  # type: ignore[arg-type]
    )
    assert (
        Seen(page(leaking))
        .text.lstrip()
        .split("fastlloyd", 1)[1]
        .lstrip()
        .startswith("NOT PRIVATE.")
    )
    exact = result_of(APART, errors=0.0, algorithm=LLOYD, delta=None)
    exact = replaced(exact, count_error=0.0)
    text = Seen(page(exact)).text
    assert "NOT PRIVATE." in text
    assert "clearly above" not in text


def test_sentences_are_about_rows_if_a_person_may_have_several() -> None:
    text = Seen(page(random_result(3, 3, persons=Persons.called("patient")))).text
    assert "of the rows, each patient counted once in all (like" in text
    assert "a patient may have rows in several groups" in text


@pytest.mark.parametrize(
    ("split", "said"),
    [(None, None), (Split(), "show no clear groups"), (Split(clearest=2), "2 groups")],
)
def test_the_page_says_of_splits_what_the_screen_says(
    split: Split | None, said: str | None
) -> None:
    found = msgspec.structs.replace(random_result(3, 3), split=split)
    text, words = Seen(page(found)).text, [sentence(fact) for fact in suggestions(split)]
    assert all(each in text for each in words)
    assert bool(words) == (said is not None)
    assert ("no clear groups" in text) == (split == Split())


def test_the_page_says_what_follows_from_a_coarse_split_and_from_none() -> None:
    def text(split: Split) -> str:
        found = msgspec.structs.replace(random_result(3, 3), split=split)
        return " ".join(Seen(page(found)).text.split())

    coarse, none = "settled groups may be parts of the 2", "parts of one cloud"
    assert (coarse in text(Split(clearest=2)), none in text(Split(clearest=2))) == (True, False)
    assert (coarse in text(Split()), none in text(Split())) == (False, True)
    assert "may be parts" not in text(Split(clearest=3))


def test_a_range_ends_at_the_bounds_that_hold_every_centre() -> None:
    values = np.array([[0.5, 50.0], [60.0, 99.9]])
    seen = Seen(page(result_of(values)))
    assert "97 to 100" in seen.text
    assert "-2 to 3" not in seen.text
    free = Seen(page(result_of(values, algorithm=GLLOYD)))  # its centres may lie outside
    assert "-2 to 3" in free.text
    assert "97 to 102" in free.text


def test_the_page_says_which_centres_the_bounds_may_have_cut_off() -> None:
    text = " ".join(Seen(page(result_of(np.array([[0.5, 50.0], [60.0, 98.5]])))).text.split())
    assert "at a bound of x0. Values" in text
    assert "at a bound of x1. Values" in text
    values = np.array([[3.0, 50.0], [60.0, 96.0]])
    assert "at a bound of" not in Seen(page(result_of(values))).text
    moving = result_of(np.array([[0.5, 50.0], [60.0, 99.0]]), status=Status.MOVING)
    assert "at a bound of" not in Seen(page(moving)).text
    features = [Feature(key="ward", categories=("a", "b"), other="none")]
    domain = Domain.of_recipe(features, scaling=Scaling.PER_FEATURE)
    shares = result_of(np.array([[0.0, 1.0], [1.0, 0.0]]), errors=0.01, domain=domain)
    text = Seen(page(shares)).text
    assert "at a bound of" not in text
    assert "-0.0" not in text
    assert "1.02" not in text


def test_sizes_say_how_often_they_hold_if_the_noise_is_gaussian() -> None:
    often = "(19 of 20 times)"
    assert Seen(page(random_result(3, 3))).text.count(often) == 3
    pure = random_result(3, 3, algorithm=SULLOYD, delta=0.0)
    assert often not in Seen(page(pure)).text


def test_a_name_may_break_before_an_equals_sign() -> None:
    html = page(result_of(APART, features=["Geschlecht=m", "b", "c"]))
    assert "Geschlecht<wbr>=m" in html


def test_the_page_says_how_a_recipe_reads_its_columns() -> None:
    features = [
        Feature(key="sex", values=(("m", 0.0), ("w", 1.0)), weight=0.1),
        Feature(key="crp", bounds=(0.3, 400.0), transform="log", missing=3.0),
    ]
    domain = Domain.of_recipe(features, scaling=Scaling.PER_FEATURE)
    text = Seen(page(random_result(3, 2, domain=domain))).text
    assert "'m' as 0" in text
    assert "0.1" in text
    assert "How the columns are read" not in Seen(page(random_result(3, 2))).text


@pytest.mark.parametrize("max_clients", [1, 2])
def test_sentences_are_about_persons_if_a_recipe_makes_one_record_of_their_rows(
    max_clients: int,
) -> None:
    features = [Feature(key=key, bounds=(0.0, 100.0), per_person="mean") for key in ("a", "b", "c")]
    domain = Domain.of_recipe(features, scaling=Scaling.PER_FEATURE)
    persons = Persons.called("patient", max_clients=max_clients)
    text = Seen(page(random_result(3, 3, persons=persons, domain=domain))).text
    # at two organisations, a patient has a record at each
    assert ("The patients were divided" in text) == (max_clients == 1)
    assert ("of the rows" in text) == (max_clients == 2)


@pytest.mark.parametrize(
    ("epsilon", "words"),
    [
        (1.0, "can hardly tell"),
        (4.0, "can partly tell"),
        (20.0, "does not hide single records well"),
    ],
)
def test_the_lead_says_how_well_a_record_is_hidden(epsilon: float, words: str) -> None:
    text = " ".join(Seen(page(random_result(2, 3, epsilon=epsilon))).text.split())
    assert words in text
    assert f"epsilon {epsilon:g}, delta 10⁻⁶" in text


@pytest.mark.parametrize(
    ("delta", "said"),
    [
        (1e-5, "10⁻⁵"),
        (6.66667e-7, "6.7 \N{MULTIPLICATION SIGN} 10⁻⁷"),
        (1 / 3e5, "3.4 \N{MULTIPLICATION SIGN} 10⁻⁶"),
        (0.02, "2 \N{MULTIPLICATION SIGN} 10⁻²"),
    ],
)
def test_a_delta_is_shown_as_it_was_asked_for_and_never_smaller(delta: float, said: str) -> None:
    assert of_ten(delta) == said


@pytest.mark.parametrize("k", [1, 2, 9, 13, 41, 100])
@pytest.mark.parametrize("d", [1, 2, 3, 8, 9, 100])
def test_every_size_of_page_is_small_and_quick(k: int, d: int) -> None:
    features = [f"measurement_{j}_of_the_left_ventricle_{'a' * 30}"[:60] for j in range(d)]
    result = random_result(k, d, features=features, n_records=1_000_000)
    contents = result.files()
    began = time.process_time()
    made = page_of(StoredFiles(Path("result"), contents))
    assert time.process_time() - began < 3  # seconds on any machine; .2 on one of today
    assert len(made) <= 400_000


@pytest.mark.parametrize("content", [
    b"\xff", b"title = 1", b"[names]\n7 = 'x'", b"[names]\na = 'x'", b"other = 1", b"names = 3",
    b'title = "a\\u202eb"', b"title = ''", b"title = '%s'" % (b"x" * 61), b"[names]\n0 = 5",
])  # fmt: skip
def test_a_file_of_names_that_cannot_be_is_refused(content: bytes) -> None:
    with pytest.raises(DataError, match=r"names\.toml"):
        page(random_result(2, 2), {NAMES: content})


def test_names_are_read_back_from_their_file() -> None:
    names = Names('a "title"', {10: NASTY[:LONGEST], 2: HEBREW})
    assert Names.of(names.to_toml().encode(), 11, "f") == names
    assert not Names.of(None, 3, "f")


def federated(trust: TrustMode) -> str:
    """The page of a run of four organisations, one of which was absent once."""
    names = ("north", "south", "east", "west")
    plan = design_plan(
        FASTLLOYD,
        Domain(features=("x0", "x1"), lower=(0.0, 0.0), upper=(100.0, 100.0)),
        clients=tuple(Client(name=name, max_records=1000) for name in names),
        run_id=bytes(16), n_clusters=3, epsilon=1.0, public_seed=PublicSeed.from_int(5),
        max_dropouts=1, masks=Masks.GROUP, trust=trust, study=Study(name="Falls & <more>"),
        **({"max_colluding": 0} if trust is TrustMode.SERVER_NOISE else {}),
    )  # fmt: skip
    made = random_result(3, 2, algorithm=FASTLLOYD)
    included = (names,) * (plan.mechanism.n_rounds - 1) + (names[:3],)
    found = replaced(made, mechanism=plan.clustering, plan=plan, included=included)
    domain = plan.clustering.domain
    grid = domain.to_grid(np.clip(made.centroids, 0, 100))
    return page(replaced(found, centroids=domain.from_grid(grid)))


def test_a_study_shows_who_took_part_in_which_round() -> None:
    html = federated(TrustMode.CLIENT_NOISE)
    text = " ".join(Seen(html).text.split())
    assert "<h1><bdi>Falls &amp; &lt;more&gt;</bdi></h1>" in html
    assert "Who took part" in text
    assert "in all rounds" in text
    assert 'class="out"' in html
    assert "NOT FOR PUBLICATION" not in text


def test_where_the_server_adds_the_noise_the_page_is_not_for_publication() -> None:
    text = " ".join(Seen(federated(TrustMode.SERVER_NOISE)).text.split())
    assert text.split("fastlloyd", 1)[1].lstrip().startswith("NOT FOR PUBLICATION.")


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("relation", NeighboringRelation)
def test_odds_about_values_are_those_of_a_removal_and_an_addition(
    epsilon: float, relation: NeighboringRelation
) -> None:
    contents = random_result(2, 3, epsilon=epsilon, neighboring_relation=relation).files()
    stated = json.loads(contents["privacy.json"])
    view = View.of(StoredFiles(Path("result"), contents)).run
    if relation is NeighboringRelation.REPLACE_ONE:
        assert view.right_about_values is None
        assert view.right_on_average == math.ceil(100 * NormalDist().cdf(stated["mu"] / 2))
    else:
        assert view.right_about_values == math.ceil(100 * NormalDist().cdf(stated["mu"]))
        assert view.right_about_values > view.right_on_average
