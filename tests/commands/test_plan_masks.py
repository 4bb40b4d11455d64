"""`fastlloyd plan` with either kind of masks: what is said, what is shown, what is refused."""

import json
from pathlib import Path

import pytest

from command_line import NEW, Command, refused
from fastlloyd.federation.plan.plan import Masks, Plan, Timeouts

TEN = [
    "plan",
    "new",
    "--simulation",
    "--features",
    "age,dose",
    "--bounds",
    "age=0:100,dose=0:5",
    "-k",
    "2",
]
TEN += [part for i in range(10) for part in ("--client", f"c{i}:50")]


def read(file: str = "plan.toml") -> Plan:
    return Plan.from_toml(Path(file).read_text())


def test_with_pairwise_masks_it_is_said_what_a_lost_client_means(fastlloyd: Command) -> None:
    made = fastlloyd(*TEN, "--masks", "pairwise")
    assert made.code == 0
    for said in (
        "must answer every round",
        "stays spent",
        "24 hours",
        "with a probability of 90 %",
    ):
        assert said in made.out
    plan = read()
    assert plan.masks is Masks.PAIRWISE
    assert (plan.timeouts.round, plan.timeouts.confirming) == (24 * 3600, 24 * 3600)
    group = fastlloyd(*TEN, "--masks", "group", "--round-timeout", "77", "--force")
    assert group.code == 0
    assert "every round" not in group.out
    assert read().timeouts == Timeouts(round=77)


def test_a_pass_that_takes_long_makes_the_timeouts_longer_unless_they_are_given(
    fastlloyd: Command,
) -> None:
    day = 24 * 3600
    passes = ("--pass-seconds", "1000")
    assert fastlloyd(*TEN, "--masks", "pairwise", *passes).code == 0
    assert read().timeouts == Timeouts(
        joining=4600, dealing=60, round=day + 2000, confirming=day + 1000
    )
    assert (
        fastlloyd(
            *TEN,
            "--masks",
            "group",
            *passes,
            "--round-timeout",
            "77",
            "--dealing-timeout",
            "5",
            "--force",
        ).code
        == 0
    )
    assert read().timeouts == Timeouts(joining=4600, dealing=5, round=77, confirming=1600)
    assert fastlloyd("plan", "renew", "plan.toml", *passes).code == 0
    assert read("renewed.toml").timeouts == Timeouts(
        joining=4600, dealing=5, round=2600, confirming=1600
    )
    assert read("renewed.toml").timeouts.longest_pass == 1300
    too_long = fastlloyd(*TEN, "--masks", "pairwise", "--pass-seconds", "260000", "--force")
    assert (too_long.code, "a week" in too_long.err) == (2, True)
    assert fastlloyd(*TEN, "--masks", "pairwise", "--pass-seconds", "0", "--force").code == 2


def test_masks_and_host_stand_in_every_view(fastlloyd: Command) -> None:
    assert fastlloyd(*TEN, "--masks", "pairwise", "--host", "c3", "--max-colluding", "2").code == 0
    shown = json.loads(fastlloyd("plan", "show", "plan.toml", "--json").out)
    assert (shown["masks"], shown["host"]) == ("pairwise", "c3")
    assert "pairwise" in fastlloyd("plan", "show", "plan.toml").out
    explained = fastlloyd("plan", "explain", "plan.toml").out
    assert "pairwise masks" in explained
    assert "lient 'c3', which hosts the server, together with one further client" in explained
    assert fastlloyd("plan", "digest", "plan.toml", "--page", "page.txt").code == 0
    page = " ".join(Path("page.txt").read_text().split())
    assert "with pairwise masks. All 10 clients must join and must answer every round." in page
    assert "on the machine of c3" in page


