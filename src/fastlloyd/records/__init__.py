"""Records of one organisation, read from a file or a data frame and checked before anything is
computed with them.

A fault is refused here, in one sentence with the file, the line or record, and the column, but
never the value in the cell: such sentences end up in logs, and a cell is a private value. Bounds
are public: they come from the user, never from records.
"""

from fastlloyd.records.columns import NUMERIC
from fastlloyd.records.frames import table_from_frame
from fastlloyd.records.reader import Missing
from fastlloyd.records.reading import open_records, read_csv, read_table, table_or_file
from fastlloyd.records.record_file import RecordFile
from fastlloyd.records.table import Table

__all__ = [
    "NUMERIC",
    "Missing",
    "RecordFile",
    "Table",
    "open_records",
    "read_csv",
    "read_table",
    "table_from_frame",
    "table_or_file",
]
