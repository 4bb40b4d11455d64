"""Many schedules on the virtual network: `make campaign`, 100,000 of them, or as many as SCHEDULES
says.

Plain `pytest` does not collect it. Each schedule follows from its number, so a campaign of n plays
the first n of every larger one. One that breaks a rule is shown as short as it could be made, to be
pinned as a test. With TAKE_UP it may be stopped.
"""

import datetime as dt
import os
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from multiprocessing import get_context

import numpy as np
import pytest

import campaign_page
from schedules import (
    ATTACKS,
    BAD_LUCK,
    BEGINNINGS,
    FEDERATIONS,
    FEDERATIONS_OF_LIARS,
    IN_ORDER,
    KEY_LIES,
    MAX_OPERATIONS,
    Schedule,
    check_after_attacks,
    check_after_bad_luck,
    check_after_key_lies,
    often_in_order,
    play,
)
from virtual_network import Network, Watch

pytestmark = pytest.mark.campaign

FULL_SIZE = 100_000
N_SCHEDULES = int(os.environ.get("SCHEDULES", str(FULL_SIZE)))
PART = 2500  # schedules of one kind in one federation
LIES = "lies about keys"
KINDS = {
    "bad luck": (often_in_order(BAD_LUCK), check_after_bad_luck),
    "attacks": (often_in_order(BAD_LUCK + ATTACKS), check_after_attacks),
    LIES: (often_in_order(IN_ORDER) + KEY_LIES, check_after_key_lies),
}
SUBJECTS = {kind: FEDERATIONS_OF_LIARS if kind == LIES else FEDERATIONS for kind in KINDS}
OUTCOMES = (
    "schedules",
    "finished",
    "some finished",
    "none finished",
    "fewer share keys",
    "left out",
    "accused",
    "charged",
)
MOMENTS = ("before commit", "after commit", "after sending some", "between steps")

SECTIONS = {"Schedules": ["bad luck", "attacks"], "Lies about keys": [LIES]}
"""What each section of the page speaks of; as many lies about keys as of all else together."""

TEXT = """\
{measured}
{n:,} schedules of up to {max_operations} operations on a virtual network, each drawn from its number; none broke a rule.
Half of them begin with one client missing when keys are shared.{taken_up}

{table}

- *finished*, *some finished*, *none finished*: schedules after which all, some or none of the clients have a result.
- *fewer share keys*: schedules in which some client is missing in the key set. *left out*: schedules with a sum that some
  client is not in. *accused*: schedules in which a party noticed a message that no honest party sends.

Crashes, by the moment at which they came. A crashed party starts again from its store.

{crashes}

{kinds} `schedules.py` has the rules.

Not shown: longer schedules; more clients; attacks that nobody thought of; real networks and processes (Kills)."""

ABOUT = {
    "Schedules": (
        "*Bad luck*: messages are lost, repeated, late and out of order; processes die and come"
        " back. *Attacks*: the same, and\nparties send what they should not. *charged*: schedules in"
        " which some client was charged."
    ),
    "Lies about keys": (
        "*Lies about keys*: clients sign keys that do not fit, accuse others, or are silent, one or"
        " several at once; *charged*:\nschedules in which some client was charged. No client was"
        " charged before all were ready, and every honest client ended with\nthe result of all or"
        " uncharged. No more honest clients were left out than there were liars."
    ),
}
TAKEN_UP = " {n:,} were played before, by earlier commits."


@dataclass
class Cell:
    """What happened in the schedules of one kind in one federation; failures : short schedules, and
    what they broke.
    """

    counts: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def __iadd__(self, other: "Cell") -> "Cell":
        self.counts += other.counts
        self.failures += other.failures
        return self


def schedule(kind: str, subject: str, number: int) -> Schedule:
    place = list(SUBJECTS[kind]).index(subject), list(KINDS).index(kind)
    rng = np.random.default_rng([number, *place])
    operations = KINDS[kind][0]
    chosen = rng.integers(
        0, [len(operations), 256, 256], (rng.integers(0, MAX_OPERATIONS, endpoint=True), 3)
    )
    return [
        *BEGINNINGS[number % len(BEGINNINGS)],
        *((operations[i], a, b) for i, a, b in chosen.tolist()),
    ]


def run(kind: str, subject: str, watch: Watch, operations: Schedule) -> Network:
    network = play(subject, watch, operations)
    KINDS[kind][1](network)
    return network


