"""Fields of a form that was sent to a page."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qs

from starlette.requests import Request

MAX_FIELDS: Final = 20_000


@dataclass(frozen=True)
class Form:
    """Fields of a form that a browser sent.

    fields : values by name. A checkbox that is not ticked has no value.
    """

    fields: Mapping[str, list[str]]

    @classmethod
    async def of(cls, request: Request) -> "Form":
        """Return the form in the body of a request. A form that cannot be read has no fields."""
        body = await request.body()
        try:
            return cls(
                parse_qs(
                    body.decode("ascii"),
                    keep_blank_values=True,
                    max_num_fields=MAX_FIELDS,
                    errors="strict",
                )
            )
        except ValueError:
            return cls({})

    def text(self, name: str) -> str:
        """Return the last value of a field without spaces around it, or ""."""
        return self.fields.get(name, [""])[-1].strip()

    def path(self, name: str) -> str:
        """Return the last value of a field without the quotation marks that a file manager puts
        around a path that is copied.
        """
        text = self.text(name)
        is_quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "\"'"
        return text[1:-1] if is_quoted else text

    def texts(self, name: str) -> list[str]:
        """Return all values of a field."""
        return list(self.fields.get(name, []))
