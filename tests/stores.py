"""What the tests of stores share: owners, runs of fixed ids, events and messages that belong together."""

import hashlib
from fractions import Fraction
from pathlib import Path

from fastlloyd.dp.neighboring import NeighboringRelation
from fastlloyd.protocol import messages
from fastlloyd.store import Role, Store
from fastlloyd.store.events import Cost, MessageRecorded, RunCost, RunReserved, recorded

OWNER = hashlib.sha256(b"owner").digest()
ADD, REPLACE = NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE


def run_id(number: int) -> bytes:
    return hashlib.sha256(b"run" + bytes([number])).digest()[:16]


def cost(*mu_squared: Fraction, epsilon: float = 1.0, delta: float = 1e-6, slack: float = 0.0) -> RunCost:
    return RunCost(
        neighboring_relation=ADD,
        costs=tuple(Cost(square, Fraction(0)) for square in mu_squared),
        epsilon=epsilon,
        delta=delta,
        delta_slack=slack,
    )


def reserved(run: bytes, dataset: str = "patients", n_exchanges: int = 3, fingerprint: bytes = bytes(32)) -> RunReserved:
    return RunReserved(
        run_id=run,
        plan_digest=hashlib.sha256(run).digest(),
        client="clinic-a",
        dataset=dataset,
        fingerprint=fingerprint,
        cost=cost(*[Fraction(1, 100)] * n_exchanges),
    )


def upload(run: bytes, number: int, payload: bytes = b"sixteen bytes...") -> tuple[MessageRecorded, bytes]:
    message = messages.Upload(number, hashlib.sha256(run).digest()[:8], payload)
    return recorded(run, message), messages.encode(message)


def new_store(folder: Path, role: Role = Role.CLIENT) -> Store:
    return Store.create(folder / "clinic-a.store", role=role, identity=OWNER)
