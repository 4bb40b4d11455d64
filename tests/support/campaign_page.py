"""docs/results/campaigns.md: each campaign writes its own section, and leaves those of the others
as they are.

A run of full size writes the page. A smaller one only prints, unless CAMPAIGN_PAGE names the file
that it is to write. TAKE_UP=FILE keeps in FILE what was found, part by part, each part that had no
fault; given again a campaign goes on with the rest, and with the code as it is then.
"""

import datetime as dt
import json
import os
import platform
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from fastlloyd import __version__

PAGE = Path(__file__).parents[2] / "docs" / "results" / "campaigns.md"
SECTIONS = (
    "Schedules",
    "Lies about keys",
    "Kills",
    "Damaged stores",
    "Fuzzed parsers",
    "Persons",
    "Bounds",
    "Dealt records",
    "Clipping",
    "Eight bits",
)
HEADING = """\
# Campaigns

Long forms of tests that every commit must pass. `make campaign` writes this page: each section comes from the run that it
names, at full size. A run that finds a fault writes nothing. Change nothing here by hand.
"""


def table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """In Markdown."""
    names = list(columns)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (names, ["---"] * len(names), *rows))


def aligned(lines: Sequence[Sequence[str]]) -> str:
    """For a terminal: the first column to the left, the others to the right."""
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return "\n".join(
        "  ".join(
            [
                line[0].ljust(widths[0]),
                *(cell.rjust(w) for cell, w in zip(line[1:], widths[1:], strict=True)),
            ]
        )
        for line in lines
    )


def measured(started: dt.datetime, **versions: str) -> str:
    """When, with what, on what machine, and for how long: the first sentence of a section."""
    minutes = (dt.datetime.now(dt.UTC) - started).total_seconds() / 60
    used = ", ".join(
        [
            f"Python {platform.python_version()}",
            *(f"{name} {version}" for name, version in versions.items()),
        ]
    )
    return (
        f"Measured on {started.date().isoformat()} with fastlloyd {__version__} ({used}) on"
        f" {platform.system()}, {platform.machine()}, {os.cpu_count()} cores, in"
        f" {max(1, round(minutes))} min."
    )


def kept() -> dict[tuple[Any, ...], Any]:
    """What earlier runs found, by part, from the file that TAKE_UP names."""
    path = Path(os.environ.get("TAKE_UP") or os.devnull)
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return {tuple(part): found for part, found in map(json.loads, lines)}


def keep(part: tuple[Any, ...], found: Any) -> None:
    """Add what was found in a part, which JSON can hold, to that file."""
    with Path(os.environ.get("TAKE_UP") or os.devnull).open("a", encoding="utf-8") as file:
        file.write(json.dumps([part, found]) + "\n")


def write_section(title: str, text: str, *, is_full_size: bool) -> None:
    """Put `text` in the place of what the page says under `title`."""
    named = os.environ.get("CAMPAIGN_PAGE")
    if not (named or is_full_size):
        return
    page = Path(named) if named else PAGE
    sections = _sections(page.read_text(encoding="utf-8")) if page.exists() else {}
    sections[title] = text.strip()
    found = [f"## {name}\n\n{sections[name]}\n" for name in SECTIONS if name in sections]
    page.write_text("\n".join([HEADING, *found]), encoding="utf-8")


def _sections(page: str) -> dict[str, str]:
    parts = page.split("\n## ")[1:]
    return {title: text.strip() for title, _, text in (part.partition("\n") for part in parts)}
