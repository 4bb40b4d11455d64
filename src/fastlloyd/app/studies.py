"""State of a client's part in a study, from its store, the ledger and its file of progress."""

from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from fastlloyd.app.run_state import RunState
from fastlloyd.errors import FastLloydError
from fastlloyd.federation.holder import HoldersLedger, place
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.federation.store import Role, Run, Store, lock, read
from fastlloyd.federation.store.events import Outcome
from fastlloyd.jobs.client import ClientRequest
from fastlloyd.jobs.join_file import JoinFile
from fastlloyd.jobs.live import Live
from fastlloyd.jobs.parties import check_store_exists
from fastlloyd.jobs.request_file import RequestFile
from fastlloyd.reports.status import live_of, look


class StudyLook(NamedTuple):
    """Part in a study as it is now.

    state : state of the part, if no process of the app is carrying it out.
    name : readable name of the study.
    client : name of the client.
    n_rounds : number of rounds in the plan.
    round : number of rounds that are closed.
    n_charged, n_exchanges : number of rounds that were charged, and number of rounds that were
        reserved.
    is_awaited : whether the run waits for this client.
    is_used : whether a process uses the store.
    reason : reason for an end without a result, or "".
    live : file of progress of the run, or None.
    """

    state: RunState
    name: str
    client: str
    n_rounds: int
    round: int = 0
    n_charged: int = 0
    n_exchanges: int = 0
    is_awaited: bool = False
    is_used: bool = False
    reason: str = ""
    live: Live | None = None


@lru_cache(maxsize=64)
def plan_of(text: str) -> Plan:
    """Return the plan in the text of a plan file. Raises PlanError if the text is not a plan."""
    return Plan.from_toml(text)


def title_of(plan: Plan) -> str:
    """Return the name of a plan's study, to be shown to people."""
    named = "" if plan.study is None else plan.study.texts.get("name", "")
    return named or f"Study of {', '.join(plan.names)}"


def study_of(file: JoinFile) -> StudyLook:
    """Return the state of the user's part in a study, for the request that began this part. Raises
    StateError, IdentityError or PlanError if a file cannot be read.
    """
    plan = plan_of(file.plan)
    client = file.member.name
    known = StudyLook(RunState.NOT_SPENT, title_of(plan), client, plan.mechanism.n_rounds)
    path = file.store
    run, row = (None, None) if not path.exists() else _found(path, plan)
    if run is None or row is None:
        counted = run_in_ledger(file)
        is_reserved = counted is not None and not counted.may_begin_again
        return known._replace(state=RunState.PAUSED if is_reserved else RunState.NOT_SPENT)
    return known._replace(
        state=_state(run),
        round=int(row["rounds"]),
        n_charged=len(run.charged),
        n_exchanges=run.n_exchanges,
        is_awaited=row["waits_for"] == "this client",
        is_used=lock.is_held(path) is True,
        reason=str(row["reason"]),
        live=live_of(row),
    )


def run_in_ledger(file: RequestFile) -> Run | None:
    """Return the ledger's entry of the run of a request, or None. Raises StateError if the ledger
    cannot be read.
    """
    held = HoldersLedger(place(None if file.ledger is None else Path(file.ledger)))
    return held.history().runs.get(bytes.fromhex(file.run_id))


def refusal_of(request: ClientRequest) -> str:
    """Return the sentence with which the store or the ledger would refuse this run now, or "" if
    both allow it.
    """
    store = request.store
    try:
        check_store_exists(request.plan, request.member.name, store)
        if not store.exists():
            request.check_budget(store)
            return ""
        with Store.open(store, role=Role.CLIENT, identity=request.signing_key) as opened:
            request.check_budget(opened)
    except FastLloydError as error:
        return str(error)
    return ""


def is_same_study(one: Plan, other: Plan) -> bool:
    """Return whether two plans are of one study. They are if the name and the controller of the
    study are the same. For plans without a name, the features and the server must be the same.
    """

    def facts(plan: Plan) -> tuple[object, ...]:
        words = {} if plan.study is None else plan.study.texts
        if "name" in words:
            return words["name"], words.get("controller")
        return plan.mechanism.domain.features, plan.server.name

    return facts(one) == facts(other)


def _found(path: Path, plan: Plan) -> tuple[Run | None, dict[str, Any] | None]:
    contents, _ = read(path)
    run = contents.history.runs.get(bytes.fromhex(plan.run_id))
    rows = [row for row in look(path)["runs"] if row["run_id"] == plan.run_id]
    if run is not None and run.reserved is not None and run.reserved.plan_digest != plan.digest:
        return None, None
    return run, rows[0] if rows else None


def _state(run: Run) -> RunState:
    if run.ended is None:
        return RunState.PAUSED
    if run.ended.outcome is Outcome.FINISHED:
        return RunState.DONE
    return RunState.NOT_SPENT if run.may_begin_again else RunState.SPENT
