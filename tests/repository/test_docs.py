"""What the documents show is what the code does: diagrams, links, names of files and tests."""

import ast
import json
import math
import re
import signal
import subprocess
import tomllib
from functools import cache
from pathlib import Path

import pytest
from scipy.stats import norm

import fastlloyd
from clone import ROOT
from diagrams import table
from fastlloyd.cli import failures, network
from fastlloyd.dp.gdp import gdp_epsilon, gdp_mu
from fastlloyd.federation.protocol.transitions import CLIENT_TRANSITIONS, SERVER_TRANSITIONS
from fastlloyd.reports.certainty import Odds

PYTHON_FILES = [
    path.relative_to(ROOT).as_posix()
    for folder in ("src", "tests", "lab", "examples")
    for path in (ROOT / folder).rglob("*.py")
]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("lab/*.md"), *ROOT.glob("docs/**/*.md")])
NOTEBOOKS = sorted(ROOT.glob("examples/*.ipynb"))


@pytest.mark.parametrize("role", ["client", "server"])
def test_the_state_machines_of_the_protocol_page_are_those_of_the_tables(role: str) -> None:
    shown = table(CLIENT_TRANSITIONS) if role == "client" else table(SERVER_TRANSITIONS)
    page = (ROOT / "docs/protocol.md").read_text()
    block = re.search(rf"<!-- {role} -->\n\n(.*?)\n<!-- /{role} -->", page, re.DOTALL)
    assert block is not None
    assert block[1] == shown, f"put this between the marks of {role}:\n{shown}"


def _anchors(page: Path) -> set[str]:
    """What links to the headings of a page end in: lower case, words joined by hyphens, no other
    punctuation.
    """
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^):]*))?\)", page.read_text()):
        there = page.parent / target if target else page
        assert there.exists(), f"{page.name} links to {target}"
        assert not anchor or anchor in _anchors(there), f"{page.name} links to {target}#{anchor}"


@cache
def _names() -> set[str]:
    """Every `module.name` and `Class.member` of the code."""
    found = set()
    for path in [*ROOT.glob("src/fastlloyd/**/*.py"), *ROOT.glob("lab/src/**/*.py")]:
        for scope in ast.walk(ast.parse(path.read_text())):
            if isinstance(scope, ast.Module | ast.ClassDef):
                module = path.parent.name if path.name == "__init__.py" else path.stem
                owner = scope.name if isinstance(scope, ast.ClassDef) else module
                for node in scope.body:
                    targets = (
                        node.targets
                        if isinstance(node, ast.Assign)
                        else [getattr(node, "target", node)]
                    )
                    imported = (
                        [alias.name for alias in node.names]
                        if isinstance(node, ast.ImportFrom)
                        else []
                    )
                    own = [getattr(target, "id", getattr(target, "name", "")) for target in targets]
                    found |= {f"{owner}.{name}" for name in [*own, *imported]}
    return found


@pytest.mark.parametrize("page", ["paper-map.md", "notation.md", "momentlloyd.md", "accuracy.md"])
def test_every_name_of_code_on_a_page_exists(page: str) -> None:
    named = re.findall(
        r"`([A-Za-z_]+\.[A-Za-z_]+)(?:\([^`]*\))?`", (ROOT / "docs" / page).read_text()
    )
    endings = (".py", ".toml", ".csv", ".json", ".md")
    assert {name for name in named if not name.endswith(endings)} <= _names()


