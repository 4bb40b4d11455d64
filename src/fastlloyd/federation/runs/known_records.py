"""Records of a client, recognised by their fingerprint in the file of fingerprints."""

from collections.abc import Container
from typing import NamedTuple

from fastlloyd.federation.client_news import own_run_id
from fastlloyd.federation.fingerprint import Fingerprint
from fastlloyd.federation.fingerprint_file import FingerprintFile, Fingerprints
from fastlloyd.federation.store import Store


def own_runs(store: Store) -> dict[bytes, str]:
    """Return the data set of each run in a client's store, by the id under which a ledger knows the
    run.
    """
    return {
        own_run_id(run_id, store.identity): run.reserved.dataset
        for run_id, run in store.history.runs.items()
        if run.reserved is not None
    }


def counted_runs(store: Store) -> frozenset[bytes]:
    """Return the ids under which a ledger knows the runs that a client's store lists in
    `History.counted`.
    """
    return frozenset(own_run_id(run_id, store.identity) for run_id in store.history.counted)


class KnownRecords(NamedTuple):
    """Records of a client, recognised by their fingerprint.

    fingerprint : fingerprint of the records, made under the key of `known`.
    known : content of the file of fingerprints, with an entry for each run of the client's store
        (`FingerprintFile.complete`).
    file : file of fingerprints, in which new fingerprints are stored.
    """

    fingerprint: Fingerprint
    known: Fingerprints
    file: FingerprintFile

    def check_new(self, run_id: bytes, dataset: str, counted: Container[bytes]) -> None:
        """Raise BudgetError if one of the runs in `counted` used the same records under another
        name of the data set. Nothing is written.

        run_id, counted : as in `Fingerprints.check_name`.
        """
        self.known.check_name(dataset, self.fingerprint, run_id, counted)

    def check_same(self, run_id: bytes, shown: str) -> None:
        """Raise StateError unless the run that is to continue was begun with exactly these records.

        run_id : id of the run in the ledger.
        shown : id of the run in its plan, for the message.
        """
        self.known.check_same_records(run_id, shown, self.fingerprint)

    def keep(self, run_id: bytes, dataset: str, counted: Container[bytes]) -> None:
        """Keep the fingerprint for a run that is about to be counted, durably.

        Parameters and errors are those of `FingerprintFile.note`.
        """
        self.file.note(run_id, dataset, self.fingerprint, self.known.hash_key, counted)
