"""The table of examples/hospital: the same on every machine, as ugly as it says, and with groups to
find.
"""

import csv
import hashlib
import re
import runpy
import subprocess
import sys
import tomllib
from collections import Counter, defaultdict
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fastlloyd.records import open_records
from fastlloyd.records.layout import Layout
from fastlloyd.records.person_rows import persons_of
from fastlloyd.records.recipe.here import LAYOUT
from fastlloyd.records.recipe.recipe import Recipe
from fastlloyd.records.recipe.rows import Using

FOLDER = Path(__file__).parents[2] / "examples" / "hospital"
SCRIPT = FOLDER / "make_table.py"
HEADER = "Patienten-ID;Aufnahmedatum;Geschlecht;Alter;Kreatinin (mg/dl);CRP (mg/l);Station"
SHA256 = "c8dbf78e7babd739d04eed25a3a4f8e25386f5ef714c843c7c2ba8f172dfdc21"
GAPS = ("", "k.A.", "-")
LABS = ("creatinine", "crp")
ENGLISH = {
    "f": "w",
    "surgery": "Chirurgie",
    "medicine": "Innere Medizin",
    "geriatrics": "Geriatrie",
    "monitoring": "Überwachung",
}
# file -> recipe, form of dates, words of the site -> words of the hospital
FILES: dict[str, tuple[str, str, dict[str, str]]] = {
    "hospital.csv": ("recipe.toml", "%d.%m.%Y", {}),
    "north.csv": ("north.toml", "%Y-%m-%d", ENGLISH | {"n/a": "k.A."}),
    "east.tsv": ("east.toml", "%d/%m/%Y", {"fehlt": "k.A."}),
    "south.csv": ("south.toml", "%d.%m.%Y", {}),
}


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(SCRIPT))


@pytest.fixture(scope="module")
def files(script: dict[str, Any]) -> dict[str, bytes]:
    return {**script["files"](sites=False), **script["files"](sites=True)}


def _recipe(name: str) -> dict[str, Any]:
    return tomllib.loads((FOLDER / name).read_text(encoding="utf-8"))


def _read(files: dict[str, bytes], name: str) -> list[list[str]]:
    """Return the lines of a file as its recipe says to read them."""
    here = _recipe(FILES[name][0])["here"]
    text = files[name].decode(here["encoding"]).removeprefix("\ufeff")
    return list(csv.reader(text.splitlines(), delimiter=here["separator"], strict=True))


def _hospital(files: dict[str, bytes]) -> list[dict[str, str]]:
    header, *lines = _read(files, "hospital.csv")
    return [dict(zip(header, line, strict=True)) for line in lines]


def test_the_script_writes_the_same_bytes_every_time(
    files: dict[str, bytes], tmp_path: Path
) -> None:
    for options in ([], ["--sites"]):
        subprocess.run([sys.executable, SCRIPT, "--out", tmp_path, *options], check=True)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == files
    assert hashlib.sha256(files["hospital.csv"]).hexdigest() == SHA256


def test_the_table_is_as_ugly_as_an_export_of_a_hospital(files: dict[str, bytes]) -> None:
    with pytest.raises(UnicodeDecodeError):
        files["hospital.csv"].decode("utf-8")
    rows = _hospital(files)
    assert ";".join(rows[0]) == HEADER
    assert len(rows) == 4200
    per_patient = Counter(row["Patienten-ID"] for row in rows)
    assert len(per_patient) == 1750
    assert max(per_patient.values()) > 5
    assert any(patient.startswith("00") for patient in per_patient)
    assert {row["Geschlecht"] for row in rows} == {"m", "w"}
    assert any("Ü" in row["Station"] for row in rows)
    for row in rows:
        assert datetime.strptime(row["Aufnahmedatum"], "%d.%m.%Y").year == 2023
        assert 18 <= int(row["Alter"]) <= 101
    labs = [(row["Kreatinin (mg/dl)"], row["CRP (mg/l)"]) for row in rows]
    cells = [cell for pair in labs for cell in pair]
    assert set(GAPS) <= set(cells)
    assert all(cell in GAPS or re.fullmatch(r"<0,3|\d+,\d+", cell) for cell in cells)
    assert 0.18 < np.mean([bool({*pair} & {*GAPS}) for pair in labs]) < 0.22
    assert sum(crp == "<0,3" for _, crp in labs) > 50
    for lab in zip(*labs, strict=True):
        values = np.array([float(c.replace(",", ".")) for c in lab if c[:1].isdigit()])
        assert values.mean() > 1.3 * np.median(values)


