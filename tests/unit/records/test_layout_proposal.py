"""Proposals of a layout: they read the file, and say what they guessed, without a cell."""

from pathlib import Path

import pytest

from fastlloyd.errors import DataError
from fastlloyd.records import Layout, read_table
from fastlloyd.records.declared import LAYOUT
from fastlloyd.records.layout_proposal import propose
from record_files import SECRET, refusal
from refusals import raises_code


@pytest.mark.parametrize(
    ("text", "encoding", "layout", "n_doubts"),
    [
        ("a,b\n1,2.5\n", "utf-8", {"separator": ",", "decimal": ".", "header": "yes"}, 0),
        ("a;b\n1;2,5\n", "utf-8", {"separator": ";", "decimal": ",", "header": "yes"}, 0),
        ("1\t2,5\n", "utf-8", {"separator": "\t", "decimal": ",", "header": "no"}, 0),
        ("größe;b\n1;2,5\n", "cp1252", {"separator": ";", "decimal": ",", "header": "yes"}, 1),
        ("a|b\n1|2.5\n", "utf-16", {"separator": "|", "decimal": ".", "header": "yes"}, 0),
        ("Report 2024\n\na;b\n1;2,5\n3;4,5\n", "utf-8",
         {"separator": ";", "decimal": ",", "header": "yes", "skip_lines": 2}, 1),
        ("state,2022\nx,1.5\ny,2.5\n", "utf-8", {"separator": ",", "decimal": ".", "header": "yes"}, 1),
        ("0,1,2\n5,6,7\n", "utf-8", {"separator": ",", "decimal": ".", "header": "yes"}, 1),
        (f"{SECRET},1\nx,2\n", "utf-8", {"separator": ",", "decimal": ".", "header": "no"}, 1),
        ("a;b\n1.234,5;1.000,25\n987;12\n", "utf-8",
         {"separator": ";", "decimal": ",", "thousands": ".", "header": "yes"}, 1),
        ("a;b\n1.5;2,5\n1;2,5\n", "utf-8", {"separator": ";", "decimal": ",", "header": "yes"}, 1),
        ("x\n1.5\n2\n", "utf-8", {"separator": ";", "decimal": ".", "header": "yes"}, 1),
    ],
)  # fmt: skip
def test_a_proposal_states_what_the_first_rows_show_and_each_guess_is_a_doubt(
    tmp_path: Path, text: str, encoding: str, layout: dict[str, str | int], n_doubts: int
) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(text.encode(encoding))
    found, doubts = propose(str(path))
    expected = Layout(encoding=encoding, **layout)  # type: ignore[arg-type]
    assert found == expected
    assert len(doubts) == n_doubts
    assert SECRET not in "".join(doubts)


def test_a_proposal_for_an_export_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "export.csv"
    rows = "".join(f"P{i};{i % 28 + 1:02}.01.2024;m;{i};{i},5\r\n" for i in range(300))
    text = f"Klinik für Innere\r\n\r\nID;Datum;Geschlecht;Alter;Größe\r\n{rows}"
    path.write_bytes(text.encode("cp1252"))
    found, doubts = propose(str(path))
    assert len(doubts) == 2
    table = read_table(path, ["Alter", "Größe"], layout=found)
    assert table.values[7].tolist() == [7, 7.5]
    assert len(table.values) == 300
    with raises_code(DataError, LAYOUT, "encoding"):
        read_table(path, ["Alter", "Größe"])


def test_there_is_no_proposal_for_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("\n\n")
    assert "empty" in refusal(lambda: propose(str(tmp_path / "x.csv")))
