"""Noise that can be repeated reaches no session and no `cluster`, but where
`testing.repeatable_noise` was entered.
"""

import inspect
import os
import re
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context, copy_context
from pathlib import Path
from typing import Any

import pytest

import fastlloyd
import fastlloyd_lab
from fastlloyd.dp.noise import NoiseSource, SystemNoise
from fastlloyd.dp.repeatable import check_private
from fastlloyd.errors import LocalProtocolError
from fastlloyd.federation.admission import DataSet
from fastlloyd.federation.protocol.client import ClientSession
from fastlloyd.federation.protocol.server import ServerSession
from fastlloyd.federation.runs import DurableClient, DurableServer
from fastlloyd.federation.secagg.masks import GroupMasks
from fastlloyd.federation.secagg.pairs import encapsulate
from fastlloyd.federation.simulation import simulate
from fastlloyd.federation.store import Role, Store
from fastlloyd.mechanisms import central
from fastlloyd.mechanisms.answering import LocalRecords
from fastlloyd.testing import InjectedNoise, SeededNoise, repeatable_noise
from federation import entropy, identity, make_federation, make_plan
from known_records import known_records

PACKAGE = Path(fastlloyd.__file__).parent
FEDERATION = make_federation(make_plan(3))
PLAN = FEDERATION.plan
RECORDS = {name: LocalRecords(PLAN.mechanism.domain, X) for name, X in FEDERATION.X.items()}


class Unsaid(SystemNoise):
    """Says neither."""

    private = None  # type: ignore[assignment]  # that is the point


def client(noise: NoiseSource) -> ClientSession:
    return ClientSession(
        PLAN, "c0", RECORDS["c0"], identity=identity("c0"), noise=noise, random_bytes=entropy("")
    )


def durable_client(noise: NoiseSource, folder: Path) -> DurableClient:
    with Store.create(
        folder / "c0.store", role=Role.CLIENT, identity=identity("c0").public
    ) as store:
        return DurableClient.join(
            client(noise), store, identity("c0"), dataset=DataSet(name="records"), records=known_records(store)
        )  # fmt: skip


def durable_server(noise: NoiseSource, folder: Path) -> DurableServer:
    with Store.create(folder / "server.store", role=Role.SERVER, identity=bytes(32)) as store:
        return DurableServer.open(PLAN, store=store, noise=noise)


DOORS: dict[str, Callable[[NoiseSource, Path], Any]] = {
    "cluster": lambda noise, _: central.cluster(PLAN.clustering, RECORDS["c0"], noise),
    "client": lambda noise, _: client(noise),
    "server": lambda noise, _: ServerSession(PLAN, noise),
    "durable client": durable_client,
    "durable server": durable_server,
    "simulation": lambda noise, _: simulate(
        PLAN, {name: identity(name) for name in PLAN.names}, list(RECORDS.values()), noise=noise
    ),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    "noise", [SeededNoise(1), InjectedNoise([]), Unsaid()], ids=lambda source: type(source).__name__
)
def test_noise_that_is_not_private_is_refused_at_every_door_and_nothing_is_drawn_or_stored(
    door: str, noise: NoiseSource, tmp_path: Path
) -> None:
    def refused() -> None:
        with pytest.raises(
            LocalProtocolError,
            match=f"{type(noise).__name__}.*repeated",
        ):
            DOORS[door](noise, tmp_path)

    Context().run(refused)
    for path in tmp_path.glob("*.store"):
        with Store.open(path) as store:
            assert store.position.length == 0


@pytest.mark.parametrize("door", DOORS)
def test_where_it_is_allowed_it_is_taken_and_genuine_noise_is_taken_everywhere(
    door: str, tmp_path: Path
) -> None:
    DOORS[door](SystemNoise(), tmp_path)
    with repeatable_noise():
        for path in tmp_path.glob("*.store*"):
            path.unlink()
        DOORS[door](SeededNoise(3), tmp_path)


