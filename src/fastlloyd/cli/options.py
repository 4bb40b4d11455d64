"""The options of all commands, each defined once. What words and numbers they take is checked where
they are used.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

CLUSTERING, PRIVACY, LEDGER, FEDERATION = "Clustering", "Privacy", "Ledger", "Federation"
NETWORK, HOST, OUTPUT = "Network", "Host", "Output"


def _panel(name: str) -> Callable[..., Any]:
    """An option in the part of the help that has this name."""
    return functools.partial(typer.Option, rich_help_panel=name)


in_clustering, in_privacy, in_federation, in_network, in_host, in_output = map(
    _panel, (CLUSTERING, PRIVACY, FEDERATION, NETWORK, HOST, OUTPUT)
)
in_study, in_ablation, in_ledger = map(_panel, ("Study", "Ablation", LEDGER))
_FOLDER = (
    "Folder to make: centroids.csv (.json: every digit), privacy.json, the settings as TOML,"
    " clusters.png."
)

Data = Annotated[
    str,  # a Path would make one slash of the two in s3://
    typer.Argument(
        help=(
            "Records, one row each: .csv, .tsv, .txt (each also .gz), .parquet, .arrow, .feather,"
            " .npy or .npz; a folder of such files, a pattern in quotes ('visits/*.csv'), or"
            " s3://BUCKET/...; - for CSV on standard input."
        ),
        metavar="DATA",
        show_default=False,
    ),
]
Columns = Annotated[
    str | None, in_clustering(help="Columns to use, as a,b,c. Default: all.", metavar="NAMES")
]
MissingCells = Annotated[
    str,
    in_clustering(
        "--missing",
        help="A record with a missing cell: refuse the file, or drop the record.",
        metavar="refuse|drop",
    ),
]
OutsideBounds = Annotated[
    str,
    in_privacy(
        "--outside",
        help="A value outside the bounds: clip it to them, or refuse the file.",
        metavar="clip|refuse",
    ),
]
Engine = Annotated[
    str | None,
    in_clustering(
        "--engine",
        help=(
            "Who passes over DATA: local:N, so many processes; dask://HOST:PORT, or"
            " tls://HOST:PORT, a cluster of yours whose workers reach DATA by the same path."
            " Default: this process."
        ),
        metavar="ENGINE",
    ),
]
UnitColumn = Annotated[
    str | None,
    in_privacy(
        "--unit-column",
        help=(
            "Column that says whose row it is, which is no feature: all rows of one id are"
            " protected together, as one person."
        ),
        metavar="NAME",
    ),
]
MaxClientsPerPerson = Annotated[
    int | None,
    in_privacy(
        "--max-clients-per-person",
        help="At how many clients the rows of a person may be; the noise grows with it.",
        metavar="C",
    ),
]
UnitName = Annotated[
    str | None,
    in_privacy("--unit-name", help="What a person is called. Default: person.", metavar="NAME"),
]
ProtectedUnit = Annotated[
    str,
    in_privacy(
        "--unit",
        help=(
            "What is protected and counted: a record, or a person with all rows (join"
            " --unit-column)."
        ),
        metavar="record|person",
    ),
]
CompareNonPrivate = Annotated[
    bool,
    in_output(
        "--compare-non-private",
        help=(
            "Also run Lloyd without noise and show exact figures of both: NOT PRIVATE, for the"
            " owner of the records."
        ),
    ),
]

PassphraseFile = Annotated[
    Path | None,
    typer.Option(
        "--passphrase-file",
        envvar="FASTLLOYD_PASSPHRASE_FILE",
        # said in the help: in a column of its own it is cut, which loads tables of Unicode for 0.1
        # s
        show_envvar=False,
        help=(
            "For scripts: file whose first line is the passphrase, such as /dev/fd/3. Default: the"
            " one that the variable FASTLLOYD_PASSPHRASE_FILE names."
        ),
        metavar="FILE",
        show_default=False,
    ),
]


LedgerFile = Annotated[
    Path | None,
    in_ledger(
        "--ledger",
        help=(
            "Your ledger, one file for all runs. Default: the file that the variable"
            " FASTLLOYD_LEDGER names, or one in your state folder."
        ),
        metavar="FILE",
    ),
]
NewDataset = Annotated[
    bool,
    in_ledger(
        "--new-dataset",
        help=(
            "No run on these records was ever counted: the ledger does not know them, and is made"
            " if it is not there."
        ),
    ),
]
NewUnit = Annotated[
    bool,
    in_ledger("--new-unit", help="The data set knows other persons, and these are none of them."),
]
RowsAre = Annotated[
    str | None,
    in_ledger(
        "--rows-are",
        help=(
            "Every record is all there is of one person, such as patient: so a limit for patients"
            " can hold the run."
        ),
        metavar="UNIT",
    ),
]
Epsilon = Annotated[
    float | None, in_privacy(help="Privacy budget of the whole run. Default: 1.", metavar="EPS")
]
Delta = Annotated[float | None, in_privacy(help="Default: 1 / (100 n-records).", metavar="DELTA")]
NRecords = Annotated[
    str | None,
    in_privacy(
        help=(
            "Public cap on the number of records, or of persons (plan new: by default the sum of"
            " the clients' caps). from-data: their number, NOT PRIVATE."
        ),
        metavar="N|from-data",
    ),
]
Relation = Annotated[
    str,
    in_privacy(
        help="What the guarantee hides: that a record is there, or what it says.",
        metavar="add_or_remove_one|replace_one",
    ),
]
NExpected = Annotated[
    int | None,
    in_clustering(
        help="Public guess of the number of records, to plan with. Default: n-records.", metavar="N"
    ),
]
ValueRange = Annotated[
    str | None,
    in_privacy(
        "--range",
        help=(
            "Find bounds privately, within a public range that may be far too wide: LO:HI for all"
            " columns, or a=LO:HI,b=LO:HI, or a TOML file as for --bounds."
        ),
        metavar="RANGE",
    ),
]


@dataclass(frozen=True, kw_only=True)
class LedgerOptions:
    """Which data set a run is charged to, in whose ledger."""

    dataset: Annotated[
        str | None,
        in_ledger(
            help=(
                "Name of the data set: your ledger adds up what is spent on it and keeps to its"
                " limits. Default: nobody does."
            ),
            metavar="NAME",
        ),
    ] = None
    ledger: LedgerFile = None
    new_dataset: NewDataset = False
    new_unit: NewUnit = False
    rows_are: RowsAre = None


@dataclass(frozen=True, kw_only=True)
class FederationOptions:
    """Options of a federation: parties that add noise, are missing or are curious."""

    trust: Annotated[
        str | None,
        in_federation(
            help=(
                "Who adds the noise; with server-noise the server must never see a result. Default:"
                " client-noise (preset paper: server-noise)."
            ),
            metavar="client-noise|server-noise",
        ),
    ] = None
    max_dropouts: Annotated[
        int | None,
        in_federation(
            help=(
                "How many clients may be missing: with pairwise masks when the run begins, with"
                " group masks in any round. Default: as many as are dropped (plan new: 0)."
            ),
            metavar="D",
        ),
    ] = None
    masks: Annotated[
        str | None,
        in_federation(
            help=(
                "What hides uploads: a key of each pair, also from the server together with T"
                " clients, but all that join must answer every round; or one key of the group, and"
                " rounds may lack clients. Default: pairwise, if D is 0 (with --drop: group)."
            ),
            metavar="pairwise|group",
        ),
    ] = None
    max_colluding: Annotated[
        int,
        in_federation(help="How many clients may pool what they see (client-noise).", metavar="T"),
    ] = 1
    ring_bits: Annotated[
        int | None, in_federation(help="Width of masked numbers. Default: 64.", metavar="32|64")
    ] = None


@dataclass(frozen=True, kw_only=True)
class OutputOptions:
    """Options of the output."""

    out: Annotated[Path | None, in_output(help=_FOLDER, metavar="DIR")] = None
    force: Annotated[bool, in_output("--force", help="Replace an earlier result.")] = False
    json: Annotated[
        bool, in_output("--json", help="Print the result as JSON, and everything else to stderr.")
    ] = False
    plot_data: Annotated[
        bool, in_output("--plot-data", help="Draw the records in clusters.png: NOT PRIVATE.")
    ] = False


@dataclass(frozen=True, kw_only=True)
class ResultOptions(OutputOptions):
    """Options of the output of a run, whose result is kept nowhere else."""

    out: Annotated[
        Path | None,
        in_output(
            help=f"{_FOLDER} Default: a new one here, named after the data, K and the time.",
            metavar="DIR",
        ),
    ] = None
    no_out: Annotated[
        bool, in_output("--no-out", help="Show the result only; what it spent is spent.")
    ] = False
