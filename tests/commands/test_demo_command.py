"""`fastlloyd demo`: both clusterings, and processes that fail."""

import socket
from pathlib import Path

import numpy as np
import pytest

from command_line import (
    Command,
    refused,
    strict,
    tree,
)
from fastlloyd import Lloyd
from fastlloyd.cli.commands import demo
from fastlloyd.cli.commands.demo import N_RECORDS
from fastlloyd.evaluation.metrics import nicv
from fastlloyd.evaluation.tumours import TUMOUR_BOUNDS, load_tumours
from fastlloyd.federation.plan.plan import Masks, Plan


def test_the_demo_shows_both_clusterings_and_their_true_losses_with_a_server_or_without(
    fastlloyd: Command, ledger_of_its_own: Path
) -> None:
    """Nobody picks the start, so no loss can be expected: the figures are computed again from what
    is shown.

    With a server in words, without one in JSON, its words on the other stream.
    """
    code, out, err = fastlloyd("demo", "--out", "result")
    assert (code, err) == (0, "")
    for expected in (
        "hospital-a, hospital-b, hospital-c",
        "Guarantee",
        "NICV",
        "NOT PRIVATE",
        "clusters.png",
        "new every time",
    ):
        assert expected in out
    plan = Plan.from_toml(Path("result/plan.toml").read_text())
    assert plan.trust.value == "client-noise"
    domain, tumours = plan.mechanism.domain, load_tumours().values
    X, half_width = domain.to_grid(tumours) / 2**16, domain.units * 2**16
    first_table = Path("result/centroids.csv").read_bytes()
    code, out, err = fastlloyd("demo", "--without-server", "--json", "--force", "--out", "result")
    assert code == 0
    for expected in ("hospital-a hosts", "Outside the guarantee", "NICV", "NOT PRIVATE"):
        assert expected in " ".join(err.split())
    shown = strict(out)
    hosted = Plan.from_toml(Path("result/plan.toml").read_text())
    assert (hosted.host, hosted.masks, hosted.trust.value) == (
        "hospital-a",
        Masks.PAIRWISE,
        "client-noise",
    )
    assert strict(Path("result/privacy.json").read_text())["federated"]["host"] == "hospital-a"
    start = hosted.clustering.public_seed
    centroids = (
        np.array([cluster["centroid"] for cluster in shown["clusters"]]) - domain.centre
    ) / half_width
    assert shown["nicv"]["momentlloyd"] == pytest.approx(nicv(X, centroids), rel=1e-9)
    plain = Lloyd(
        2, bounds=(domain.lower, domain.upper), n_records=N_RECORDS, random_state=int(start, 16)
    ).fit(tumours)
    assert shown["nicv"]["lloyd"] == pytest.approx(-plain.score(tumours) / len(tumours), rel=1e-9)
    assert "NOT PRIVATE" in shown["nicv"]["note"]
    assert start != plan.clustering.public_seed
    assert Path("result/centroids.csv").read_bytes() != first_table
    assert not ledger_of_its_own.exists()  # what is only shown is charged to nobody who tries it


def test_the_files_of_a_demo_can_be_kept_audited_and_looked_at(
    fastlloyd: Command, here: Path
) -> None:
    assert fastlloyd("demo", "--keep", "sites").code == 0
    store, file = "sites/hospital-b.store", "b.audit"
    assert fastlloyd("audit", store, "--export", file).code == 0
    assert fastlloyd("audit", file, "--verify", "sites/hospital-b.public.toml").code == 0
    assert ": finished" in fastlloyd("status", store).out
    assert (here / "sites").stat().st_mode & 0o777 == 0o700
    before = tree(here)
    refused(fastlloyd("demo", "--keep", "sites"), "--keep sites")
    assert tree(here) == before


def test_a_demo_in_which_a_process_fails_says_which_and_why_and_writes_nothing(
    fastlloyd: Command, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = tree(here)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        monkeypatch.setattr(demo, "free_address", lambda: address)
        refused(
            fastlloyd("demo", "--out", "result"),
            f"server failed: cannot listen at {address}: another",
        )
        hosted = fastlloyd("demo", "--without-server", "--out", "result")
        refused(
            hosted,
            f"hospital-a failed: the server did not start: cannot listen at {address}: another"
            " program listens",
        )
    assert tree(here) == before


@pytest.mark.parametrize("seed", range(20))
def test_two_clusters_of_the_demo_lose_less_than_half_of_what_one_does(seed: int) -> None:
    X = load_tumours().values
    lower, upper = zip(*TUMOUR_BOUNDS.values(), strict=True)
    one, two = (
        Lloyd(k, bounds=(lower, upper), n_records=N_RECORDS, random_state=seed).fit(X).score(X)
        for k in (1, 2)
    )
    assert two > one / 2  # scores are losses below 0
