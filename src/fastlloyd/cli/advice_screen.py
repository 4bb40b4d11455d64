"""Screen of `fastlloyd advise`: tables of forecasts, and sentences about them."""

import math
from typing import TYPE_CHECKING

from rich.console import Console

from fastlloyd.cli import terminal
from fastlloyd.cli.terminal import Column

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastlloyd.reports.advice import Advice, Federation, Outlook, PlannedRun

NOT_IN_IT = (
    "Error bars do not account for a poor local optimum of k-means, for a number of clusters that"
    " does not fit, or for records that are clipped to the bounds or left out beyond the radius."
    " A cluster that is smaller than the others has a longer error bar."
)
HOSTED = (
    "If a client is to run the server (plan new --host), pass --max-colluding 2, because the host"
    " is one of the clients that may pool what they see."
)
SIMULATED = (
    "Bars are medians over simulations with many kinds of records, and the range contains 80 % of"
    " the simulated runs. Your records may differ from all of them."
)
BAR = (
    "bar: error bar, two standard errors of a centroid. A result shows it on either side of the"
    " centroid. It is given in percent of the width of the bounds. A dash means unknown: hardly"
    " any cluster would have a standard error that can be trusted."
)
ODDS = (
    "right guesses out of 100: suppose that somebody guesses 100 times whether one {unit} is in"
    " the data. On average, at most the first number of guesses is right (50 without the result)."
    " After any single result, at most the second number is right, except with probability delta."
)
VERDICT = (
    "verdict: effect of the noise on a cluster of {size:.0f} {many}. If this size is below {few}"
    " standard deviations of a noisy count, the cluster is mostly noise; below {enough}, it is"
    " blurred."
)


def show(screen: Console, advice: "Advice") -> None:
    """Print tables of forecasts, and sentences that explain them."""
    question, last = advice.question, advice.outlooks[-1]
    _show_table(screen, advice)
    for line in _meaning(question, last):
        screen.print(line)
    if question.federation is not None:
        _show_traffic(screen, advice, question.federation)
        for line in _traffic_notes(advice.outlooks, question.federation):
            screen.print(line)
        if question.federation.should_allow_two:
            screen.print(HOSTED)
    if advice.by_clients:
        _show_by_clients(screen, advice)
    screen.print(NOT_IN_IT)
    screen.print(SIMULATED)
    for line in _hints(advice):
        screen.print(line)


def _meaning(question: "PlannedRun", last: "Outlook") -> list[str]:
    """Return one sentence for each kind of column in the table."""
    from fastlloyd.mechanisms.uncertainty import ENOUGH, FEW

    many = question.unit.many
    lines = [
        BAR,
        VERDICT.format(size=last.size, many=many, few=FEW, enough=ENOUGH),
        ODDS.format(unit=question.unit.one),
        f"noise of a count: standard deviation in the last round, in {many}.",
    ]
    if last.sum_noise is not None:
        lines.append(
            "noise of a sum: standard deviation of one feature's sum in the last round, in units"
            " of half the width of the bounds."
        )
    if question.estimate_loss:
        lines.append(
            "noise of the loss per record: standard deviation of the estimate, in units of the"
            " squared half width of the bounds."
        )
    return [*lines, f"delta = {last.delta:.3g}."]


def _show_table(screen: Console, advice: "Advice") -> None:
    q, outlooks = advice.question, advice.outlooks
    columns = [
        _epsilons(advice),
        Column(heading="verdict", cells=[o.verdict.value for o in outlooks], justify="left"),
        Column(heading="bar", cells=[_percent(o.bar) for o in outlooks]),
        Column(heading="4 of 5 runs", cells=[_range(o.bar_low, o.bar_high) for o in outlooks]),
        Column(heading="right guesses out of 100", cells=[_odds(o) for o in outlooks]),
        Column(heading="rounds", cells=[str(o.n_rounds) for o in outlooks]),
        Column(heading="noise of a sum", cells=[_short(o.sum_noise) for o in outlooks]),
        Column(heading="noise of a count", cells=[_short(o.count_noise) for o in outlooks]),
        Column(
            heading="noise of the loss per record", cells=[_short(o.loss_noise) for o in outlooks]
        ),
    ]
    known = [column for column in columns if any(column.cells)]
    terminal.show(screen, f"{subject(q)}, {counted(q.n_clusters, 'cluster')}", known)
    if q.domain is not None and any(math.isfinite(o.bar) for o in outlooks):
        _show_bars(screen, advice)


def _show_bars(screen: Console, advice: "Advice") -> None:
    """Print the error bar of each feature in the units of its column."""
    each = zip(*(outlook.bars for outlook in advice.outlooks), strict=True)
    columns = [
        Column(heading=bars[0].feature, cells=[bar.text for bar in bars], justify="left")
        for bars in each
    ]
    terminal.show(screen, "bars in the units of the columns", [_epsilons(advice), *columns])


