"""Check of a site before a run: its machine, and the files and the server that are named."""

import os
import socket
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeVar

from fastlloyd.base.files import OTHERS, read_start
from fastlloyd.errors import OPEN_TO_OTHERS, OTHER_PLAN, FastLloydError, IdentityError
from fastlloyd.federation.fingerprint_file import FILE_NAME
from fastlloyd.federation.identity.certificates import Authority, Certificate, parse_certificate
from fastlloyd.federation.identity.identity import (
    PRIVATE_HEADING,
    PrivateIdentity,
    PublicIdentity,
)
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.federation.store import files
from fastlloyd.federation.store.durable import read
from fastlloyd.federation.transport.grpc.proxies import hint, in_between
from fastlloyd.jobs import machine
from fastlloyd.jobs.approvals import approvals_path
from fastlloyd.jobs.client import Endpoint
from fastlloyd.jobs.live import live_path
from fastlloyd.jobs.machine import Finding, Level, fault, fine
from fastlloyd.jobs.parties import check_member, check_server, place_of_store
from fastlloyd.jobs.server import connections_for

T = TypeVar("T")
CONNECT_SECONDS: Final = 10.0
_UNREACHABLE: Final = (
    "ask the server's operator whether the server is started and at which address; if it is, let"
    " the connection through your firewall or proxy"
)


@dataclass(frozen=True, kw_only=True)
class SiteCheck:
    """Check of one organisation's files and machine. Each part that is None is left out.

    ledger : ledger of the holder, which may not exist.
    plan : file of the plan.
    key : file of the private identity of a client or server.
    store : store of this identity, or None for the one next to `key`.
    address : address of the server, "HOST:PORT", or None for the address in the plan.
    is_offline : whether to make no connection.
    lock : file of locked versions.
    read_plan : function that reads the plan in a file.
    unlocked : function that returns the private identity in a file. The check connects to the
        server as a run does.
    """

    ledger: Path
    read_plan: Callable[[Path], Plan]
    unlocked: Callable[[Path], PrivateIdentity]
    plan: Path | None = None
    key: Path | None = None
    store: Path | None = None
    address: str | None = None
    is_offline: bool = False
    lock: Path | None = None

    def findings(self, now: datetime | None = None) -> list[Finding]:
        """Return all findings. Existing files are only read. Next to each store and ledger, a test
        file is made and removed again.

        now : time of this machine's clock, with a time zone, or None to read it.
        """
        now = datetime.now(UTC) if now is None else now
        public, of_key = _read("key-unusable", "key", self.key, PrivateIdentity.public_of)
        plan, of_plan = _read("plan-unusable", "plan", self.plan, self.read_plan)
        is_server = public is not None and plan is not None and public.name == plan.server.name
        stores = [] if is_server else [self.ledger]
        if self.store is not None:
            stores.append(self.store)
        elif self.key is not None and public is not None:
            stores.append(place_of_store(public.name, self.key, None))
        latest, of_stores = _stores([path for path in stores if path.exists()])
        return [
            *machine.clock(now, latest),
            *machine.entropy(),
            *machine.versions(self.lock),
            *machine.extras(needs_network=bool(self.plan or self.key or self.address)),
            *machine.compiler(),
            *_drives(stores),
            *of_key,
            *of_plan,
            *of_stores,
            *_secrets(self._secret_files(stores)),
            *_parties(public, plan, self.key, self.plan),
            *_certificates(public, plan, now),
            *_open_files(plan if is_server else None),
            *self._connection(plan, public),
        ]

    def _secret_files(self, stores: Sequence[Path]) -> list[Path]:
        """Return the files that only this user may read, among those that exist."""
        of_stores = [file for store in stores for file in files.files(store)]
        beside = [approvals_path(store) for store in stores] + [
            live_path(store) for store in stores
        ]
        named = [
            *(key for key in [self.key] if key and _is_private(key)),
            *of_stores,
            *beside,
            Path(FILE_NAME),
        ]
        return [file for file in dict.fromkeys(named) if file.exists()]

    def _connection(self, plan: Plan | None, public: PublicIdentity | None) -> Iterator[Finding]:
        """Yield findings about the connection to the server. With plan and identity, the server is
        asked whether it serves the plan.
        """
        address = self.address or (None if plan is None else plan.server.address)
        if address is None:
            return
        if said := hint().removeprefix("; "):
            through = in_between(address)
            yield Finding("proxy", Level.NOTE, f"{said}" if not through else f"{said} ({address})")
        if self.is_offline or (public and plan and public.name == plan.server.name):
            return
        try:
            if plan is None or public is None or self.key is None:
                host, _, port = address.rpartition(":")
                socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()
                yield fine("reachable", f"a connection to {address} can be opened")
            else:
                Endpoint(address).check(plan, self.unlocked(self.key))
                yield fine("reachable", f"the server at {address} serves the plan")
        except IdentityError as error:
            remedy = "give the passphrase, or pass --offline"
            yield fault("key-unusable", str(error), remedy)
        except FastLloydError as error:
            if error.code == OTHER_PLAN:
                yield fault("other-plan", str(error), "ask the server's operator for its plan")
            else:
                yield fault("server-unreachable", str(error), _UNREACHABLE)
        except OSError as error:
            said = f"{address} cannot be reached ({error.strerror or type(error).__name__})"
            yield fault("server-unreachable", said, _UNREACHABLE)


