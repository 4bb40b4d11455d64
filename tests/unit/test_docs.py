"""What the documents show is what the code does: diagrams, links, names of files and tests."""

import re
from pathlib import Path

import pytest

from fastlloyd.protocol.transitions import CLIENT_TRANSITIONS, SERVER_TRANSITIONS, mermaid

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


@pytest.mark.parametrize("role", ["client", "server"])
def test_the_diagrams_of_the_protocol_page_are_drawn_from_the_tables(role: str) -> None:
    diagram = mermaid(CLIENT_TRANSITIONS) if role == "client" else mermaid(SERVER_TRANSITIONS)
    page = (ROOT / "docs/protocol.md").read_text()
    block = re.search(rf"<!-- {role} -->\n```mermaid\n(.*?)```\n<!-- /{role} -->", page, re.DOTALL)
    assert block is not None
    assert block[1] == diagram, f"put this between the marks of {role}:\n{diagram}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_test_that_a_page_names_exists(page: Path) -> None:
    tests = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("*.py"))
    for name in set(re.findall(r"\b(test_w\d\d_\w+)", page.read_text())):
        assert f"def {name}(" in tests, f"{page.name} names {name}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_source_file_that_a_page_names_exists(page: Path) -> None:
    for name in set(re.findall(r"`((?:[a-z_]+/)*[a-z_0-9]+\.py)`", page.read_text())):
        found = [path for path in ROOT.glob(f"**/{name}") if ".venv" not in path.parts]
        assert found, f"{page.name} names {name}"


def test_the_repository_speaks_of_the_product_alone() -> None:
    sources = [path for folder in ("src", "tests", "benchmarks") for path in (ROOT / folder).rglob("*.py")]
    for path in [*PAGES, *sources, ROOT / "Makefile"]:
        text = path.read_text()
        assert not re.search(r"(?<![\w.])/(?:work|root|home)/|[.][.]/shared", text), path


@pytest.mark.parametrize("page", ["README.md", "docs/index.md", "docs/coming-from.md"])
def test_the_python_examples_run(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, page, "exec"), {})  # noqa: S102 - our own documents
    assert capsys.readouterr().out
