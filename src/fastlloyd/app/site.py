"""State that the pages of the app share."""

import asyncio
import os
import subprocess  # nosec B404 - runs this very program
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from fastlloyd.app.checking import FileCheck
from fastlloyd.app.children import ChildRuns
from fastlloyd.app.door import Door
from fastlloyd.app.drafts import TYPED, Answers, Drafts
from fastlloyd.app.errands import Errands
from fastlloyd.app.frame import GROUPS, Flow, steps_of
from fastlloyd.app.studies import is_same_study, plan_of
from fastlloyd.base.markup import Markup
from fastlloyd.federation.holder import VARIABLE, HoldersLedger, place
from fastlloyd.federation.ledger import Account, accounts
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.federation.store.history import History

_SECONDS = 120
P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Site:
    """State of the app that pages share.

    drafts : runs that are being prepared.
    studies : studies in which a part is being prepared.
    runs : runs that were started.
    ledger : file of the ledger, or None for the default.
    results : folder in which new results are proposed.
    errands : work that pages wait for.
    counts : exact counts of the files of runs, by the id of the run. They are on no disk.
    """

    drafts: Drafts
    studies: Drafts
    runs: ChildRuns
    ledger: Path | None
    results: Path
    errands: Errands
    counts: dict[str, FileCheck] = field(default_factory=dict, repr=False)

    @property
    def history(self) -> History:
        """History of the ledger. Raises StateError if it cannot be read."""
        return HoldersLedger(place(self.ledger)).history()

    @property
    def accounts(self) -> list[Account]:
        """Accounts of the ledger. Raises StateError if it cannot be read."""
        return accounts(self.history)

    def command(self, *arguments: str) -> str:
        """Run a command of fastlloyd on the ledger. Return its error message, or "" if it
        succeeded.
        """
        # this very program, with arguments made here
        done = subprocess.run(  # noqa: S603  # nosec B603
            [sys.executable, "-P", "-m", "fastlloyd", *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env={**os.environ, VARIABLE: str(place(self.ledger))},
            timeout=_SECONDS,
            check=False,
            text=True,
        )
        lines = [line for line in done.stderr.splitlines() if line.startswith("Error: ")]
        if done.returncode and not lines:
            return "This did not work; use the command below to see why."
        return " ".join(f"{line.removeprefix('Error: ')}." for line in lines)

    def accepted(self, plan: Plan, name: str) -> tuple[Plan, str] | None:
        """Return the plan of the same study that was accepted last and the day of its approval, or
        None.

        name : id of the draft whose own plan does not count.
        """
        for other, answers in self.studies.recent():
            if other != name and "approval" in answers.get("done", []):
                earlier = plan_of(answers["plan"])
                if earlier.digest != plan.digest and is_same_study(earlier, plan):
                    return earlier, str(answers["approval"]["on"])
        return None


def door_of(request: Request) -> Door:
    """Return the `Door` through which a request came."""
    door: Door = request.scope["door"]
    return door


async def beside(call: Callable[P, R], *args: P.args, **named: P.kwargs) -> R:
    """Call a slow function in a thread, so that other requests are answered meanwhile. Return its
    value.
    """
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(None, partial(call, *args, **named))


def go(path: str) -> Response:
    """Return an HTTP response that redirects the browser to `path`."""
    return RedirectResponse(path, 303)


def id_of(request: Request) -> str:
    """Return the id of the draft or run in the path of a request."""
    name: Any = request.path_params["name"]
    return str(name)


def steps(name: str, answers: Answers, at: str, flow: Flow = GROUPS) -> Markup:
    """Return the list of the steps of a draft, with a link to each answered step.

    name : id of the draft.
    at : step of the page.
    """
    return steps_of(flow, name, at, answers.get("done", []))


def answered(answers: Answers, step: str, flow: Flow = GROUPS) -> Answers:
    """Return the answers with a step marked as answered."""
    done = {*answers.get("done", []), step}
    typed = {name: given for name, given in answers.get(TYPED, {}).items() if name != step}
    return answers | {"done": [each for each in flow.steps if each in done], TYPED: typed}


def shown_at(answers: Answers, step: str, given: Answers) -> Answers:
    """Return the texts for the fields of a step: the texts that were typed before the step was
    left, or else the texts that were given before.
    """
    typed: Answers | None = answers.get(TYPED, {}).get(step)
    return given if typed is None else typed


def gone_back(answers: Answers, step: str, typed: Answers, shown: Answers) -> Answers:
    """Return the answers after a step was left by "Back". What was typed is kept, unchecked. A step
    with changed texts is to be answered again.

    shown : texts that the fields had at first.
    """
    if typed == shown:
        return answers
    done = [each for each in answers.get("done", []) if each != step]
    return answers | {"done": done, TYPED: answers.get(TYPED, {}) | {step: typed}}


def step_before(step: str, flow: Flow = GROUPS) -> str:
    """Return the step before another step."""
    every = list(flow.steps)
    return every[every.index(step) - 1]


def missing_step(answers: Answers, step: str, flow: Flow = GROUPS) -> str | None:
    """Return the first step before `step` that was not answered, or None."""
    before = list(flow.steps)[: list(flow.steps).index(step)]
    return next((each for each in before if each not in answers.get("done", [])), None)
