"""Records of one organisation, read from a file or a data frame.

They are checked before anything is computed with them. A message about a fault is one sentence. It
names file, line or record, and column, but never shows the value of the cell, because messages end
up in logs. Bounds are public. They come from the user, never from records.
"""

from fastlloyd.records.columns import NUMERIC
from fastlloyd.records.frames import table_from_frame
from fastlloyd.records.layout import Layout
from fastlloyd.records.reader import Missing
from fastlloyd.records.reading import open_records, read_csv, read_table, table_or_file
from fastlloyd.records.record_file import RecordFile
from fastlloyd.records.table import Table

__all__ = [
    "NUMERIC",
    "Layout",
    "Missing",
    "RecordFile",
    "Table",
    "open_records",
    "read_csv",
    "read_table",
    "table_from_frame",
    "table_or_file",
]
