"""`fastlloyd simulate`: who was included, and what is summed up."""

from pathlib import Path

import numpy as np
import pytest

from command_line import PAPERS, PUBLIC, Command, strict
from fastlloyd.federation.dealing import cap_of_each
from fastlloyd.federation.plan.plan import Plan


def test_simulate_names_who_was_included_in_every_round(fastlloyd: Command) -> None:
    options = (
        *PAPERS,
        "--clients",
        "4",
        "--iterations",
        "3",
        "--drop",
        "client-2@1",
        "--drop",
        "4@2+",
        "--out",
        "result",
    )
    code, out, _ = fastlloyd("simulate", "data.csv", *PUBLIC, *options)
    assert code == 0
    assert "Round 1: client-1, client-3, client-4; without client-2" in out
    assert "Round 3: client-1, client-2, client-3; without client-4" in out
    rounds = strict(Path("result/rounds.json").read_text())
    assert [set(r["included"]) for r in rounds] == [
        {"client-1", "client-3", "client-4"},
        {"client-1", "client-2", "client-3"},
        {"client-1", "client-2", "client-3"},
    ]
    plan = Plan.from_toml(Path("result/plan.toml").read_text())
    assert (plan.max_dropouts, plan.n_clients, plan.trust.value) == (2, 4, "client-noise")
    assert (plan.simulated, plan.mechanism.n_records) == (True, 500)
    assert {client.max_records for client in plan.clients} == {cap_of_each(500, 4)}
    assert (
        strict(Path("result/privacy.json").read_text())["federated"]["plan_digest"]
        == plan.digest.hex()
    )


def test_the_loss_of_a_simulation_may_be_missed_like_a_round(fastlloyd: Command) -> None:
    options = (
        *PAPERS,
        "--clients",
        "4",
        "--loss",
        "--iterations",
        "2",
        "--drop",
        "2@3",
        "--out",
        "result",
    )
    code, out, _ = fastlloyd("simulate", "data.csv", *PUBLIC, *options)
    assert code == 0
    assert "Loss: client-1, client-3, client-4; without client-2" in out
    assert "records of 3 of 4 clients." in " ".join(out.split())
    rounds = strict(Path("result/rounds.json").read_text())
    assert rounds[2] == {"round": 3, "included": ["client-1", "client-3", "client-4"], "of": "loss"}
    stated, plan = (
        strict(Path("result/privacy.json").read_text()),
        Plan.from_toml(Path("result/plan.toml").read_text()),
    )
    loss = plan.clustering.loss
    assert loss is not None
    assert stated["loss_estimate"]["included"] == ["client-1", "client-3", "client-4"]
    share = float(plan.share_scales(loss, plan.n_clients)[0]) * loss.unit(16)
    assert stated["loss_estimate"]["standard_error"] == pytest.approx(3**0.5 * share)


def test_many_features_and_clients_are_summed_up_on_screen_and_complete_in_the_files(
    fastlloyd: Command, here: Path
) -> None:
    X = np.random.default_rng(0).uniform(0, 1, (200, 23))
    np.savetxt(here / "wide.csv", X, delimiter=",")
    settings = (
        "--bounds",
        "0:1",
        "--n-records",
        "200",
        "-k",
        "2",
        "--trust",
        "server-noise",
        "--epsilon",
        "20",
    )
    _, out, _ = fastlloyd(
        "simulate", "wide.csv", *settings, "--clients", "15", "--drop", "15@1", "--out", "result"
    )
    assert "Round 1: 14 of 15 clients; without client-15" in out
    assert "Round 2: 15 of 15 clients\n" in out
    assert "3 more" in out
    said = " ".join(out.split())
    assert "This is a simulation: the guarantee holds against readers of the result only" in said
    assert "Trust:" not in said
    federated = strict(Path("result/privacy.json").read_text())["federated"]
    assert (federated["simulated"], federated["coalitions"]) == (True, [])
    [header, *rows] = Path("result/centroids.csv").read_text().splitlines()
    assert header.count(",") == 72
    assert len(rows) == 2
