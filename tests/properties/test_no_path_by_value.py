"""What a record says decides no path: the same lines run, and call the same compiled code, whatever
the records are.

Asked of every query, for records that lie together, in the corners of the box, all in one point,
and for a single outlier. So the time of an answer tells the number of records and public numbers,
up to what the processor makes of values.
"""

from contextlib import suppress
from functools import partial

import numpy as np
import pytest

from fastlloyd.base.arrays import GridArray
from fastlloyd.clustering import gridding
from fastlloyd.clustering.domain import Domain, finest_bits
from fastlloyd.errors import PlanError
from fastlloyd.mechanisms.queries.nearest import Votes
from fastlloyd.mechanisms.queries.parameters import Value
from fastlloyd.mechanisms.queries.query import Query, ask
from fastlloyd.mechanisms.queries.spaces import Subspace
from lloyd_queries import loss, moments
from moment_situations import cube, questions
from paths import computed, path_of

N = 600
NAMES = ["a", "b", "c"]
PLAIN = {"_plain_statistics", "_plain_labels", "_plain_sums", "_plain_grid"}
COMPILED = {
    "_feature_statistics",
    "_near_statistics",
    "_feature_labels",
    "_near_labels",
    "_compiled_sums",
    "_compiled_grid",
}


def grids(domain: Domain) -> dict[str, GridArray]:
    """Grid points (N, d) of the domain: ordinary ones, and others."""
    B, d, generator = domain.half_widths, domain.n_features, np.random.default_rng(0)
    ordinary = np.rint(generator.normal(0, 0.1, (N, d)) * B).astype(np.int32)
    corners = (B * generator.choice([-1, 1], (N, d))).astype(np.int32)
    outlier = ordinary.copy()
    outlier[N // 2] = B
    one = np.repeat(ordinary[:1], N, axis=0)
    all_of = {
        "ordinary": ordinary,
        "outlier": outlier,
        "corners": corners,
        "one point": one,
        "centre": 0 * one,
    }
    return {
        name: np.asfortranarray(X) if d <= gridding.FEW_FEATURES else X
        for name, X in all_of.items()
    }


def queries(domain: Domain) -> list[Query]:
    B, d, generator = domain.half_widths, domain.n_features, np.random.default_rng(1)
    C = np.rint(generator.uniform(-0.5, 0.5, (10, d)) * B).astype(np.int64)
    asked: list[Query] = [
        moments(C, None, 2, domain),
        moments(C, int(B[0]) ** 2 // 4, 2, domain),
        loss(C, 1 << 10, 2 * domain.fraction_bits - 8, domain),
    ]
    asked_of_moments = questions(domain, units=1 << 10, count_bits=2, k=300)
    if (
        d >= 16 and domain.fraction_bits == 16
    ):  # as MomentLloyd asks for votes: no 4,096 candidates share a key there
        asked_of_moments.append(
            Votes(space=Subspace(domain=domain, n_directions=8), n_candidates=4096)
        )
    for question in asked_of_moments:
        values: dict[str, Value] = {}
        for parameter in question.parameters:
            if parameter.shape == ():
                values[parameter.name] = int(B[0])
            elif parameter.column_square is not None:
                values[parameter.name] = np.eye(*parameter.shape, dtype=np.int64) << 20
            else:
                anywhere = np.rint(generator.uniform(-0.5, 0.5, parameter.shape) * B[0]).astype(
                    np.int64
                )
                values[parameter.name] = np.clip(anywhere, parameter.least, parameter.most)
        asked.append(ask(question, **values))
    return asked


def finest_cube(d: int) -> Domain:
    """The finest grid on which all queries may be asked, those in three directions too."""
    for bits in range(finest_bits(d), 0, -1):
        with suppress(PlanError):
            Subspace(domain=cube(d, bits), n_directions=min(d, 3))
            return cube(d, bits)
    raise AssertionError


@pytest.mark.parametrize("way", ["compiled", "plain"])
@pytest.mark.parametrize("finest", [False, True], ids=["16 bits", "finest grid"])
@pytest.mark.parametrize("d", [1, 2, 16, 64])
def test_every_query_takes_the_same_path_whatever_the_records_say(
    d: int, finest: bool, way: str
) -> None:
    box = finest_cube(d) if finest else cube(d, 16)
    records = grids(box)
    with computed(way):
        for query in queries(box):
            query.evaluate(records["ordinary"])  # what is imported at a first call
            paths = {name: path_of(partial(query.evaluate, X)) for name, X in records.items()}
            assert paths["ordinary"]
            assert [name for name, path in paths.items() if path != paths["ordinary"]] == [], query
            done = {step.function for step in paths["ordinary"]}
            assert done.isdisjoint(PLAIN if way == "compiled" else COMPILED)
