"""Docstrings of the package as reStructuredText: sections and lists of `name : meaning`."""

import re
from collections.abc import Iterator

_ENTRY = re.compile(r"(\*{0,2}\w+(?:, \*{0,2}\w+)*) : (.*)")
_RULED = {"Parameters", "Attributes", "Returns", "Yields", "Raises", "See Also", "Examples"}
_NAME = re.compile(r"(?<![`\w])(\w+_)(?![`\w])")


def restructured(lines: list[str]) -> list[str]:
    """Return the lines of a docstring as reStructuredText."""
    out: list[str] = []
    blocks = "\n".join(lines).split("\n\n")
    section = ""
    for block in blocks:
        rows = block.split("\n")
        if len(rows) > 1 and rows[0] in _RULED and set(rows[1]) == {"-"}:
            section, rows = rows[0], rows[2:]
            out += [f".. rubric:: {section}", ""]
        if section == "Examples" and rows[0].startswith(">>>"):
            out += [*rows, ""]
        elif section in {"Returns", "Yields", "Raises", "See Also"} or _ENTRY.fullmatch(rows[0]):
            out += _definitions(rows)
        else:
            out += [*map(_quoted, rows), ""]
    return out


def _definitions(rows: list[str]) -> Iterator[str]:
    """Yield a definition list. Each entry has a name, perhaps a type, and its meaning."""
    entries: list[list[str]] = []
    for row in filter(None, rows):
        if row.startswith(" ") and entries:
            entries[-1].append(row.strip())
        else:
            entries.append([row])
    for first, *meaning in entries:
        names, _, said = first.partition(" : ")
        kind = said if meaning and meaning[0][:1].isupper() and not said.endswith(".") else ""
        text = meaning if kind else [said, *meaning]
        yield f"``{names}``" + (f" : {_quoted(kind)}" if kind else "")
        yield from (f"    {_quoted(row)}" for row in text if row)
        yield ""


def _quoted(text: str) -> str:
    """Return a line in which a name that ends in _ is code, not a target."""
    return "`".join(
        piece if i % 2 else _NAME.sub(r"``\1``\\ ", piece.replace("*", r"\*"))
        for i, piece in enumerate(text.split("`"))
    )
