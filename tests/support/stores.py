"""What the tests of stores share: owners, runs of fixed ids, events and messages that belong
together, and damaged files.
"""

import hashlib
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

from fastlloyd.dp.neighboring import NeighboringRelation, Neighbours
from fastlloyd.errors import StateError
from fastlloyd.federation.admission import reservation_of
from fastlloyd.federation.positions import SignedPosition
from fastlloyd.federation.protocol import messages
from fastlloyd.federation.store import LogPosition, Role, Store, read
from fastlloyd.federation.store import files as layout
from fastlloyd.federation.store.costs import (
    Cost,
    ExchangeCost,
    PlannedCost,
    RunCost,
)
from fastlloyd.federation.store.events import (
    ExchangeCharged,
    LimitSet,
    MessageRecorded,
    PeerSigned,
    PersonRunReserved,
    RunReserved,
    recorded,
)

OWNER = hashlib.sha256(b"owner").digest()
ADD, REPLACE = NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE
ADDED, REPLACED = Neighbours(ADD), Neighbours(REPLACE)  # one record


@contextmanager
def unguarded(path: Path) -> Iterator[sqlite3.Connection]:
    """Connection that may change a store. Its triggers, which forbid that, are back afterwards."""
    triggers = [statement for statement in layout.SCHEMA if "TRIGGER" in statement]
    with closing(sqlite3.connect(path)) as connection:
        for statement in triggers:
            connection.execute(f"DROP TRIGGER {statement.split()[2]}")
        yield connection
        for statement in triggers:
            connection.execute(statement)
        connection.commit()


def run_id(number: int) -> bytes:
    return hashlib.sha256(b"run" + bytes([number])).digest()[:16]


def cost(
    *mu_squared: Fraction,
    epsilon: float = 1.0,
    delta: float = 1e-6,
    distance: Fraction = Fraction(0),
) -> RunCost:
    return RunCost(
        neighboring_relation=ADD,
        costs=tuple(
            ExchangeCost(Cost(square, Fraction(0)), Cost(4 * square, Fraction(0)))
            for square in mu_squared
        ),
        epsilon=epsilon,
        delta=delta,
        distance=distance,
    )


def pure_cost(*epsilons: Fraction) -> RunCost:
    return RunCost(
        neighboring_relation=ADD,
        costs=tuple(
            ExchangeCost(Cost(Fraction(0), each), Cost(Fraction(0), 2 * each)) for each in epsilons
        ),
        epsilon=float(sum(epsilons)) or 1.0,
        delta=0.0,
        distance=Fraction(0),
    )


def reserved(run: bytes, dataset: str = "patients", n_exchanges: int = 3) -> RunReserved:
    return RunReserved(
        run_id=run,
        plan_digest=hashlib.sha256(run).digest(),
        client="clinic-a",
        dataset=dataset,
        cost=cost(*[Fraction(1, 100)] * n_exchanges),
    )


def reserved_as(
    cost: PlannedCost, run: bytes, dataset: str = "patients"
) -> RunReserved | PersonRunReserved:
    """The reservation of a run of this cost."""
    return reservation_of(
        cost,
        run_id=run,
        digest=hashlib.sha256(run).digest(),
        client="clinic-a",
        dataset=dataset,
    )


def upload(
    run: bytes, number: int, payload: bytes = b"sixteen bytes..."
) -> tuple[MessageRecorded, bytes]:
    message = messages.Upload(number, hashlib.sha256(run).digest()[:8], payload)
    return recorded(run, message), messages.encode(message)


def seen(name: str, position: LogPosition) -> PeerSigned:
    """A position of the store of a client, as a server remembers it."""
    signed = SignedPosition(position.length, position.head, bytes(64))
    return PeerSigned(name=name, client=name, position=signed)


def new_store(folder: Path, role: Role = Role.CLIENT) -> Store:
    return Store.create(folder / "clinic-a.store", role=role, identity=OWNER)


def copy_store(path: Path, folder: Path) -> Path:
    """A copy of a store and what lies beside it, as another process would find them now."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in layout.files(path):
        (folder / file.name).unlink(missing_ok=True)
        if file.exists():
            shutil.copy(file, folder / file.name)
    return folder / path.name


def killed(folder: Path, role: Role) -> tuple[Path, LogPosition]:
    """A store as a process leaves it that is killed after four rounds, and where it stood: all of
    its steps lie in the log.
    """
    (folder / "alive").mkdir()
    run = run_id(1)
    with new_store(folder / "alive", role) as store:
        if role is Role.CLIENT:
            store.append([reserved(run, n_exchanges=4)], secrets={(run, "key"): bytes(32)})
        if role is Role.HOLDER:
            store.append([reserved(run, n_exchanges=4)])
        for number in range(1, 5):
            event, message = upload(run, number)
            shown = seen("b", LogPosition(number, bytes(32)))
            charged = ExchangeCharged(run_id=run, number=number)
            if role is Role.HOLDER:
                store.append([charged])
                store.append([LimitSet(dataset="patients", epsilon=float(number), delta=0.0)])
            else:
                store.append([event, charged if role is Role.CLIENT else shown], messages=[message])
        return copy_store(store.path, folder / "killed"), store.position


class Damage(NamedTuple):
    """What one of a store's files holds instead."""

    file: str
    content: bytes


LOG = "clinic-a.store-wal"
_HEADER, _FRAME_HEADER, _PAGE = 32, 24, 4096  # of SQLite's log, in bytes
_FIELDS = (0, 4, 8, 12, 16, 20, 24, 28)  # where numbers begin in both headers


def places(size: int, n_in_page: int) -> list[int]:
    """Offsets in a log of this size: every number of every header, and so many bytes of every
    page.
    """
    frames = range(_HEADER, size, _FRAME_HEADER + _PAGE)
    in_page = [_FRAME_HEADER + at * _PAGE // n_in_page for at in range(n_in_page)]
    return [
        *_FIELDS,
        *(start + at for start in frames for at in (*_FIELDS[:6], *in_page) if start + at < size),
    ]


def flips(content: bytes, n_in_page: int, bit: int = 0) -> list[Damage]:
    """A log with one bit flipped, in each of its places."""
    return [
        Damage(LOG, content[:at] + bytes([content[at] ^ 1 << bit]) + content[at + 1 :])
        for at in places(len(content), n_in_page)
    ]


def cuts(content: bytes, n_in_page: int) -> list[Damage]:
    """A log that ends at each of its places."""
    return [Damage(LOG, content[:at]) for at in places(len(content), n_in_page)]


def opened_or_refused(path: Path, damage: Damage, folder: Path) -> LogPosition | None:
    """Where a damaged copy stands for who works with it and for who reads it, which is the same;
    None if both refuse it.
    """
    found: list[LogPosition | None] = []
    for attempt in (lambda copy: read(copy)[0].position, _opened):
        copy = copy_store(path, folder)
        (folder / damage.file).write_bytes(damage.content)
        try:
            found.append(attempt(copy))
        except StateError:
            found.append(None)
    assert found[0] == found[1]
    return found[0]


def _opened(path: Path) -> LogPosition:
    with Store.open(path) as store:
        return store.position
