"""Spills so small that a handful of rows is divided as many thousand millions of rows would be."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock


@contextmanager
def small_parts(most_rows: int, held_rows: int, span: int) -> Iterator[None]:
    """Sort so few rows at once, write after so few, collect numbers of so few."""
    room = "fastlloyd.mechanisms.passes"
    with (
        mock.patch(f"{room}.spread.MOST_ROWS", most_rows),
        mock.patch(f"{room}.scratch.HELD_ROWS", held_rows),
        mock.patch(f"{room}.scratch.SPAN", span),
    ):
        yield
