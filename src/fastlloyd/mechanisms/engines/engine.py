"""Interface of an engine, which hands pieces of records to workers that may die and be replaced."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

Result = TypeVar("Result")
PULSE = 0.5  # seconds in which something comes, or None


class Engine(Protocol):
    """Workers that can read the pieces themselves. A subclass defines `name` and `map`.

    name : for messages. kept_bytes : bytes that all workers together may keep between passes.
    """

    @property
    def name(self) -> str: ...  # noqa: D102 - see the class
    @property
    def kept_bytes(self) -> int:  # noqa: D102
        return 0

    def map(
        self, function: Callable[[Any], Result], pieces: Sequence[Any]
    ) -> Iterator[tuple[int, Result] | None]:
        """Yield the result of the function for each piece, with the number of the piece from 0, in
        any order.

        None is yielded if nothing came for a while, so that the caller may give up. The function is
        plain data that can be called, and raises nothing. It may be called again for a piece whose
        worker died; only its result counts. Raises EngineError.
        """
        ...

    # nothing is kept
    def keep(
        self,
        function: Callable[[Any], Any],  # noqa: ARG002
        pieces: Sequence[Any],
    ) -> list[Any]:
        """Return for each piece a handle of the function's result, to pass to `map`. The result
        stays at its worker until `close`.
        """
        return list(pieces)

    def close(self) -> None:
        """Stop the workers, and drop the results that they keep."""
        return
