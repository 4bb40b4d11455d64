"""Tests of the report: it is one page that can be parsed, needs no other file, and does not treat
names as markup.
"""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from fastlloyd_lab import pictures
from fastlloyd_lab.experiments.reading import read
from fastlloyd_lab.pictures import report
from fastlloyd_lab.pictures.summaries import Summaries
from made_up_results import ABLATION, REAL, Cells, fail, rows, swept, write

EVIL = "<script>alert(1)</script>"
VOID = {"meta", "img"}


class Page(HTMLParser):
    """Parser of a page, with the elements that are still open, and all elements and texts so
    far.
    """

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def _page(folder: Path, made: list[Cells], title: str = "Made-up results") -> tuple[str, Page]:
    summaries = Summaries.of(read(write(folder, made, title=title)))
    text = report.page(summaries, *pictures.draw(summaries))
    return text, Page(text)


def _nicv_alone(made: list[Cells]) -> list[Cells]:
    return [
        row | {"silhouette": None, "davies_bouldin": None, "centroid_mse": None} for row in made
    ]


@pytest.fixture(scope="module")
def evil(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Page]:
    made = _nicv_alone(
        rows({EVIL: (10, 2, 2), "iris": REAL["iris"]}, ["lloyd", "sulloyd", f"mine{EVIL}"], runs=2)
    )
    made[0] = fail(made[0], f"it broke: {EVIL} & more")
    return _page(tmp_path_factory.mktemp("evil"), made, title=f"On {EVIL}")


def test_every_element_is_closed_and_every_link_leads_somewhere(evil: tuple[str, Page]) -> None:
    _, page = evil
    assert page.open == []
    names = {attributes["id"] for _, attributes in page.seen if "id" in attributes}
    links = [str(attributes["href"]) for tag, attributes in page.seen if tag == "a"]
    assert links
    assert {link.removeprefix("#") for link in links} <= names
    assert {"overview", "figures", "tables", "failures", "specification", "provenance"} == {
        attributes["id"] for tag, attributes in page.seen if tag == "section"
    }


def test_methods_are_named_and_many_variants_of_one_are_counted(
    evil: tuple[str, Page], tmp_path: Path
) -> None:
    assert f"Lloyd; SuLloyd; mine{EVIL}" in "".join(evil[1].text)
    few = dict(list(ABLATION.items())[:1])
    _, page = _page(tmp_path, _nicv_alone(swept(few, runs=2, others=["momentlloyd"])))
    assert "GLloyd; FastLloyd in 60 variants; momentlloyd" in "".join(page.text)


def test_nothing_is_fetched_and_nothing_is_run(evil: tuple[str, Page]) -> None:
    text, page = evil
    assert not {tag for tag, _ in page.seen} & {
        "script",
        "link",
        "iframe",
        "object",
        "embed",
        "form",
        "base",
    }
    for _, attributes in page.seen:
        assert not any(name.startswith("on") for name in attributes)
        assert (
            str(attributes.get("src", "data:")).startswith("data:image/svg+xml;base64,")
            or "src" not in attributes
        )
    style = re.search(r"<style>(.*?)</style>", text, re.DOTALL)
    assert style
    assert "url(" not in style[1]
    assert "@import" not in style[1]
    policies = [
        str(attributes["content"]) for _, attributes in page.seen if "http-equiv" in attributes
    ]
    assert [policy.split("; ")[0] for policy in policies] == ["default-src 'none'"]


def test_names_of_files_and_users_are_text(evil: tuple[str, Page]) -> None:
    text, page = evil
    assert "<script" not in text
    shown = "".join(page.text)
    assert shown.count(EVIL) > 10
    assert f"it broke: {EVIL} & more" in shown


def test_the_report_says_what_it_is_and_what_failed(evil: tuple[str, Page]) -> None:
    text, page = evil
    assert text.startswith(report.HEADING)
    shown = "".join(page.text)
    assert "Computed on raw data: NOT PRIVATE" in shown
    assert "of which 1 failed" in shown
    assert "made up" in shown  # from the provenance
    assert [attributes["alt"] for tag, attributes in page.seen if tag == "img"] == [
        "NICV against epsilon"
    ]


def test_tables_and_pictures_scroll_in_boxes_of_their_own(evil: tuple[str, Page]) -> None:
    text, page = evil
    boxes = sum(attributes.get("class") == "scroll" for _, attributes in page.seen)
    assert boxes == sum(tag in ("img", "table", "pre") for tag, _ in page.seen)
    assert "prefers-color-scheme: dark" in text


def test_a_report_of_trials_that_all_failed_shows_why_and_that_nothing_is_drawn(
    tmp_path: Path,
) -> None:
    text, page = _page(
        tmp_path, [fail(row, f"it broke: {EVIL}") for row in rows({"iris": REAL["iris"]}, runs=1)]
    )
    assert not [tag for tag, _ in page.seen if tag == "img"]
    assert "<script" not in text
    shown = "".join(page.text)
    assert f"it broke: {EVIL}" in shown
    assert "Not drawn: every trial failed" in shown


def test_a_report_without_failures_says_so_and_is_the_same_every_time(tmp_path: Path) -> None:
    made = _nicv_alone(rows({"iris": REAL["iris"]}, runs=2))
    (first, page), (second, _) = _page(tmp_path / "same", made), _page(tmp_path / "same", made)
    assert first == second
    assert "No trial failed." in page.text
