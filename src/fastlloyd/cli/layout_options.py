"""Options that state the format of text files."""

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from fastlloyd.base.names import split_list

if TYPE_CHECKING:
    from fastlloyd.records import Layout

TEXT_FILES = "Text files"

_in_text = functools.partial(typer.Option, rich_help_panel=TEXT_FILES)


@dataclass(frozen=True, kw_only=True)
class LayoutOptions:
    """Options that state the format of a text file, because the file itself does not state it."""

    separator: Annotated[
        str | None,
        _in_text(
            help=(
                "Separator of cells: one character, or 'comma', 'semicolon', 'tab', 'space' or"
                " 'bar'. Default: the only one of comma, semicolon and tab that fits all lines"
                " (.tsv: tab)."
            ),
            metavar="CHARACTER",
        ),
    ] = None
    decimal: Annotated[
        str | None,
        _in_text(
            help="Decimal mark: '.' or ','. Default: the only one that fits all lines.",
            metavar="MARK",
        ),
    ] = None
    thousands: Annotated[
        str | None,
        _in_text(
            help=(
                "Mark between groups of three digits: 'point', 'comma', 'apostrophe' or 'space'."
                " Default: no mark."
            ),
            metavar="MARK",
        ),
    ] = None
    encoding: Annotated[
        str | None,
        _in_text(
            help="Encoding of the text, such as cp1252, latin-1 or utf-16. Default: utf-8.",
            metavar="NAME",
        ),
    ] = None
    header: Annotated[
        str | None,
        _in_text(
            help=(
                "Whether the first line names the columns. Default: 'yes' if the line has no"
                " number; 'no' if all its cells are numbers. Any other first line needs this"
                " option."
            ),
            metavar="yes|no",
        ),
    ] = None
    skip_lines: Annotated[
        int,
        _in_text(
            "--skip-lines",
            min=0,
            max=10_000,
            help="Number of lines to skip above the header or the first record.",
            metavar="N",
        ),
    ] = 0
    missing_words: Annotated[
        str | None,
        _in_text(
            "--missing-words",
            help=(
                "More words for a missing cell, separated by commas. An empty cell, NA, NaN, null"
                " and '?' always count as missing. Upper and lower case are the same."
            ),
            metavar="WORDS",
        ),
    ] = None

    def layout(self) -> "Layout":
        """Return the format that the options state. Raises DataError if an option has no valid
        value.
        """
        from fastlloyd.records import Layout

        words = None if self.missing_words is None else split_list(self.missing_words)
        return Layout(
            separator=self.separator,
            decimal=self.decimal,
            thousands=self.thousands,
            encoding=self.encoding,
            header=self.header,
            skip_lines=self.skip_lines,
            missing_words=() if words is None else tuple(words or [""]),
        )
