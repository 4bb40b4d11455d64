"""Ledger of the owner: what was spent on each data set, what is left, and the runs."""

import math
from datetime import UTC, datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from fastlloyd.app.answers import FieldFault, as_sentence, no_number, number
from fastlloyd.app.forms import Form
from fastlloyd.app.frame import elsewhere, form, h, page, table, text_field
from fastlloyd.app.pages.protect import dataset_faults, dataset_fields, is_known
from fastlloyd.app.site import Site, beside
from fastlloyd.base.markup import Markup
from fastlloyd.base.names import same
from fastlloyd.base.precision import delta_up, epsilon_up, rounded_up
from fastlloyd.federation.holder import HoldersLedger, place
from fastlloyd.federation.ledger import Account, accounts, finite, known_datasets
from fastlloyd.federation.store.durable import read
from fastlloyd.federation.store.events import Reservation
from fastlloyd.reports.accounts import down, meaning

_YEARS = 5
_PURPOSES = 10
_WRONG = {
    "epsilon": "Write a number above 0, such as 3.",
    "delta": "Write a number above 0 and below 1, such as 1e-6.",
}


async def show(site: Site, _request: Request) -> Response:
    """Return the page of the ledger."""
    return await _page(site, {})


async def _page(
    site: Site, given: dict[str, Any], faults: tuple[FieldFault, ...] = (), done: str = ""
) -> Response:
    listed, years = await beside(_read, site)
    rows = [_row(one) for one in listed]
    heads = ("data set", "counted for", "runs", "spent", "limit", "left for one more run")
    said = [
        h(
            "section",
            h("h2", f"{one.dataset}, for {one.asked}"),
            h("ul", [h("li", as_sentence(text)) for text in [*meaning(one), *_purposes(one)]]),
        )
        for one in listed
    ]
    of_years = [
        h("li", f"{year}: {number} {'run' if number == 1 else 'runs'}")
        for year, number in years[:_YEARS]
    ]
    return page(
        "What was spent on your data sets",
        h(
            "p",
            "The epsilon of every run adds to a total. A limit keeps the total of a data set"
            " below a number that you choose; set it before the first run.",
        ),
        h("p", done, class_="note", role="status") if done else None,
        table(heads, rows, kind="cards")
        if rows
        else h("p", "No run has named a data set yet.", class_="note"),
        said,
        [h("h2", "Runs by year"), h("ul", of_years)] if of_years else None,
        _limiting(sorted({one.dataset for one in listed if not one.runs}), given, faults),
        elsewhere(
            "fastlloyd ledger show\nfastlloyd ledger limit --dataset NAME --epsilon 3 --delta 1e-6"
        ),
        faults=faults,
        here="/ledger",
    )


def _limiting(known: list[str], given: dict[str, Any], faults: tuple[FieldFault, ...]) -> Markup:
    """Return the form that sets a limit.

    known : data sets without a run.
    """
    fields = [
        text_field(
            "epsilon",
            "Epsilon of all runs together",
            given.get("epsilon", ""),
            faults,
            is_short=True,
            is_number=True,
        ),
        text_field(
            "delta",
            "At delta",
            given.get("delta", ""),
            faults,
            hint="At most 1 / (100 times the number of your records), such as 1e-6.",
            is_short=True,
        ),
        text_field(
            "unit",
            "What one person is called",
            given.get("unit", ""),
            faults,
            hint="One word, such as patient, if a person can have several rows. Otherwise empty.",
            is_short=True,
        ),
    ]
    return h(
        "details",
        h("summary", "Set a limit before the first run"),
        form(
            "/ledger",
            dataset_fields(known, given, faults, "Your ledger has no data set without runs."),
            h("div", fields),
            label="Set the limit",
        ),
        open=True if faults else None,
    )


async def take(site: Site, request: Request) -> Response:
    """Set the limit of a data set that has no run."""
    form_ = await Form.of(request)
    given: dict[str, Any] = {
        each: form_.text(each) for each in ("dataset", "epsilon", "delta", "unit")
    }
    given["is_new"] = bool(form_.text("is_new"))
    history = await beside(lambda: site.history)
    name, known = str(given["dataset"]), known_datasets(history)
    faults = dataset_faults(name, known, is_new=given["is_new"])
    if not faults and same(name) in history.used:
        said = (
            "This data set already has runs. A limit that is set now guarantees nothing if a run"
            " was planned after its planner saw an earlier result. To set it all the same, use"
            " the command below."
        )
        faults.append(FieldFault("dataset", said))
    for field in ("epsilon", "delta"):
        value = number(given[field])
        if value is None or not 0 < value < (1 if field == "delta" else 1e6):
            faults.append(FieldFault(field, no_number(given[field], _WRONG[field])))
    if faults:
        return await _page(site, given, tuple(faults))
    fault = await beside(_limit, site, given, is_new=not is_known(name, known))
    if fault:
        return await _page(site, given, (FieldFault("", fault),))
    return await _page(site, {}, done=f"The limit of {name} is set.")


def _limit(site: Site, given: dict[str, Any], *, is_new: bool) -> str:
    """Set a limit by running the command `fastlloyd ledger limit`. Return a sentence that says why
    it failed, or "".
    """
    command = ["ledger", "limit", "--dataset", given["dataset"], *(["--new"] if is_new else [])]
    for each in ("epsilon", "delta"):
        command += [f"--{each}", repr(number(given[each]))]
    command += ["--unit", given["unit"]] if given["unit"] else []
    return site.command(*command)


def _read(site: Site) -> tuple[list[Account], list[tuple[int, int]]]:
    """Return the accounts, and the number of runs in each year, the latest year first."""
    held = HoldersLedger(place(site.ledger))
    if not held.is_there():
        return [], []
    contents, events = read(held.path)
    years = dict[int, int]()
    for event, at in zip(events, contents.seconds, strict=True):
        if isinstance(event, Reservation):
            year = datetime.fromtimestamp(at, UTC).year
            years[year] = years.get(year, 0) + 1
    return accounts(contents.history), sorted(years.items(), reverse=True)


def _purposes(one: Account) -> list[str]:
    """Return a list with a sentence about the purposes of the latest runs, if any are noted."""
    noted = [run.noted.purpose for run in one.runs if run.noted is not None]
    purposes = [purpose for purpose in noted if purpose][-_PURPOSES:]
    return [f"purposes of the latest runs: {'; '.join(purposes)}"] if purposes else []


def _row(one: Account) -> Markup:
    limit, left = finite(one.limit), one.left
    at = f" at delta {delta_up(one.delta)}" if one.runs else ""
    spent = f"epsilon {rounded_up(one.epsilon)}{at}"
    if not math.isfinite(one.epsilon):
        of_rows = one.asked.unit is not None and one.spent.n_unknown
        spent = "no bound: a run protected single rows only" if of_rows else f"no bound{at}"
    open_ = f" ({one.n_open} open)" if one.n_open else ""
    return h(
        "tr",
        h("th", one.dataset, scope="row"),
        h("td", f"one {one.asked.unit or 'record'}", data_name="counted for"),
        h("td", f"{one.n_runs}{open_}", data_name="runs"),
        h("td", spent, data_name="spent"),
        h("td", epsilon_up(limit.epsilon) if limit else "none", data_name="limit"),
        h("td", "no limit" if left is None else down(left), data_name="left for one more run"),
    )