@pytest.mark.parametrize("door", ["client", "server", "durable client", "durable server"])
def test_a_session_that_was_made_takes_no_other_noise_and_no_other_source_of_keys(
    door: str, tmp_path: Path
) -> None:
    party = DOORS[door](SystemNoise(), tmp_path)
    session = getattr(party, "session", party)
    assert {name for name in dir(session) if not name.startswith("_")}.isdisjoint(
        {"noise", "random_bytes", "X", "identity"}
    )
    for name in ("noise", "random_bytes"):
        with pytest.raises(AttributeError):
            setattr(session, name, SeededNoise(1))
    if party is not session:
        with pytest.raises(AttributeError):
            party.session = session


# the one draws from the system's randomness, the other draws nothing; nothing else is taken for
# granted
GRANTED = {"encapsulate": encapsulate, "group_masks": GroupMasks, "random_bytes": os.urandom}


def test_sessions_take_their_arguments_by_these_names() -> None:
    def parameters(session: type) -> list[str]:
        parameters = inspect.signature(session).parameters.values()
        defaults = {parameter.name: parameter.default for parameter in parameters}
        assert all(
            default is inspect.Parameter.empty or default is GRANTED[name]
            for name, default in defaults.items()
        )
        return [
            f"{'*' * (parameter.kind is inspect.Parameter.KEYWORD_ONLY)}{parameter.name}"
            for parameter in parameters
        ]

    keywords = ["*identity", "*noise", "*random_bytes", "*encapsulate", "*group_masks"]
    assert parameters(ClientSession) == ["plan", "name", "records", *keywords]
    assert parameters(ServerSession) == ["plan", "noise", "random_bytes"]
    assert ServerSession(plan=PLAN, noise=SystemNoise()).plan is PLAN


def test_the_permission_ends_with_the_block_also_by_an_exception_and_is_in_no_other_thread() -> (
    None
):
    found: list[str] = []

    def ask() -> None:
        try:
            check_private(SeededNoise(1))
            found.append("taken")
        except LocalProtocolError:
            found.append("refused")

    ask()
    with repeatable_noise():
        with repeatable_noise():
            ask()
        ask()
        thread = threading.Thread(target=ask)
        thread.start()
        thread.join()
    ask()
    with suppress(KeyError), repeatable_noise():
        raise KeyError
    ask()
    assert found == ["refused", "taken", "taken", "refused", "refused", "refused"]


def test_a_context_that_was_copied_within_the_block_has_no_permission_after_it() -> None:
    """As every task and `asyncio.to_thread` copies it: one that goes on after the block would take
    seeded noise.
    """
    with repeatable_noise():
        copied = copy_context()
        with repeatable_noise():
            inner = copy_context()
        copied.run(check_private, SeededNoise(1))
        with pytest.raises(LocalProtocolError):
            inner.run(check_private, SeededNoise(1))
    with pytest.raises(LocalProtocolError):
        copied.run(check_private, SeededNoise(1))


def test_only_the_testing_module_sets_the_permission_and_only_experiments_enter_it() -> None:
    sources = {
        path.relative_to(PACKAGE).as_posix(): path.read_text() for path in PACKAGE.rglob("*.py")
    }
    sets = {
        name
        for name, text in sources.items()
        if re.search(r"\bALLOWED\.(set|reset)\b|import ALLOWED", text)
    }
    assert sets == {"testing.py"}
    assert {
        name
        for name, text in sources.items()
        if re.search(r"\brepeatable import\b(?! check_private$)", text, re.MULTILINE)
    } == sets
    enters = re.compile(r"^\s*(with|@)\s*(testing\.)?repeatable_noise\(\)", re.MULTILINE)
    assert not [name for name, text in sources.items() if enters.search(text)]
    lab = Path(fastlloyd_lab.__file__).parent
    assert [path for path in lab.rglob("*.py") if enters.search(path.read_text())] == [
        lab / "experiments" / "methods.py"
    ]
