"""Kinds of masks, and the numbers that depend on them: clients that must answer, shares of noise in
every sum, and the size and the cost of one share of noise.

A plan names M clients. Of these, n are present when keys are dealt, and only these n exchange keys.
At most D clients may be missing at that time, and t clients may pool what they see.
"""

import enum
import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import msgspec

from fastlloyd.base.precision import working_precision
from fastlloyd.federation.identity.parties import MAX_CLIENTS, Timeouts
from fastlloyd.mechanisms.rounds import sqrt_up


class Quorum(msgspec.Struct, frozen=True, kw_only=True):
    """Number of clients that each step needs, for a given number of clients that share keys.

    needed : number of uploads that every round needs.
    confirmations : number of confirmations that a result needs.
    max_turns : if the first client sends no parameters, number of further clients that may be
        asked, one after the other.
    shares : number of shares that together are the noise that the guarantee needs.
    """

    needed: int
    confirmations: int
    max_turns: int
    shares: int


class Masks(enum.Enum):
    """Kinds of keys from which masks are made."""

    # One key that all clients share. The server together with any client can open every upload.
    GROUP = "group"
    # One key for each pair of clients. Parties that pool what they see learn only the sum of the
    # other clients.
    PAIRWISE = "pairwise"

    @property
    def max_clients(self) -> int:
        """Largest number of clients in a plan.

        Pairwise keys allow fewer clients, because the bytes that clients send each other grow with
        the square of their number.
        """
        return MAX_CLIENTS if self is Masks.GROUP else 300

    @property
    def timeouts(self) -> Timeouts:
        """Default timeouts. With pairwise masks they are a day for a step that needs every
        client.
        """
        return (
            Timeouts() if self is Masks.GROUP else Timeouts(round=24 * 3600, confirming=24 * 3600)
        )

    @property
    def grace(self) -> int:
        """Seconds that a client waits longer than the server. With pairwise masks it is a day,
        because every client is needed, and a reboot must not end the run.
        """
        return 60 if self is Masks.GROUP else 24 * 3600

    def quorum(
        self, n_present: int, n_clients: int, max_dropouts: int, max_colluding: int
    ) -> Quorum:
        """Return the number of clients that each step needs.

        With group masks, clients may miss a round. So each client's share of the noise is sized for
        the smallest number of clients that may answer. Pairwise masks cancel only if all n clients
        answer.

        The number of confirmations is chosen so that any two confirming groups have an honest
        client in common, even if the t colluding clients tell the groups different things. Among
        clients that share one set of keys, this always holds. For two sets of keys it holds if
        fewer than (M - t) / 2 clients may be missing.

        n_present : n, number of clients that share keys.
        n_clients : M, number of clients in the plan.
        max_dropouts : D, number of clients that may be missing.
        max_colluding : t, number of clients that may pool what they see.
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
        """Return the clients that answer a Deal with keys for others, in the order of the plan.

        present : names of the clients that the Deal names, in the order of the plan.
        """
        return present[:1] if self is Masks.GROUP else present

    def recipients(self, name: str, present: Sequence[str]) -> Sequence[str]:
        """Return the clients for which client `name` makes keys: those after it in the order of the
        plan. With GROUP, only the first client makes keys, so return none for another client.

        present : names of the clients that the Deal names, in the order of the plan.
        """
        return present[present.index(name) + 1 :] if name in self.speakers(present) else ()


# in grid units; with smaller shares, a sum of rounded shares differs too much from a rounded sum
MIN_SHARE_DEVIATION = 4


class TrustMode(enum.Enum):
    """Party that adds the noise. This decides against which parties the guarantee holds.

    Departs from the paper, in which only the server adds noise: by default, the clients add shares
    of the noise.
    """

    # as in the paper: the server adds all of the noise, and must never see a result
    SERVER_NOISE = "server-noise"
    CLIENT_NOISE = "client-noise"  # every client adds a share; the server may see results


def share_scales(scales: Iterable[Fraction], n_shares: int) -> tuple[Fraction, ...]:
    """Return the standard deviations of one share of the noise, rounded up. Then `n_shares` shares
    together have at least the standard deviations `scales`.
    """
    return tuple(
        max(Fraction(MIN_SHARE_DEVIATION), sqrt_up(scale**2 / n_shares)) for scale in scales
    )


def aliasing_slack(epsilon: float, n_released: int, n_shares: int) -> float:
    """Return an upper bound on the increase of delta that results from adding up separately rounded
    shares of noise.

    The bound is (1 + e^epsilon) times the statistical distance between the sum of rounded shares
    and one rounded Gaussian. It is inf if epsilon is too large for a meaningful bound, and is
    rounded up (docs/proofs/shares-of-noise.md).

    n_released : number of released coordinates.
    n_shares : number of shares.
    """
    with working_precision(170) as mp:
        bound = (1 + mp.exp(epsilon)) * _distance(mp, n_released, n_shares)
        return math.nextafter(float(bound), math.inf) if bound < 1 else math.inf


def aliasing_distance(n_released: int, n_shares: int) -> float:
    """Return tau, the total variation distance between separately rounded shares and one rounded
    Gaussian, rounded up.
    """
    with working_precision(170) as mp:
        return math.nextafter(float(_distance(mp, n_released, n_shares)), math.inf)


def _distance(mp: Any, n_released: int, n_shares: int) -> Any:
    """Return the number of released coordinates times 5 h exp(-pi^2 s^2 / 2). Here h is the number
    of shares, and s = 4 grid units is the smallest standard deviation of a share.
    """
    return n_released * 5 * n_shares * mp.exp(-(mp.pi**2) * MIN_SHARE_DEVIATION**2 / 2)
