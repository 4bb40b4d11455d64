"""`fastlloyd result`: page, picture and names of a finished result."""

from pathlib import Path
from typing import Any

import pytest

from command_line import FIT, PUBLIC, Command, refused, strict
from fastlloyd.mechanisms import central
from fastlloyd.reports.names import LONGEST

SIMULATED = ("simulate", "data.csv", *PUBLIC, "--clients", "3")


@pytest.fixture
def folder(fastlloyd: Command, here: Path) -> Path:
    assert fastlloyd(*FIT, "--out", "result").code == 0
    return here / "result"


@pytest.mark.parametrize("command", [FIT, SIMULATED], ids=["fit", "simulate"])
def test_the_page_of_a_run_is_made_again_byte_for_byte(
    fastlloyd: Command, here: Path, command: tuple[str, ...]
) -> None:
    assert fastlloyd(*command, "--out", "result").code == 0
    page = here / "result/result.html"
    made = page.read_bytes()
    assert fastlloyd("result", "result", "--check").code == 0
    page.unlink()
    assert fastlloyd("result", "result").code == 0
    assert page.read_bytes() == made
    assert (b"SIMULATION" in made) == (command is SIMULATED)


def test_a_page_that_was_changed_or_is_missing_does_not_pass_the_check(
    fastlloyd: Command, folder: Path
) -> None:
    page = folder / "result.html"
    page.write_bytes(page.read_bytes().replace(b"records", b"patients"))
    refused(fastlloyd("result", "result", "--check"), "result.html", "changed")
    page.unlink()
    refused(fastlloyd("result", "result", "--check"), "result.html")


def test_names_change_a_picture_that_is_there_so_that_the_check_passes(
    fastlloyd: Command, here: Path
) -> None:
    assert fastlloyd(*SIMULATED, "--out", "result").code == 0
    picture = here / "result/clusters.png"
    drawn = picture.read_bytes()
    assert fastlloyd("result", "result", "--name", "0=elderly").code == 0
    assert picture.read_bytes() != drawn
    assert fastlloyd("result", "result", "--check").code == 0


def test_names_are_kept_shown_and_removed(fastlloyd: Command, folder: Path) -> None:
    named = ("result", "result", "--name", "0=<i>elderly & anaemic", "--title", "Wards, 2026")
    assert fastlloyd(*named).code == 0
    page = (folder / "result.html").read_text()
    assert "&lt;i&gt;elderly &amp; anaemic" in page
    assert "<h1><bdi>Wards, 2026</bdi></h1>" in page
    assert "Names were given by people" in page
    assert fastlloyd("result", "result", "--check").code == 0
    assert fastlloyd("result", "result", "--name", "2=other").code == 0
    assert "Wards, 2026" in (folder / "result.html").read_text()
    assert fastlloyd("result", "result", "--name", "0=", "--name", "2=", "--title", "").code == 0
    assert "Names were given by people" not in (folder / "result.html").read_text()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--name", "3=x"), "no cluster 3"),
        (("--name", "x"), "--name 'x'"),
        (("--name", f"0={'x' * (LONGEST + 1)}"), "60 printable"),
        (("--title", "a\nb"), "printable"),
        (("--check", "--html"), "--check"),
    ],
)
def test_what_cannot_be_named_is_refused_and_changes_nothing(
    fastlloyd: Command, folder: Path, options: tuple[str, ...], words: str
) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    refused(fastlloyd("result", "result", *options), words)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_statement_that_was_edited_gets_no_page(fastlloyd: Command, folder: Path) -> None:
    statement = folder / "privacy.json"
    statement.write_text(statement.read_text().replace('"epsilon": 1.0', '"epsilon": 0.1'))
    refused(fastlloyd("result", "result"), "epsilon")


def test_the_files_are_told_to_programs(fastlloyd: Command, folder: Path) -> None:
    told: dict[str, Any] = strict(fastlloyd("result", "result", "--registry", "--json").out)
    assert [Path(path).name for path in told["files"]] == ["registry.yaml", "registry.toml"]
    assert "name" in told["missing"]
    assert strict(fastlloyd("result", "result", "--check", "--json").out)["same"]["result.html"]


