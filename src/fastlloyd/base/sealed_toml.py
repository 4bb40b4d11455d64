"""Settings as TOML and back, with a digest as the last line, which is checked on load.

The digest covers the content, not its spelling. The canonical form is JSON with sorted keys and no
spaces.
"""

import hashlib
import json
import re
import tomllib
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import tomli_w

from fastlloyd.base.files import decoded, read_start, unreadable
from fastlloyd.errors import (
    CHANGED_FILE,
    OTHER_VERSION,
    UNREADABLE_FILE,
    WRONG_FILE,
    PlanError,
)

T = TypeVar("T", bound=msgspec.Struct)
MAX_BYTES = 8 << 20  # no plan is larger; refused before it is parsed
# nor has one a longer line; the parser's time is quadratic in the length of a key
MAX_LINE = 1 << 14
_AS_ATTACHMENT = "have the file sent as an attachment, in a ZIP file if need be"
# a line of TOML as fastlloyd writes it: nothing, a comment, a table, a field, an item of a list
_LINE = re.compile(r"\s*(?:|[#\[\]{}].*|[A-Za-z0-9_\".-]+\s*=(?!3D).*|[\"'0-9+-].*|true,|false,)")
# no exponents: 1e99999999 is a number of a hundred megabytes
FRACTION = re.compile(r"-?[0-9]{1,80}(/[0-9]{1,80})?")


def to_builtins(document: msgspec.Struct) -> dict[str, Any]:
    """Return the document as tables, lists, strings and numbers, without None values."""
    content = msgspec.to_builtins(document, enc_hook=_encode)
    return without_none(content)  # type: ignore[no-any-return]  # a Struct becomes a dict


def canonical(document: msgspec.Struct) -> bytes:
    """Return the canonical form of a document: the bytes that its digest covers."""
    return _canonical(to_builtins(document))


def _canonical(content: dict[str, Any]) -> bytes:
    return json.dumps(
        content, sort_keys=True, separators=(",", ":"), ensure_ascii=True, default=str
    ).encode()


def _sealed(content: dict[str, Any], digest: str) -> bool:
    """Return whether content that this version cannot read matches its digest."""
    with suppress(ValueError, RecursionError):  # endless digits, endless brackets
        return hashlib.sha256(_canonical(content)).hexdigest() == digest
    return False


def digest(document: msgspec.Struct) -> bytes:
    """Return the SHA-256 of the document's canonical form, 32 bytes."""
    return hashlib.sha256(canonical(document)).digest()


def in_groups(digest: str) -> str:
    """Return hexadecimal digits in groups of four, for people to read out and compare."""
    return " ".join(digest[i : i + 4] for i in range(0, len(digest), 4))


def to_toml(document: msgspec.Struct, heading: str) -> str:
    """Return a document as TOML: the heading as comments, the content, and the digest as the last
    line.
    """
    comments = "".join(f"# {line}\n" for line in heading.splitlines())
    body = tomli_w.dumps(to_builtins(document), multiline_strings=False)
    return f'{comments}\n{body}\n[seal]\ndigest = "{digest(document).hex()}"\n'


def load_text(path: Path) -> str:
    """Return the text of a document's file, read up to MAX_BYTES + 1 bytes. Raises PlanError if the
    file cannot be read, or is not UTF-8 text.
    """
    try:
        return text_of(read_start(path, MAX_BYTES + 1), path)
    except OSError as error:
        raise PlanError(unreadable(path, error), code=UNREADABLE_FILE) from None


def text_of(content: bytes, path: Path) -> str:
    """Return the text of a document's file from its content. Raises PlanError if it is not UTF-8
    text.
    """
    try:
        return decoded(content, path, "pass a file that fastlloyd wrote, such as plan.toml")
    except ValueError as error:
        raise PlanError(str(error), code=WRONG_FILE) from None


def from_toml(text: str, kind: type[T], source: str) -> T:
    """Return the document in a TOML text, after a check of its digest.

    kind : type of the document.
    source : name of the file, for error messages.

    Raises PlanError for a wrong field, or if the content does not match the digest. The message
    names the source and the field.
    """
    content = _parsed(text, source)
    seal = content.pop("seal", None)
    if not isinstance(seal, dict) or not isinstance(seal.get("digest"), str):
        raise PlanError(
            f"{source} has no digest as its last line; it was cut off or written by hand: get the"
            " original, or make a new one",
            code=CHANGED_FILE,
        )
    try:
        document = msgspec.convert(content, kind, dec_hook=_decode)
    except msgspec.ValidationError as error:
        if _sealed(content, seal["digest"]):
            # what the document itself says of its content has a remedy of its own
            is_of_another_form = error.__cause__ is None
            if is_of_another_form:
                raise PlanError(
                    f"{source}: {error}; install the version of fastlloyd that made this file; the"
                    " other parties use it too",
                    code=OTHER_VERSION,
                ) from None
            raise PlanError(f"{source}: {error}") from None
        raise PlanError(
            f"{source} was changed after it was made, or damaged; get the original ({error})",
            code=CHANGED_FILE,
        ) from None
    found = digest(document).hex()
    if found == seal["digest"] and content != to_builtins(document):
        # a line that holds a default was left out: the digest is of all lines
        raise PlanError(
            f"{source} was changed after it was made: a line is missing or written in another"
            " form; get the original, or make a new one",
            code=CHANGED_FILE,
        )
    if found != seal["digest"]:
        raise PlanError(
            f"{source} was changed after it was made: its digest line says"
            f" {seal['digest'][:16]}..., its content gives {found[:16]}...; get the original, or"
            " make a new one",
            code=CHANGED_FILE,
        )
    return document


def _parsed(text: str, source: str) -> dict[str, Any]:
    """Return the content of a TOML document. Raises PlanError if the text is too long, or not valid
    TOML.
    """
    if len(text) > MAX_BYTES:
        raise PlanError(
            f"{source} has {len(text)} characters; expected at most {MAX_BYTES}, so fastlloyd did"
            " not write it: get the original, or make a new one",
            code=WRONG_FILE,
        )
    if any(len(line) > MAX_LINE for line in text.split("\n")):
        raise PlanError(
            f"{source} has a line of more than {MAX_LINE} characters, so fastlloyd did not write"
            " it: get the original, or make a new one",
            code=WRONG_FILE,
        )
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        if sentence := changed_on_its_way(text, source):
            raise PlanError(sentence, code=CHANGED_FILE) from None
        raise PlanError(
            f"{source} is not valid TOML: {error}; get the original, or make a new one",
            code=WRONG_FILE,
        ) from None
    except (RecursionError, ValueError):  # endless brackets, endless digits
        raise PlanError(
            f"{source} has brackets that are nested too deeply, or a number that is too long, for a"
            " file of fastlloyd; get the original, or make a new one",
            code=WRONG_FILE,
        ) from None


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


def _encode(value: object) -> str:
    if isinstance(value, Fraction):
        return str(value)
    raise TypeError(type(value))


def _decode(kind: type, value: object) -> Fraction:
    if kind is not Fraction:
        raise TypeError(kind)
    if isinstance(value, str) and FRACTION.fullmatch(value):
        with suppress(ZeroDivisionError):
            return Fraction(value)
    raise ValueError(f'expected a fraction such as "13/4", got {value!r:.40}')


def without_none(value: Any) -> Any:
    """Return the value without None values, which TOML does not have."""
    if isinstance(value, dict):
        return {key: without_none(item) for key, item in value.items() if item is not None}
    if isinstance(value, (list, tuple)):
        return [without_none(item) for item in value]
    return value
