"""How many connections came on which nobody of the plan was heard: refused certificates, port scans, sockets held open."""

import threading


class Arrivals:
    """Counts connections when they come, before TLS, and again when a peer that proved who it is says something on one.

    gRPC tells nobody that a handshake failed, or why. So what is known is how many came and were never heard.

    Parameters
    ----------
    n_remembered : how many peers that were heard are told apart; more than can be connected at a time.
    """

    def __init__(self, n_remembered: int) -> None:
        self._lock = threading.Lock()  # they come in threads of gRPC's
        self._n_came = 0
        self._n_settled = 0  # of these, so many had come when it was looked last: they had the time to be heard
        self._n_remembered, self._peers = n_remembered, dict[str, None]()
        self._n_heard = 0
        self.n_unheard = 0

    def came(self) -> None:
        """Somebody connected."""
        with self._lock:
            self._n_came += 1

    def heard(self, peer: str) -> None:
        """A peer at this address and port, who proved who it is, said something; once counted however often it does."""
        if peer in self._peers:
            return
        self._n_heard += 1
        self._peers[peer] = None
        if len(self._peers) > self._n_remembered:
            del self._peers[next(iter(self._peers))]

    def look(self) -> int:
        """How many more than at the last look there are that had come by the look before and were not heard since.

        Never too many; those that come while others are heard are counted later.
        """
        more = max(0, self._n_settled - self._n_heard - self.n_unheard)
        self.n_unheard += more
        with self._lock:
            self._n_settled = self._n_came
        return more
