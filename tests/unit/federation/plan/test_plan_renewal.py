"""The next plan is the same mechanism under another run id, with the public files and without the
clients that were named.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from designs import design_plan
from fastlloyd.base.randomness import PublicSeed
from fastlloyd.clustering.domain import Domain
from fastlloyd.errors import PlanError
from fastlloyd.federation.identity.identity import PrivateIdentity
from fastlloyd.federation.plan.design import renew
from fastlloyd.federation.plan.plan import Client, Masks, Plan, Timeouts, TrustMode
from fastlloyd.federation.plan.versions import PROTOCOL_VERSION
from fastlloyd.mechanisms.lloyd.algorithm import FASTLLOYD

NEXT = bytes(range(1, 17))
EXPIRES = datetime.now(UTC).date() + timedelta(days=50)
NAMES = ("a", "b", "c", "d")
PUBLIC = {name: PrivateIdentity.make(name, EXPIRES).public for name in (*NAMES, "sums")}


def plan(**changes: object) -> Plan:
    settings: dict[str, Any] = {
        "clients": tuple(Client(name=name, max_records=100 + i) for i, name in enumerate(NAMES)),
        "run_id": bytes(16),
        "n_clusters": 2,
        "epsilon": 8.0,
        "delta": 1e-6,
        "public_seed": PublicSeed.from_int(1),
        "n_iterations": 2,
    }
    domain = Domain(features=("x",), lower=(0.0,), upper=(1.0,), fraction_bits=16)
    return design_plan(FASTLLOYD, domain, **(settings | changes))


OLD = plan()


def test_nothing_changes_but_the_run_id() -> None:
    new = renew(OLD, run_id=NEXT)
    assert new == msgspec.structs.replace(OLD, run_id=NEXT.hex())
    assert new.digest != OLD.digest


def test_a_draft_becomes_a_plan_for_a_network_step_by_step_in_the_same_order() -> None:
    draft = renew(
        OLD, run_id=NEXT, members=[PUBLIC["c"], PUBLIC["a"]], server=PUBLIC["sums"].server("")
    )
    assert "no address" in draft.lacking
    whole = renew(
        draft,
        run_id=bytes(16),
        members=[PUBLIC["d"], PUBLIC["b"]],
        server=PUBLIC["sums"].server("h:1"),
        timeouts={"round": 5},
    )
    whole.check_networked()
    assert whole.clients == tuple(PUBLIC[name].client(100 + i) for i, name in enumerate(NAMES))
    assert whole.server == PUBLIC["sums"].server("h:1")
    assert whole.timeouts == msgspec.structs.replace(Masks.PAIRWISE.timeouts, round=5)
    assert whole.mechanism == OLD.mechanism


def test_a_new_public_file_takes_the_place_of_the_old_one_with_its_cap() -> None:
    old = renew(
        OLD,
        run_id=NEXT,
        members=[PUBLIC[name] for name in NAMES],
        server=PUBLIC["sums"].server("h:1"),
    )
    fresh = {name: PrivateIdentity.make(name, EXPIRES).public for name in ("b", "sums")}
    new = renew(old, run_id=bytes(16), members=[fresh["b"]], server=fresh["sums"].server("h:1"))
    assert new.clients == (old.clients[0], fresh["b"].client(101), *old.clients[2:])
    assert new.server == fresh["sums"].server("h:1")
    there = fresh["sums"].server("[::1]:2")
    moved = renew(new, run_id=NEXT, server=there, timeouts={"joining": 7})
    assert moved.server == there
    assert renew(moved, run_id=NEXT).timeouts.joining == 7


def test_who_is_left_out_is_gone_and_the_others_shares_of_the_noise_make_up_for_it() -> None:
    new = renew(OLD, run_id=NEXT, leave_out=["b"])
    assert new.names == ("a", "c", "d")
    assert new.mechanism == OLD.mechanism
    for exchange in OLD.mechanism.all_rounds:
        for share, total in zip(
            new.share_scales(exchange, new.n_clients),
            (p.scale for p in OLD.mechanism.parts(exchange)),
            strict=True,
        ):
            assert new.n_shares * share**2 >= total**2
    central = renew(plan(trust=TrustMode.SERVER_NOISE), run_id=NEXT, leave_out=["a", "b", "c"])
    assert central.names == ("d",)


def test_what_is_left_must_still_give_the_guarantee() -> None:
    with pytest.raises(PlanError, match=r"1 client;.*no share"):
        renew(OLD, run_id=NEXT, leave_out=["a", "b", "c"])
    with pytest.raises(PlanError, match="names 0 clients"):
        renew(OLD, run_id=NEXT, leave_out=NAMES)
    with pytest.raises(
        PlanError, match=r"^the plan has 2 clients; 1 may be absent .* and 1 may pool what they see"
    ):
        renew(plan(max_dropouts=1, masks=Masks.GROUP), run_id=NEXT, leave_out=["a", "b"])


@pytest.mark.parametrize("masks", Masks)
def test_w13_no_plan_is_renewed_whose_clients_could_be_led_to_two_results(
    masks: Masks,
) -> None:
    old = plan(max_dropouts=2, masks=masks)  # as it could be made before
    with pytest.raises(PlanError, match="max_dropouts is 2 of 4 clients; expected at most 1"):
        renew(old, run_id=NEXT)
    assert renew(plan(max_dropouts=1, masks=masks), run_id=NEXT).max_dropouts == 1
    clients = tuple(Client(name=name, max_records=50) for name in "abcdef")
    six = renew(plan(clients=clients, max_dropouts=2, masks=masks), run_id=NEXT)
    with pytest.raises(PlanError, match="max_dropouts is 2 of 5 clients; expected at most 1"):
        renew(six, run_id=NEXT, leave_out=["a"])


def test_names_that_are_not_in_the_plan_or_there_twice_are_refused() -> None:
    stranger = PrivateIdentity.make("e", EXPIRES).public
    with pytest.raises(
        PlanError,
        match=r"'e'.*`plan new`",
    ):
        renew(OLD, run_id=NEXT, members=[stranger])
    with pytest.raises(PlanError, match=r"client 'e'.*unknown"):
        renew(OLD, run_id=NEXT, leave_out=["e"])
    with pytest.raises(PlanError, match=r"client 'a'.*unknown"):
        renew(OLD, run_id=NEXT, leave_out=["a", "a"])
    with pytest.raises(PlanError, match=r"two public.*'a'"):
        renew(OLD, run_id=NEXT, members=[PUBLIC["a"], PUBLIC["a"]])
    with pytest.raises(PlanError, match="'a' is both"):
        renew(OLD, run_id=NEXT, members=[PUBLIC["a"]], leave_out=["a"])


# Masks


def test_masks_stay_unless_others_are_named_and_the_plan_becomes_one_that_runs() -> None:
    pairwise, group = plan(masks=Masks.PAIRWISE), plan(masks=Masks.GROUP)
    assert renew(pairwise, run_id=NEXT).masks is Masks.PAIRWISE
    assert renew(group, run_id=NEXT).masks is Masks.GROUP
    assert renew(pairwise, run_id=NEXT, masks=Masks.GROUP).masks is Masks.GROUP
    new = renew(group, run_id=NEXT, masks=Masks.PAIRWISE)
    assert new.masks is Masks.PAIRWISE
    assert new.protocol_version == PROTOCOL_VERSION


def test_with_other_masks_a_plan_waits_as_long_as_these_need_but_for_what_was_set() -> None:
    old = plan(masks=Masks.GROUP, timeouts=Timeouts(joining=5, round=600, confirming=7))
    new = renew(old, run_id=NEXT, masks=Masks.PAIRWISE)
    assert new.timeouts == Timeouts(joining=5, round=24 * 3600, confirming=7)
    assert renew(new, run_id=NEXT).timeouts == new.timeouts
    assert renew(new, run_id=NEXT, masks=Masks.GROUP).timeouts == Timeouts(
        joining=5, round=600, confirming=7
    )
    assert renew(old, run_id=NEXT, masks=Masks.PAIRWISE, timeouts={"round": 9}).timeouts.round == 9


def test_the_host_stays_unless_another_is_named_or_none_and_must_be_a_client() -> None:
    hosted = plan(masks=Masks.PAIRWISE, host="b")
    assert renew(hosted, run_id=NEXT, leave_out=["a"]).host == "b"
    assert renew(hosted, run_id=NEXT, leave_out=["b"], host="a").host == "a"
    assert renew(hosted, run_id=NEXT, leave_out=["b"], host="").host is None
    assert renew(renew(hosted, run_id=NEXT, host=""), run_id=NEXT, host="c").host == "c"
    for left_out, host in ((["b"], None), (["a"], "a"), ([], "e")):
        with pytest.raises(PlanError, match=f"host is '{host or 'b'}'"):
            renew(hosted, run_id=NEXT, leave_out=left_out, host=host)
    with pytest.raises(PlanError, match="group masks"):
        renew(hosted, run_id=NEXT, masks=Masks.GROUP)


def test_masks_with_which_there_would_be_more_shares_need_a_new_plan() -> None:
    with pytest.raises(PlanError, match="new --masks pairwise"):
        renew(plan(masks=Masks.GROUP, max_dropouts=1), run_id=NEXT, masks=Masks.PAIRWISE)
    fewer = renew(plan(masks=Masks.PAIRWISE, max_dropouts=1), run_id=NEXT, masks=Masks.GROUP)
    assert fewer.n_shares == 2
    served = plan(masks=Masks.GROUP, max_dropouts=1, trust=TrustMode.SERVER_NOISE)
    assert renew(served, run_id=NEXT, masks=Masks.PAIRWISE).masks is Masks.PAIRWISE
