"""Text files as editors and mail programs return them: byte order marks, UTF-16, broken lines."""

import re
from typing import Final

MARK: Final = b"\xef\xbb\xbf"
"""Byte order mark (BOM), which some editors put before UTF-8."""

_UTF_16: Final = (b"\xff\xfe", b"\xfe\xff")
_AS_ATTACHMENT: Final = "have the file sent as an attachment, in a ZIP file if need be"
# a line of TOML as fastlloyd writes it: nothing, a comment, a table, a field, an item of a list
_LINE: Final = re.compile(
    r"\s*(?:|[#\[\]{}].*|[A-Za-z0-9_\".-]+\s*=(?!3D).*|[\"'0-9+-].*|true,|false,)"
)


def decoded(data: bytes, source: object, otherwise: str) -> str:
    """Return the text of a UTF-8 file, without a byte order mark.

    source : name of the file, for error messages.
    otherwise : sentence that says what to do with a file that is not text.

    Raises ValueError if the data are not UTF-8.
    """
    if data.startswith(_UTF_16) or b"\0" in data[:64]:
        raise ValueError(
            f"{source} is saved as UTF-16, as Windows PowerShell does; use the original file, or"
            " save this file as UTF-8"
        )
    try:
        return data.removeprefix(MARK).decode()
    except UnicodeDecodeError:
        raise ValueError(f"{source} is not a text file; {otherwise}") from None


def changed_on_its_way(text: str, source: object) -> str:
    """Return a sentence that says how a mail program changed a text that is no longer TOML.

    The sentence is "" if the text shows no such change. It quotes no part of the text.
    """
    lines = text.splitlines()
    if any(line.startswith(">") for line in lines):
        how = "its lines begin with >, as in an answer to a mail"
    elif re.search(r"(?i)<html|<body|&quot;|\{\\rtf", text):
        how = "it is a formatted page, not plain text"
    elif "=3D" in text:
        how = "it contains codes such as =3D, which some mail programs put in (quoted-printable)"
    elif re.search("[\u2018\u2019\u201c\u201d\u201e\u00ab\u00bb]", text):
        how = "its quotation marks were exchanged for curly ones"
    elif any(_is_broken(line) for line in lines):
        how = "a line was broken in two"
    else:
        return ""
    return f"{source} was changed by a mail program or an editor ({how}); {_AS_ATTACHMENT}"


def _is_broken(line: str) -> bool:
    marks = len(re.findall(r'(?<!\\)"', line))
    return _LINE.fullmatch(line) is None or (marks % 2 == 1 and not line.startswith("#"))
