"""HTML and SVG made by functions. Text is escaped, unless a function of this module made it."""

import base64
import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from typing import Final, LiteralString

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9]*(-[A-Za-z0-9]+)*")
_EVENT: Final = re.compile(r"on[a-z]", re.IGNORECASE)  # onclick and its like run scripts
_ADDRESSES: Final = frozenset({"href", "src", "action", "formaction"})
_SAFE_ADDRESS: Final = re.compile(r"(https?://|mailto:|[/?#.]|[A-Za-z0-9_~-]+([/?#.]|$)|$)")
_VOID: Final = frozenset({"br", "hr", "img", "input", "link", "meta", "wbr"})
_RAW: Final = frozenset({"script", "style"})  # their content is no text


@dataclass(frozen=True, slots=True)
class Markup:
    """Text that is HTML. It is not a str, so text that is used as HTML by mistake is shown escaped.

    text : the HTML.
    """

    text: str

    def __str__(self) -> str:
        return self.text


Child = str | int | float | Markup | Iterable["Child"] | None
"""Content of an element. None and False are left out."""


def element(tag: str, *children: Child, **attributes: str | float | bool | None) -> Markup:
    """Return an HTML element.

    tag : name of the element.
    children : content of the element. Text is escaped.
    attributes : values by name. A trailing underscore is dropped, and other underscores become
        dashes. True gives an attribute without a value; None and False are left out.

    Raises ValueError for a name that HTML does not allow, for the attributes `style` and `on...`,
    and for an address that runs a script.
    """
    if not _NAME.fullmatch(tag) or (tag in _RAW and children):
        raise ValueError(f"{tag!r:.80} cannot be the name of an element with content")
    given = "".join(_attribute(name, value) for name, value in attributes.items())
    if tag in _VOID:
        if children:
            raise ValueError(f"{tag} has no content")
        return Markup(f"<{tag}{given}>")
    return Markup(f"<{tag}{given}>{together(*children)}</{tag}>")


def _attribute(name: str, value: str | float | bool | None) -> str:
    if value is None or value is False:
        return ""
    plain = name.rstrip("_").replace("_", "-")
    if not _NAME.fullmatch(plain) or _EVENT.match(plain) or plain == "style":
        raise ValueError(f"{plain!r:.80} cannot be the name of an attribute")
    if value is True:
        return f" {plain}"
    text = str(value)
    if plain in _ADDRESSES and (not _SAFE_ADDRESS.match(text) or text.startswith("//")):
        raise ValueError(f"{plain} is {text!r:.80}; expected a path or an address of the web")
    return f' {plain}="{escape(text)}"'


def together(*children: Child) -> Markup:
    """Return several contents as one."""
    return Markup("".join(map(_text, children)))


def _text(child: Child) -> str:
    match child:
        case None | bool():
            return ""
        case Markup():
            return child.text
        case str():
            return escape(child, quote=False)
        case int() | float():
            return str(child)
        case _:
            return "".join(map(_text, child))


def constant(text: LiteralString) -> Markup:
    """Return a constant text of the program as HTML, without escaping it."""
    return Markup(text)


def style(css: str) -> Markup:
    """Return a style sheet of the program as an element. Raises ValueError if it could end
    early.
    """
    if "<" in css:
        raise ValueError("a style sheet cannot contain '<'")
    return Markup(f"<style>{css}</style>")


def script(code: LiteralString) -> tuple[Markup, str]:
    """Return a script of the program, and the source by which a content security policy allows it.

    Raises ValueError if the code contains "</", which would end the element early.
    """
    if "</" in code:
        raise ValueError("a script cannot contain '</'")
    digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
    return Markup(f"<script>{code}</script>"), f"'sha256-{digest}'"


NOTHING: Final = Markup("")
