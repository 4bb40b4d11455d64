"""Export of the events of a site's store as a signed audit file, and the check of such a file."""

from collections.abc import Callable
from pathlib import Path

import msgspec

from fastlloyd.base.files import read_start, unreadable
from fastlloyd.base.sealed_toml import from_toml, load_text
from fastlloyd.errors import UNREADABLE_FILE, PlanError, StateError
from fastlloyd.federation.audit import MAX_BYTES, Audit, audit_file, read_audit
from fastlloyd.federation.identity.identity import PrivateIdentity, PublicIdentity, of_identity
from fastlloyd.federation.positions import KnownStore, Positions
from fastlloyd.federation.store.durable import read
from fastlloyd.federation.store.events import seconds_now
from fastlloyd.jobs.approvals import approvals_path


def exported(store: Path, load: Callable[[], PrivateIdentity]) -> tuple[bytes, str]:
    """Return the content of an audit file of the store at `store`, with the approvals beside it,
    and the name of the identity that signed.

    load : function that returns the identity. It is called once the store has been read.

    Raises StateError if the store is damaged or belongs to another identity, or if the approvals
    cannot be read.
    """
    contents, events = read(store)
    approvals, identity = _approvals(store), load()
    made = audit_file(contents, events, approvals, identity.signing, seconds_now())
    return made, identity.name


def verified(path: Path, public: Path, positions: Path | None = None) -> tuple[Audit, str]:
    """Return the content of an audit file, and the name of its owner, after every check.

    public : public file of the identity that should have made the file. It may have expired.
    positions : file of positions that a server exported, or None.

    Raises StateError that names the faulty line of the audit file. Raises IdentityError or
    PlanError if `public` or `positions` cannot be used.
    """
    try:
        content = read_start(path, MAX_BYTES + 1)
    except OSError as error:
        raise StateError(unreadable(path, error), code=UNREADABLE_FILE) from None
    if len(content) > MAX_BYTES:
        raise StateError(f"{path} is larger than {MAX_BYTES} bytes; it is not an audit file")
    try:
        owner = from_toml(load_text(public), PublicIdentity, str(public))
    except PlanError as error:
        raise of_identity(error) from None
    known = [] if positions is None else _known(positions, owner)
    try:
        audit = read_audit(content, bytes.fromhex(owner.signing_key), f"{owner.name!r}")
        for store in known:
            audit.check_position(store)
    except StateError as error:
        raise StateError(f"{path}: {error}", code=error.code) from None
    return audit, owner.name


def _known(positions: Path, owner: PublicIdentity) -> list[KnownStore]:
    """Return the positions of the owner in a file. Raises PlanError if the file has no position of
    the owner, because nothing would then be compared.
    """
    of_all = Positions.load(positions).clients
    known = [each.store for each in of_all if each.signing_key == owner.signing_key]
    if not known:
        raise PlanError(
            f"{positions} has no position that {owner.name!r} signed; ask for the file of a server"
            " to which this site was connected"
        )
    return known


def _approvals(store: Path) -> list[dict[str, str]]:
    """Return the approvals beside a store, or an empty list if there is no approval."""
    path = approvals_path(store)
    try:
        lines = path.read_bytes().splitlines()
        return [msgspec.json.decode(line, type=dict[str, str]) for line in lines]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StateError(f"{path} cannot be read ({error.strerror})") from None
    except msgspec.MsgspecError:
        raise StateError(
            f"{path} has a line that is not an approval; restore the file from its newest copy"
        ) from None
