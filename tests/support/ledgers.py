"""Ledgers that know a data set, as after `--new-dataset` and before any run."""

from pathlib import Path

from fastlloyd.federation.admission import DataSet
from fastlloyd.federation.holder import HoldersLedger


def knowing(path: Path, *names: str) -> HoldersLedger:
    """The ledger at `path`, made if it is not there, which knows these data sets, or "patients"."""
    ledger = HoldersLedger(path)
    for name in names or ("patients",):
        ledger.named(DataSet(name=name, is_new=True))
    return ledger