def _epsilons(advice: "Advice") -> Column:
    return Column(heading="epsilon", cells=[f"{o.epsilon:g}" for o in advice.outlooks])


def _odds(outlook: "Outlook") -> str:
    """Return the odds of a right guess, in percent rounded up."""
    odds = outlook.odds
    return f"{math.ceil(100 * odds.average)} to {math.ceil(100 * odds.at_most)}"


def _show_by_clients(screen: Console, advice: "Advice") -> None:
    """Print the length of the error bars, for different numbers of clients that may have rows of
    one person.
    """
    columns = [_epsilons(advice)]
    for c, errors in advice.by_clients.items():
        columns.append(Column(heading=counted(c, "client"), cells=list(map(_percent, errors))))
    terminal.show(
        screen,
        f"bar, depending on the number of clients that may have rows of {advice.question.unit.a}",
        columns,
    )


def _range(low: float, high: float) -> str:
    """Return the range that contains the error bars of 80 % of the runs, as text."""
    return "" if math.isinf(high) else f"{100 * low:.2g} to {_percent(high)}"


def _short(number: float | None) -> str:
    return "" if number is None else f"{number:.3g}"


def _show_traffic(screen: Console, advice: "Advice", federation: "Federation") -> None:

    rows = [(o, o.client) for o in advice.outlooks if o.client is not None]
    columns = [
        Column(heading="epsilon", cells=[f"{o.epsilon:g}" for o, _ in rows]),
        Column(heading="rounds", cells=[f"{o.n_rounds}" for o, _ in rows]),
        Column(heading="sent per round", cells=[f"{client.sent_per_round}" for _, client in rows]),
        Column(heading="in all", cells=[f"{client.sent}" for _, client in rows]),
        Column(
            heading="received per round",
            cells=[f"{client.received_per_round}" for _, client in rows],
        ),
        Column(heading="in all", cells=[f"{client.received}" for _, client in rows]),
        Column(heading="ring needs", cells=[f"{o.required_bits} bits" for o, _ in rows]),
    ]
    terminal.show(
        screen,
        (
            f"{counted(federation.n_clients, 'client')}, {federation.trust.value}: bytes that one"
            " client sends and receives"
        ),
        columns,
    )


def _traffic_notes(outlooks: "Sequence[Outlook]", federation: "Federation") -> list[str]:
    last = outlooks[-1]
    if last.client is None or last.dealer is None:
        raise AssertionError("expected the traffic of a federated run")
    client, dealer = last.client, last.dealer
    note = (
        f"The bytes are for the messages alone, with a ring of {last.ring_bits} bits and client"
        f" names such as client-{federation.n_clients}. The first client hands out keys,"
        f" so its traffic differs from that of the others: {dealer.sent - client.sent:+,} bytes"
        f' sent, {dealer.received - client.received:+,} received. "In all" includes keys and'
        " parameters."
    )
    if last.ring_bits == 32 or all(
        outlook.required_bits is None or outlook.required_bits > 32 for outlook in outlooks
    ):
        return [note]
    return [
        note,
        (
            "If the ring needs at most 32 bits, --ring-bits 32 makes rounds about half as large"
            " and cannot overflow."
        ),
    ]


def _hints(advice: "Advice") -> list[str]:
    many = advice.question.unit.many
    lines = []
    if (asked := advice.wanted) is not None:
        wishes = ", ".join(f"{name} {size:g}" for name, size in asked.errors.items())
        lines.append(
            f"No epsilon up to 10 gives bars of at most {wishes}."
            if asked.outlook is None
            else f"The smallest epsilon for bars of at most {wishes} is"
            f" {asked.outlook.epsilon:g} ({asked.outlook.verdict.value}; right guesses"
            f" {_odds(asked.outlook)})."
        )
    if advice.least_epsilon is None:
        lines.append(
            f"No epsilon up to 10 makes the clusters clear: use more {many}, fewer clusters or"
            " fewer features."
        )
    else:
        lines.append(f"The smallest epsilon with clear clusters is {advice.least_epsilon:g}.")
    if advice.needed_records is None:
        lines.append(f"At epsilon 1, no number of {many} below 10^12 makes the clusters clear.")
    else:
        lines.append(f"At epsilon 1, clear clusters need {advice.needed_records} {many}.")
    return lines


def subject(question: "PlannedRun") -> str:
    """Return the algorithm with the numbers of records and features."""
    n, unit = question.n_records, question.unit
    return (
        f"{question.algorithm.name}: {n} {unit.one if n == 1 else unit.many},"
        f" {counted(question.n_features, 'feature')}"
    )


def _percent(error: float) -> str:
    if error == float("inf"):
        return ""
    return f"{100 * error:.2g}%" if error < 1 else f"{error:.0%}"


def counted(number: int, what: str) -> str:
    """Return a number with its noun."""
    return f"{number} {what}{'s' if number != 1 else ''}"
