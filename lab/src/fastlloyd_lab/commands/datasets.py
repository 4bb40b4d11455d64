"""Commands `fastlloyd datasets list`, `show` and `fetch`: list, describe and download public data
sets for experiments.
"""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from fastlloyd.base.names import unknown_name
from fastlloyd.cli import terminal
from fastlloyd.cli.terminal import Column, print_json
from fastlloyd.errors import DataError

if TYPE_CHECKING:
    from fastlloyd_lab.datasets import DataSet

Name = Annotated[
    str, typer.Argument(help="Name of a data set, as `list` shows it.", metavar="NAME")
]
Names = Annotated[
    list[str], typer.Argument(help="Names of data sets, as `list` shows them.", metavar="NAME...")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]

_NOWHERE = "to be fetched"


def list_sets(json: Json = False) -> None:
    """List the named sets and the families of generated sets. For each named set, say whether it is
    on this machine, and where. Nothing is downloaded.
    """
    from fastlloyd_lab.datasets import names, synthetic

    rows = [_row(name) for name in names()]
    families = [{"pattern": family.pattern, "text": family.text} for family in synthetic.FAMILIES]
    if json:
        print_json({"data_sets": rows, "families": families})
    else:
        _print(rows, families)


def show(name: Name, json: Json = False) -> None:
    """Show the description, the licence and the public addresses of a data set, and the changes to
    its published values. If the set is on this machine, also show whether its values are right.
    """
    from fastlloyd_lab.datasets import CATALOGUE, load, n_clusters, values_digest
    from fastlloyd_lab.experiments.reading import SHAPE

    entry = CATALOGUE.get(name)
    if entry is not None and _row(name)["here"] is None:
        said = _public(entry) | {"here": None}
    else:
        table = load(name)
        numbers = *table.values.shape, n_clusters(name)
        shape = {"name": name, **dict(zip(SHAPE, numbers, strict=True))}
        digest = values_digest(table.values)
        here = {
            "source": table.source,
            "values_digest": digest,
            "as_published": entry and digest == entry.digest,
        }
        said = (_public(entry) if entry else {}) | shape | {"here": here}
    if json:
        print_json(said)
    else:
        typer.echo("\n".join(_lines(said)))


def fetch(names: Names, json: Json = False) -> None:
    """Download sets from their public addresses, check their values, and keep them in your
    cache.
    """
    from fastlloyd_lab.datasets import CATALOGUE, homes

    here = {name: why for name in names if (why := _needs_no_fetching(name))}
    files = {}
    for name in names:
        if name in here:
            said = f"{here[name]}; there is nothing to fetch"
        else:
            said = files[name] = str(homes.fetch(CATALOGUE[name]))
            said += ", values as published"
        if not json:
            typer.echo(f"{name}: {said}.")
    if json:
        print_json({"fetched": files, "nothing_to_fetch": list(here)})


def _needs_no_fetching(name: str) -> str:
    """Return the reason why a set outside the catalogue needs no download, or "" for a set of the
    catalogue.

    Raises DataError for an unknown name.
    """
    from fastlloyd_lab.datasets import CATALOGUE, synthetic
    from fastlloyd_lab.datasets.homes import FOLDER_VARIABLE, own_sets

    if name in CATALOGUE:
        return ""
    if name in own_sets():
        return f"a set of your own, in the folder that {FOLDER_VARIABLE} names"
    if not synthetic.is_generated(name):
        raise DataError(f"data set {unknown_name(name, list(CATALOGUE))}; only these are fetched")
    synthetic.n_clusters(name)
    return "generated from its name wherever it is used"


def _row(name: str) -> dict[str, Any]:
    """Return the row of `list` for a named set. The sizes of a user's own set are unknown until it
    is read.
    """
    from fastlloyd_lab.datasets import CATALOGUE, homes
    from fastlloyd_lab.datasets.homes import own_sets

    entry, own = CATALOGUE.get(name), own_sets().get(name)
    return {
        "name": name,
        "n_records": entry.n_records if entry else None,
        "n_features": entry.n_features if entry else None,
        "n_clusters": own.n_clusters if own else entry and entry.n_clusters,
        "here": "folder" if own else entry and homes.home_here(entry),
        "about": entry.about if entry else None,
    }


def _public(entry: "DataSet") -> dict[str, Any]:
    said = (
        "name",
        "n_records",
        "n_features",
        "n_clusters",
        "about",
        "citation",
        "licence",
        "changes",
    )
    more = {"values_digest": entry.digest, "homes": [home.address for home in entry.homes]}
    return {name: getattr(entry, name) for name in said} | more


def _lines(said: dict[str, Any]) -> list[str]:
    """Return the facts about a set that `show` prints, one per line. Lines are not broken, so
    digests and addresses can be copied.
    """
    size = (
        f"{said['n_records']:,} records of {said['n_features']} features; usually"
        f" {said['n_clusters']} clusters"
    )
    lines = [f"{said['name']}: {size}."]
    titles = {
        "about": "What",
        "citation": "Source",
        "licence": "Terms",
        "changes": "Changed",
        "values_digest": "Values digest",
    }
    lines += [f"{title}: {said[key]}" for key, title in titles.items() if key in said]
    lines += [f"Public home: {address}" for address in said.get("homes", ())]
    if (here := said["here"]) is None:
        return [*lines, f"Here: not yet; fastlloyd datasets fetch {said['name']}"]
    verdict = {
        None: f"values digest {here['values_digest']}",
        True: "values as published",
        False: "OTHER values than published",
    }
    return [*lines, f"Here: {here['source']}, {verdict[here['as_published']]}"]


def _print(rows: list[dict[str, Any]], families: list[dict[str, str]]) -> None:

    def cells(key: str) -> list[str]:
        return ["" if row[key] is None else f"{row[key]:,}" for row in rows]

    columns = [
        Column(heading="data set", cells=[row["name"] for row in rows], justify="left"),
        Column(heading="records", cells=cells("n_records")),
        Column(heading="features", cells=cells("n_features")),
        Column(heading="clusters", cells=cells("n_clusters")),
        Column(heading="here", cells=[row["here"] or _NOWHERE for row in rows], justify="left"),
    ]
    patterns, texts = ([family[key] for family in families] for key in ("pattern", "text"))
    generated = [
        Column(heading="generated by name", cells=patterns, justify="left"),
        Column(heading="what they are", cells=texts, justify="left", is_text=True),
    ]
    console = terminal.console()
    terminal.show(console, "Public data sets", columns)
    terminal.show(console, "Families of generated sets", generated)


GROUP = {"list": list_sets, "show": show, "fetch": fetch}