def shortest(kind: str, subject: str, watch: Watch, operations: Schedule) -> str:
    """Leave out what can be left out of a schedule that fails."""
    what = ""
    for i in reversed(range(len(operations) + 1)):
        shorter = operations[:i] + operations[i + 1 :]  # the first leaves out nothing
        try:
            run(kind, subject, watch, shorter)
        except Exception as error:  # noqa: BLE001 - whatever a broken rule raises
            operations, what = (
                shorter,
                f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}",
            )
    return f"{kind}, {subject}: {operations!r} -> {what}"


def batch(kind: str, subject: str, numbers: range) -> Cell:
    """What a worker process runs."""
    cell = Cell()
    with pytest.MonkeyPatch.context() as monkeypatch:
        watch = Watch.install(monkeypatch)
        for number in numbers:
            operations = schedule(kind, subject, number)
            cell.counts["schedules"] += 1
            try:
                run(kind, subject, watch, operations).count(cell.counts)
            except Exception:  # noqa: BLE001 - whatever a broken rule raises
                cell.failures.append(
                    f"number {number}, " + shortest(kind, subject, watch, operations)
                )
    return cell


Cells = dict[tuple[str, str], Cell]


def outcomes(cells: Cells) -> list[tuple[str, ...]]:
    """A table, its first row the headings."""
    found = [
        (kind, subject, *(f"{cell.counts[what]:,}" for what in OUTCOMES), str(len(cell.failures)))
        for (kind, subject), cell in cells.items()
    ]
    return [("", "run", *OUTCOMES, "broken rules"), *found]


def crashes(cells: Cells) -> list[tuple[str, ...]]:
    """A table, its first row the headings."""
    kinds = dict.fromkeys(kind for kind, _ in cells)
    parties = [(kind, party) for kind in kinds for party in ("client", "server")]
    found = [
        (
            moment,
            *(
                f"{sum(cell.counts[f'{party}, {moment}'] for (of, _), cell in cells.items() if of == kind):,}"
                for kind, party in parties
            ),
        )
        for moment in MOMENTS
    ]
    return [("", *(f"{kind}, {party}" for kind, party in parties)), *found]


@pytest.mark.parametrize("title", SECTIONS)
def test_no_schedule_breaks_a_rule(capsys: pytest.CaptureFixture[str], title: str) -> None:
    started, kinds = dt.datetime.now(dt.UTC), SECTIONS[title]
    cells = {(kind, subject): Cell() for kind in kinds for subject in SUBJECTS[kind]}
    each = {kind: -(-N_SCHEDULES // (len(kinds) * len(SUBJECTS[kind]))) for kind in kinds}
    parts = [
        (*cell, n, min(n + PART, each[cell[0]]))
        for n in range(0, max(each.values()), PART)
        for cell in cells
        if n < each[cell[0]]
    ]
    earlier = {
        part: Counter(counts) for part, counts in campaign_page.kept().items() if part in parts
    }
    for (kind, subject, *_), counts in earlier.items():
        cells[kind, subject] += Cell(counts)
    n_earlier = sum(counts["schedules"] for counts in earlier.values())
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        running = {
            pool.submit(batch, *part[:2], range(*part[2:])): part
            for part in parts
            if part not in earlier
        }
        for done in as_completed(running):
            part = running[done]
            cells[part[:2]] += done.result()
            if not done.result().failures:
                campaign_page.keep(part, done.result().counts)
    with capsys.disabled():
        for lines in (outcomes(cells), crashes(cells)):
            sys.stdout.write(f"\n{campaign_page.aligned(lines)}\n")
    assert [failure for cell in cells.values() for failure in cell.failures] == []
    text = TEXT.format(
        measured=campaign_page.measured(started, NumPy=np.__version__),
        n=sum(each[kind] for kind, _ in cells),
        taken_up=TAKEN_UP.format(n=n_earlier) if n_earlier else "",
        max_operations=MAX_OPERATIONS,
        kinds=ABOUT[title],
        table=campaign_page.table(outcomes(cells)[0], outcomes(cells)[1:]),
        crashes=campaign_page.table(crashes(cells)[0], crashes(cells)[1:]),
    )
    campaign_page.write_section(title, text, is_full_size=N_SCHEDULES >= FULL_SIZE)
