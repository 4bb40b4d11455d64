"""Errands: work that a page waits for. An errand may first ask for a passphrase in the terminal.

A passphrase is typed where the app was started. It is in no page, file, command-line argument or
environment variable: the errand gets it, and gives it to a child process on standard input.
"""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from fastlloyd.errors import FastLloydError, StateError

Ask = Callable[[str], str]
Work = Callable[[str | None], Any]
LIFE_SECONDS: Final = 600.0
ASKING, WORKING, OVER = "asking", "working", "over"


class Errand(NamedTuple):
    """State of an errand.

    kind : word for the errand, by which its page knows it.
    state : ASKING, WORKING or OVER.
    fault : sentence that says why the errand failed, or "".
    found : value that the work returned, or None. If the work failed, this is the value of the
        previous errand if that errand was of another kind.
    """

    kind: str
    state: str
    fault: str = ""
    found: Any = None


class Errands:
    """Errands of the pages, at most one for each draft or run. They are kept in memory only.

    ask : function that asks for a passphrase where the app was started, or None without a terminal.
    """

    def __init__(self, ask: Ask | None = None) -> None:
        self.ask = ask
        self._all = dict[str, Errand]()
        self._guard, self._terminal = threading.Lock(), threading.Lock()

    def of(self, name: str, kind: str = "") -> Errand | None:
        """Return the errand of a draft or run, or None if there is none of this kind."""
        found = self._all.get(name)
        return found if found is not None and kind in ("", found.kind) else None

    def forget(self, name: str) -> None:
        """Forget the errand of a draft or run, and the value that its work returned, if it is
        over.
        """
        with self._guard:
            if (found := self._all.get(name)) is not None and found.state == OVER:
                del self._all[name]

    def begin(self, name: str, kind: str, work: Work, questions: Sequence[str] = ()) -> None:
        """Begin an errand of a draft or run in a thread, unless one is under way.

        work : function that does the work. Its argument is the passphrase, or None if nothing is
            asked.
        questions : texts with which the terminal asks for the passphrase. With two texts, it is
            typed twice, and both answers must be equal.

        Raises StateError if there is no terminal to ask on, or another question is open there.
        """
        with self._guard:
            found = self._all.get(name)
            if found is not None and found.state != OVER:
                return
            if questions and self.ask is None:
                raise StateError("the app was started without a terminal to ask for the passphrase")
            if questions and not self._terminal.acquire(blocking=False):
                raise StateError(
                    "the terminal still asks for another passphrase; answer there, or press Enter"
                )
            # what another errand found stays true if this one fails
            kept = found.found if found is not None and found.kind != kind else None
            self._all[name] = Errand(kind, ASKING if questions else WORKING)
        threading.Thread(
            target=self._run, args=(name, kind, work, tuple(questions), kept), daemon=True
        ).start()

    def _run(
        self, name: str, kind: str, work: Work, questions: tuple[str, ...], kept: object
    ) -> None:
        try:
            secret = self._asked(questions) if questions else None
            self._all[name] = Errand(kind, WORKING)
            self._all[name] = Errand(kind, OVER, found=work(secret))
        except FastLloydError as error:
            self._all[name] = Errand(kind, OVER, f"{error}.", kept)
        # the last resort: whatever it is, its message may hold private values
        except Exception as error:  # noqa: BLE001
            said = f"It failed with an unexpected {type(error).__name__}; please report it."
            self._all[name] = Errand(kind, OVER, said, kept)

    def _asked(self, questions: tuple[str, ...]) -> str:
        ask, began = self.ask, time.monotonic()
        try:
            if ask is None:
                raise StateError("there is no terminal")
            answers = [ask(question) for question in questions]
        finally:
            self._terminal.release()
        if not answers[0]:
            raise StateError("no passphrase was typed; nothing was done")
        if len(set(answers)) > 1:
            raise StateError("the two passphrases differ; nothing was done")
        if time.monotonic() - began > LIFE_SECONDS:
            raise StateError("no passphrase was typed within ten minutes; nothing was done")
        return answers[0]
