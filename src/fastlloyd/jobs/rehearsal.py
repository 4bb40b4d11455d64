"""Rehearsal of a client: everything that it does before a run, without sending or writing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec
import numpy as np

from fastlloyd.clustering.outside import Clipped
from fastlloyd.federation.client_news import own_run_id
from fastlloyd.federation.fingerprint_file import Fingerprints
from fastlloyd.federation.ledger import Account, finite
from fastlloyd.federation.runs import KnownRecords, check_may_join, own_runs, reservation
from fastlloyd.federation.store import History, Role, Store
from fastlloyd.federation.store.events import Limit
from fastlloyd.jobs.client import Drive, OwnRecords, PreparedClient, at_once
from fastlloyd.jobs.watching import Watch, nobody
from fastlloyd.mechanisms.central import rehearse as queries_of
from fastlloyd.records.layout import Layout
from fastlloyd.records.person_rows import records_of_persons
from fastlloyd.records.reading import STANDARD_INPUT, open_records
from fastlloyd.records.recipe.checks import DROP, ORDER, REFUSE
from fastlloyd.records.recipe.feature import Feature
from fastlloyd.records.recipe.rows import Using


@dataclass(frozen=True, slots=True, kw_only=True)
class Contribution:
    """Exact numbers of what a client would contribute. Do not publish them.

    n : number of records, or of persons if the plan protects persons.
    dropped : number of records that are left out because of missing cells.
    clipped : exact counts (`Clipped`) of records and values outside the bounds.
    filled : number of values of each feature that the recipe puts in place of missing values. It is
        None if they were not counted: an engine reads the records, or they can be read only once.
    """

    n: int = field(repr=False)
    dropped: int = field(repr=False)
    clipped: Clipped = field(repr=False)
    filled: Mapping[str, int] | None = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal:
    """Result of `rehearse`.

    contribution : exact numbers, for the owner of the records alone.
    accounts : accounts of the data set in the holder's ledger, as pairs: before and after the run.
    limits : limits that apply to the run.
    seconds : duration of a pass over the records.
    """

    contribution: Contribution
    accounts: Sequence[tuple[Account, Account]]
    limits: Sequence[Limit]
    seconds: float


def rehearse(client: PreparedClient, watch: Watch = nobody, drive: Drive = at_once) -> Rehearsal:
    """Read all records once, as in the longest round of the run, and check store and ledger.
    Nothing is sent or stored, and no store or ledger is made.

    watch, drive : as in the methods of `PreparedClient`.

    Raises DataError, BudgetError and StateError as `PreparedClient.joined` would.
    """
    request, plan = client.request, client.plan
    dataset, name = request.account.dataset, request.member.name
    if not request.store.exists():
        history, is_new = History(Role.CLIENT), True
        accounts = request.check_budget(request.store, watch)
        records, own = _look(client, {}, watch, drive)
    else:
        with Store.open(request.store, role=Role.CLIENT, identity=request.signing_key) as store:
            history = store.history
            check_may_join(store, plan, name, dataset=dataset)
            accounts = request.check_budget(store, watch)
            records, own = _look(client, own_runs(store), watch, drive)
            reserved = reservation(store, plan, name, dataset=dataset, records=records)
            is_new = reserved is not None
    ledger = client.holder(watch).history()
    if is_new:
        mine = own_run_id(bytes.fromhex(plan.run_id), request.signing_key)
        records.check_new(mine, dataset.name, ledger.counted)
    limits = [
        limit
        for known in (ledger, history)
        for limit in known.limits_on(dataset.name).values()
        if finite(limit) is not None
    ]
    source = client.source
    contribution = Contribution(
        n=own.answers.n or 0,
        dropped=source.dropped,
        clipped=source.clipped,
        filled=drive(_filled, client),
    )
    return Rehearsal(
        contribution=contribution, accounts=accounts, limits=limits, seconds=own.seconds
    )


def _filled(client: PreparedClient) -> Mapping[str, int] | None:
    request = client.request
    if request.recipe is None:
        return {}
    if request.engine is not None:
        return None
    return filled(request.data, request.recipe, request.unit_column, request.layout)


def _look(
    client: PreparedClient, runs: Mapping[bytes, str], watch: Watch, drive: Drive
) -> tuple[KnownRecords, OwnRecords]:
    """Pass over the records as the longest round would. Nothing is written.

    runs : as in `FingerprintFile.complete`.
    """
    are_lost = client.request.are_fingerprints_lost
    known = client.file.complete(runs, are_lost=are_lost) or Fingerprints.new()
    with client.own_records(known.hash_key, watch) as own:
        found = client.look(own, watch, drive, queries_of(client.plan.mechanism))
    return KnownRecords(found, known, client.file), own


def filled(
    path: str, using: Using, unit_column: str | None = None, layout: Layout | None = None
) -> dict[str, int] | None:
    """Return the number of values that the recipe fills in, for each feature, by its key. One pass
    is made. Do not publish the numbers. For a source that can be read only once, return None.

    Records, or persons, that the recipe drops are not counted.

    path, layout : as in `open_records`.
    using : features of the recipe.
    unit_column : name of the column of the ids, or None.
    """
    if path == STANDARD_INPUT or Path(path).is_fifo():
        return None
    kept = replace(using, features=tuple(map(_left_open, using.features)))
    file = open_records(path, unit=unit_column, recipe=kept, layout=layout)
    keys = [feature.key for feature, way in using.used for _ in way.columns]
    drops = {feature.key for feature, _ in using.used if feature.missing == DROP}
    may_fill = (feature.key for feature, _ in using.used if feature.missing not in (DROP, REFUSE))
    counts = dict.fromkeys(may_fill, 0)
    for block in (
        [records_of_persons(file, kept)[0]] if using.is_per_person else file.blocks_with_gaps()
    ):
        gaps = dict(zip(keys, np.isnan(block).T, strict=True))  # a feature's columns agree
        is_kept = ~np.any([gaps[key] for key in drops] or [np.zeros(len(block), bool)], axis=0)
        for key in counts:
            counts[key] += int(np.count_nonzero(gaps[key] & is_kept))
    return counts


def _left_open(feature: Feature) -> Feature:
    """Return a copy of the feature whose missing values are not filled in.

    They stay missing, so their records are dropped. A feature that refuses missing values, or only
    orders rows, is returned unchanged.
    """
    if feature.missing == REFUSE or feature.role == ORDER:
        return feature
    return msgspec.structs.replace(feature, missing=DROP)
