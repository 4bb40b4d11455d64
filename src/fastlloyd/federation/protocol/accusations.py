"""Whom a server leaves out when clients say of keys that others signed that they do not fit.

Only the two that share a key can tell whether it fits, so nobody can tell which of them lies.
"""

from collections import Counter
from collections.abc import Sequence, Set


def left_out(accusations: Set[tuple[str, str]], present: Sequence[str]) -> tuple[list[str], str]:
    """The clients to leave out, and why: of all that are present, the one in most accusations, and
    of equals the one that others accuse; until each accusation has lost one of its two.

    One liar is in all accusations of honest clients: it can take one honest client with it at most.
    """
    out, reasons = list[str](), list[str]()
    in_doubt = {pair for pair in accusations if set(pair) <= set(present)}
    n_accused = Counter(maker for _, maker in accusations)
    n_in = Counter(name for pair in accusations for name in pair)
    while in_doubt:
        involved = {name for pair in in_doubt for name in pair}
        worst = max(
            [name for name in present if name in involved],
            key=lambda name: (n_in[name], n_accused[name]),
        )
        sender, maker = next(pair for pair in sorted(in_doubt) if worst in pair)
        out.append(worst)
        reasons.append(f"the key of client {maker} for client {sender} does not fit")
        in_doubt = {pair for pair in in_doubt if worst not in pair}
    return out, "; ".join(reasons)
