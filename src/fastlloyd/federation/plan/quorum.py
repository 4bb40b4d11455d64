"""What hides uploads from the server, and so how many clients must answer and how many shares of noise are in every sum.

M clients are named in a plan, n of them are present when the keys are dealt: the key set. At most D may be missing then, and t
may pool what they see.
"""

import enum
from collections.abc import Sequence

import msgspec

from fastlloyd.errors import PlanError
from fastlloyd.federation.identity.parties import MAX_CLIENTS, Timeouts


class Quorum(msgspec.Struct, frozen=True, kw_only=True):
    """How many clients each step needs: with masks from one key of the group.

    A sum may lack clients in every round, M - D are enough; so a share of noise is as large as the fewest clients need it,
    whoever is there.
    """

    n_clients: int
    max_dropouts: int
    max_colluding: int

    @property
    def min_present(self) -> int:
        """The fewest clients of a key set, M - D."""
        return self.n_clients - self.max_dropouts

    @property
    def n_shares(self) -> int:
        """The most shares of noise that the guarantee is ever made of: what the grid and the slack of delta allow for."""
        return self.min_present - self.max_colluding

    def shares(self, n_present: int) -> int:  # noqa: ARG002 - whoever is there
        """How many shares of noise the guarantee is made of with so many clients present."""
        return self.n_shares

    def needed(self, n_present: int) -> int:  # noqa: ARG002 - whoever is there
        """The fewest uploads in a round."""
        return self.min_present

    def confirmations(self, n_present: int) -> int:  # noqa: ARG002 - whoever is there
        """The fewest clients of the last round that must confirm a result."""
        return self.min_present

    def max_turns(self, n_present: int) -> int:  # noqa: ARG002 - whoever is there
        """How many further clients may be asked for parameters, after the first did not send them."""
        return self.max_dropouts


class PairwiseQuorum(Quorum, frozen=True, kw_only=True):
    """How many clients each step needs: with masks from a key of each pair, which cancel only if all present answer.

    So every sum holds n shares of noise, of which t may be known.
    """

    @property
    def n_shares(self) -> int:
        """M - t: the most shares of noise that the guarantee is ever made of."""
        return self.n_clients - self.max_colluding

    def shares(self, n_present: int) -> int:
        """n - t. Raises PlanError for more or fewer clients than a key set may have."""
        if not self.min_present <= n_present <= self.n_clients:
            raise PlanError(f"{n_present} clients are present; expected {self.min_present} to {self.n_clients}")
        return n_present - self.max_colluding

    def needed(self, n_present: int) -> int:
        """All that are present."""
        return n_present

    def confirmations(self, n_present: int) -> int:
        """So many that any two groups of them have an honest client in common, whatever the t others say to each."""
        return (n_present + self.max_colluding) // 2 + 1

    def max_turns(self, n_present: int) -> int:
        """All others that are present: none of them may be gone for good."""
        return n_present - 1


class Masks(enum.Enum):
    """Which keys the masks are made from."""

    GROUP = "group"  # one key that all clients share: the server together with any client opens every upload
    PAIRWISE = "pairwise"  # a key of each pair: whoever pools what they see learns no more than the sum of the others

    @property
    def max_clients(self) -> int:
        """How many clients a plan may name: with a key of each pair, what clients send each other grows with the square."""
        return {Masks.GROUP: MAX_CLIENTS, Masks.PAIRWISE: 300}[self]

    @property
    def timeouts(self) -> Timeouts:
        """How long a run waits unless a plan says otherwise: a day where it cannot go on without a client."""
        return {Masks.GROUP: Timeouts(), Masks.PAIRWISE: Timeouts(round=24 * 3600, confirming=24 * 3600)}[self]

    @property
    def grace(self) -> int:
        """Seconds that a client waits longer than the server does; a day where nobody may be lost to a reboot."""
        return {Masks.GROUP: 60, Masks.PAIRWISE: 24 * 3600}[self]

    def quorum(self, n_clients: int, max_dropouts: int, max_colluding: int) -> Quorum:
        """How many of these clients each step needs."""
        kind = {Masks.GROUP: Quorum, Masks.PAIRWISE: PairwiseQuorum}[self]
        return kind(n_clients=n_clients, max_dropouts=max_dropouts, max_colluding=max_colluding)

    def speakers(self, present: Sequence[str]) -> Sequence[str]:
        """Those of the clients present, in the order of the plan, who answer a Deal with keys for others."""
        return {Masks.GROUP: present[:1], Masks.PAIRWISE: present}[self]

    def recipients(self, name: str, present: Sequence[str]) -> Sequence[str]:
        """Whom this client makes keys for: those after it, if it is to make any."""
        return present[present.index(name) + 1 :] if name in self.speakers(present) else ()
