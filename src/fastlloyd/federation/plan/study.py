"""What a run is for and who answers for it, in words of those who plan it: for people, and for no decision of the program."""

import msgspec

from fastlloyd.errors import PlanError

MAX_LENGTH = 500  # characters


class Study(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Free text, each on one line of at most 500 printable characters; None is left out of a plan and its digest.

    name : the study's. purpose : what the result is wanted for. controller : who decides about purpose and means, and so
    answers for the processing. contact : whom people ask.
    """

    name: str | None = None
    purpose: str | None = None
    controller: str | None = None
    contact: str | None = None

    def __post_init__(self) -> None:
        texts = self.texts
        if not texts:
            raise PlanError("a study says nothing; expected a name, a purpose, a controller or a contact, or no study at all")
        for what, text in texts.items():
            if not (text.isprintable() and text == text.strip() and 1 <= len(text) <= MAX_LENGTH):
                raise PlanError(
                    f"{what} of the study is {text!r:.100}; expected 1 to {MAX_LENGTH} printable characters on one line, "
                    "without spaces around them"
                )

    @property
    def texts(self) -> dict[str, str]:
        """What is said, by field, in their order."""
        return {what: text for what, text in msgspec.structs.asdict(self).items() if text is not None}