@pytest.mark.parametrize("command", [FIT, SIMULATED], ids=["fit", "simulate"])
def test_the_statement_has_the_total_of_the_ledger_and_facts_of_people(
    fastlloyd: Command, here: Path, command: tuple[str, ...]
) -> None:
    charged = ("--dataset", "canarydataset", "--ledger", "own.store")
    assert fastlloyd(*command, *charged, "--new-dataset", "--out", "first").code == 0
    assert fastlloyd(*command, *charged, "--out", "result").code == 0
    told = strict(fastlloyd("result", "result", "--statement", "--json").out)
    assert [Path(path).name for path in told["files"]] == ["statement.html", "registry.toml"]
    assert "contact" in told["missing"]
    page = here / "result/statement.html"
    alone = page.read_text()
    (here / "result/registry.toml").write_text('contact = "the <office>"\n')
    assert fastlloyd("result", "result", "--statement", "--ledger", "own.store").code == 0
    counted = page.read_text()
    assert "the &lt;office&gt;" in counted
    assert alone.count("Unanswered") - counted.count("Unanswered") == 3
    assert "canary" not in counted
    spent = strict(fastlloyd("ledger", "show", "own.store", "--json").out)["data_sets"][0]["spent"]
    assert 1.3 < spent["epsilon"] < 1.6  # of two runs
    assert f"epsilon {spent['epsilon']:.3g}"[:11] in counted
    assert ("SIMULATION" in counted) == (command is SIMULATED)
    assert (here / "result/registry.toml").read_text() == 'contact = "the <office>"\n'


def test_a_ledger_is_for_the_statement_alone(fastlloyd: Command, folder: Path) -> None:
    refused(fastlloyd("result", "result", "--ledger", "own.store"), "--statement")
    refused(fastlloyd("result", "result", "--check", "--statement"), "--check")
    assert not (folder / "statement.html").exists()


def test_the_store_of_an_identity_does_not_stand_for_the_ledger(
    fastlloyd: Command, folder: Path
) -> None:
    assert fastlloyd("keygen", "--name", "a").code == 0
    limit = ("ledger", "limit", "a.identity.toml", "--dataset", "d", "--new")
    assert fastlloyd(*limit, "--epsilon", "3", "--delta", "1e-6").code == 0
    refused(fastlloyd("result", "result", "--statement", "--ledger", "a.store"), "one identity")
    assert not (folder / "statement.html").exists()


def test_a_folder_without_a_result_is_refused(fastlloyd: Command, here: Path) -> None:
    refused(fastlloyd("result", "nowhere"), "not a result")
    refused(fastlloyd("result", str(here)), "not a result")


def test_no_canary_of_the_owner_is_in_any_file_of_the_result(
    fastlloyd: Command, here: Path
) -> None:
    """The path, the data set, the id column and the owner's own names of columns."""
    table = here / "canary-of-a-path.csv"
    rows = [f"canaryperson{i},{20 + 30 * (i % 3)},{1 + i % 3}" for i in range(300)]
    table.write_text("\n".join(["canaryid,canarycolumn,dose", *rows]))
    recipe = here / "recipe.toml"
    recipe.write_text(
        "[features.age]\nbounds = [0, 100]\n[features.dose]\nbounds = [0, 5]\n"
        '[here]\nunit_column = "canaryid"\n[here.names]\nage = "canarycolumn"\n'
    )
    command = ("fit", str(table), "--recipe", "recipe.toml", "--n-records", "500", "-k", "3")
    named = ("--dataset", "canarydataset", "--new-dataset")
    outcome = fastlloyd(*command, *named, "--out", "result")
    assert outcome.code == 0, outcome.err
    for path in (here / "result").iterdir():
        content = path.read_bytes()
        found = [b"canary" + each for each in (b"-of", b"person", b"column", b"id", b"dataset")]
        assert not [each for each in found if each in content], path


def test_neighbouring_tables_with_the_same_noisy_answers_give_the_same_files(
    fastlloyd: Command, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files of a result depend on the records through the noisy answers alone."""
    answers: list[Any] = []
    run = central.run

    def recording(m: Any, ask: central.Ask) -> Any:
        def kept(number: int, query: Any) -> Any:
            answers.append(ask(number, query))
            return answers[-1]

        return run(m, kept)

    def replaying(m: Any, ask: central.Ask) -> Any:
        again = iter(answers)

        def given(number: int, query: Any) -> Any:
            ask(number, query)  # as a run does
            return next(again)

        return run(m, given)

    (here / "neighbour.csv").write_text((here / "data.csv").read_text() + "\n99,4.9\n")
    for table, way in (("data.csv", recording), ("neighbour.csv", replaying)):
        monkeypatch.setattr(central, "run", way)
        charged = ("--dataset", "d", "--new-dataset", "--ledger", f"{table}.store")
        fit = ("fit", table, *PUBLIC, "--public-seed", "3", *charged, "--out", f"of-{table}")
        assert fastlloyd(*fit).code == 0
        statement = ("result", f"of-{table}", "--statement", "--ledger", f"{table}.store")
        assert fastlloyd(*statement).code == 0
    one, other = (
        {path.name: path.read_bytes() for path in (here / f"of-{table}").iterdir()}
        for table in ("data.csv", "neighbour.csv")
    )
    assert one == other
    assert {"result.html", "statement.html"} <= set(one)
