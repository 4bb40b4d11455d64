"""Checks before a party takes part in a run over a network: its identity, certificate and store."""

import base64
import os
from pathlib import Path

from fastlloyd.base.places import whose
from fastlloyd.errors import PlanError, StateError
from fastlloyd.federation.identity.identity import PrivateIdentity, PublicIdentity
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.federation.store import History, store_path
from fastlloyd.federation.store.events import Outcome, n_events
from fastlloyd.federation.store.lock import CLOSED, no_folder
from fastlloyd.federation.transport.grpc.tls import TlsIdentity


def tls_identity(identity: PrivateIdentity) -> TlsIdentity:
    """Return the certificate and key with which a party proves its identity on a connection."""
    return TlsIdentity(
        certificate=der(identity.public.certificate), private_key=identity.tls_key_pem()
    )


def der(certificate: str) -> bytes:
    """Return the bytes (DER) of a certificate in a plan, which is base64."""
    return base64.b64decode(certificate)


def check_member(public: PublicIdentity, plan: Plan, key: Path) -> None:
    """Raise PlanError unless the identity is a client of the plan.

    key : file of the identity, for the error message.
    """
    client = plan.client(public.name)
    if (client.signing_key, client.certificate) != (public.signing_key, public.certificate):
        raise PlanError(
            f"{key} is not the identity of client {public.name!r} in the plan; use that"
            " identity, or have the plan renewed with your present public file"
        )


def check_server(public: PublicIdentity, plan: Plan, key: Path, path: Path) -> None:
    """Raise PlanError unless the identity is the server of the plan.

    key : file of the identity, for the error message.
    path : file of the plan, for the error message.
    """
    if public.certificate != plan.server.certificate:
        raise PlanError(
            f"{key} is not the identity of the server {plan.server.name!r} in {path}; use"
            " that identity"
        )


def check_store_exists(plan: Plan, name: str, store: Path) -> None:
    """Raise StateError if the plan states events of the store of client `name`, but the store is
    missing. A new store would not contain the earlier runs. Raise StateError also if the folder of
    the store is missing, or cannot be written to.

    store : path of the store.
    """
    if not store.parent.is_dir():
        raise StateError(no_folder(store))
    if not os.access(store.parent, os.W_OK):
        raise StateError(f"{store} cannot be made or changed{whose(store) or CLOSED}")
    known = plan.client(name).store
    if known is not None and not store.exists():
        raise StateError(
            f"there is no store {store}, but according to the plan, the store of {name!r} has"
            f" {n_events(known.length)}; bring back its newest copy, or make a new identity"
        )


def place_of_store(name: str, key: Path, path: Path | None) -> Path:
    """Return the path of an identity's store: `path`, or else a file next to the identity's file
    `key`.

    Symbolic links in `key` are resolved. Otherwise one identity could have two stores, each without
    the runs of the other.
    """
    return key.resolve().with_name(f"{name}.store") if path is None else store_path(path)


def has_finished(history: History, plan: Plan) -> bool:
    """Return whether the run finished with a result, according to a store.

    history : history of the store.
    plan : plan of the run.
    """
    run = history.runs.get(bytes.fromhex(plan.run_id))
    if (
        run is None
        or run.ended is None
        or (run.reserved is not None and run.reserved.plan_digest != plan.digest)
    ):
        return False
    return run.ended.outcome is Outcome.FINISHED


def has_ended(history: History, plan: Plan) -> bool:
    """Return whether the run has ended permanently, with a result or without, according to a store.

    history : history of the store.
    plan : plan of the run.
    """
    run = history.runs.get(bytes.fromhex(plan.run_id))
    return run is not None and run.ended is not None and not run.may_begin_again
