"""`fastlloyd recipe` and the option --recipe, from a hospital's table to a result."""

import csv
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from command_line import Command, refused, strict
from fastlloyd.cli import app
from fastlloyd.errors import Problems
from fastlloyd.jobs.source import FileSource
from fastlloyd.mechanisms.facts import Fact
from fastlloyd.records import Table
from fastlloyd.records.recipe import Recipe
from fastlloyd.records.recipe.here import LAYOUT
from fastlloyd.records.recipe.keys import KEYS
from fastlloyd.records.recipe.rows import Using
from fastlloyd.reports.facts import sentence
from fastlloyd.testing import SeededNoise, repeatable_noise
from questions import answered

EXAMPLES = Path(__file__).parents[2] / "examples/hospital"
RECIPE = str(EXAMPLES / "recipe.toml")
CANARIES = ("Patienten-ID", "Geschlecht", "Kreatinin (mg/dl)", "k.A.", "hospital", "cp1252")


@pytest.fixture
def table(here: Path) -> Path:
    """The made-up table of a hospital."""
    make = [sys.executable, str(EXAMPLES / "make_table.py"), "--out", str(here)]
    subprocess.run(make, check=True, capture_output=True)
    subprocess.run([*make, "--sites"], check=True, capture_output=True)
    return here / "hospital.csv"


