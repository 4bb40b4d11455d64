"""Notes of a ledger on its runs: command, purpose and the files that held the records.

The notes are for the owner of the ledger and never leave it. They contain neither the content of a
file nor a digest of it, keyed or not: with a digest and its key, guesses of records can be tested.
"""

from typing import Annotated, Final, NamedTuple

import msgspec
from msgspec import Meta

from fastlloyd.errors import BudgetError

MAX_PURPOSE: Final = 200
MAX_PATH: Final = 4096
Count = Annotated[int, Meta(ge=0)]
Purpose = Annotated[str, Meta(max_length=MAX_PURPOSE)]


class DataFiles(
    msgspec.Struct, frozen=True, kw_only=True, array_like=True, forbid_unknown_fields=True
):
    """Facts about the files of a run, by which the files are recognised later. The facts take no
    more space for more files.

    path : full path of the file, folder or pattern. If it is longer than `MAX_PATH`, only its end
        is kept.
    n_files : number of files.
    size : size of all files, in bytes.
    changed : newest time of change, in nanoseconds since 1970, UTC.
    inode, device : inode and device of the file if there is only one, otherwise 0.
    """

    path: Annotated[str, Meta(max_length=MAX_PATH)]
    n_files: Count
    size: Count
    changed: int
    inode: Count = 0
    device: Count = 0

    def is_unchanged(self, earlier: "DataFiles") -> bool:
        """Return whether these files and the earlier files have the same size, time and number.
        They must also have the same path or, for a single file, the same inode.
        """
        if (self.n_files, self.size, self.changed) != (
            earlier.n_files,
            earlier.size,
            earlier.changed,
        ):
            return False
        same_inode = (self.inode, self.device) == (earlier.inode, earlier.device)
        return self.path == earlier.path or (self.n_files == 1 and same_inode)


class Noted(NamedTuple):
    """Facts that a ledger keeps with the next run.

    command : command or estimator that charges, in one word.
    purpose : purpose in words, or "".
    files : files of the records, or None if they are in no files of this machine.
    """

    command: str = ""
    purpose: str = ""
    files: DataFiles | None = None


NOTHING: Final = Noted()


def checked_purpose(purpose: str | None) -> str:
    """Return the purpose of a run, or "" if it is None. Raises BudgetError unless it is one short
    line.
    """
    if purpose is None:
        return ""
    said = purpose.strip()
    if not said or len(said) > MAX_PURPOSE or not said.isprintable():
        fault = (
            "is empty"
            if not said
            else f"has {len(said)} characters"
            if len(said) > MAX_PURPOSE
            else "has a line break or another character that cannot be printed"
        )
        raise BudgetError(
            f"purpose {fault}; expected one line of 1 to {MAX_PURPOSE} characters", field="purpose"
        )
    return said
