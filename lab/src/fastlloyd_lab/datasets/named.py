"""Data sets by name: those of one's own folder, then the catalogue's, then those that are
generated.

A name means the same records everywhere, but for a folder of one's own, whose manifest answers for
them. In particular a set of the catalogue is never generated instead, nor fetched without being
asked for.
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
    """Records of the data set `name`, columns x1, x2, ... in raw units.

    Looked for in the folder of FASTLLOYD_DATA, among scikit-learn's copies, in the cache; generated
    if that is what the name says. Raises DataError if there is no such set, if it is not on this
    machine (and says how to get it), or if the file that should hold it is absent, damaged or
    another one.
    """
    if (own := own_sets().get(name)) is not None:
        return own.read(name)
    if (entry := CATALOGUE.get(name)) is not None:
        return homes.find(entry)
    if synthetic.is_generated(name):
        return synthetic.generate(name)
    raise DataError(f"data set {unknown_name(name, names())}")


def n_clusters(name: str) -> int:
    """Return the number of clusters usually asked of the data set `name`. Raises DataError if there
    is no such set.
    """
    if (known := own_sets().get(name) or CATALOGUE.get(name)) is not None:
        return known.n_clusters
    if synthetic.is_generated(name):
        return synthetic.n_clusters(name)
    raise DataError(f"data set {unknown_name(name, names())}")


def absent(wanted: Iterable[str]) -> list[str]:
    """Return the sets that `load` would not find on this machine, each once. Reads no records."""
    own = own_sets()

    def is_here(name: str) -> bool:
        if name in own:
            return own[name].path.is_file()
        return name not in CATALOGUE or homes.home_here(CATALOGUE[name]) is not None

    return [name for name in dict.fromkeys(wanted) if not is_here(name)]


def check_at_hand(wanted: Iterable[str]) -> None:
    """Raise one DataError that names all sets that `load` would not find on this machine, and says
    how to get them.
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
    """Names of the folder's sets, in its manifest's order, then of the catalogue's others;
    generated sets are not listed.

    Whether a set is on this machine is another matter. Raises DataError if there is a folder
    without a sound manifest.
    """
    return tuple(dict.fromkeys((*own_sets(), *CATALOGUE)))
