"""Records of a client as its file of fingerprints knows them, for tests whose records do not
matter.
"""

from pathlib import Path

from fastlloyd.federation.fingerprint import Fingerprint
from fastlloyd.federation.fingerprint_file import FILE_NAME, FingerprintFile
from fastlloyd.federation.runs import KnownRecords, own_runs
from fastlloyd.federation.store import Store

FINGERPRINT = Fingerprint(bytes(32))


def known_records(
    store: Store, fingerprint: Fingerprint = FINGERPRINT, folder: Path | None = None
) -> KnownRecords:
    """With the file in the folder, or beside the store; it is made if there is none."""
    folder = store.path.parent if folder is None else folder
    folder.mkdir(parents=True, exist_ok=True)
    file = FingerprintFile(folder / FILE_NAME)
    return KnownRecords(fingerprint, file.opened(own_runs(store)), file)
