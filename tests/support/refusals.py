"""Refusals, told by their codes and fields. Codes stay, and sentences may change."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import pytest

from fastlloyd.errors import FastLloydError

E = TypeVar("E", bound=FastLloydError)


@contextmanager
def raises_code(
    kind: type[E], code: str, field: str | None = None
) -> Iterator[pytest.ExceptionInfo[E]]:
    """Context whose block raises an error of this kind with this code, about this field."""
    with pytest.raises(kind) as refused:
        yield refused
    assert (refused.value.code, refused.value.field) == (code, field), str(refused.value)
