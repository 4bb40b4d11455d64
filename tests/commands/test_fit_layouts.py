"""Options that state the format of text files, at every command that reads records."""

from pathlib import Path

import numpy as np
import pytest

from command_line import Command, refused

BOUNDS = ("--bounds", "Alter=0:100,Dosis=0:10", "--n-records", "500", "-k", "2")
COLUMNS = ("--columns", "Alter,Dosis")
STATED = (
    *("--separator", "semicolon", "--decimal", ",", "--thousands", "point"),
    *("--encoding", "cp1252", "--header", "yes", "--skip-lines", "1"),
    *("--missing-words", "k.A.,-", "--missing", "drop"),
)


@pytest.fixture
def export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a table as a hospital writes it, and of the same table plainly."""
    monkeypatch.chdir(tmp_path)
    rows = [(i % 90, (i * 7 % 100) / 10) for i in range(200)]
    text = "".join(
        f"P{i:04};{age};{dose:.1f}\r\n".replace(".", ",") for i, (age, dose) in enumerate(rows)
    )
    text = f"Bericht für die Station\r\nNr;Alter;Dosis\r\n{text}P;k.A.;1\r\nP;-;1.000,5\r\n"
    Path("export.csv").write_bytes(text.encode("cp1252"))
    plain = "".join(f"{age},{dose}\n" for age, dose in rows)
    Path("plain.csv").write_text(f"Alter,Dosis\n{plain}")
    return tmp_path


@pytest.mark.usefixtures("export")
def test_every_command_reads_an_export_as_it_is_stated(fastlloyd: Command) -> None:
    refused(fastlloyd("fit", "export.csv", *COLUMNS, *BOUNDS), "--encoding")
    assert fastlloyd("fit", "export.csv", *COLUMNS, *BOUNDS, *STATED, "--out", "r").code == 0
    simulated = ("simulate", "export.csv", "--clients", "2", *COLUMNS, *BOUNDS, *STATED)
    assert fastlloyd(*simulated, "--no-out").code == 0
    labelled = fastlloyd("assign", "r", "export.csv", *STATED)
    plain = fastlloyd("assign", "r", "plain.csv")
    lines = [line for line in labelled.out.splitlines() if line.count(",") == 2]
    assert lines[:201] == plain.out.splitlines()[:201]
    estimated = ("bounds", "estimate", "export.csv", *COLUMNS, "--range", "0:1000")
    assert fastlloyd(*estimated, "--n-records", "5000", *STATED).code == 0
    template = fastlloyd("bounds", "template", "export.csv", *STATED[:-4])
    assert (template.code, "Alter" in template.out, "Dosis" in template.out) == (0, True, True)


@pytest.mark.usefixtures("export")
@pytest.mark.parametrize(
    ("options", "fragments"),
    [
        (("--decimal", "x"), ("--decimal", "a point (.) or a comma")),
        (("--separator", "ab"), ("--separator", "one character")),
        (("--encoding", "nonsense"), ("--encoding", "cp1252")),
        (("--header", "maybe"), ("--header", "yes or no")),
        (("--skip-lines", "-1"), ("--skip-lines",)),
        (("--missing-words", ""), ("--missing-words",)),
        (("--thousands", "."), ("--thousands", "both the decimal mark and the separator")),
    ],
)
def test_a_statement_that_cannot_be_used_is_refused_by_its_option(
    fastlloyd: Command, options: tuple[str, ...], fragments: tuple[str, ...]
) -> None:
    more = ("--separator", ",") if options[0] == "--thousands" else ()
    refused(fastlloyd("fit", "plain.csv", *BOUNDS, *options, *more), *fragments)


@pytest.mark.usefixtures("export")
def test_options_of_text_have_no_effect_on_other_formats(fastlloyd: Command) -> None:
    np.save("x.npy", np.ones((5, 2)))
    bounds = ("--bounds", "0:10", "--n-records", "50", "-k", "1")
    refused(fastlloyd("fit", "x.npy", *bounds, "--decimal", ","), "--decimal", "not text")


@pytest.mark.usefixtures("export")
def test_a_replaced_record_may_not_settle_the_separator(fastlloyd: Command) -> None:
    Path("bare.csv").write_text("1,2\n3,4\n5,6\n")
    run = ("fit", "bare.csv", "--bounds", "0:10", "--n-records", "50", "-k", "1", "--no-out")
    replaced = ("--neighboring-relation", "replace_one")
    refused(fastlloyd(*run, *replaced), "--separator")
    assert fastlloyd(*run, *replaced, "--separator", "comma").code == 0
    assert fastlloyd(*run).code == 0
