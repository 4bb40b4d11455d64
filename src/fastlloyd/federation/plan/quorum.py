"""What hides uploads from the server, and so how many clients must answer and how many shares of
noise are in every sum.

M clients are named in a plan, n of them are present when the keys are dealt: the key set. At most D
may be missing then, and t may pool what they see.
"""

import enum
from collections.abc import Sequence

import msgspec

from fastlloyd.federation.identity.parties import MAX_CLIENTS, Timeouts


class Quorum(msgspec.Struct, frozen=True, kw_only=True):
    """How many clients each step needs, once it is known how many are present.

    needed : uploads in every round. confirmations : of a result. max_turns : further clients who
    may be asked for parameters, one after the other, if the first sends none. shares : of noise, so
    many make the noise that the guarantee needs.
    """

    needed: int
    confirmations: int
    max_turns: int
    shares: int


class Masks(enum.Enum):
    """Which keys the masks are made from."""

    # one key that all clients share: the server together with any client opens every upload
    GROUP = "group"
    # a key of each pair: whoever pools what they see learns no more than the sum of the others
    PAIRWISE = "pairwise"

    @property
    def max_clients(self) -> int:
        """How many clients a plan may name: with a key of each pair, what clients send each other
        grows with the square.
        """
        return MAX_CLIENTS if self is Masks.GROUP else 300

    @property
    def timeouts(self) -> Timeouts:
        """How long a run waits unless a plan says otherwise: a day where it cannot go on without a
        client.
        """
        return (
            Timeouts() if self is Masks.GROUP else Timeouts(round=24 * 3600, confirming=24 * 3600)
        )

    @property
    def grace(self) -> int:
        """Seconds that a client waits longer than the server does; a day where nobody may be lost
        to a reboot.
        """
        return 60 if self is Masks.GROUP else 24 * 3600

    def quorum(
        self, n_present: int, n_clients: int, max_dropouts: int, max_colluding: int
    ) -> Quorum:
        """What n of M clients need.

        With group masks a round may lack clients, so that a share is as large as the fewest need
        it, whoever is there. Pairwise masks cancel only if all n answer; two groups that each
        confirm a result have an honest client in common, whatever the t others say to each: in one
        key set always, in two if fewer than (M - t) / 2 may be missing.
        """
        n, least, t = n_present, n_clients - max_dropouts, max_colluding
        if self is Masks.GROUP:
            return Quorum(
                needed=least, confirmations=least, max_turns=max_dropouts, shares=least - t
            )
        return Quorum(
            needed=n, confirmations=min(n, (n_clients + t) // 2 + 1), max_turns=n - 1, shares=n - t
        )

    def speakers(self, present: Sequence[str]) -> Sequence[str]:
        """Those of the clients present, in the order of the plan, who answer a Deal with keys for
        others.
        """
        return present[:1] if self is Masks.GROUP else present

    def recipients(self, name: str, present: Sequence[str]) -> Sequence[str]:
        """Whom this client makes keys for: those after it, if it is to make any."""
        return present[present.index(name) + 1 :] if name in self.speakers(present) else ()
