"""`join` where the records are many: read anew in every pass, stopped in one, or another file in
one.
"""

import json
import signal
from typing import Any

import pytest

from fastlloyd.cli.client_progress import of_passes
from fastlloyd.federation.identity.parties import Timeouts
from fastlloyd.federation.store import read
from fastlloyd.jobs.client import pass_seconds_to_ask_for
from network_processes import HANG, NAMES, SERVER, Site
from network_site import FAST, REFUSED, STOPPED, left, refused

LARGE = FAST | {"large": True}
KNOWN = {name: LARGE | {"noise": name} for name in NAMES}


def with_others(site: Site, marks: dict[str, Any]) -> tuple[Any, list[Any]]:
    """`b` with these marks, and everyone else, in a run with known noise; `b` has ended."""
    others = [site.start(SERVER, site.serve(), FAST | {"noise": "(server)"})]
    others += [site.start(name, site.join(name), KNOWN[name]) for name in "ac"]
    client = site.start("b", site.join("b"), KNOWN["b"] | marks)
    return client, others


def finish(site: Site, others: list[Any]) -> None:
    """The same command takes the run up, and it ends with the result that it would have had
    anyway.
    """
    again = site.start("b again", site.join("b"), KNOWN["b"])
    assert [process.wait(HANG) for process in (again, *others)] == [0, 0, 0, 0], site.said(
        "b again"
    )
    site.check_results()


def charged(site: Site) -> tuple[int, ...]:
    (run,) = read(site.folder / "b.store")[0].history.runs.values()
    return run.charged


def test_a_run_of_files_read_in_passes_is_the_run_by_plain_integers(site: Site) -> None:
    assert site.run_to_the_end({"b": [(4, "after")], "c": [(5, "before")]}, large=True) == 2


@pytest.mark.parametrize(("in_pass", "spent"), [(1, ()), (2, (1,))])
@pytest.mark.parametrize("what", ["grow", "remove"])
def test_a_file_that_changes_in_a_round_stops_the_client_and_the_run_goes_on_with_the_old_one(
    site: Site, in_pass: int, what: str, spent: tuple[int, ...]
) -> None:
    before = (site.folder / "b.csv").read_bytes()
    client, others = with_others(site, {"in_pass": [in_pass, what]})
    assert client.wait(HANG) == REFUSED
    (said,) = [line for line in site.said("b").splitlines() if line.startswith("Error: ")]
    assert "b.csv" in said
    assert (
        "what was sent stays charged; run the same command with the same records to continue"
        in said
    )
    assert charged(site) == spent
    site.wait_for(lambda: "client b is gone" in site.said(SERVER))
    assert left(site) == set()  # it has not said goodbye
    if what == "grow":
        refused(site, site.join("b"), "was begun with other records", running=("a", "c", SERVER))
    (site.folder / "b.csv").write_bytes(before)
    finish(site, others)


@pytest.mark.parametrize("what", ["grow", "remove"])
def test_a_file_that_changes_in_the_first_pass_is_refused_and_nothing_is_spent(
    site: Site, what: str
) -> None:
    for more, stores in ((["--dry-run"], ()), ([], ("b.store",))):
        before = (site.folder / "b.csv").read_bytes()
        code, _, err = site.run(
            site.join("b", *more), LARGE | {"in_pass": [1 if more else 0, what]}
        )
        assert (code, "Error: b.csv: " in err) == (REFUSED, True)
        assert "charged" not in err
        assert [path.name for path in site.folder.glob("*.store")] == list(stores)
        (site.folder / "b.csv").write_bytes(before)
    assert read(site.folder / "b.store")[0].history.runs == {}


def test_a_fault_far_down_in_the_file_is_found_before_anything_is_spent(site: Site) -> None:
    with (site.folder / "b.csv").open("a") as file:
        file.write("1,Zebra\n")
    code, _, err = site.run(site.join("b"), LARGE)
    assert (code, "b.csv, line 42, column 'dose': not a number" in err, "Zebra" in err) == (
        REFUSED,
        True,
        False,
    )
    (site.folder / "b.csv").write_text("age,dose\n" + "1,2\n" * 51)
    code, _, err = site.run(site.join("b"), LARGE)
    assert (code, "more records than its cap, max_records 50" in err, "51" in err) == (
        REFUSED,
        True,
        False,
    )
    (site.folder / "b.csv").write_text("age,dose\n" + "1,2\n" * 48 + "1,\n101,2\n")
    code, _, err = site.run(site.join("b", "--outside", "refuse"), LARGE)
    assert (code, "b.csv, line 51, column 'age'" in err, "101" in err) == (REFUSED, True, False)
    assert read(site.folder / "b.store")[0].history.runs == {}


@pytest.mark.parametrize(
    ("in_pass", "number"), [(0, signal.SIGTERM), (1, signal.SIGINT), (2, signal.SIGTERM)]
)
def test_a_client_stops_in_the_middle_of_a_pass_and_the_same_command_goes_on(
    site: Site, in_pass: int, number: int
) -> None:
    client, others = with_others(site, {"in_pass": [in_pass, "wait"]})
    site.wait_for(lambda: "in the pass" in site.said("b"))
    client.send_signal(number)
    assert client.wait(HANG) == STOPPED
    assert site.said("b").splitlines()[-1].startswith("Stopped. ")
    finish(site, others)


def test_a_rehearsal_says_how_long_a_pass_takes_and_what_the_plan_allows(site: Site) -> None:
    """And what to ask for where that is too short."""
    code, out, err = site.run(site.join("b", "--dry-run"), LARGE)
    assert (code, err) == (0, "")
    assert "Reading the records once took" in out
    assert "the plan allows 1800 s for each reading." in out
    code, out, _ = site.run(site.join("b", "--dry-run", "--json"), LARGE)
    said = json.loads(out)
    assert (code, said["longest_pass"], said["ask_for_pass_seconds"]) == (0, 1800, None)
    assert said["pass_seconds"] > 0


def test_a_plan_that_leaves_too_little_time_is_named_with_what_to_ask_for(site: Site) -> None:
    plan = site.plan
    assert plan.timeouts == Timeouts(joining=3600, dealing=3600, round=3600, confirming=3600)
    assert pass_seconds_to_ask_for(plan, 1800.0) is None
    asked = pass_seconds_to_ask_for(plan, 1801.0)
    assert asked == 61 * 60
    assert of_passes(plan, 1801.0).endswith("made with --pass-seconds 3660.")
    assert plan.timeouts.for_passes(asked).longest_pass >= 2 * 1801
