"""Progress of a run in words, for the line of a terminal, the log and `fastlloyd status`."""

from collections.abc import Container, Sequence

from fastlloyd.federation.transport.grpc.outbox import Meter
from fastlloyd.jobs.live import Live, Sight
from fastlloyd.reports.status import ago, clock, has_stopped

SHOWN_CLIENTS = 12


def details(sight: Sight) -> str:
    """Return phrases about parties, time and bytes, as the end of a sentence."""
    if not sight.n_clients:
        return ""
    meter = Meter(sight.sent, sight.received)
    if sight.connected is None:
        waiting = waiting_for(sight.n_awaited, sight.n_clients)
        return f"{waiting}{gives_up_in(sight.seconds_left)}; {meter}"
    here = f"{len(sight.connected)} of {sight.n_clients} clients connected"
    left = seconds_left(sight.seconds_left)
    if sight.not_told:
        told = named(sight.not_told, sight.connected)
        return f", {here}; the server runs until {told} know that the run is over{left}; {meter}"
    return f", {here}{_awaited(sight.awaited or (), sight.connected)}{left}; {meter}"


def named(names: Sequence[str], connected: Container[str]) -> str:
    """Return the names of clients, with a mark for those that are away. Many clients are only
    counted.
    """
    if len(names) > SHOWN_CLIENTS:
        return f"{len(names)} clients"
    return ", ".join(name if name in connected else f"{name} (away)" for name in names)


def seconds_left(timeout: float | None) -> str:
    """Return a phrase for the time that the current step has left."""
    return "" if timeout is None else f", {clock(timeout)} left"


def waiting_for(n_awaited: int, n_clients: int) -> str:
    """Return a phrase for the number of clients that have not answered, or "" if it is 0."""
    return f", waiting for {n_awaited} of {n_clients} clients" if n_awaited else ""


def gives_up_in(timeout: float | None) -> str:
    """Return a phrase for the time after which this client stops waiting for the server.

    A client waits longer for the server than the server waits for the other clients.
    """
    return "" if timeout is None else f", this client waits at most {clock(timeout)}"


def _awaited(names: Sequence[str], connected: Container[str]) -> str:
    """Return a phrase that names the clients that have not answered in this step."""
    return f", waiting for {named(names, connected)}" if names else ""


def heard(live: Live, now: float, *, is_used: bool | None) -> str:
    """Return a sentence from the file of progress: the current step, or the end of the process.

    now : current time, in seconds since 1970.
    is_used : whether a process uses the store, or None if that is unknown.
    """
    if live.end:
        return f"{live.end} That was {ago(live.age(now))}."
    if has_stopped(live, now, is_used=is_used):
        remedy = (
            "Nothing is lost: start it again with the same command"
            if live.sight.can_go_on
            else "The run cannot go on; see what was spent with `fastlloyd ledger show`"
        )
        return (
            f"last heard {ago(live.age(now))}, in {live.sight.step!r}; the process has stopped."
            f" {remedy}"
        )
    return f"now: {live.sight.step}, begun {ago(now - live.since)}{details(live.sight)}"
