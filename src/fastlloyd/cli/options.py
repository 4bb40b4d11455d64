"""Options that several commands have, and `--request`. Each is defined once; options of a
clustering are in `mechanism_options.py`.

The values of options are checked by the code that uses them.
"""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from fastlloyd.cli.usage import BEFORE, UsageError

CLUSTERING, PRIVACY, LEDGER, FEDERATION = "Clustering", "Privacy", "Ledger", "Federation"
NETWORK, HOST, OUTPUT = "Network", "Host", "Output"


def _panel(name: str) -> Callable[..., Any]:
    """Return a function that declares an option, and lists it in the help under the group called
    `name`.
    """
    return functools.partial(typer.Option, rich_help_panel=name)


in_clustering, in_privacy, in_federation, in_network, in_host, in_output = map(
    _panel, (CLUSTERING, PRIVACY, FEDERATION, NETWORK, HOST, OUTPUT)
)
in_study, in_ablation, in_ledger = map(_panel, ("Study", "Ablation", LEDGER))
_FOLDER = (
    "Folder to make, with centroids.csv (centroids.json has every digit), privacy.json, the"
    " settings as TOML, and clusters.png."
)

Data = Annotated[
    str,  # a Path would make one slash of the two in s3://
    typer.Argument(
        help=(
            "File with one record per row: .csv, .tsv or .txt (each also .gz), .parquet, .arrow,"
            " .feather, .npy or .npz. Also a folder of such files, a pattern in quotes"
            " ('visits/*.csv'), s3://BUCKET/..., or - for CSV on standard input."
        ),
        metavar="DATA",
        show_default=False,
    ),
]
Columns = Annotated[
    str | None,
    in_clustering(
        help="Columns to use, separated by commas. Default: those with bounds by name, else all.",
        metavar="NAMES",
    ),
]
MissingCells = Annotated[
    str,
    in_clustering(
        "--missing",
        help="What to do with a record with a missing cell: refuse the file, or drop the record.",
        metavar="refuse|drop",
    ),
]
OutsideBounds = Annotated[
    str,
    in_privacy(
        "--outside",
        help="What to do with a value outside the bounds: clip it to them, or refuse the file.",
        metavar="clip|refuse",
    ),
]
Engine = Annotated[
    str | None,
    in_clustering(
        "--engine",
        help=(
            "How to read DATA. local:N uses N processes of this machine; dask://HOST:PORT or"
            " tls://HOST:PORT uses a Dask cluster whose workers find DATA under the same path."
            " Default: one process."
        ),
        metavar="ENGINE",
    ),
]
UnitColumn = Annotated[
    str | None,
    in_privacy(
        "--unit-column",
        help=(
            "Column with the id of each row's person. All rows with one id are protected together,"
            " as one person. The column is not a feature."
        ),
        metavar="NAME",
    ),
]
MaxClientsPerPerson = Annotated[
    int | None,
    in_privacy(
        "--max-clients-per-person",
        help=(
            "Largest number of clients that may have rows of the same person. The noise grows"
            " with it."
        ),
        metavar="C",
    ),
]
UnitName = Annotated[
    str | None,
    in_privacy(
        "--unit-name",
        help="Word for a person in messages and ledgers, such as patient. Default: person.",
        metavar="NAME",
    ),
]
ProtectedUnit = Annotated[
    str,
    in_privacy(
        "--unit",
        help=(
            "Unit that is protected and counted: one record, or all rows of one person together"
            " (join then needs --unit-column)."
        ),
        metavar="record|person",
    ),
]
CompareNonPrivate = Annotated[
    bool,
    in_output(
        "--compare-non-private",
        help=(
            "Also run Lloyd without noise and show exact figures of both. NOT PRIVATE: only for"
            " the owner of the records."
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
            " file that the variable FASTLLOYD_PASSPHRASE_FILE names."
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
            "Confirm that no run on these records was ever counted. The ledger then adds the data"
            " set, and is made if there is none."
        ),
    ),
]
NewUnit = Annotated[
    bool,
    in_ledger(
        "--new-unit",
        help=(
            "Confirm that earlier runs on this data set protected another unit (such as cases,"
            " not patients), and count the epsilon for this unit separately."
        ),
    ),
]
RowsAre = Annotated[
    str | None,
    in_ledger(
        "--rows-are",
        help=(
            "Each record is a different person of this kind (for example patient), so limits for"
            " patients apply."
        ),
        metavar="UNIT",
    ),
]
Purpose = Annotated[
    str | None,
    in_ledger(
        "--purpose",
        help="Purpose of the run in words, which your ledger keeps and shows to you alone.",
        metavar="TEXT",
    ),
]
Epsilon = Annotated[
    float | None, in_privacy(help="Privacy budget of the whole run. Default: 1.", metavar="EPS")
]
Delta = Annotated[
    float | None,
    in_privacy(help="The delta of the guarantee. Default: 1 / (100 n-records).", metavar="DELTA"),
]
NRecords = Annotated[
    str | None,
    in_privacy(
        help=(
            "Public cap on the number of records, or of persons. Default in plan new: the sum of"
            " the clients' caps. The word 'from-data' takes their number, NOT PRIVATE."
        ),
        metavar="N|from-data",
    ),
]
Relation = Annotated[
    str,
    in_privacy(
        help=(
            "Neighbouring relation: 'add_or_remove_one' hides whether one record (or person) is"
            " in the data, 'replace_one' hides its values."
        ),
        metavar="add_or_remove_one|replace_one",
    ),
]
NExpected = Annotated[
    int | None,
    in_clustering(
        help=(
            "Public guess of the number of records. The run is planned for this number. Default:"
            " n-records."
        ),
        metavar="N",
    ),
]
ValueRange = Annotated[
    str | None,
    in_privacy(
        "--range",
        help=(
            "Public range, however wide, in which to find bounds with differential privacy: LO:HI"
            " for all columns, a=LO:HI,b=LO:HI, or a TOML file as for --bounds."
        ),
        metavar="RANGE",
    ),
]


