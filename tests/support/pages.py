"""Folders of results for tests of the page, made from chosen noisy numbers."""

from collections.abc import Mapping, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from designs import design_mechanism
from fastlloyd.base.arrays import FloatArray
from fastlloyd.base.randomness import PublicSeed
from fastlloyd.clustering.domain import Domain
from fastlloyd.mechanisms.moment_lloyd.rounds import MOMENTLLOYD
from fastlloyd.mechanisms.suggestion import Split
from fastlloyd.mechanisms.uncertainty import Accuracy, Status
from fastlloyd.reports.page.frame import page_of
from fastlloyd.reports.page.questions import Sources, statement_page
from fastlloyd.reports.registry import PeopleFacts
from fastlloyd.reports.result import Result
from fastlloyd.reports.run_result import RunResult
from fastlloyd.reports.stored_files import StoredFiles
from fastlloyd.reports.stored_statement import sealed_settings

NASTY = '<b onmouseover="x">&amp;"\' and sixty characters of a name'
HEBREW = "מדידה ראשונה של לחץ דם"


def result_of(
    values: FloatArray,
    *,
    errors: float | FloatArray = 1.0,
    status: Sequence[Status] | Status = Status.SETTLED,
    features: Sequence[str] | None = None,
    algorithm: Any = MOMENTLLOYD,
    domain: Domain | None = None,
    **settings: Any,
) -> Result:
    """Return a result with these centroids, in a box from 0 to 100 unless `domain` is another.

    errors : standard errors of the centroids.
    status : status of all clusters, or of each.
    """
    k, d = values.shape
    names = tuple(features or (f"x{j}" for j in range(d)))
    domain = domain or Domain(features=names, lower=(0.0,) * d, upper=(100.0,) * d)
    given: dict[str, Any] = {"n_clusters": k, "n_records": 100_000, "epsilon": 1.0, "delta": 1e-6}
    m = design_mechanism(
        algorithm, domain, public_seed=PublicSeed.from_int(1), **(given | settings)
    )
    statuses = [status] * k if isinstance(status, Status) else list(status)
    return Result(
        mechanism=m,
        centroids=domain.from_grid(domain.to_grid(np.clip(values, 0, 100))),
        noisy_counts=np.linspace(4000, 500, k),
        count_error=40.0,
        accuracy=Accuracy(
            errors=np.broadcast_to(np.asarray(errors, dtype=np.float64), (k, d)).copy(),
            status=tuple(statuses),
            radius=np.full(d, 20.0),
            beyond=None,
        ),
        split=Split(clearest=min(k, 2), finer=None),
    )


def random_result(k: int, d: int, **others: Any) -> Result:
    """Return a result with k clusters and d features."""
    rng = np.random.default_rng(k * 1000 + d)
    return result_of(rng.uniform(5, 95, (k, d)), **others)


def page(result: Result, more: Mapping[str, bytes] | None = None) -> str:
    """Return the page of a result. `more` has further files."""
    return page_of(StoredFiles(Path("result"), result.files() | dict(more or {}))).decode()


def statement(result: RunResult, people: PeopleFacts) -> str:
    """Return the statement of a result, with these facts of people."""
    files = StoredFiles(Path("result"), result.files())
    sources = Sources.of(files, sealed_settings(files), people, None)
    return statement_page(sources).decode()


class Seen(HTMLParser):
    """Elements, attributes and text of a page.

    tags : name and attributes of each element.
    text : all text outside the style sheet.
    """

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text, self._open = "", [""]
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element."""
        self.tags.append((tag, dict(attrs)))
        self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Forget the last open element."""
        while self._open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        """Note a text."""
        if self._open[-1] != "style":
            self.text += data


def structure(seen: Seen) -> list[tuple[str, ...]]:
    """Return the elements of a page and the names of their attributes."""
    return [(tag, *sorted(attributes)) for tag, attributes in seen.tags]


def replaced(result: Result, **fields: Any) -> Result:
    """Return the result with other fields."""
    return msgspec.structs.replace(result, **fields)