def test_a_host_that_leaves_no_other_client_to_pool_is_warned_about_from_five_clients_on(
    fastlloyd: Command,
) -> None:
    assert "--max-colluding 2" in fastlloyd(*TEN, "--masks", "pairwise", "--host", "c3").err
    assert (
        "--max-colluding 2"
        not in fastlloyd(*NEW, "--masks", "pairwise", "--host", "a", "--out", "two.toml").err
    )


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--masks", "pairwise", "--host", "d1"], "host is 'd1'"),
        (["--masks", "group", "--host", "c1"], "'c1'"),
        (["--masks", "pairwise", "--host", "c1", "--trust", "server-noise"], "'c1'"),
        (["--masks", "pairwise", "--max-dropouts", "4", "--max-colluding", "6"], "max_colluding"),
        (["--masks", "pairwise", "--max-dropouts", "5"], "max_dropouts is 5"),
        (["--masks", "paired"], "masks 'paired' is unknown"),
    ],
)
def test_what_cannot_be_met_is_refused_in_one_sentence(
    fastlloyd: Command, options: list[str], named: str
) -> None:
    refused(fastlloyd(*TEN, *options), named)
    assert not Path("plan.toml").exists()


def test_pairwise_masks_are_refused_for_more_clients_than_the_largest_number(
    fastlloyd: Command,
) -> None:
    many = [part for i in range(301) for part in ("--client", f"c{i}:5")]
    refused(
        fastlloyd(*TEN[:9], *many, "--masks", "pairwise"), "names 301 clients; expected at most 300"
    )


def test_a_renewed_plan_keeps_its_masks_or_takes_those_named(fastlloyd: Command) -> None:
    assert fastlloyd(*TEN, "--masks", "group").code == 0
    assert fastlloyd("plan", "renew", "plan.toml").code == 0
    assert read("renewed.toml").masks is Masks.GROUP
    assert fastlloyd("plan", "renew", "plan.toml", "--masks", "pairwise", "--force").code == 0
    assert read("renewed.toml").masks is Masks.PAIRWISE
    assert read("renewed.toml").timeouts.round == 24 * 3600


def test_a_renewed_plan_keeps_its_host_or_takes_the_one_named(fastlloyd: Command) -> None:
    assert fastlloyd(*TEN, "--masks", "pairwise", "--host", "c3", "--max-colluding", "2").code == 0
    for n, (options, host) in enumerate(
        [([], "c3"), (["--host", "c4", "--leave-out", "c3"], "c4"), (["--host", ""], None)]
    ):
        assert fastlloyd("plan", "renew", "plan.toml", *options, "--out", f"{n}.toml").code == 0
        assert read(f"{n}.toml").host == host
    assert "which hosts the server" in fastlloyd("plan", "explain", "1.toml").out
    refused(fastlloyd("plan", "renew", "plan.toml", "--leave-out", "c3"), "host is 'c3'")
    refused(fastlloyd("plan", "renew", "2.toml", "--host", "c1", "--masks", "group"), "'c1'")


def test_a_certificate_that_ends_before_a_run_may_is_named(fastlloyd: Command) -> None:
    for name, days in (("a", "300"), ("b", "2"), ("server", "300")):
        assert fastlloyd("keygen", "--name", name, "--expires", days).code == 0
    parties = (
        "--member",
        "a.public.toml:50",
        "--member",
        "b.public.toml:50",
        "--server",
        "server.public.toml",
    )
    network = ("plan", "new", *parties, "--address", "localhost:8443", *TEN[3:9])
    said = fastlloyd(*network, "--masks", "pairwise").err
    assert "certificate of 'b' ends on" in said
    assert f"may take {(read().mechanism.n_rounds + 3) * 24} hours" in said
    assert "certificate of 'a'" not in said
    assert "ends on" not in fastlloyd(*network, "--masks", "group", "--force").err


def test_advice_with_pairwise_masks_names_two_who_may_pool_where_a_client_is_to_host(
    fastlloyd: Command,
) -> None:
    numbers = (
        "advise",
        "--records",
        "10000",
        "--features",
        "2",
        "--clusters",
        "2",
        "--epsilons",
        "1",
    )
    assert "--max-colluding 2" in fastlloyd(*numbers, "--clients", "5", "--masks", "pairwise").out
    for others in (
        ["--clients", "4"],
        ["--clients", "5", "--max-colluding", "2"],
        ["--clients", "5", "--trust", "server-noise"],
    ):
        assert "--max-colluding 2" not in fastlloyd(*numbers, *others, "--masks", "pairwise").out
    assert "--max-colluding 2" not in fastlloyd(*numbers, "--clients", "5", "--masks", "group").out
