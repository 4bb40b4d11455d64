"""Ledger of the owner: what was spent on each data set, what is left, and the runs."""

import math
from datetime import UTC, datetime

from starlette.requests import Request
from starlette.responses import Response

from fastlloyd.app.frame import elsewhere, h, page
from fastlloyd.app.site import Site, beside
from fastlloyd.base.markup import Markup
from fastlloyd.base.precision import delta_up, epsilon_up, rounded_up
from fastlloyd.federation.holder import HoldersLedger, place
from fastlloyd.federation.ledger import Account, accounts, finite
from fastlloyd.federation.store.durable import read
from fastlloyd.federation.store.events import Reservation
from fastlloyd.reports.accounts import down, meaning

_YEARS = 5


async def show(site: Site, _request: Request) -> Response:
    """Return the page."""
    listed, years = await beside(_read, site)
    rows = [_row(one) for one in listed]
    heads = ("data set", "counted for", "runs", "spent", "limit", "left for one more run")
    table = h(
        "div",
        h(
            "table",
            h("thead", h("tr", [h("th", text, scope="col") for text in heads])),
            h("tbody", rows),
            class_="cards",
        ),
        class_="scroll",
    )
    said = [
        h("section", h("h2", one.dataset), h("ul", [h("li", text) for text in meaning(one)]))
        for one in listed
    ]
    of_years = [h("li", f"{year}: {number} runs") for year, number in years[:_YEARS]]
    return page(
        "What was spent on your data sets",
        h(
            "p",
            "Every run adds up. A limit keeps all runs on a data set together below a number that"
            " you choose; set it before the first run.",
        ),
        table if rows else h("p", "No run has named a data set yet.", class_="note"),
        said,
        [h("h2", "Runs by year"), h("ul", of_years)] if of_years else None,
        elsewhere(
            "fastlloyd ledger show\nfastlloyd ledger limit --dataset NAME --epsilon 3 --delta 1e-6"
        ),
        here="/ledger",
    )


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


def _row(one: Account) -> Markup:
    limit, left = finite(one.limit), one.left
    spent = rounded_up(one.epsilon) if math.isfinite(one.epsilon) else "no bound"
    at = f" at delta {delta_up(one.delta)}" if one.runs else ""
    open_ = f" ({one.n_open} open)" if one.n_open else ""
    return h(
        "tr",
        h("th", one.dataset, scope="row"),
        h("td", f"one {one.asked.unit or 'record'}", data_name="counted for"),
        h("td", f"{len(one.runs)}{open_}", data_name="runs"),
        h("td", f"epsilon {spent}{at}", data_name="spent"),
        h("td", epsilon_up(limit.epsilon) if limit else "none", data_name="limit"),
        h("td", "" if left is None else down(left), data_name="left for one more run"),
    )
