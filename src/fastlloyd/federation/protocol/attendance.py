"""Whom the server waits for: everybody but who kept the others waiting before and has no connection now."""

from collections.abc import Iterable


class Attendance:
    """Who was late, who is away, and so who is absent: names of clients and nothing else.

    So one that is gone costs the others a step's time once, and one that comes and goes no more than that. Who was late stands
    in the records of a run; who is away the transport says, to every new process anew, if it has connections at all.

    absent : those that nobody waits for until they are back.
    """

    __slots__ = ("_away", "_late", "absent")

    def __init__(self) -> None:
        self._late: set[str] = set()
        self._away: set[str] = set()
        self.absent: frozenset[str] = frozenset()

    def was_late(self, names: Iterable[str]) -> None:
        """A step went on without these, after all of its time."""
        self._late.update(names)
        self._meet()

    def is_away(self, name: str) -> None:
        """It has had no connection for a while."""
        self._away.add(name)
        self._meet()

    def is_back(self, name: str) -> None:
        """It has a connection (again)."""
        self._away.discard(name)
        self._meet()

    def _meet(self) -> None:
        self.absent = frozenset(self._late & self._away)