@cache
def _names_of_tests() -> set[str]:
    return {
        name
        for path in [*ROOT.glob("tests/**/*.py"), *ROOT.glob("lab/tests/**/*.py")]
        for name in re.findall(r"def (test_\w+)\(", path.read_text())
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_test_that_a_page_names_exists(page: Path) -> None:
    for name in set(re.findall(r"\b(test_w\d\d_\w+|(?<=`)test_\w+(?=`))", page.read_text())):
        assert name in _names_of_tests(), f"{page.name} names {name}"


def test_the_mechanism_of_the_paper_is_read_in_six_files_of_no_more_lines_than_promised() -> None:
    listed = (
        (ROOT / "docs/index.md")
        .read_text()
        .partition("The paper's mechanism in six files, at most 850 lines")[2]
    )
    files = [
        ROOT / "src/fastlloyd" / name
        for name in re.findall(r"^\d\. `([a-z_/]+\.py)`", listed, re.MULTILINE)
    ]
    assert len(files) == 6
    assert sum(len(path.read_text().splitlines()) for path in files) <= 850


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_make_target_that_a_page_names_exists_where_it_says(page: Path) -> None:
    """The makefile of the root hands what it does not know to that of the lab."""
    here, lab = (
        set(re.findall(r"^([a-z][a-z-]*):", (ROOT / name).read_text(), re.MULTILINE))
        for name in ("Makefile", "lab/Makefile")
    )
    fenced = re.compile(r"^ *```.*?^ *```", re.DOTALL | re.MULTILINE)
    text = page.read_text()
    code = [*fenced.findall(text), *re.findall("`([^`]+)`", fenced.sub("", text))]
    typed = re.compile(r"^ *(?:\$ )?make\s+(-C lab )?([a-z][a-z-]*)", re.MULTILINE)
    for folder, name in (found for piece in code for found in typed.findall(piece)):
        assert name in (lab if folder else here | lab), f"{page.name}: make {folder}{name}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_source_file_that_a_page_names_exists(page: Path) -> None:
    for name in set(re.findall(r"`((?:[a-z_]+/)*[a-z_0-9]+\.py)`", page.read_text())):
        assert any(f"/{path}".endswith(f"/{name}") for path in PYTHON_FILES), (
            f"{page.name} names {name}"
        )


def test_the_layers_on_the_page_are_those_that_are_enforced() -> None:
    page = (ROOT / "docs/design/architecture.md").read_text()
    block = re.search(r"```\n(errors .*?)```", page, re.DOTALL)
    assert block is not None
    shown = [set(re.split(r" {3,}", line)[0].split(" | ")) for line in block[1].splitlines()]
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"][
        "contracts"
    ]
    layers, _of_the_lab = [each["layers"] for each in contracts if each["type"] == "layers"]
    assert shown == [set(row.replace("fastlloyd.", "").split(" | ")) for row in layers][::-1]


def test_the_rooms_within_rooms_on_the_page_are_those_of_the_code_and_for_what_their_docstrings_say() -> (
    None
):
    """The rooms themselves stand among the layers."""
    source = ROOT / "src/fastlloyd"
    rows = []
    for path in sorted(source.glob("*/*/**/__init__.py")):
        summary = (ast.get_docstring(ast.parse(path.read_text())) or "").partition("\n\n")[0]
        said = " ".join(summary.split())
        rows.append(f"| `{path.parent.relative_to(source)}/` | {said} |")
    page = (ROOT / "docs/design/architecture.md").read_text()
    table = "\n".join(["| room | what is there |", "|---|---|", *rows])
    assert f"<!-- rooms -->\n\n{table}\n\n<!-- /rooms -->" in page, (
        f"put this between the marks:\n{table}"
    )


def test_every_extra_and_command_stands_in_the_readme() -> None:
    from typer.main import get_command

    from fastlloyd.cli.app import app

    readme = (ROOT / "README.md").read_text()
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    assert all(f"- `{extra}`: " in readme for extra in extras if extra not in ("all", "dev"))
    (commands,) = re.findall(r"^## Where to go next\n(.*)", readme, re.DOTALL | re.MULTILINE)
    shown = [
        name for name, command in vars(get_command(app))["commands"].items() if not command.hidden
    ]
    assert all(f"`{name}`" in commands for name in shown)


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_link_of_a_notebook_leads_somewhere(notebook: Path) -> None:
    cells = json.loads(notebook.read_text())["cells"]
    text = "".join(
        line for cell in cells if cell["cell_type"] == "markdown" for line in cell["source"]
    )
    targets = re.findall(r"\]\(([^)#:]+)(?:#([^):]*))?\)", text)
    assert targets
    for target, anchor in targets:
        there = notebook.parent / target
        assert there.exists(), target
        assert not anchor or anchor in _anchors(there), f"{target}#{anchor}"


def test_the_index_leads_to_every_page_and_notebook() -> None:
    index = (ROOT / "docs/index.md").read_text()
    folders = [ROOT / "docs", ROOT / "docs/how-to", ROOT / "docs/design", ROOT / "docs/results"]
    for path in (
        path for folder in folders for path in folder.glob("*.md") if path.name != "index.md"
    ):
        assert f"]({path.relative_to(ROOT / 'docs')})" in index, path.name
    assert all(f"](../examples/{path.name})" in index for path in NOTEBOOKS)


def test_the_repository_speaks_of_the_product_alone() -> None:
    for path in [
        *PAGES,
        *map(ROOT.joinpath, PYTHON_FILES),
        ROOT / "Makefile",
        ROOT / "lab/Makefile",
        *NOTEBOOKS,
    ]:
        text = path.read_text()
        assert not re.search(r"(?<![\w.])/(?:work|root|home)/|[.][.]/shared", text), path


