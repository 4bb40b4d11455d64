"""Collection of all faults of a request, so that they are reported together."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from fastlloyd.errors import FastLloydError, Problems

D = TypeVar("D")
T = TypeVar("T")


class Faults:
    """Faults that were found so far in a request."""

    def __init__(self) -> None:
        self._errors: list[FastLloydError] = []

    @contextmanager
    def noted(self, field: str | None = None) -> Iterator[None]:
        """Context manager. If its block raises a fault, note the fault and continue after the
        block.

        field : name of the field at fault, if the error has none.
        """
        try:
            yield
        except Problems as problems:
            self._errors += problems.errors
        except FastLloydError as error:
            error.field = error.field or field
            if str(error) not in map(str, self._errors):
                self._errors.append(error)

    def value(self, default: D, make: Callable[[], T], field: str | None = None) -> D | T:
        """Return the value of `make`, or note its error and return the default.

        field : name of the field at fault, if the error has none.
        """
        found: list[D | T] = [default]
        with self.noted(field):
            found = [make()]
        return found[0]

    def check(self) -> None:
        """Raise Problems if a fault was noted."""
        if self._errors:
            raise Problems(self._errors) from None


@contextmanager
def raising_problems() -> Iterator[None]:
    """Context in which a fault is raised as Problems."""
    try:
        yield
    except Problems:
        raise
    except FastLloydError as error:
        raise Problems([error]) from None