def _read(
    code: str, what: str, path: Path | None, reader: Callable[[Path], T]
) -> tuple[T | None, list[Finding]]:
    """Return the content that `reader` reads from a file, and the findings. The content is None if
    it cannot be read.
    """
    if path is None:
        return None, []
    try:
        return reader(path), [fine(what, f"{path} can be read")]
    except FastLloydError as error:
        return None, _unless_open(error, code, f"name the right file, or correct {path}")


def _unless_open(error: FastLloydError, code: str, remedy: str) -> list[Finding]:
    """Return the fault of a file, or nothing if other users may read it, which `_secrets` finds."""
    return [] if error.code == OPEN_TO_OTHERS else [fault(code, str(error), remedy)]


def _drives(stores: Sequence[Path]) -> Iterator[Finding]:
    """Yield findings about the folder of each store, or about the nearest parent that exists."""
    folders = (path.resolve().parent for path in stores)
    there = [next(up for up in (folder, *folder.parents) if up.is_dir()) for folder in folders]
    for folder in dict.fromkeys(there):
        yield from machine.drive(folder)


def _stores(paths: Sequence[Path]) -> tuple[dict[str, datetime], list[Finding]]:
    """Return the time of the last event of each store, and the findings about stores."""
    latest, found = dict[str, datetime](), list[Finding]()
    for path in paths:
        try:
            contents, _ = read(path)
        except FastLloydError as error:
            found += _unless_open(error, "store-unusable", "docs/how-to/ledger.md says what to do")
            continue
        if contents.seconds:
            latest[str(path)] = datetime.fromtimestamp(max(contents.seconds), UTC)
        n = contents.position.length
        found.append(fine("store", f"{path} is whole: {n} events, and its chain of hashes fits"))
    return latest, found


def _is_private(key: Path) -> bool:
    """Return whether a file is a private identity, or cannot be read."""
    with suppress(OSError):
        return PRIVATE_HEADING in read_start(key, 2 * len(PRIVATE_HEADING)).decode(errors="replace")
    return True


def _secrets(paths: Sequence[Path]) -> Iterator[Finding]:
    """Yield findings about owner and mode of files with secrets."""
    if os.name != "posix":
        return
    is_sound = True
    for path in paths:
        with suppress(OSError):
            found = path.lstat()
            mode = stat.S_IMODE(found.st_mode)
            if found.st_uid != os.geteuid():
                is_sound = False
                said = f"{path} belongs to another user"
                yield fault("belongs-to-another", said, f"sudo chown $(id -un) {path}")
            elif mode & OTHERS and stat.S_ISREG(found.st_mode):
                is_sound = False
                said = f"{path} can be read or changed by other users (mode {mode:04o})"
                yield fault("open-to-others", said, f"chmod 600 {path}, and ask who read it")
    if paths and is_sound:
        yield fine("secrets", f"{len(paths)} files with secrets belong to you, with mode 0600")


def _parties(
    public: PublicIdentity | None, plan: Plan | None, key: Path | None, path: Path | None
) -> Iterator[Finding]:
    """Yield a finding about the role that the identity has in the plan."""
    if public is None or plan is None or key is None or path is None:
        return
    try:
        if public.name == plan.server.name:
            check_server(public, plan, key, path)
        else:
            check_member(public, plan, key)
    except FastLloydError as error:
        yield fault("not-in-plan", str(error), "ask for a plan that names your public file")
    else:
        yield fine("party", f"{key} is the identity of {public.name!r} in the plan")


def _open_files(plan: Plan | None) -> Iterator[Finding]:
    """Yield a finding about the open files that a server of this plan needs."""
    if plan is None:
        return
    try:
        n = connections_for(plan)
    except FastLloydError as error:
        remedy = "raise the limit, LimitNOFILE in a unit: docs/how-to/server-as-a-service.md"
        yield fault("too-few-files", str(error), remedy)
    else:
        yield fine("files", f"a server may open {n} connections")


def _certificates(
    public: PublicIdentity | None, plan: Plan | None, now: datetime
) -> Iterator[Finding]:
    """Yield findings about the dates of all certificates in the plan or, without a plan, of the
    identity's certificate. A certificate with a wrong name is refused when its file is read.
    """
    known: list[Certificate | Authority] = []
    if plan is not None:
        known = [*plan.certificates(), *([plan.issuer] if plan.issuer else [])]
    elif public is not None and public.certificate:
        known = [parse_certificate(public.certificate, public.name)]
    soon = [] if plan is None else [one.name for one in plan.expiring(now)]
    for one in known:
        if now < one.begins:
            said = f"the certificate of {one.name!r} begins on {one.begins:%Y-%m-%d %H:%M} UTC"
            yield fault("certificate-not-yet", said, "check the clock, or wait")
        elif now > one.ends:
            said = f"the certificate of {one.name!r} ended on {one.ends:%Y-%m-%d}"
            yield fault("certificate-expired", said, "its owner makes a new one: fastlloyd keygen")
        elif one.name in soon:
            said = f"the certificate of {one.name!r} ends on {one.ends:%Y-%m-%d}"
            remedy = "a run that uses all its time would outlast it: ask for a new certificate"
            yield Finding("certificate-ends-soon", Level.NOTE, said, remedy)
        else:
            yield fine(
                "certificate", f"the certificate of {one.name!r} is valid until {one.ends:%Y-%m-%d}"
            )