@pytest.fixture
def seeded(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Noise that can be repeated."""
    monkeypatch.setattr("fastlloyd.jobs.fit.SystemNoise", lambda: SeededNoise(5))
    with repeatable_noise():
        yield


def groups(folder: Path) -> list[list[float]]:
    rows = csv.DictReader((folder / "centroids.csv").read_text().splitlines())
    return sorted([float(row[name]) for name in ("age", "creatinine", "crp")] for row in rows)


@pytest.mark.usefixtures("table", "seeded")
def test_one_file_and_one_command_cluster_the_table_of_a_hospital(
    fastlloyd: Command, here: Path
) -> None:
    ran = fastlloyd("fit", "hospital.csv", "--recipe", RECIPE, "--out", "result", "--new-dataset")
    assert ran.code == 0
    assert groups(here / "result") == [
        pytest.approx([45, 0.86, 1.2], rel=0.15),
        pytest.approx([56, 0.95, 95], rel=0.15),
        pytest.approx([75, 3.5, 9.5], rel=0.15),
    ]
    for file in (here / "result").iterdir():
        for canary in CANARIES:
            assert canary.encode() not in file.read_bytes(), (file.name, canary)
    labelled = fastlloyd("assign", "result", "hospital.csv", "--recipe", RECIPE)
    assert labelled.code == 0
    assert len(labelled.out.splitlines()) == 4201
    again = fastlloyd("recipe", "from", "result")
    assert Recipe.from_toml(again.out).features == Recipe.load(RECIPE).features


@pytest.mark.usefixtures("table")
def test_an_option_overrides_the_recipe_and_says_so(fastlloyd: Command) -> None:
    ran = fastlloyd(
        "fit", "hospital.csv", "--recipe", RECIPE, "--no-out", "--new-dataset",
        "-k", "2", "--columns", "age,crp", "--epsilon", "3",
    )  # fmt: skip
    assert ran.code == 0
    assert "--n-clusters 2 overrides n_clusters = 3" in ran.err
    assert "--epsilon 3.0 overrides epsilon = 1.0" in ran.err
    assert "creatinine" not in ran.out
    unknown = fastlloyd(
        "fit", "hospital.csv", "--recipe", RECIPE, "--no-out", "--columns", "agee",
    )  # fmt: skip
    refused(unknown, "'agee'", "'age'")
    assert len(unknown.err.splitlines()) == 1
    refused(
        fastlloyd("fit", "hospital.csv", "--recipe", RECIPE, "--no-out", "--bounds", "0:1"),
        "leave out --bounds",
    )


@pytest.mark.usefixtures("table")
def test_all_faults_of_a_recipe_come_at_once_and_nothing_is_written(
    fastlloyd: Command, here: Path
) -> None:
    tables = tomllib.loads(Path(RECIPE).read_text())
    tables["privacy"]["epsilom"] = 1
    tables["features"]["crp"]["bounds"] = [0, 400]
    tables["features"]["age"]["colour"] = "red"
    tables["here"]["decimal"] = "x"
    (here / "wrong.toml").write_text(tomli_w.dumps(tables))
    before = sorted(here.iterdir())
    ran = fastlloyd("fit", "hospital.csv", "--recipe", "wrong.toml", "--out", "r")
    refused(ran, "epsilom", "features.crp", "colour", "decimal")
    assert len(ran.err.splitlines()) == 4
    assert sorted(here.iterdir()) == before


@pytest.mark.usefixtures("table")
def test_a_form_has_the_columns_and_no_cell_and_cannot_be_used_before_it_is_filled_in(
    fastlloyd: Command, here: Path
) -> None:
    ran = fastlloyd("recipe", "new", "hospital.csv", "--out", "form.toml")
    assert ran.code == 0
    form = (here / "form.toml").read_text()
    cells = {
        cell
        for line in (here / "hospital.csv").read_text("cp1252").splitlines()[1:]
        for cell in line.split(";")
        if len(cell) > 2
    }
    assert not [cell for cell in cells if cell in form and cell != "1.0"]
    parsed = tomllib.loads(form)
    assert parsed["features"].keys() == {"Alter", "Kreatinin (mg/dl)", "CRP (mg/l)"}
    assert parsed["here"] == {
        "unit_column": "Patienten-ID", "separator": ";", "decimal": ",", "encoding": "cp1252",
        "header": "yes",
    }  # fmt: skip
    assert parsed["features"]["CRP (mg/l)"]["below"] == "bound"
    assert {each["per_person"] for each in parsed["features"].values()} == {"mean"}
    refused(fastlloyd("recipe", "check", "form.toml", "hospital.csv"), "n_records", "LOWER")
    refused(fastlloyd("recipe", "new", "hospital.csv", "--out", "form.toml"), "form.toml")
    assert fastlloyd("recipe", "new", "hospital.csv", "--out", "form.toml", "--force").code == 0


@pytest.mark.usefixtures("table")
def test_a_check_counts_for_the_owner_and_says_what_a_run_would_refuse(
    fastlloyd: Command, here: Path
) -> None:
    ran = fastlloyd("recipe", "check", RECIPE, "hospital.csv")
    assert ran.code == 0
    assert "4200 rows" in ran.out
    rows = {line.split()[0]: line.split()[1:] for line in ran.out.splitlines() if line.strip()}
    assert rows["age"] == ["0", "0", "0"]
    assert int(rows["crp"][0]) > 100
    tables = tomllib.loads(Path(RECIPE).read_text())
    tables["features"]["sex"]["values"] = {"m": 0, "f": 1}
    (here / "other.toml").write_text(tomli_w.dumps(tables))
    ran = fastlloyd("recipe", "check", "other.toml", "hospital.csv")
    assert ran.code == 2
    assert "'sex'" in ran.err


TYPING_ERRORS = {
    "column": ('age = "Alter"', 'age = "Altre"', ["'Altre'", "'Alter'"]),
    "key": ('age = "Alter"', 'agee = "Alter"', ["'agee'", "'age'", "here.names"]),
    "separator as the decimal mark": ('separator = ";"', 'separator = ","', ["separator", "','"]),
    "another separator": ('separator = ";"', 'separator = "tab"', ["--separator"]),
    "word for missing": ('"k.A.", ', "", ["--missing-words"]),
}


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize("name", TYPING_ERRORS)
def test_a_typing_error_is_named_with_the_way_to_mend_it(
    name: str, fastlloyd: Command, here: Path
) -> None:
    right, wrong, words = TYPING_ERRORS[name]
    text = Path(RECIPE).read_text()
    assert text.count(right) == 1
    (here / "mine.toml").write_text(text.replace(right, wrong))
    refused(fastlloyd("recipe", "check", "mine.toml", "hospital.csv"), *words)
    refused(fastlloyd("fit", "hospital.csv", "--recipe", "mine.toml", "--no-out"), *words)


def test_an_explanation_has_a_line_for_each_feature_and_the_digest(fastlloyd: Command) -> None:
    ran = fastlloyd("recipe", "explain", RECIPE)
    recipe = Recipe.load(RECIPE)
    assert [line for line in ran.out.splitlines() if line.startswith("- ")][:1]
    for feature in recipe.features:
        assert f"- {feature.key}" in ran.out
    assert recipe.digest in ran.out


def test_an_explanation_says_which_bounds_are_to_be_found(fastlloyd: Command, here: Path) -> None:
    features = {"age": "bounds = [0, 120]", "creatinine": "range = [0, 1234567.5]"}
    (here / "mine.toml").write_text("".join(f"[features.{k}]\n{v}\n" for k, v in features.items()))
    stated, searched = fastlloyd("recipe", "explain", "mine.toml").out.splitlines()[:2]
    assert "0 to 120" in stated
    assert "0 to 1,234,567.5" in searched
    said = sentence(Fact.of("feature_searched"))
    assert (said in searched, said in stated) == (True, False)


def test_every_key_of_a_recipe_is_the_name_of_an_option() -> None:
    names = {
        option.name
        for command in ("fit", "simulate", "join")
        for option in app.subcommand(command).params
    } | {option.name for option in app.subcommand("plan").commands["new"].params}
    for table in KEYS.values():
        assert table.keys() <= names
    assert {*LAYOUT, "unit_column", "dataset"} <= names


@pytest.mark.usefixtures("table")
def test_numbers_beside_a_recipe_are_read_as_strictly_as_without_one(
    fastlloyd: Command, here: Path
) -> None:
    recipe = ("--recipe", RECIPE)
    refused(
        fastlloyd("fit", "hospital.csv", *recipe, "--epsilon", "1,5", "-k", "x"),
        "--epsilon is '1,5'",
        "--n-clusters is 'x'",
    )
    refused(fastlloyd("fit", *recipe), "DATA is missing")
    refused(fastlloyd("simulate", "hospital.csv", *recipe), "--clients is missing")
    tables = tomllib.loads(Path(RECIPE).read_text())
    tables["privacy"] |= {"epsilon": 0, "n_records": 0, "unit_name": "Patient in"}
    tables["clustering"]["n_clusters"] = 0
    (here / "wrong.toml").write_text(tomli_w.dumps(tables))
    names = ("epsilon", "n_records", "unit_name", "n_clusters")
    refused(fastlloyd("recipe", "explain", "wrong.toml"), *map(repr, names))
    refused(fastlloyd("recipe", "check", "wrong.toml", "hospital.csv"), *map(repr, names))


@pytest.mark.usefixtures("table")
def test_questions_at_a_terminal_make_a_recipe(here: Path) -> None:
    answers = iter([
        '"k.A.', "k.A.,-",  # half a quotation, and then words for missing cells
        "everybody", "person",
        "one", "1_0", "0", "1",  # epsilon: no number, two figures, none, and then one
        "Patienten-ID", "Patient in", "patient",  # two words, and then one
        "2,500", "2500",
        "mean",
        "-",  # date
        "v", "m = 0, w = 1", "0.1",
        "n", "110, 0", "n", "0, 110",  # bounds the wrong way round, and then right
        "l", "0,2, 15", "0.2, 15", "1",  # a decimal comma, and then a point
        "l", "0.3, 400", "bound", "3",
        "-",  # ward
        "0", "3",
    ])  # fmt: skip
    command = [sys.executable, "-m", "fastlloyd", "recipe", "new", "hospital.csv"]
    code, shown = answered(command, here, lambda _: next(answers))
    assert code == 0, shown
    assert next(answers, None) is None
    recipe = Recipe.load(here / "recipe.toml")
    assert [each.key for each in recipe.features] == [
        "Geschlecht", "Alter", "Kreatinin (mg/dl)", "CRP (mg/l)",
    ]  # fmt: skip
    assert recipe.privacy["unit_name"] == "patient"
    assert recipe.clustering == {"n_clusters": 3}
    assert recipe.here.unit_column == "Patienten-ID"
    assert recipe.here.layout.missing_words == ("k.A.", "-")
    assert {each.per_person for each in recipe.features} == {"mean"}
    assert [each.weight for each in recipe.features] == [0.1, 1, 1, 1]


@pytest.mark.usefixtures("table")
def test_three_sites_that_write_in_three_ways_have_the_records_of_the_one_table(
    here: Path,
) -> None:
    agreed = Recipe.load(RECIPE).features

    def records(file: str, recipe: str | Path) -> list[list[float]]:
        local = Recipe.load_here(recipe, agreed)
        source = FileSource(
            path=str(here / file),
            unit_column=local.unit_column,
            layout=local.layout,
            recipe=Using(features=agreed, here=local),
        ).open()
        assert isinstance(source.records, Table)
        found: list[list[float]] = source.records.values.tolist()
        return found

    sites = [("north.csv", "north"), ("east.tsv", "east"), ("south.csv", "south")]
    parts = [records(file, EXAMPLES / f"{name}.toml") for file, name in sites]
    assert min(map(len, parts)) > 100
    together = [record for part in parts for record in part]
    assert sorted(together) == sorted(records("hospital.csv", RECIPE))


@pytest.mark.parametrize(
    ("local", "words"),
    [
        ('missing_wrds = ["-"]', ("own.toml: here: ", "did you mean 'missing_words'?")),
        ('decimal = "."', ('--decimal is stated as "."', 'here.decimal = ","')),
        ('[here.names]\nbmi = "bmi"', ("did you mean 'BMI'?", "in the table [here]")),
    ],
)
def test_a_fault_of_the_local_part_is_named_in_its_own_words(
    fastlloyd: Command, here: Path, local: str, words: tuple[str, ...]
) -> None:
    (here / "rows.csv").write_text("age;BMI\n30;21,5\n40;22,5\n")
    features = {key: {"bounds": [0, 99]} for key in ("age", "bmi" if "names" in local else "BMI")}
    recipe = {"features": features, "privacy": {"n_records": 9}, "clustering": {"n_clusters": 2}}
    (here / "own.toml").write_text(f'{tomli_w.dumps(recipe)}[here]\nseparator = ";"\n{local}\n')
    if "wrds" in local:
        (here / "own.toml").write_text(f"[here]\n{local}\n")
        with pytest.raises(Problems) as faults:
            Recipe.load_here("own.toml")
        assert all(word in str(faults.value) for word in words)
        return
    refused(fastlloyd("recipe", "check", "own.toml", "rows.csv"), *words)


@pytest.mark.usefixtures("table")
def test_the_local_part_for_a_plan_names_columns_that_it_finds_and_leaves_the_others_blank(
    fastlloyd: Command, here: Path
) -> None:
    clients = ("--client", "north:900", "--client", "east:900")
    numbers = ("--n-records", "2700", "--max-clients-per-person", "1")
    made = fastlloyd("plan", "new", "--simulation", "--recipe", RECIPE, *numbers, *clients)
    assert made.code == 0, made.err
    agreed = Recipe.load(RECIPE).features
    for file, name in (("north.csv", "north"), ("east.tsv", "east"), ("south.csv", "south")):
        ran = fastlloyd("recipe", "here", "plan.toml", file, "--out", "own.toml", "--force")
        assert ran.code == 0, ran.err
        expected, found = Recipe.load_here(EXAMPLES / f"{name}.toml"), Recipe.load_here("own.toml")
        assert found.unit_column == expected.unit_column
        assert (found.layout.decimal or ".") == (expected.layout.decimal or ".")
        for each in agreed:
            assert found.column(each.key) in {expected.column(each.key), "COLUMN"}
        text = (here / "own.toml").read_text()
        assert ("Replace each COLUMN" in ran.out) == ("COLUMN" in text)
        refused(fastlloyd("recipe", "here", "plan.toml", file, "--out", "own.toml"), "own.toml")
        Recipe.load_here("own.toml", agreed)


@pytest.mark.parametrize(
    "command",
    [
        ("fit", "rows.csv"),
        ("simulate", "rows.csv", "--clients", "2"),
        ("plan", "new", "--simulation", "--client", "a:9", "--client", "b:9"),
    ],
)
def test_rows_are_put_together_only_if_persons_are_protected(
    fastlloyd: Command, here: Path, command: tuple[str, ...]
) -> None:
    (here / "rows.csv").write_text("id,age,note\n1,30,a\n1,40,a\n2,50,b\n")
    features = {"age": {"bounds": [0, 99], "per_person": "mean"}}
    tables = {"privacy": {"n_records": 20}, "clustering": {"n_clusters": 2}, "features": features}
    (here / "rows.toml").write_text(tomli_w.dumps({**tables, "here": {"unit_column": "id"}}))
    ran = fastlloyd(*command, "--recipe", "rows.toml", "--out", "out.toml")
    refused(ran, "unit_column")  # whose rows would otherwise count one by one
    (here / "rows.toml").write_text(tomli_w.dumps(tables))
    ran = fastlloyd(*command, "--recipe", "rows.toml", "--out", "out.toml")
    refused(ran, "per_person")
    assert not (here / "out.toml").exists()


def test_a_word_for_a_gap_may_have_a_comma(fastlloyd: Command, here: Path) -> None:
    (here / "rows.csv").write_text('age,z\n30,1\n"k,A.",1\n"k",1\n')
    tables = {
        "features": {"age": {"bounds": [0, 99], "missing": 30}, "z": {"bounds": [0, 9]}},
        "here": {"missing_words": ["k,A."], "separator": ","},
    }
    (here / "rows.toml").write_text(tomli_w.dumps(tables))
    fit = ("fit", "rows.csv", "--recipe", "rows.toml", "-k", "2", "--n-records", "9", "--out", "o")
    refused(fastlloyd(*fit), "line 4")


def test_a_forecast_takes_its_numbers_from_a_recipe(fastlloyd: Command) -> None:
    ran = fastlloyd("advise", "--recipe", RECIPE, "--json", "--epsilons", "1")
    stated = fastlloyd(
        "advise", "--records", "1750", "--features", "4", "-k", "3", "--unit", "person",
        "--unit-name", "patient", "--json", "--epsilons", "1",
    )  # fmt: skip
    assert ran.code == stated.code == 0
    with_units, without = strict(ran.out), strict(stated.out)
    [outlook], [plain] = with_units["outlooks"], without["outlooks"]
    assert [bar["feature"] for bar in outlook["bars"]] == list(with_units["question"]["bounds"])
    assert outlook["odds"] == plain["odds"]
    assert plain["bars"] == []
    del with_units["question"]["bounds"], without["question"]["bounds"]
    assert with_units["question"] == without["question"]
    refused(fastlloyd("advise", "--recipe", RECIPE, "--bounds", "a=0:1"), "already has the bounds")
