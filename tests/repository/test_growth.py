"""How the work grows with the number of clients: every call of every function of ours is counted,
and no clock is looked at.

The protocol itself is quadratic in this, and in nothing else: each client checks the Hello of each
client it shares keys with, and makes a key with each if masks are pairwise; in every round it
removes the mask of each client in the sum, or adds that of each of its pairs; and in the end it
checks each client's word.
"""

import re
import sys
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import fastlloyd
from designs import design_plan
from fastlloyd.base.randomness import PublicSeed
from fastlloyd.clustering.domain import Domain
from fastlloyd.dp.gdp import gdp_epsilon, gdp_mu
from fastlloyd.federation.identity.certificates import parse_certificate
from fastlloyd.federation.identity.identity import PrivateIdentity, PublicIdentity
from fastlloyd.federation.plan.design import renew
from fastlloyd.federation.plan.plan import Masks, Plan, TrustMode
from fastlloyd.federation.protocol import roster
from fastlloyd.federation.secagg import masks
from fastlloyd.federation.transport.in_process import (
    Drops,
    Link,
    everything_arrives,
    run_in_process,
)
from fastlloyd.mechanisms.lloyd.algorithm import FASTLLOYD
from fastlloyd.mechanisms.moment_lloyd.rounds import MOMENTLLOYD
from fastlloyd.mechanisms.settings import AnyAlgorithm
from federation import make_federation, make_plan, starts_cheaply

SIZES = (4, 8, 16)
SOURCES = str(Path(fastlloyd.__file__).parent)
COMPREHENSION = re.compile(r"\.<locals>\.<(listcomp|setcomp|dictcomp|genexpr|lambda)>")

MASKS = {
    "base/randomness.py Keystreams.of",
    "base/randomness.py _chacha20",
    "federation/secagg/masks.py upload_field",
    "federation/secagg/masks.py check_length",
}
NAMES = {
    "federation/protocol/masked_round.py start_transcript",
    "base/randomness.py length_prefixed",
}
CONFIRMATIONS = {
    "federation/secagg/keys.py Ending.confirmation",
    "federation/secagg/keys.py Ending.differing",
    "federation/protocol/rounds.py ClientRounds.conclude",
    "federation/protocol/roster.py KeySet.check_confirmation",
    "federation/protocol/roster.py KeySet.confirmation",
    "federation/protocol/roster.py KeySet._statement",
    "federation/secagg/masks.py encode_name",
}
READY = {
    "federation/protocol/roster.py KeySet.check_all_ready",
    "federation/protocol/roster.py KeySet.check_ready",
    "federation/protocol/roster.py KeySet.ready",
    "federation/secagg/keys.py verify",
}
HELLOS = {
    "federation/protocol/roster.py KeySet.__init__",
    "federation/protocol/roster.py Roster.checked",
}
PAIRS = {
    "federation/protocol/roster.py KeySet.pair",
    "federation/protocol/roster.py KeySet.key_box",
    "federation/protocol/roster.py KeySet.made",
    "federation/protocol/roster.py KeySet.check_made",
    "federation/protocol/actions.py Keep.__init__",
    "federation/secagg/masks.py MaskContext.before",
    "federation/secagg/masks.py MaskContext.after",
    "federation/secagg/masks.py _Pair.__init__",
    "federation/secagg/masks.py _Pair.keystream",
    "base/randomness.py Keystreams.__init__",
    "base/randomness.py _check_key",
}
MODULES_OF_PAIRS = (
    "federation/secagg/pairs.py ",
    "federation/protocol/joining.py ",
    "federation/protocol/own_keys.py ",
)  # one key after another

KEPT = (roster._checked, roster.hello_digest, masks.name_field)
"""What is remembered of each client: another test may have run some of these sizes."""


