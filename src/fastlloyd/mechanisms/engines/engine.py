"""Interface of an engine: it hands pieces of records to workers, which may die and be replaced."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

Result = TypeVar("Result")
PULSE = 0.5  # seconds in which something comes, or None


class Engine(Protocol):
    """Workers that reach the pieces by themselves. Who derives from this class writes `name` and
    `map`, and keeps nothing.

    name : for messages. kept_bytes : what the workers may hold between passes, all together.
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

        None means that nothing came for a while, so that the caller may give up. The function is
        plain data that can be called, and raises nothing. It may be called again for a piece whose
        worker died; only what is returned counts. Raises EngineError.
        """
        ...

    # nothing is kept
    def keep(
        self,
        function: Callable[[Any], Any],  # noqa: ARG002
        pieces: Sequence[Any],
    ) -> list[Any]:
        """For each piece what stands in `map` for the function's result, which stays where it was
        made until `close`.
        """
        return list(pieces)

    def close(self) -> None:
        """Let go of the workers, and of what they keep."""
        return
