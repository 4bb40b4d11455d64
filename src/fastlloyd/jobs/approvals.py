"""Approvals of runs by the owner of the records, in a file beside the store of the client.

The file `NAME.approvals.jsonl` is for this organisation alone. A line is added for each run before
it begins, and no line is ever changed.
"""

import os
import time
from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from fastlloyd.errors import OutputError
from fastlloyd.federation.plan.plan import Plan

Line = Annotated[str, Meta(max_length=200)]
ENDING: Final = ".approvals.jsonl"


class Approval(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Approval of one run, as its owner noted it.

    by : person who approved.
    on : day of the approval.
    document : document with the signature, such as a number or a place, or "".
    """

    by: Line
    on: Line
    document: Line = ""


def approvals_path(store: Path) -> Path:
    """Return the path of the file of approvals beside a store."""
    return store.with_suffix(ENDING)


def note_approval(approval: Approval, plan: Plan, dataset: str, store: Path) -> None:
    """Add an approval to the file beside a store (mode 0600), unless the last line of the file is
    the same approval.

    Raises OutputError if the file cannot be written.
    """
    path = approvals_path(store)
    entry = {
        "plan": plan.digest.hex(),
        "run": plan.run_id,
        "study": "" if plan.study is None else plan.study.texts.get("name", ""),
        "dataset": dataset,
        "approved_by": approval.by,
        "on": approval.on,
        "document": approval.document,
    }
    try:
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
        with os.fdopen(os.open(path, flags, 0o600), "r+b") as file:
            if _is_last(file.read(), entry):
                return
            noted = {"noted": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
            file.write(msgspec.json.encode(entry | noted) + b"\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise OutputError(f"{path} cannot be written ({error.strerror})") from None


def _is_last(content: bytes, entry: dict[str, str]) -> bool:
    lines = content.splitlines()
    try:
        last = msgspec.json.decode(lines[-1], type=dict[str, str]) if lines else {}
    except ValueError:
        return False
    return entry.items() <= last.items()
