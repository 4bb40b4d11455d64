"""A line of the log for every step that is over: how many clients were in it, who was not, how long it took."""

import logging
from collections.abc import Iterable, Sequence
from typing import Final

from fastlloyd.federation.plan.plan import Plan
from fastlloyd.federation.protocol.messages import Broadcast, Confirmations, Deal, KeyBox, Message
from fastlloyd.federation.runs.steps import Clock

_LOG = logging.getLogger(__name__)
SHOWN_CLIENTS: Final = 12


class StepLog:
    """Writes about steps that this process saw from their beginning to their end, and of others without their seconds.

    A line holds names of the plan and public numbers: nothing of a record, no sum, no key. Each has the same as `facts`, for a
    log that programs read: step, round (null where it is none), included, missing, seconds (or null).

    Parameters
    ----------
    is_begun : the run was begun by an earlier process.
    """

    def __init__(self, plan: Plan, clock: Clock, *, is_begun: bool) -> None:
        self._names, self._n_rounds = plan.names, len(plan.mechanism.exchanges)
        self._clock = clock
        self._since = None if is_begun else clock()

    def write(self, messages: Iterable[Message]) -> None:
        """The steps that ended with these messages, once they are durable."""
        for message in messages:
            match message:
                case Deal(hellos):
                    self._line("joined", None, [hello.name for hello in hellos])
                case KeyBox(_, present):
                    self._line("joined", None, present)
                case Broadcast(number):
                    self._line(f"round {number} of {self._n_rounds}", number, list(message.included(self._names)))
                case Confirmations(macs):
                    self._line("confirmed", None, [name for name, _ in macs])

    def _line(self, step: str, number: int | None, included: Sequence[str]) -> None:
        now = self._clock()
        seconds, self._since = None if self._since is None else round(now - self._since, 3), now
        there = set(included)
        missing = [name for name in self._names if name not in there]
        took = "" if seconds is None else f", {seconds:.3g} s"
        facts = {"step": step, "round": number, "included": list(included), "missing": missing, "seconds": seconds}
        _LOG.info(
            "%s: %d of %d clients%s%s", step, len(included), len(self._names), _without(missing), took, extra={"facts": facts}
        )


def _without(missing: Sequence[str]) -> str:
    if not missing:
        return ""
    n_more = len(missing) - SHOWN_CLIENTS
    return f", without {', '.join(missing[:SHOWN_CLIENTS])}" + (f" and {n_more} more" if n_more > 0 else "")
