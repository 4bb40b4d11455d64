"""A campaign writes its own section of the page, and a small one writes nothing that it was not
asked to write.
"""

from pathlib import Path

import pytest

import campaign_page
from campaign_page import SECTIONS, aligned, table, write_section


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("CAMPAIGN_PAGE", raising=False)
    monkeypatch.setattr(campaign_page, "PAGE", tmp_path / "campaigns.md")
    return tmp_path / "campaigns.md"


def test_a_section_is_replaced_and_the_others_stay_in_their_order(page: Path) -> None:
    for title in reversed(SECTIONS):
        write_section(title, f"first of {title}\n\n| a | b |", is_full_size=True)
    before = page.read_text()
    assert [before.index(f"\n## {title}\n") for title in SECTIONS] == sorted(
        before.index(f"\n## {title}\n") for title in SECTIONS
    )
    write_section(SECTIONS[1], "second", is_full_size=True)
    assert page.read_text() == before.replace(f"first of {SECTIONS[1]}\n\n| a | b |", "second")


def test_a_smaller_run_writes_nothing_but_the_page_that_it_was_told(
    page: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_section(SECTIONS[0], "small", is_full_size=False)
    assert not page.exists()
    monkeypatch.setenv("CAMPAIGN_PAGE", str(page.parent / "other.md"))
    write_section(SECTIONS[0], "small", is_full_size=False)
    assert not page.exists()
    assert "small" in (page.parent / "other.md").read_text()


def test_a_table_is_markdown_on_the_page_and_aligned_on_a_terminal() -> None:
    assert table(["", "n"], [["runs", "10"]]) == "|  | n |\n| --- | --- |\n| runs | 10 |"
    assert aligned([["", "n"], ["runs", "10"]]) == "       n\nruns  10"
