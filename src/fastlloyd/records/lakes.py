"""Tables of a lake: a log beside their files says which of them count now, and the files alone hold more."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from typing import Final

from fastlloyd.errors import DataError
from fastlloyd.records import stores

LOGS: Final = {"_delta_log": "Delta Lake", ".hoodie": "Hudi", "metadata/*.metadata.json": "Iceberg"}
_AT_ONCE = 16  # a store takes its time to answer


def check(paths: Iterable[str]) -> None:
    """Raise DataError if a folder that one of the files lies in, directly or not, is that of a table."""
    folders = sorted({folder for within in {os.path.dirname(path) for path in paths} for folder in _around(within)})  # noqa: PTH120 - of addresses, too
    asked = [(folder, log) for folder in folders for log in LOGS]
    with ThreadPoolExecutor(_AT_ONCE) as several:
        for (folder, log), found in zip(asked, several.map(_has, asked), strict=True):
            if found:
                raise DataError(
                    f"{folder}: this is a table of {LOGS[log]}, whose files also hold what was deleted, and some records "
                    "twice; write its present records to a folder of their own"
                )


def _around(folder: str) -> list[str]:
    """The folder and those around it, but those that state a column: they are parts of a table."""
    if stores.is_address(folder):
        scheme, _, rest = folder.partition("://")
        here = PurePosixPath(rest)
        found = [f"{scheme}://{path}" for path in (here, *here.parents) if path.name]
    else:
        names = {Path(os.path.abspath(folder)), Path(folder).resolve()}  # noqa: PTH100 - keeps links
        found = [str(path) for name in names for path in (name, *name.parents)]
    return [path for path in found if "=" not in PurePosixPath(path).name]


def _has(asked: tuple[str, str]) -> bool:
    folder, log = asked
    pattern = f"{glob.escape(folder)}/{log}"
    return stores.is_there(pattern) if stores.is_address(folder) else bool(glob.glob(pattern))  # noqa: PTH207 - knows absolute ones
