"""Interface of engines, which send pieces of records to workers that may die and be replaced."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

Result = TypeVar("Result")
PULSE = 0.5  # seconds in which something comes, or None


class Engine(Protocol):
    """Workers that read pieces of records. A subclass defines `name` and `map`.

    name : name of the engine, for error messages.
    kept_bytes : number of bytes that all workers together may keep between passes.
    """

    @property
    def name(self) -> str: ...  # noqa: D102 - see the class
    @property
    def kept_bytes(self) -> int:  # noqa: D102
        return 0

    def map(
        self, function: Callable[[Any], Result], pieces: Sequence[Any]
    ) -> Iterator[tuple[int, Result] | None]:
        """Yield, in any order, the index of each piece (from 0) and the result of `function` for
        it.

        None is yielded if no result arrived for a while, so that the caller may give up. The
        function is a callable made of plain data, and raises no error. If a worker dies, another
        worker may call the function again for the same piece. Only one result of each piece is
        yielded.

        Raises EngineError if a worker is lost and no other can replace it, or if a piece cannot be
        computed.
        """
        ...

    # nothing is kept
    def keep(
        self,
        function: Callable[[Any], Any],  # noqa: ARG002
        pieces: Sequence[Any],
    ) -> list[Any]:
        """Return, for each piece, a handle of the function's result, to pass to `map`.

        The worker keeps the result until `close`.
        """
        return list(pieces)

    def close(self) -> None:
        """Stop the workers, and discard the results that they keep."""
        return