@pytest.mark.parametrize("page", ["docs/coming-from.md", "docs/synthetic-data.md"])
def test_the_python_examples_run(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, page, "exec"), {})  # noqa: S102 - our own documents
    assert capsys.readouterr().out


def test_the_pitfalls_are_sorted_by_severity() -> None:
    text = (ROOT / "docs/pitfalls.md").read_text()
    parts = re.split(r"^## (\w+): .+$", text, flags=re.MULTILINE)
    assert parts[1::2] == ["Critical", "Important", "Minor"]
    n_pitfalls = [len(re.findall("^### ", part, re.MULTILINE)) for part in parts[::2]]
    assert n_pitfalls[0] == 0
    assert min(n_pitfalls[1:]) > 5


def test_the_epsilons_of_several_rows_and_of_several_runs_are_those_of_the_accountant_rounded_up() -> (
    None
):
    text = (ROOT / "docs/pitfalls.md").read_text()
    tables = re.findall(
        r"^\| (rows per person|runs) \| (.*) \|\n.*\n\| epsilon(?: together)? \| (.*) \|$",
        text,
        re.MULTILINE,
    )
    assert [what for what, _, _ in tables] == ["rows per person", "runs"]
    mu = gdp_mu(1.0, 1e-6)
    for what, numbers, epsilons in tables:
        for number, epsilon in zip(numbers.split(" | "), epsilons.split(" | "), strict=True):
            exact = gdp_epsilon(
                mu * (int(number) if what == "rows per person" else int(number) ** 0.5), 1e-6
            )
            assert f"{math.ceil(100 * exact) / 100:.2f}" == epsilon


def test_the_coalitions_are_those_of_the_shares_of_noise_that_they_leave_rounded_up() -> None:
    page = (ROOT / "docs/threat-model.md").read_text()
    ((sizes, body),) = re.findall(
        r"^\| who pools \| (.*) \|\n.*\n((?:\|.*\n)+)", page, re.MULTILINE
    )
    plans = [tuple(map(int, re.findall(r"\d+", column))) for column in sizes.split(" | ")]
    pooled = [str(n).replace("0", "nobody") for n in (0, 1, 2, 4, 9)]
    mu = gdp_mu(1.0, 1e-6)
    rows = {
        re.split("[: ]", row.strip("| "))[0]: [cell.strip() for cell in row.split("|")[2:-1]]
        for row in body.splitlines()
    }
    assert [*rows] == [*pooled, "group", "noise"]
    for column, (M, t) in enumerate(plans):
        left = dict(zip(pooled, [M, M - 1, M - 2, M - 4, M - 9], strict=True)) | {"group": 1}
        exact = {
            who: gdp_epsilon(mu * math.sqrt((M - t) / shares), 1e-6)
            for who, shares in left.items()
            if shares > 0
        }
        exact["noise"] = math.sqrt(M / (M - t))
        told = {who: float(cells[column]) for who, cells in rows.items() if cells[column]}
        assert told == {who: math.ceil(100 * value - 1e-6) / 100 for who, value in exact.items()}


@pytest.mark.parametrize("page", ["ledger.md", "firewalls-and-proxies.md"])
def test_the_messages_that_a_page_explains_are_those_of_the_code(page: str) -> None:
    sources = "".join(
        path.read_text()
        for room in ("base", "federation")
        for path in (ROOT / "src/fastlloyd" / room).rglob("*.py")
    )
    said = re.sub(r'"\s*f?"', "", sources)
    text = " ".join((ROOT / "docs/how-to" / page).read_text().split())
    explained = re.findall(r"[-,] (?:or )?\*([a-z][^*]+?):?\*", text[text.index("## When ") :])
    assert len(explained) > 5
    for message in explained:
        assert all(part.strip() in said for part in message.split("HOST:PORT")), message


def test_every_line_that_a_party_logs_stands_on_the_page_of_logs() -> None:
    page = (ROOT / "docs/how-to/logs.md").read_text()
    package, formats = ROOT / "src/fastlloyd", set[str]()
    for path in (*(package / "federation").rglob("*.py"), package / "jobs/metrics.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in ("info", "warning", "error")
            ) or (isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "line"):
                parts = node.args if isinstance(node, ast.Call) else [node.value]
                formats |= {
                    part.value
                    for part in parts
                    if isinstance(part, ast.Constant) and isinstance(part.value, str)
                }
    told = {each for each in formats if " " in re.sub("%[sd]", "", each)}
    assert len(told) > 10
    for each in told - {"%s: %d of %d clients%s%s"}:
        pattern = re.sub("%[sd]", "[A-Za-z]+", re.escape(each).replace("\\%", "%"))
        assert re.search(pattern, page), each