def test_the_three_sites_have_the_rows_of_the_one_table_in_forms_of_their_own(
    files: dict[str, bytes],
) -> None:
    union: Counter[tuple[str, ...]] = Counter()
    patients = []
    columns = {}
    for name, (recipe, dates, words) in FILES.items():
        header, *lines = _read(files, name)
        here = _recipe(recipe)["here"]
        columns[name] = header
        fields = {column: field for field, column in here["names"].items()}
        fields[here["unit_column"]] = "id"
        rest = [column for column in header if column not in fields]
        rows = [dict(zip(header, line, strict=True)) for line in lines]
        (date,) = (c for c in rest if re.fullmatch(r"[\d./-]{10}", rows[0][c]))
        (ward,) = (c for c in rest if c != date)
        counted: Counter[tuple[str, ...]] = Counter()
        for row in rows:
            day = datetime.strptime(row[date], dates).date().isoformat()
            known = {field: row[column] for column, field in fields.items()}
            known |= {"day": day, "ward": row[ward]}
            for lab in LABS:
                known[lab] = known[lab].replace(here["decimal"], ".")
            counted[tuple(words.get(known[key], known[key]) for key in sorted(known))] += 1
        if name == "hospital.csv":
            table = counted
        else:
            union += counted
            patients.append({row[here["unit_column"]] for row in rows})
    assert union == table
    assert sum(map(len, patients)) == len(set.union(*patients)) == 1750
    assert all(len(each) > 500 for each in patients)
    assert len({*map(tuple, columns.values())}) == 3  # south's are the hospital's
    assert not {*columns["north.csv"]} & {*columns["east.tsv"]}


def test_the_recipe_of_a_site_says_only_how_to_read_its_own_file() -> None:
    features = _recipe("recipe.toml")["features"]
    for recipe, *_ in FILES.values():
        content = _recipe(recipe)
        assert (content.keys() == {"here"}) is (recipe != "recipe.toml")
        assert content["here"]["names"].keys() == features.keys()


def test_the_recipes_are_accepted_and_the_sites_have_its_features() -> None:
    recipe = Recipe.load(FOLDER / "recipe.toml")
    assert [feature.key for feature in recipe.features] == ["age", "creatinine", "crp", "sex"]
    for name in ("north.toml", "east.toml", "south.toml"):
        here = Recipe.load_here(FOLDER / name, recipe.features)
        assert here.unit_column == _recipe(name)["here"]["unit_column"]


def test_the_patients_of_the_three_sites_have_the_records_of_the_one_table(
    files: dict[str, bytes], tmp_path: Path
) -> None:
    features = Recipe.load(FOLDER / "recipe.toml").features
    found: dict[str, Counter[bytes]] = {}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
        here = Recipe.load_here(FOLDER / FILES[name][0], features)
        using = Using(features=features, here=here)
        stated = {field: getattr(here, field) for field in LAYOUT}
        layout = Layout(**{field: value for field, value in stated.items() if value is not None})
        path = str(tmp_path / name)
        file = open_records(path, None, unit=here.unit_column, recipe=using, layout=layout)
        found[name] = Counter(record.tobytes() for record in persons_of(file, using).values)
    one, *sites = found.values()
    assert one.total() == 1750
    assert sum(sites, start=Counter()) == one


def _number(cell: str) -> float:
    return float(cell) if cell[:1].isdigit() else np.nan


def test_a_clustering_of_the_logarithms_finds_the_three_groups_and_one_of_the_labs_does_not(
    script: dict[str, Any],
) -> None:
    cluster = pytest.importorskip("sklearn.cluster", reason="k-means without noise is sklearn's")
    metrics = pytest.importorskip("sklearn.metrics", reason="so is the index that compares")
    features = _recipe("recipe.toml")["features"]
    rows = defaultdict(list)
    for row in script["rows"]():
        labs = [_number(str(getattr(row, name)).removeprefix("<")) for name in LABS]
        rows[row.patient].append([row.age, *labs])
    patients = (rows[script["patient_id"](number)] for number in range(1750))
    means = np.array([_means(np.array(each, dtype=float)) for each in patients])
    agreement = []
    for way in (np.log, np.positive):
        columns = []
        for name, values in zip(("age", *LABS), means.T, strict=True):
            scale = way if name in LABS else np.positive
            low, high = features[name]["bounds"]
            filled = np.where(np.isnan(values), features[name].get("missing", 0), values)
            columns.append(
                (scale(np.clip(filled, low, high)) - scale(low)) / (scale(high) - scale(low))
            )
        found = cluster.KMeans(3, n_init=5, random_state=0).fit_predict(np.column_stack(columns))
        agreement.append(metrics.adjusted_rand_score(script["true_groups"](), found))
    assert agreement[0] > 0.95
    assert agreement[1] < 0.7


def _means(rows: "np.ndarray[Any, np.dtype[np.float64]]") -> list[float]:
    """Return the mean of each column over the cells that are there, or NaN."""
    there = ~np.isnan(rows)
    sums = np.where(there, rows, 0).sum(axis=0)
    return [float(s / n) if n else np.nan for s, n in zip(sums, there.sum(axis=0), strict=True)]
