"""Find data sets by name: in the user's own folder, in the catalogue, and among the generated
families, in this order.

A name means the same records everywhere. The one exception is a user's own folder, whose manifest
defines its names. A set of the catalogue is never generated instead, and is downloaded only if the
user asks for it.
"""

from collections.abc import Iterable

from fastlloyd.base.names import listing, unknown_name
from fastlloyd.errors import DataError
from fastlloyd.records import Table
from fastlloyd_lab.datasets import homes, synthetic
from fastlloyd_lab.datasets.catalogue import CATALOGUE
from fastlloyd_lab.datasets.homes import FOLDER_VARIABLE, own_sets

SHOWN = 12  # names in a command to copy


def load(name: str) -> Table:
    """Return the records of the data set `name`, with columns x1, x2, ..., in raw units.

    The set is looked for in the folder of FASTLLOYD_DATA, among scikit-learn's copies, and in the
    cache. It is generated if the name is that of a generated set.

    Raises DataError if there is no such set, or if its file is damaged or has other content. If the
    set is not on this machine, the message says how to get it.
    """
    if (own := own_sets().get(name)) is not None:
        return own.read(name)
    if (entry := CATALOGUE.get(name)) is not None:
        return homes.find(entry)
    if synthetic.is_generated(name):
        return synthetic.generate(name)
    raise DataError(f"data set {unknown_name(name, names())}")


def n_clusters(name: str) -> int:
    """Return the usual number of clusters of the data set `name`. Raises DataError if there is no
    such set.
    """
    if (known := own_sets().get(name) or CATALOGUE.get(name)) is not None:
        return known.n_clusters
    if synthetic.is_generated(name):
        return synthetic.n_clusters(name)
    raise DataError(f"data set {unknown_name(name, names())}")


def absent(wanted: Iterable[str]) -> list[str]:
    """Return the names of the wanted sets that are not on this machine, without duplicates. Reads
    no records.
    """
    own = own_sets()

    def is_here(name: str) -> bool:
        if name in own:
            return own[name].path.is_file()
        return name not in CATALOGUE or homes.home_here(CATALOGUE[name]) is not None

    return [name for name in dict.fromkeys(wanted) if not is_here(name)]


def check_at_hand(wanted: Iterable[str]) -> None:
    """Raise DataError if any wanted set is not on this machine. The message names all of them, and
    says how to get them.
    """
    missing = absent(wanted)
    own = own_sets()
    said = []
    if public := [name for name in missing if name not in own]:
        command = (
            "fastlloyd datasets fetch"
            f" {' '.join(public[:SHOWN])}{' ...' if len(public) > SHOWN else ''}"
        )
        said.append(
            f"not on this machine: {listing(public)}; get them with `{command}`, or set the"
            f" environment variable {FOLDER_VARIABLE} to a folder that holds them"
        )
    if listed := [name for name in missing if name in own]:
        said.append(
            f"the manifest in {own[listed[0]].path.parent} lists {listing(listed)}, and there is no"
            f" such file; put {own[listed[0]].path.name} there, or take it out of the manifest"
        )
    if said:
        raise DataError("; ".join(said))


def names() -> tuple[str, ...]:
    """Return the names of all sets: first those of the user's own folder, then those of the
    catalogue.

    Generated sets are not listed. A listed set need not be on this machine.

    Raises DataError if there is a folder without a valid manifest.
    """
    return tuple(dict.fromkeys((*own_sets(), *CATALOGUE)))
