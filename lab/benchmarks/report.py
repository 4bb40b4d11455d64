"""Rows of figures, for the screen and for the tables of docs/results/performance.md."""

import os
import platform
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from benchmarks.timing import Pair
from fastlloyd_lab.experiments.runner import installed

PAGE = Path(__file__).parents[2] / "docs" / "results" / "performance.md"
PACKAGES = ("numpy", "scipy", "numba", "scikit-learn", "pyarrow")


class Row(NamedTuple):
    """Row of a table: the measured work, the named peer, and the times of both."""

    what: str
    peer: str
    pair: Pair


def as_markdown(rows: Iterable[Row]) -> str:
    """Return the rows as a Markdown table."""
    return as_table(
        ["what", "ours, ms", "peer, ms", "peer / ours", "named peer"], "lrrrl", map(_cells, rows)
    )


def as_table(headings: Sequence[str], alignment: str, rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table.

    alignment : a letter for each column: l for text, r for numbers.
    """
    marks = "".join(f"{'---' if letter == 'l' else '---:'}|" for letter in alignment)
    return "\n".join(
        [f"| {' | '.join(headings)} |", f"|{marks}", *(f"| {' | '.join(row)} |" for row in rows)]
    )


def milliseconds(seconds: Iterable[float]) -> str:
    """Return several times as the text of one cell."""
    return " / ".join(f"{1e3 * each:,.1f}" for each in seconds)


def machine(*more: str) -> str:
    """Return a sentence part about the machine, the packages and the day of a measurement.

    more : names of further packages. Those that are not installed are left out.
    """
    found = {name: installed(name) for name in (*PACKAGES, *more)}
    packages = ", ".join(f"{name} {version}" for name, version in found.items() if version)
    return (
        f"{os.cpu_count()} cores ({platform.machine()}, {_processor()}), {platform.system()}, "
        f"Python {platform.python_version()}, {packages}; {datetime.now(UTC):%Y-%m-%d}"
    )


def write_section(name: str, content: str, page: Path = PAGE) -> None:
    """Replace the content between the two marks of a section of a page.

    name : name of the section in the marks.
    """
    text = page.read_text(encoding="utf-8")
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->\n"
    head, _, rest = text.partition(begin)
    _, _, tail = rest.partition(end)
    page.write_text(f"{head}{begin}\n{content.strip()}\n\n{end}{tail}", encoding="utf-8")


def publish(name: str, content: str, page: Path = PAGE, *, write: bool = True) -> None:
    """Print a section, and write it to its page unless `write` is false."""
    print(content, end="\n\n", flush=True)
    if write:
        write_section(name, content, page)


def _cells(row: Row) -> tuple[str, str, str, str, str]:
    ours, peer, ratio = row.pair
    return row.what, f"{1e3 * ours:.3f}", f"{1e3 * peer:.3f}", f"{ratio:.2f}", row.peer


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    named = re.search(r"model name\s*: (.+)", info.read_text()) if info.exists() else None
    return named[1].strip() if named else platform.processor() or "unknown processor"