def test_the_certainties_are_those_of_gaussian_noise_rounded_up() -> None:
    page = (ROOT / "docs/how-to/choosing-parameters.md").read_text()
    ((epsilons, certainties),) = re.findall(
        r"^\| epsilon \| (.*) \|\n.*\n\| after seeing the result: at most \| (.*) \|$",
        page,
        re.MULTILINE,
    )
    delta = 1e-6
    for epsilon, told in zip(epsilons.split(" | "), certainties.split(" | "), strict=True):
        odds = delta / norm.cdf(norm.ppf(delta) - gdp_mu(float(epsilon), delta))
        digits = len(told.removesuffix(" %").partition(".")[2])
        assert (
            float(told.removesuffix(" %"))
            == math.ceil(100 * odds / (1 + odds) * 10**digits) / 10**digits
        )


@pytest.mark.parametrize("page", ["questions.md", "cheat-sheet.md", "for-approval.md"])
def test_the_odds_of_a_guess_are_those_of_gaussian_noise_rounded_up(page: str) -> None:
    delta = 1e-6
    odds = {
        epsilon: Odds(gdp_mu(epsilon, delta), epsilon, delta) for epsilon in (0.1, 0.5, 1, 2, 5, 10)
    }
    average = [math.ceil(100 * each.right_guesses()) for each in odds.values()]
    worst = [math.ceil(100 * each.certainty(0.5)) for each in odds.values()]
    text = " ".join((ROOT / "docs" / page).read_text().split())
    if page == "questions.md":
        cells = [" | ".join(map(str, row)) for row in ([*odds], average, worst)]
        titles = (
            "epsilon",
            "right of 100, on average",
            "right of 100, after any one result, except with probability delta",
        )
        assert all(f"| {title} | {row} |" in text for title, row in zip(titles, cells, strict=True))
    elif page == "cheat-sheet.md":
        assert f"at most {', '.join(map(str, average[:4]))} with epsilon 0.1, 0.5, 1, 2" in text
    else:
        assert f"[{average[2]} of 100 times]" in text
        assert f"at most {worst[2]} of 100" in text


def test_the_exit_codes_of_a_run_are_those_of_the_code() -> None:
    page = (ROOT / "docs/how-to/when-a-study-stops.md").read_text()
    rows = re.findall(r"^\| ([\d, ]+) \| .* \| .* \|$", page, re.MULTILINE)
    told = [int(code) for row in rows for code in row.split(", ")]
    ends = [network.NO_RESULT, network.STOPPED, network.TURNED_AWAY]
    assert told == [
        failures.DONE,
        failures.REFUSED,
        *ends,
        128 + signal.SIGHUP,
        failures.INTERRUPTED,
        128 + signal.SIGTERM,
    ]


def test_compatibility_is_tested_on_every_python_that_is_claimed_and_no_other() -> None:
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    claimed = [
        match[1]
        for line in classifiers
        if (match := re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", line))
    ]
    (tried,) = re.findall(r"^PYTHONS \?= (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert tried.split() == [f"python{version}" for version in claimed]


def test_the_version_is_the_same_wherever_a_release_sets_it() -> None:
    cited = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    newest = re.search(r"^## \[(.+)\] - ", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert cited is not None
    assert newest is not None
    assert {cited[1], newest[1]} == {fastlloyd.__version__}


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="only a clone knows which files are kept")
def test_no_file_that_is_kept_is_larger_than_a_megabyte_but_packed_trials() -> None:
    """A core dump or a data set that a process left was added by mistake; a dump also holds what
    its process knew.
    """
    listed = subprocess.run(
        ["git", "ls-files", "-z"],  # noqa: S607
        cwd=ROOT,
        capture_output=True,
        check=True,
    ).stdout
    kept = [ROOT / name for name in listed.decode().split("\0") if name]
    assert len(kept) > 100
    large = [path for path in kept if path.is_file() and path.stat().st_size > 2**20]
    assert [
        path
        for path in large
        if not path.match("docs/results/reproduction/trials/*/trials.jsonl.gz")
    ] == []
    assert sum(path.stat().st_size for path in large) < 2**25
