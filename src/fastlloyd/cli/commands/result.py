"""Command `fastlloyd result`: the page, the picture and the statement of a finished result, and
names for its clusters.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fastlloyd.base.files import write_bytes
from fastlloyd.cli.options import LedgerFile, in_output
from fastlloyd.errors import DataError

if TYPE_CHECKING:
    from fastlloyd.reports.names import Names
    from fastlloyd.reports.page.view import View
    from fastlloyd.reports.registry import PeopleFacts
    from fastlloyd.reports.stored_files import StoredFiles

ResultFolder = Annotated[
    Path,
    typer.Argument(
        help="Folder of a result of fit, simulate or join.", metavar="RESULT", show_default=False
    ),
]
Html = Annotated[
    bool,
    in_output("--html", help="Make result.html again. This is the default."),
]
Png = Annotated[bool, in_output("--png", help="Make clusters.png anew.")]
Title = Annotated[
    str | None,
    in_output(
        "--title",
        help='Title of the page and the picture, kept in names.toml. "" removes it.',
        metavar="TEXT",
    ),
]
NameOfCluster = Annotated[
    list[str] | None,
    in_output(
        "--name",
        help=(
            "Name of a cluster, such as 0='elderly, anaemic', kept in names.toml. May be given"
            " several times. An empty name removes it."
        ),
        metavar="CLUSTER=NAME",
    ),
]
Check = Annotated[
    bool,
    in_output("--check", help="Check that page and picture match the other files of the result."),
]
Registry = Annotated[
    bool,
    in_output(
        "--registry",
        help="Write registry.yaml, an entry for the OpenDP registry of deployments.",
    ),
]
Statement = Annotated[
    bool,
    in_output(
        "--statement",
        help="Write statement.html, with answers to the questions of NIST SP 800-226.",
    ),
]
Json = Annotated[bool, in_output("--json", help="Print what was done as JSON.")]


def result(
    folder: ResultFolder,
    html: Html = False,
    png: Png = False,
    title: Title = None,
    name: NameOfCluster = None,
    check: Check = False,
    registry: Registry = False,
    statement: Statement = False,
    ledger: LedgerFile = None,
    json: Json = False,
) -> None:
    """Make the page of a result from its other files, and name its clusters. No records are read,
    and nothing is spent.
    """
    from fastlloyd.base.extras import is_installed
    from fastlloyd.cli import terminal
    from fastlloyd.reports.run_result import NAMES, PAGE, PICTURE
    from fastlloyd.reports.stored_statement import checked_files

    files, named = checked_files(folder), title is not None or bool(name)
    for_people = registry or statement
    if check and (html or png or named or for_people):
        raise DataError("--check changes nothing; leave the other options out")
    if ledger is not None and not statement:
        raise DataError("--ledger is for --statement, which says what all runs cost together")
    if check:
        _check(files, as_json=json)
        return
    written = []
    if named:
        text = _renamed(files, title, name or []).to_toml()
        files = files.with_file(NAMES, text.encode())
        written.append(NAMES)
    if html or named or not (png or for_people):
        from fastlloyd.reports.page.frame import page_of

        files = files.with_file(PAGE, page_of(files))
        written.append(PAGE)
    if png or (named and _has_picture(files) and is_installed("plot")):
        files = files.with_file(PICTURE, _picture(files))
        written.append(PICTURE)
    for each in written:
        write_bytes(files.folder / each, files.contents[each])
    more, missing = _for_people(files, registry, statement, ledger) if for_people else ([], [])
    paths = [str(files.folder / each) for each in [*written, *more]]
    if json:
        terminal.print_json({"files": paths, "missing": missing})
        return
    typer.echo(f"Written: {', '.join(paths)}.")
    if missing:
        typer.echo(
            f"Missing in {files.folder / 'registry.toml'}: {', '.join(missing)}. Fill in what may"
            " be published, and run the command again."
        )


def _view(files: "StoredFiles") -> "View":
    """Return the view of a result of clusters. Raises DataError for a result of bounds."""
    from fastlloyd.reports.page.view import View
    from fastlloyd.reports.run_result import EXACT

    if EXACT not in files.contents:
        raise DataError(f"{files.folder} is a result without clusters; only its page can be made")
    return View.of(files)


def _renamed(files: "StoredFiles", title: str | None, given: Sequence[str]) -> "Names":
    """Return the names of a result with the changes of the options."""
    from fastlloyd.reports.names import Names

    view = _view(files)
    clusters = dict(view.names.clusters)
    for text in given:
        number, equals, name = text.partition("=")
        if not (equals and number.strip().isdecimal()):
            raise DataError(
                f"--name {text!r:.80}: expected the number of a cluster and its name, such as"
                " 0='elderly, anaemic'"
            )
        clusters[int(number)] = name.strip()
    kept = {cluster: name for cluster, name in clusters.items() if name}
    names = Names(
        view.names.title if title is None else title.strip() or None,
        kept,
    )
    numbers = dict.fromkeys(clusters, "any")
    Names(None, numbers).check(view.n_clusters, "--name")
    names.check(view.n_clusters, "--title or --name")
    return names


def _has_picture(files: "StoredFiles") -> bool:
    """Return whether a result has a picture that can be made from the other files."""
    from fastlloyd.reports.run_result import PICTURE, SHOWS_RECORDS

    return PICTURE in files.contents and SHOWS_RECORDS not in files.cautions


def _picture(files: "StoredFiles") -> bytes:
    from fastlloyd.reports import pictures

    return pictures.draw(_view(files).picture())


def _check(files: "StoredFiles", *, as_json: bool) -> None:
    """Compare the page and the picture with those that the other files of the result give.

    Raises DataError if one of them differs or is missing.
    """
    from fastlloyd.cli import terminal
    from fastlloyd.reports.page.frame import page_of
    from fastlloyd.reports.run_result import PAGE, PICTURE

    same: dict[str, Any] = {PAGE: files.contents.get(PAGE) == page_of(files)}
    if _has_picture(files):
        same[PICTURE] = files.contents[PICTURE] == _picture(files)
    if as_json:
        terminal.print_json({"same": same})
    wrong = [name for name, is_same in same.items() if not is_same]
    if wrong:
        raise DataError(
            f"{' and '.join(str(files.folder / name) for name in wrong)}: this does not match the"
            " other files of the result (changed, or made by another version); make it again with"
            f" fastlloyd result {files.folder} --html --png"
        )
    if not as_json:
        typer.echo(f"These match the other files of the result: {', '.join(same)}.")


def _for_people(
    files: "StoredFiles", registry: bool, statement: bool, ledger: Path | None
) -> tuple[list[str], list[str]]:
    """Write the registry entry, the statement, or both. Also write an empty form for the facts that
    only people know (`registry.toml`), unless it exists.

    Return the names of the written files, and of the missing facts.
    """
    from fastlloyd.reports.registry import PEOPLE, PeopleFacts, template

    path = files.folder / PEOPLE
    people, contents = PeopleFacts.read(path), dict[str, bytes]()
    missing = list[str]()
    if registry:
        from fastlloyd.reports.registry import REGISTRY

        contents[REGISTRY], missing = _entry(files, people).encode(), people.missing
    if statement:
        from fastlloyd.cli.ledgers import total_of
        from fastlloyd.reports.page.questions import STATEMENT, Sources, statement_page
        from fastlloyd.reports.stored_statement import sealed_settings

        sealed = sealed_settings(files)
        total = total_of(ledger, sealed.charged_digest)
        sources = Sources.of(files, sealed, people, total)
        contents[STATEMENT] = statement_page(sources)
        missing = [*missing, *sources.missing]
    if not path.exists():
        contents[PEOPLE] = template().encode()
    for name, content in contents.items():
        write_bytes(files.folder / name, content)
    return list(contents), missing


def _entry(files: "StoredFiles", people: "PeopleFacts") -> str:
    """Return the entry for the registry as YAML."""
    from fastlloyd.reports.registry import registry_entry, to_yaml
    from fastlloyd.reports.stored_statement import sealed_settings, stored_statement

    statement = stored_statement(files, sealed_settings(files))
    return to_yaml(registry_entry(_view(files).stored, statement, people))