@dataclass(frozen=True, kw_only=True)
class LedgerOptions:
    """Options that name the data set that a run is charged to, and its ledger."""

    dataset: Annotated[
        str | None,
        in_ledger(
            help=(
                "Name of the data set. Your ledger adds up the epsilon that all runs on the data"
                " set spend, and refuses a run beyond its limits. Default: the run is not"
                " counted."
            ),
            metavar="NAME",
        ),
    ] = None
    ledger: LedgerFile = None
    new_dataset: NewDataset = False
    new_unit: NewUnit = False
    rows_are: RowsAre = None
    purpose: Purpose = None


@dataclass(frozen=True, kw_only=True)
class FederationOptions:
    """Options of a federation: the party that adds noise, the number of clients that may be
    missing, and the number that may pool what they see.
    """

    trust: Annotated[
        str | None,
        in_federation(
            help=(
                "Who adds the noise. Choose 'server-noise' only if nobody will ever show a result"
                " to the server. Default: 'client-noise' (preset paper: 'server-noise')."
            ),
            metavar="client-noise|server-noise",
        ),
    ] = None
    max_dropouts: Annotated[
        int | None,
        in_federation(
            help=(
                "Number of clients that may be absent. With pairwise masks, such a client must"
                " be absent from the whole run; with group masks, it may miss any round. Default:"
                " 0 (simulate: the number of clients in --drop)."
            ),
            metavar="D",
        ),
    ] = None
    masks: Annotated[
        str | None,
        in_federation(
            help=(
                "Keys that hide uploads. 'pairwise': one key for each pair of clients; uploads stay"
                " hidden even if the server and T clients (--max-colluding) pool what they see,"
                " but all clients that join must answer every round. 'group': one key for all"
                " clients; they may miss rounds, but the server and any one client together can"
                " open every upload. Default: 'pairwise' if --max-dropouts is 0, 'group' with"
                " --drop; otherwise choose one."
            ),
            metavar="pairwise|group",
        ),
    ] = None
    max_colluding: Annotated[
        int,
        in_federation(
            help="Number of clients that may pool what they see (client-noise).", metavar="T"
        ),
    ] = 1
    ring_bits: Annotated[
        int | None, in_federation(help="Bits of a masked number. Default: 64.", metavar="32|64")
    ] = None


@dataclass(frozen=True, kw_only=True)
class OutputOptions:
    """Options that say where the result is written, and in which form."""

    out: Annotated[Path | None, in_output(help=_FOLDER, metavar="DIR")] = None
    force: Annotated[bool, in_output("--force", help="Replace an earlier result.")] = False
    json: Annotated[
        bool, in_output("--json", help="Print the result as JSON, and everything else to stderr.")
    ] = False
    plot_data: Annotated[
        bool,
        in_output(
            "--plot-data", help="Draw the records in clusters.png, which is then NOT PRIVATE."
        ),
    ] = False


@dataclass(frozen=True, kw_only=True)
class ResultOptions(OutputOptions):
    """Options for the output of a run. The result is stored nowhere else."""

    out: Annotated[
        Path | None,
        in_output(
            help=f"{_FOLDER} Default: a new one here, named after the data, K and the time.",
            metavar="DIR",
        ),
    ] = None
    no_out: Annotated[
        bool,
        in_output(
            "--no-out",
            help=(
                "Only show the result, and write no files. The run spends its epsilon all the same."
            ),
        ),
    ] = False


_REQUEST_HELP: Final = (
    "File with the whole request, as `fastlloyd app` writes it. No other option may be given with"
    " it. Progress is printed as JSON, one object a line."
)


def request_option(unused: Mapping[str, object], carry_out: Callable[[Path], None]) -> Any:
    """Return the option of a command.

    unused : values to fill in for required options, because the file replaces them.
    carry_out : function that carries out the request in a file, in place of the command.
    """

    def take_over(ctx: typer.Context, path: Path | None) -> Path | None:
        if path is not None:
            ctx.default_map = dict(unused)
            ctx.meta[BEFORE] = lambda: begin(ctx, path)
        return path

    def begin(ctx: typer.Context, path: Path) -> None:
        _check_alone(ctx)
        carry_out(path)
        raise typer.Exit

    return in_output(
        "--request", is_eager=True, callback=take_over, help=_REQUEST_HELP, metavar="FILE"
    )


def _check_alone(ctx: typer.Context) -> None:
    for option in ctx.command.params:
        source = ctx.get_parameter_source(option.name or "")
        if option.name != "request_file" and source is not None and source.name == "COMMANDLINE":
            raise UsageError(
                f"--request names a file with the whole request; leave out {option.name}"
            )
