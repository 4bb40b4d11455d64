"""Where the store of an identity lies, and making one before its first run."""

from pathlib import Path

import typer

from fastlloyd.errors import StateError
from fastlloyd.federation.identity.identity import PrivateIdentity
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.federation.store import Role, Store, store_path
from fastlloyd.federation.store.files import IDENTITY_SUFFIX


def place_of_store(name: str, key: Path, path: Path | None) -> Path:
    """Where the store of the identity of that name in the file `key` lies: beside the file, or at `path`.

    Beside the file itself, not beside a link to it: one identity would have two ledgers, each without the other's runs.
    """
    return key.resolve().with_name(f"{name}.store") if path is None else store_path(path)


def client_store(named: Path) -> Store:
    """A client's store by its own path, or by that of its identity, beside which it is made if there is none."""
    if not named.name.endswith(IDENTITY_SUFFIX):
        if not named.exists():
            raise StateError(f"there is no store {named}; to make it, name the identity it belongs to: NAME{IDENTITY_SUFFIX}")
        return Store.open(named, role=Role.CLIENT)
    public = PrivateIdentity.public_of(named)
    where, signing_key = place_of_store(public.name, named, None), bytes.fromhex(public.signing_key)
    if where.exists():
        return Store.open(where, role=Role.CLIENT, identity=signing_key)
    made = Store.create(where, role=Role.CLIENT, identity=signing_key)
    typer.echo(made_note(where), err=True)
    return made


def has_store(named: Path) -> bool:
    """Whether there is a store of that path, or of that identity."""
    if not named.name.endswith(IDENTITY_SUFFIX):
        return named.exists()
    return place_of_store(PrivateIdentity.public_of(named).name, named, None).exists()


def check_kept(plan: Plan, name: str, where: Path) -> None:
    """Raise StateError if the plan knows the store of this client, and there is none: a new one forgets all runs."""
    known = plan.client(name).store
    if known is not None and not where.exists():
        raise StateError(
            f"there is no store {where}, and the plan says that the store of {name!r} holds {known.length} events; bring "
            "back its newest copy, or go on under a new identity"
        )


def made_note(path: Path) -> str:
    """What the owner is told of a new store, which may be a slip."""
    return f"Note: made {path}, a new store, in which nothing is spent and nothing is limited."