def calls(action: Callable[[], object]) -> Counter[str]:
    """How often each of our functions is called, and how often each calls what is written in C."""
    counted: Counter[str] = Counter()

    def count(frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if code.co_filename.startswith(SOURCES) and event in ("call", "c_call"):
            called = f" -> {argument.__name__}" if event == "c_call" else ""
            # in Python 3.12 a comprehension is no function of its own
            counted[
                code.co_filename[len(SOURCES) + 1 :]
                + " "
                + COMPREHENSION.sub("", code.co_qualname)
                + called
            ] += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        action()
    finally:
        sys.setprofile(before)
    return counted


def grow_faster(make: Callable[[int], Callable[[], object]]) -> set[str]:
    """Our functions that are called, or call others, more than in proportion to the number of
    clients.
    """
    few, more, most = (calls(make(n)) for n in SIZES)
    # in proportion the second step is twice the first, with the square of the number it is four
    # times
    found = {name for name in most if most[name] - more[name] > 2.5 * (more[name] - few[name]) + 18}
    return {name.split(" -> ")[0] for name in found}


def a_run(n_clients: int, **settings: Any) -> Callable[[], object]:
    for kept in KEPT:
        kept.cache_clear()
    federation = make_federation(make_plan(n_clients, **settings))
    link: Link = Drops({("c1", 2)}) if settings.get("max_dropouts") else everything_arrives
    server, clients = federation.server(), federation.clients()
    return lambda: run_in_process(server, clients, link=link)


@pytest.mark.parametrize(
    "algorithm", [FASTLLOYD, MOMENTLLOYD], ids=lambda algorithm: algorithm.name
)
@pytest.mark.parametrize(
    "settings", [{}, {"max_dropouts": 1}, {"trust": TrustMode.SERVER_NOISE}], ids=str
)
def test_in_a_run_only_masks_readiness_and_confirmations_grow_with_the_square_of_the_clients(
    algorithm: AnyAlgorithm, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    starts_cheaply(monkeypatch)
    a_run(3, algorithm=algorithm, **settings)()  # what is computed once per process
    found = grow_faster(lambda n: a_run(n, algorithm=algorithm, **settings))
    assert found <= MASKS | NAMES | HELLOS | CONFIRMATIONS | READY
    assert found >= MASKS | HELLOS  # the count sees what it is to see


def test_with_pairwise_masks_the_keys_of_pairs_grow_with_the_square_as_well_and_nothing_else() -> (
    None
):
    a_run(3, masks=Masks.PAIRWISE)()
    found = grow_faster(lambda n: a_run(n, masks=Masks.PAIRWISE))
    others = found - MASKS - NAMES - HELLOS - CONFIRMATIONS - READY - PAIRS
    assert {name for name in others if not name.startswith(MODULES_OF_PAIRS)} == set()
    assert found >= PAIRS | HELLOS


@pytest.fixture(scope="module")
def members() -> list[PublicIdentity]:
    expires = datetime.now(UTC).date() + timedelta(days=30)
    return [PrivateIdentity.make(f"clinic-{i}", expires).public for i in range(SIZES[-1] + 1)]


def plan_of(texts: list[str]) -> Plan:
    """The last is the server's."""
    *clients, server = (PublicIdentity.from_toml(text, "a public file") for text in texts)
    return design_plan(
        MOMENTLLOYD,
        Domain(features=("x", "y"), lower=(0.0, 0.0), upper=(1.0, 1.0)),
        clients=tuple(client.client(100) for client in clients),
        server=server.server("sums.example.org:8443"),
        run_id=bytes(16),
        n_clusters=3,
        epsilon=1.0,
        public_seed=PublicSeed.from_int(1),
        max_dropouts=1,
        masks=Masks.PAIRWISE,
    )


def test_making_reading_checking_and_renewing_a_plan_grow_in_proportion(
    members: list[PublicIdentity],
) -> None:
    def work(n_clients: int) -> Callable[[], object]:
        texts = [public.to_toml() for public in (*members[:n_clients], members[-1])]

        def steps() -> None:
            parse_certificate.cache_clear()
            for kept in (
                gdp_mu,
                gdp_epsilon,
            ):  # another test may have asked for some of these sizes
                kept.cache_clear()
            plan = plan_of(texts)
            again = Plan.from_toml(plan.to_toml())
            again.check_networked()
            assert again.digest == plan.digest
            renew(again, run_id=bytes(15) + b"1", members=members[1:3])

        return steps

    work(SIZES[0])()
    assert grow_faster(work) == set()


def test_a_certificate_is_parsed_once_however_often_its_plan_is_checked(
    members: list[PublicIdentity],
) -> None:
    parse_certificate.cache_clear()
    plan = plan_of([public.to_toml() for public in members])
    for _ in range(3):
        Plan.from_toml(plan.to_toml()).check_networked()
    assert parse_certificate.cache_info().misses == len(members)
