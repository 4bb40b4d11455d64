"""The state machines of the protocol as the documentation shows them."""

from collections.abc import Mapping

from fastlloyd.federation.protocol.transitions import State


def table(transitions: Mapping[tuple[State, type], set[State]]) -> str:
    """Return a table's changes of state in Markdown: a row per pair of states, with what leads from
    one to the other.
    """
    changes: dict[tuple[State, State], list[str]] = {}
    for (state, event), following in transitions.items():
        for successor in type(state):
            if successor in following - {state}:
                changes.setdefault((state, successor), []).append(event.__name__)
    rows: list[str] = [
        f"| {before.value} | {after.value} | {', '.join(f'`{event}`' for event in events)} |"
        for (before, after), events in changes.items()
    ]
    return "\n".join(["| from | to | by |", "|---|---|---|", *rows]) + "\n"
