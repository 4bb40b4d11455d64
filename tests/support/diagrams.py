"""The state machines of the protocol as the documentation draws them."""

from collections.abc import Mapping

from fastlloyd.federation.protocol.transitions import State


def mermaid(transitions: Mapping[tuple[State, type], set[State]]) -> str:
    """Draw a table's changes of state as a Mermaid diagram: an arrow per pair of states, labelled
    with what leads along it.
    """
    arrows: dict[tuple[State, State], list[str]] = {}
    for (state, event), following in transitions.items():
        for successor in type(state):
            if successor in following - {state}:
                arrows.setdefault((state, successor), []).append(event.__name__)
    first = next(iter(transitions))[0]
    final = [state for state in type(first) if all(a is not state for a, _ in arrows)]
    lines = ["stateDiagram-v2", f"    [*] --> {first.value}"]
    lines += [
        f"    {a.value} --> {b.value}: {', '.join(events)}" for (a, b), events in arrows.items()
    ]
    lines += [f"    {state.value} --> [*]" for state in final]
    return "\n".join(lines) + "\n"
