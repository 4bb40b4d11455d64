"""Names that people give to a result and its clusters, kept next to its files in names.toml."""

import tomllib
from collections.abc import Mapping
from typing import Final, NamedTuple, Self

import tomli_w

from fastlloyd.errors import DataError

LONGEST: Final = 60  # characters of a name or title
_TITLE, _NAMES = "title", "names"
_HEADING: Final = (
    "# Names that people gave to a result and its clusters. The guarantee does not cover them.\n"
)


class Names(NamedTuple):
    """Names of a result.

    title : title of the result, or None.
    clusters : names of clusters by their number.
    """

    title: str | None = None
    clusters: Mapping[int, str] = {}

    def __bool__(self) -> bool:
        """Return whether there is any name."""
        return self.title is not None or bool(self.clusters)

    def check(self, n_clusters: int, source: str) -> None:
        """Raise DataError for a name that cannot be shown, or for a cluster that does not exist.

        n_clusters : number of clusters of the result.
        source : name of the file or option, for error messages.
        """
        texts = list(self.clusters.values()) + ([] if self.title is None else [self.title])
        for text in texts:
            if not (text.isprintable() and text == text.strip() and 1 <= len(text) <= LONGEST):
                raise DataError(
                    f"{source}: the name {text!r:.100} cannot be shown; expected 1 to {LONGEST}"
                    " printable characters on one line, without spaces around them"
                )
        for number in self.clusters:
            if not 0 <= number < n_clusters:
                numbers = (
                    "cluster 0 alone" if n_clusters == 1 else f"clusters 0 to {n_clusters - 1}"
                )
                raise DataError(f"{source}: there is no cluster {number}; the result has {numbers}")

    @classmethod
    def of(cls, content: bytes | None, n_clusters: int, source: str) -> Self:
        """Return the names in a file, or no names if content is None.

        n_clusters : number of clusters of the result.
        source : name of the file, for error messages.

        Raises DataError if it is not a file of names.
        """
        if content is None:
            return cls()
        try:
            read = tomllib.loads(content.decode())
            title, clusters = read.pop(_TITLE, None), read.pop(_NAMES, {})
            named = {int(number): name for number, name in clusters.items()}
            texts = [*named.values(), *([] if title is None else [title])]
            is_whole = not read and all(isinstance(text, str) for text in texts)
        except (ValueError, AttributeError, RecursionError):
            is_whole = False
        if not is_whole:
            raise DataError(
                f"{source} is not a file of names: expected a title, and a table [names] with a"
                " name for each number of a cluster"
            )
        names = cls(title, named)
        names.check(n_clusters, source)
        return names

    def to_toml(self) -> str:
        """Return the text of the file of names."""
        title = {} if self.title is None else {_TITLE: self.title}
        clusters = {str(number): name for number, name in sorted(self.clusters.items())}
        return _HEADING + tomli_w.dumps(title | ({_NAMES: clusters} if clusters else {}))


NO_NAMES: Final = Names()
