"""Server of a run over a network, and the number of connections that it may open."""

import sys
from contextlib import suppress
from typing import Final, NamedTuple

from fastlloyd.dp.noise import SystemNoise
from fastlloyd.errors import NetworkError
from fastlloyd.federation.identity.identity import PrivateIdentity
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.federation.runs import DurableServer
from fastlloyd.federation.store import Store
from fastlloyd.federation.transport.grpc.server import GrpcServer
from fastlloyd.federation.transport.grpc.tls import needed_connections, wanted_connections
from fastlloyd.jobs.parties import der, tls_identity

# files that a server has open besides connections: the store, its lock, the log, gRPC's own files
OWN_FILES: Final = 64


class Serving(NamedTuple):
    """Server of a run.

    party : session that answers the clients, with its store.
    network : connections to the clients.
    """

    party: DurableServer
    network: GrpcServer

    @classmethod
    def of(
        cls,
        plan: Plan,
        identity: PrivateIdentity,
        store: Store,
        *,
        address: str,
        max_connections: int,
    ) -> "Serving":
        """Return a server for a run. If its store already has the run, the server continues the
        run.

        plan : plan of the run.
        identity : private identity of the server.
        store : store of the server.
        address : address on which the server will listen, "HOST:PORT".
        max_connections : largest number of connections at a time.

        Raises StateError if the run has ended in this store.
        """
        party = DurableServer.open(plan, store=store, noise=SystemNoise())
        network = GrpcServer(
            party,
            plan,
            address=address,
            identity=tls_identity(identity),
            certificates={client.name: der(client.certificate) for client in plan.clients},
            linger=plan.timeouts.confirming,
            max_connections=max_connections,
        )
        return cls(party, network)


def connections_for(plan: Plan) -> int:
    """Return the number of connections that this process may open for the clients of a plan.

    Raises NetworkError if the system allows too few open files.
    """
    n = plan.n_clients
    return allow_connections(needed_connections(n), wanted_connections(n))


def allow_connections(needed: int, wanted: int) -> int:
    """Raise the soft limit of open files, and return the number of connections that fit in it, at
    most `wanted`.

    Raises NetworkError if the hard limit allows fewer than `needed` connections.
    """
    try:
        import resource
    except ImportError:
        return wanted  # on Windows, sockets are not files
    soft, hard = (_number(limit) for limit in resource.getrlimit(resource.RLIMIT_NOFILE))
    if hard < needed + OWN_FILES:
        raise NetworkError(
            f"this process may open {hard} files, and a server for this plan's clients needs"
            f" {needed + OWN_FILES}; raise the hard limit: `ulimit -Hn {needed + OWN_FILES}` as"
            f" root, or LimitNOFILE={needed + OWN_FILES} in the unit"
        )
    if soft < (best := min(hard, wanted + OWN_FILES)):
        with suppress(ValueError, OSError):  # macOS has a lower limit of its own
            resource.setrlimit(
                resource.RLIMIT_NOFILE, (best, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
            )
            soft = best
    return min(wanted, max(soft - OWN_FILES, needed))


def _number(limit: int) -> int:
    """Return a limit as a number. The number -1 means that there is no limit."""
    return sys.maxsize if limit < 0 else limit
