"""Purpose of a run and the people who answer for it, in words."""

import msgspec

from fastlloyd.errors import PlanError

MAX_TEXT_LENGTH = 500  # characters


class Study(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Purpose of a run and responsible people, in words. The program makes no decision from them.

    Each field is one line of at most 500 printable characters. A field that is None is not part of
    the plan and its digest.

    name : name of the study.
    purpose : use of the result.
    controller : body that decides about purpose and means, and so is responsible for the
        processing.
    contact : person to ask.

    Raises PlanError if all fields are None, or if a text is too long or not printable.
    """

    name: str | None = None
    purpose: str | None = None
    controller: str | None = None
    contact: str | None = None

    def __post_init__(self) -> None:
        texts = self.texts
        if not texts:
            raise PlanError(
                "the study is empty; expected a name, a purpose, a controller or a contact, or no"
                " study at all"
            )
        for what, text in texts.items():
            if not (
                text.isprintable() and text == text.strip() and 1 <= len(text) <= MAX_TEXT_LENGTH
            ):
                raise PlanError(
                    f"{what} of the study is {text!r:.100}; expected 1 to {MAX_TEXT_LENGTH}"
                    " printable characters on one line, without spaces around them"
                )

    @property
    def texts(self) -> dict[str, str]:
        """Texts that are given, by the name of the field, in the order of the fields."""
        return {
            what: text for what, text in msgspec.structs.asdict(self).items() if text is not None
        }
