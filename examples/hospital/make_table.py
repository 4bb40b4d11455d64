"""A made-up export of a hospital, with everything that makes such tables hard to read.

`python make_table.py` writes hospital.csv; `--sites` writes the same rows as three files of three
sites, which write them differently. No row is of a person. A seed decides every cell, so the files
are the same on every machine.
"""

import argparse
import hashlib
import math
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from statistics import NormalDist
from typing import NamedTuple

N_PATIENTS, N_ROWS, SEED = 1750, 4200, 2023
DETECTION_LIMIT = 0.3  # of CRP, mg/l
GAPS = ("", "k.A.", "-")


class Kind(NamedTuple):
    """A group of patients: mean age in years, typical labs, share of rows with a gap."""

    share: float
    age: float
    creatinine: float
    crp: float
    gaps: float
    wards: tuple[str, ...]


KINDS = (
    Kind(0.50, 44, 0.85, 1.1, 0.27, ("Chirurgie", "Chirurgie", "Innere Medizin")),
    Kind(0.28, 56, 0.95, 95.0, 0.12, ("Chirurgie", "Innere Medizin", "Überwachung")),
    Kind(0.22, 74, 3.60, 9.0, 0.14, ("Innere Medizin", "Geriatrie", "Geriatrie")),
)


class Row(NamedTuple):
    """A row of the export. Labs are text with a decimal point: a number, "<0.3" or a gap."""

    patient: str
    admitted: date
    sex: str
    age: int
    creatinine: str
    crp: str
    ward: str


@dataclass(frozen=True, kw_only=True)
class Site:
    """Form of a file. columns : headers by the fields of a row, in their order in the file."""

    file: str
    columns: Mapping[str, str]
    separator: str
    decimal: str
    encoding: str
    dates: str = "%d.%m.%Y"
    words: Mapping[str, str]  # what this site writes instead of a word of the hospital

    def content(self, rows: list[Row]) -> bytes:
        """Return the file of the rows."""
        lines = [list(self.columns.values()), *map(self._cells, rows)]
        text = "".join(self.separator.join(line) + "\r\n" for line in lines)
        return text.encode(self.encoding)

    def _cells(self, row: Row) -> list[str]:
        cells = row._asdict() | {"admitted": row.admitted.strftime(self.dates)}
        for lab in ("creatinine", "crp"):
            cells[lab] = cells[lab] if cells[lab] in GAPS else self._number(cells[lab])
        return [self.words.get(str(cells[name]), str(cells[name])) for name in self.columns]

    def _number(self, text: str) -> str:
        return text.replace(".", self.decimal)


HOSPITAL = Site(
    file="hospital.csv",
    columns={
        "patient": "Patienten-ID",
        "admitted": "Aufnahmedatum",
        "sex": "Geschlecht",
        "age": "Alter",
        "creatinine": "Kreatinin (mg/dl)",
        "crp": "CRP (mg/l)",
        "ward": "Station",
    },
    separator=";",
    decimal=",",
    encoding="cp1252",
    words={},
)
NORTH = Site(
    file="north.csv",
    columns={
        "patient": "patient_id",
        "sex": "sex",
        "age": "age_years",
        "admitted": "admitted",
        "ward": "ward",
        "crp": "crp_mg_l",
        "creatinine": "creatinine_mg_dl",
    },
    separator=",",
    decimal=".",
    encoding="utf-8",
    dates="%Y-%m-%d",
    words={
        "w": "f",
        "k.A.": "n/a",
        "Chirurgie": "surgery",
        "Innere Medizin": "medicine",
        "Geriatrie": "geriatrics",
        "Überwachung": "monitoring",
    },
)
EAST = Site(
    file="east.tsv",
    columns={
        "ward": "Abteilung",
        "patient": "PatNr",
        "admitted": "Aufnahme am",
        "age": "Alter (Jahre)",
        "sex": "m/w",
        "creatinine": "Krea",
        "crp": "CRP quantitativ",
    },
    separator="\t",
    decimal=",",
    encoding="utf-8-sig",  # with a byte order mark, as a spreadsheet saves it
    dates="%d/%m/%Y",
    words={"k.A.": "fehlt"},
)
SOUTH = Site(
    file="south.csv",
    columns=HOSPITAL.columns,
    separator=";",
    decimal=",",
    encoding="cp1252",
    words={},
)
SITES = (NORTH, EAST, SOUTH)


