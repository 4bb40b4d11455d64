"""Request for a job that is charged, as one file. One process writes it and starts another process,
which carries it out.

The file names records, result folder and ledger entry. The run id in the file is also the id of the
entry in the ledger. So anybody who has the file can find out whether the run was charged.
"""

import os
from pathlib import Path
from typing import Annotated, ClassVar, Final, Self

import msgspec
from msgspec import Meta

from fastlloyd.base.files import write_private
from fastlloyd.base.own_files import read_own
from fastlloyd.errors import UNREADABLE_FILE, WRONG_FILE, DataError, StateError
from fastlloyd.federation.admission import DataSet
from fastlloyd.federation.store.noted import DataFiles, checked_purpose
from fastlloyd.jobs.account import BudgetAccount
from fastlloyd.jobs.data_files import files_of

MAX_BYTES: Final = 1 << 22
CHANGED: Final = (
    "{path} is not the file that was confirmed: its size, its time or its place on the disk has"
    " changed; look at it, and confirm again. Nothing was spent"
)


class RequestFile(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="command"
):
    """Request for a job, in plain values.

    run_id : id of the run in the ledger, 32 hex digits.
    records : full path of the file of the records.
    files : facts about this file when its owner confirmed the request.
    out : full path of the folder of the result.
    ledger : full path of the ledger, or None for the holder's default.
    new_dataset, new_unit : as in `DataSet`.
    purpose : purpose of the run in words, or None.
    """

    command: ClassVar[str] = ""
    """Command that carries the request out."""

    run_id: Annotated[str, Meta(pattern="^[0-9a-f]{32}$")]
    records: str
    files: DataFiles
    out: str
    ledger: str | None = None
    new_dataset: bool = False
    new_unit: bool = False
    purpose: str | None = None

    @classmethod
    def read(cls, path: Path) -> Self:
        """Return the request in a file of mode 0600. Raises StateError as `read_own` does, or if
        the file is not a request of this kind.
        """
        content = read_own(path, MAX_BYTES)
        try:
            return msgspec.json.decode(content, type=cls)
        except (ValueError, RecursionError):
            raise StateError(
                f"{path} is not a request for {cls.command} that this version knows; nothing was"
                " done",
                code=WRONG_FILE,
            ) from None

    def write(self, path: Path) -> None:
        """Make the file, with mode 0600. Raises OutputError if the file already exists."""
        write_private(path, msgspec.json.encode(self).decode())

    def check_unchanged(self) -> None:
        """Raise DataError unless the file of the records is the one that was confirmed."""
        if not os.path.isabs(self.records):  # noqa: PTH117 - a path that is no pattern
            raise DataError(f"records is {self.records!r:.80}; expected a full path")
        now = files_of(self.records)
        if now is None or now.n_files != 1 or now != self.files:
            raise DataError(
                CHANGED.format(path=self.records), code=UNREADABLE_FILE, field="records"
            )

    def account(self, dataset: str) -> BudgetAccount:
        """Return the account that is charged for the run. Raises BudgetError if the name or the
        purpose cannot be used.
        """
        return BudgetAccount(
            DataSet(name=dataset, is_new=self.new_dataset, is_new_unit=self.new_unit),
            None if self.ledger is None else Path(self.ledger),
            by=self.command,
            purpose=checked_purpose(self.purpose),
            files=self.files,
            run_id=bytes.fromhex(self.run_id),
        )
