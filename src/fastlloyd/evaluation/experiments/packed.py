"""`trials.jsonl`, or `trials.jsonl.gz` in its place: trials that are handed on take a tenth of the space."""

import gzip
import zlib
from pathlib import Path

from fastlloyd.errors import OutputError
from fastlloyd.reports.outputs import write_file

SUFFIX = ".gz"


def content(path: Path) -> bytes | None:
    """What is in the file, or in its packed form where there is only that; None if there is neither. Raises OutputError."""
    packed = _packed(path)
    try:
        if path.exists():
            return path.read_bytes()
        return gzip.decompress(packed.read_bytes()) if packed.exists() else None
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise OutputError(f"{packed} is not a whole gzip file; get it anew") from None
    except OSError as error:
        raise OutputError(f"{path} cannot be read ({error.strerror})") from None


def unpack(path: Path) -> None:
    """Bring a packed file into the form that trials can be added to; nothing happens where it has that already."""
    found = content(path)
    if found is not None and not path.exists():
        write_file(path, found.decode())
        _packed(path).unlink()


def _packed(path: Path) -> Path:
    return path.with_name(path.name + SUFFIX)