class Draws:
    """Draws that follow from a seed alone, in every version of Python."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed).random  # noqa: S311 - made-up records, no noise

    def below(self, n: int) -> int:
        """Return a whole number from 0 to n - 1."""
        return int(self._random() * n)

    def chance(self, share: float) -> bool:
        """Return True in this share of draws."""
        return self._random() < share

    def normal(self, mean: float, deviation: float) -> float:
        """Return a normally distributed number."""
        return NormalDist(mean, deviation).inv_cdf(self._random() or 0.5)

    def shuffled(self, items: list[int]) -> list[int]:
        """Return the items in another order."""
        return [item for _, item in sorted((self._random(), item) for item in items)]


def true_groups() -> list[int]:
    """Return the group of each patient, in the order of their numbers."""
    ends = [round(N_PATIENTS * sum(kind.share for kind in KINDS[:n])) for n in (1, 2, 3)]
    groups = [sum(number >= end for end in ends[:2]) for number in range(N_PATIENTS)]
    return Draws(SEED + 1).shuffled(groups)


def patient_id(number: int) -> str:
    """Return the id of a patient: seven digits, often with leading zeros."""
    return f"{(number + 1) * 2741 % 999_983:07d}"


def rows() -> list[Row]:
    """Return all rows, in the order of admission; those of a patient lie apart."""
    draws = Draws(SEED)
    stays = [1] * N_PATIENTS
    for _ in range(N_ROWS - N_PATIENTS):
        stays[draws.below(N_PATIENTS)] += 1
    made = [
        row
        for number, group in enumerate(true_groups())
        for row in _of_patient(draws, number, KINDS[group], stays[number])
    ]
    return sorted(made, key=lambda row: (row.admitted, row.patient))


def _of_patient(draws: Draws, number: int, kind: Kind, n: int) -> Iterator[Row]:
    age = min(101, max(18, round(draws.normal(kind.age, 11))))
    sex = "w" if draws.chance(0.52) else "m"
    creatinine = math.log(kind.creatinine) + draws.normal(0, 0.22) + (0.08 if sex == "m" else -0.08)
    crp = math.log(kind.crp) + draws.normal(0, 0.65)
    for _ in range(n):
        labs = [
            f"{math.exp(creatinine + draws.normal(0, 0.12)):.2f}",
            _measured(math.exp(crp + draws.normal(0, 0.45))),
        ]
        if draws.chance(kind.gaps):
            labs[draws.below(5) > 1] = GAPS[draws.below(3)]  # CRP is left out more often
        yield Row(
            patient=patient_id(number),
            admitted=date(2023, 1, 1) + timedelta(days=draws.below(365)),
            sex=sex,
            age=age,
            creatinine=labs[0],
            crp=labs[1],
            ward=kind.wards[draws.below(3)],
        )


def _measured(crp: float) -> str:
    return f"<{DETECTION_LIMIT}" if crp < DETECTION_LIMIT else f"{crp:.1f}"


def site_of(patient: str) -> Site:
    """Return the site of a patient, whose rows lie in its file alone."""
    return SITES[hashlib.sha256(patient.encode()).digest()[0] % len(SITES)]


def files(*, sites: bool) -> dict[str, bytes]:
    """Return the files by name: the hospital's one, or those of the three sites."""
    made = rows()
    if not sites:
        return {HOSPITAL.file: HOSPITAL.content(made)}
    return {
        site.file: site.content([row for row in made if site_of(row.patient) is site])
        for site in SITES
    }


def main() -> None:
    """Write the files into a folder."""
    parser = argparse.ArgumentParser(description="Make up the table of a hospital.")
    parser.add_argument("--sites", action="store_true", help="write three files of three sites")
    parser.add_argument("--out", type=Path, default=Path(), help="folder for the files")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for name, content in files(sites=options.sites).items():
        (options.out / name).write_bytes(content)
        print(options.out / name)  # noqa: T201 - a script for a terminal


if __name__ == "__main__":
    main()
