"""Files of a result, read from a folder or given as bytes."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self

from fastlloyd.base.files import decoded
from fastlloyd.base.places import whose
from fastlloyd.base.sealed_toml import text_of
from fastlloyd.errors import UNREADABLE_FILE, DataError, PlanError
from fastlloyd.reports.run_result import COMPARISON, FILES, PAGE, PICTURE, PRIVACY

_MADE = PAGE, PICTURE, COMPARISON  # made from the others, or not covered by the guarantee


class StoredFiles(NamedTuple):
    """Files of a result, with their contents.

    folder : folder of the files, for error messages.
    contents : content of each file by its name.
    """

    folder: Path
    contents: Mapping[str, bytes]

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read the files of a result that are in a folder. Raises DataError for a file that cannot
        be read.
        """
        contents = {}
        for name in FILES:
            path = folder / name
            try:
                if path.is_file():
                    contents[name] = path.read_bytes()
            except OSError as error:
                raise DataError(f"{path} cannot be read ({error.strerror}){whose(path)}") from None
        return cls(folder, contents)

    @property
    def sources(self) -> tuple[str, ...]:
        """Names of the files from which the page of the result is made, in the order of `FILES`."""
        return tuple(name for name in FILES if name in self.contents and name not in _MADE)

    @property
    def cautions(self) -> list[str]:
        """Cautions of the privacy statement."""
        return list(self.json(PRIVACY)["cautions"])

    def with_file(self, name: str, content: bytes) -> "StoredFiles":
        """Return the files with one more file. It replaces a file of the same name."""
        return self._replace(contents={**self.contents, name: content})

    def document(self, name: str) -> str:
        """Return the text of a sealed document. Raises PlanError if it is missing or no text."""
        try:
            return text_of(self.content(name), self.folder / name)
        except DataError as error:
            raise PlanError(str(error), code=UNREADABLE_FILE) from None

    def content(self, name: str) -> bytes:
        """Return the content of a file. Raises DataError if it is missing."""
        if name not in self.contents:
            raise DataError(f"{self.folder / name} is missing; keep the files of a result together")
        return self.contents[name]

    def json(self, name: str) -> Any:
        """Return the content of a JSON file, or None if it is not JSON. Raises DataError if the
        file is missing or not text.
        """
        path = self.folder / name
        try:
            text = decoded(self.content(name), path, "get the original")
        except ValueError as error:
            raise DataError(str(error)) from None
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return None
