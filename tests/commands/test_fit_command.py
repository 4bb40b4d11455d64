"""`fastlloyd fit`: what it shows, writes and guarantees."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from command_line import (
    BOUNDS,
    FROM_DATA,
    NEW,
    PAPERS,
    PUBLIC,
    START,
    Command,
    refused,
    strict,
    tree,
)
from fastlloyd.base.precision import measured
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.mechanisms import central
from fastlloyd.mechanisms.catalogue import read_mechanism
from fastlloyd.mechanisms.lloyd.mechanism import LloydMechanism
from kinds import lloyd_of


def test_momentlloyd_is_the_default_and_the_help_says_so_once(
    fastlloyd: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "250")
    said_in_help = " ".join(fastlloyd("fit", "--help").out.replace("│", " ").split())
    assert "'momentlloyd' is our own mechanism, the others are the paper's" in said_in_help
    for command in (("fit", "data.csv"), ("simulate", "data.csv", "--clients", "3")):
        code, out, err = fastlloyd(*command, *PUBLIC, "--out", "result", "--force")
        assert (code, err) == (0, "")
        assert "our own mechanism" not in " ".join(out.split())
        said = strict(Path("result/privacy.json").read_text())
        assert said["mechanism"] == "momentlloyd"
        assert said["units"]["sum"].startswith(
            "the radius of the round"
        )  # its sums are normalised: no grid units
        assert fastlloyd("assign", "result", "data.csv", "--out", "labels.csv", "--force").code == 0
    assert "default" not in fastlloyd("fit", "data.csv", *PUBLIC, *PAPERS).out
    fastlloyd(*NEW, "--out", "new.toml")
    assert Plan.from_toml(Path("new.toml").read_text()).mechanism.name == "momentlloyd"
    explained = fastlloyd("plan", "explain", "new.toml").out
    assert "asks for the number of records and for their mean" in " ".join(explained.split())
    assert (
        "were chosen, from public numbers only, by the table of momentlloyd's planner"
        in " ".join(explained.split())
    )


def test_the_guarantee_is_not_said_to_be_smaller_than_it_is(fastlloyd: Command) -> None:
    out = fastlloyd(
        "fit", "data.csv", *PUBLIC, "--epsilon", "1.0000004", "--delta", "1.2345644e-6", "--no-out"
    ).out
    assert (
        "Guarantee: differential privacy with epsilon = 1.00001, delta = 1.23457e-06, over"
        in " ".join(out.split())
    )


def test_fit_shows_centroids_guarantee_and_files_and_writes_them(
    fastlloyd: Command, here: Path
) -> None:
    code, out, err = fastlloyd(
        "fit", "data.csv", *PUBLIC, *START, "--epsilon", "10", "--out", "result"
    )
    assert (code, err) == (0, "")
    for expected in (
        "age",
        "dose",
        "noisy count",
        "epsilon = 10",
        "delta = 2e-05",
        "add_or_remove_one",
        "clusters.png",
    ):
        assert expected in out
    assert {p.name for p in (here / "result").iterdir()} == {
        "centroids.csv",
        "centroids.json",
        "privacy.json",
        "mechanism.toml",
        "result.html",
        "clusters.png",
    }
    table = np.loadtxt("result/centroids.csv", delimiter=",", skiprows=1, usecols=range(1, 7))
    X = np.loadtxt("data.csv", delimiter=",", skiprows=1)
    nearest = np.abs(X[:, :1] - [20, 50, 80]).argmin(axis=1)
    exact = np.array([X[nearest == j].mean(axis=0) for j in range(3)])
    centroids, errors = np.split(table[np.argsort(table[:, 0])][:, [0, 1, 3, 4]], 2, axis=1)
    # a tenth of what the features span: of 200 fits the largest were 1.6 and .15; each .6 and .05
    # more are ten times as rare
    assert (errors < [10, 0.5]).all()
    assert (
        np.abs(centroids - exact) < 7 * errors
    ).all()  # six normal deviates beyond 7 errors: 2e-11
    m = read_mechanism(Path("result/mechanism.toml").read_text())
    statement = strict(Path("result/privacy.json").read_text())
    assert (statement["epsilon"], statement["mechanism_digest"]) == (10, m.digest.hex())
    assert statement["taken_from_the_data"] == []


def test_json_is_all_there_is_on_stdout_and_agrees_with_the_files(fastlloyd: Command) -> None:
    code, out, err = fastlloyd("fit", "data.csv", *PUBLIC, "--json", "--out", "result")
    read = strict(out)
    assert code == 0
    assert "Guarantee" in err
    assert strict(Path("result/centroids.json").read_text())["clusters"] == read["clusters"]
    assert [cluster["cluster"] for cluster in read["clusters"]] == [0, 1, 2]
    assert read["privacy"] == strict(Path("result/privacy.json").read_text())
    assert sorted(read["files"]) == sorted(str(path) for path in Path("result").iterdir())
    assert read["leaks"] == []


@pytest.mark.parametrize("command", [("fit",), ("simulate", "--clients", "3")])
def test_the_public_seed_decides_the_start_and_never_the_noise(
    fastlloyd: Command, command: Sequence[str]
) -> None:
    name, *options = command

    def result(seed: str) -> Any:
        return strict(
            fastlloyd(
                name,
                "data.csv",
                *PUBLIC,
                *options,
                "--epsilon",
                "10",
                "--public-seed",
                seed,
                "--json",
            ).out
        )

    # clusters of 100 records, at epsilon 10: all centroids move, by noise of hundreds of grid units
    # in each of 6 coordinates
    first, second = result("7"), result("7")
    assert first["clusters"] != second["clusters"]
    mechanisms = []
    for seed in ("7", "7", "seven", "00" * 31 + "07"):
        fastlloyd("fit", "data.csv", *PUBLIC, "--public-seed", seed, "--out", "result", "--force")
        mechanisms.append(read_mechanism(Path("result/mechanism.toml").read_text()))
    assert mechanisms[0] == mechanisms[1] == mechanisms[3] != mechanisms[2]


@pytest.mark.parametrize(
    "command", [("fit",), ("simulate", "--clients", "2")], ids=["fit", "simulate"]
)
@pytest.mark.parametrize(
    ("given", "fragments"),
    [
        (
            (),
            (
                "--bounds is missing: state",
                "--n-records is missing: state",
                "--bounds from-data",
                "--n-records from-data",
            ),
        ),
        (
            BOUNDS,
            (
                "--n-records is missing: state a round number",
                "--n-records from-data",
            ),
        ),
        (
            ("--n-records", "500"),
            (
                "--bounds is missing: state the smallest",
                "bounds template",
                "--bounds from-data",
            ),
        ),
        (("--algorithm", "lloyd"), ("--bounds is missing", "--n-records is missing")),
    ],
    ids=["neither", "no cap", "no bounds", "lloyd"],
)
def test_what_is_not_stated_is_never_taken_from_the_data_unasked(
    fastlloyd: Command,
    here: Path,
    command: Sequence[str],
    given: Sequence[str],
    fragments: Sequence[str],
) -> None:
    name, *more = command
    before = tree(here)
    refused(fastlloyd(name, "data.csv", *more, "-k", "3", *given), *fragments)
    assert tree(here) == before


@pytest.mark.parametrize(
    "command", [("fit",), ("simulate", "--clients", "2")], ids=["fit", "simulate"]
)
@pytest.mark.parametrize(
    ("given", "taken"),
    [
        (FROM_DATA, ["bounds were", "n_records was"]),
        ((*BOUNDS, *FROM_DATA[2:]), ["n_records was"]),
        ((*FROM_DATA[:2], "--n-records", "500"), ["bounds were"]),
    ],
    ids=["both", "cap", "bounds"],
)
def test_what_is_taken_from_the_data_on_request_makes_the_result_not_private_wherever_that_is_said(
    fastlloyd: Command, command: Sequence[str], given: Sequence[str], taken: Sequence[str]
) -> None:
    name, *more = command
    code, out, err = fastlloyd(
        name, "data.csv", *more, "-k", "3", *given, "--json", "--out", "result"
    )
    warnings = [
        line.removeprefix("Warning: ") for line in err.splitlines() if line.startswith("Warning")
    ]
    assert code == 0
    assert (
        [any(w.startswith(t) for w in warnings) for t in taken]
        == [True] * len(taken)
        == [True] * len(warnings)
    )
    said, read = strict(Path("result/privacy.json").read_text()), strict(out)
    for statement in (said, read["privacy"]):
        assert statement["private"] is False
        assert statement["taken_from_the_data"] == warnings == read["leaks"]
        assert statement["protected"] == []
        assert statement["cautions"][0].startswith("NOT PRIVATE: settings were taken from the data")
    assert read["private"] is False
    text = " ".join(err.split())
    assert (
        "NOT PRIVATE: settings were taken from the data (see the warnings). If they were public,"
        " the guarantee would be" in text
    )
    assert "It would hide whether any single record is in the data" in text
    assert "Guarantee: " not in text
    for path in Path("result").iterdir():
        assert b"NOT PRIVATE" in path.read_bytes() or path.name == "rounds.json", path
    assert (
        Path(f"result/{'plan' if more else 'mechanism'}.toml")
        .read_text()
        .startswith("# NOT PRIVATE: settings were taken")
    )


def test_what_is_stated_makes_the_result_private_and_nothing_says_otherwise(
    fastlloyd: Command,
) -> None:
    _, out, err = fastlloyd("fit", "data.csv", *PUBLIC, "--json", "--out", "result")
    assert strict(out)["private"] is strict(out)["privacy"]["private"] is True
    assert "Warning" not in err
    assert "NOT PRIVATE" not in err
    assert not [path for path in Path("result").iterdir() if b"NOT PRIVATE" in path.read_bytes()]


def test_the_number_of_records_is_no_leak_where_the_relation_makes_it_public(
    fastlloyd: Command,
) -> None:
    given = (
        *BOUNDS,
        "--n-records",
        "from-data",
        "--neighboring-relation",
        "replace-one",
        "--json",
        "--no-out",
    )
    _, out, err = fastlloyd("fit", "data.csv", "-k", "3", *given)
    assert "Warning" not in err
    assert strict(out)["privacy"]["n_records_cap"] == 300
    assert strict(out)["private"] is True


@pytest.mark.parametrize(
    "command", [("fit",), ("simulate", "--clients", "2")], ids=["fit", "simulate"]
)
def test_the_number_of_records_leaks_under_every_relation_where_some_may_be_dropped(
    fastlloyd: Command, here: Path, command: Sequence[str]
) -> None:
    # One record is replaced by one with a missing cell, and the number that is published is
    # another.
    lines = (here / "data.csv").read_text().splitlines()
    lines[5] = ",1.5"
    (here / "gaps.csv").write_text("\n".join(lines))
    name, *more = command
    relation = ("--neighboring-relation", "replace-one")
    shared = (
        *more,
        "-k",
        "3",
        *BOUNDS,
        *FROM_DATA[2:],
        *relation,
        "--missing",
        "drop",
        "--json",
        "--no-out",
    )
    for data, n_records in (("data.csv", 300), ("gaps.csv", 299)):
        _, out, err = fastlloyd(name, data, *shared)
        privacy = strict(out)["privacy"]
        assert privacy["n_records_cap"] == n_records
        assert ["n_records" in leak for leak in privacy["taken_from_the_data"]] == [True]
        assert privacy["private"] is False
        assert "Warning: n_records was taken from the data" in err


def test_the_paper_preset_sets_what_the_paper_ran(fastlloyd: Command) -> None:
    fastlloyd("fit", "data.csv", *PUBLIC, "--preset", "paper", "--out", "central")
    m = LloydMechanism.from_toml(Path("central/mechanism.toml").read_text())
    assert (m.initialization.value, float(m.min_count)) == ("halving", 0)
    assert math.isclose(m.delta, 1 / (500 * math.log(500)), rel_tol=1e-15)
    fastlloyd(
        "simulate", "data.csv", *PUBLIC, "--preset", "paper", "--clients", "2", "--out", "federated"
    )
    plan = Plan.from_toml(Path("federated/plan.toml").read_text())
    assert (plan.trust.value, float(lloyd_of(plan).min_count)) == ("server-noise", 0)


def test_every_option_of_the_ablation_reaches_the_mechanism(fastlloyd: Command) -> None:
    options = (
        "--radius constant --alpha 0.5 --postprocessing truncate --no-clipping --noise laplace"
        " --min-count 2.5"
    )
    more = "--initialization halving --iterations 4 --n-expected 250 --scaling common"
    code, _, err = fastlloyd(
        "fit", "data.csv", *PUBLIC, *PAPERS, *options.split(), *more.split(), "--out", "result"
    )
    assert (code, err) == (0, "")
    m = LloydMechanism.from_toml(Path("result/mechanism.toml").read_text())
    a = m.algorithm
    words = (
        a.radius.value,
        a.postprocessing.value,
        a.noise.value,
        m.initialization.value,
        m.domain.scaling.value,
    )
    assert words == ("constant", "truncate", "laplace", "halving", "common")
    assert (float(a.alpha), a.clipping, float(m.min_count), len(m.rounds), m.n_expected) == (
        0.5,
        False,
        2.5,
        4,
        250,
    )


def test_the_loss_is_estimated_on_request_and_said_with_its_error_and_meaning(
    fastlloyd: Command,
) -> None:
    code, out, err = fastlloyd(
        "fit", "data.csv", *PUBLIC, "--loss", "--loss-share", "0.25", "--out", "result"
    )
    assert (code, err) == (0, "")
    text = " ".join(out.split())
    assert "Noisy estimate of the loss: " in text
    assert "the sum of squared distances to the nearest centroid, in squared half widths" in text
    assert "For each of 500 expected records it is" in text
    assert " of them move the centroids) and the loss together" in text
    m = read_mechanism(Path("result/mechanism.toml").read_text())
    assert float(m.loss_share) == pytest.approx(0.25, rel=1e-6)
    stated = strict(Path("result/privacy.json").read_text())["loss_estimate"]
    assert stated["value"] is not None
    assert "loss: " not in fastlloyd("fit", "data.csv", *PUBLIC).out
    assert (
        "Loss, NOT PRIVATE: "
        in fastlloyd("fit", "data.csv", *PUBLIC, "--loss", "--algorithm", "lloyd").out
    )


def test_a_negative_estimate_of_the_loss_is_left_as_it_is_and_explained(
    fastlloyd: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    genuine = central.cluster

    def unlucky(*arguments: Any) -> Any:
        return msgspec.structs.replace(genuine(*arguments), loss=-(10**6))

    monkeypatch.setattr(central, "cluster", unlucky)
    text = " ".join(fastlloyd("fit", "data.csv", *PUBLIC, "--loss").out.split())
    assert "Noisy estimate of the loss: -" in text
    assert "It is negative" in text


def test_lloyd_says_not_private_on_screen_and_in_every_file(fastlloyd: Command) -> None:
    code, out, _ = fastlloyd("fit", "data.csv", *PUBLIC, "--algorithm", "lloyd", "--out", "result")
    assert code == 0
    assert "NOT PRIVATE" in out
    assert "Guarantee" not in out
    for path in Path("result").iterdir():
        assert b"NOT PRIVATE" in path.read_bytes(), path
    assert (
        strict(fastlloyd("fit", "data.csv", *PUBLIC, "--algorithm", "lloyd", "--json").out)[
            "private"
        ]
        is False
    )


@pytest.mark.parametrize("postprocessing", ["none", "truncate"])
def test_centroids_outside_the_bounds_are_said_where_the_algorithm_leaves_them(
    fastlloyd: Command, monkeypatch: pytest.MonkeyPatch, postprocessing: str
) -> None:
    genuine = central.cluster

    def thrown_out(mechanism: LloydMechanism, *arguments: Any) -> Any:
        inside = np.zeros((3, 2), dtype=np.int64)
        outside = inside + np.array([[0], [1], [2]]) * mechanism.domain.half_widths
        centroids = outside if postprocessing == "none" else inside
        return msgspec.structs.replace(genuine(mechanism, *arguments), centroids=centroids)

    monkeypatch.setattr(central, "cluster", thrown_out)
    shared = ("fit", "data.csv", *PUBLIC, "--postprocessing", postprocessing)
    for algorithm in ("sulloyd", "glloyd"):
        text = " ".join(fastlloyd(*shared, "--algorithm", algorithm).out.split())
        said = (
            f"1 of 3 centroids lie outside the bounds, because {algorithm} does not move them;"
            " --postprocessing truncate"
        )
        assert (said in text) == (postprocessing == "none")


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (12.3456, 0.5612, "12.35 ± 0.56"),
        (30269.6, 170.3, "30270 ± 170"),
        (-1016.2, 19.4, "-1016 ± 19"),
        (2.5e9, 1.234e6, "2500000000 ± 1200000"),
        (1.2e-9, 3.4e-10, "(1.20 ± 0.34)e-09"),
        (2.5e12, 3.4e10, "(2.500 ± 0.034)e+12"),
        (0.0, 3.4e-10, "(0.0 ± 3.4)e-10"),
        (5.125, 0.0, "5.125"),
        (5.125, math.nan, "5.125"),
    ],
)
def test_a_value_and_its_error_have_the_same_decimals(
    value: float, error: float, text: str
) -> None:
    assert measured(value, error) == text


def test_an_error_of_hardly_anything_is_not_said_to_be_nothing(fastlloyd: Command) -> None:
    # At epsilon 10**6 the deviation of a centroid is a millionth of a half width; counts of 100
    # stay far above their noise.
    text = " ".join(fastlloyd("fit", "data.csv", *PUBLIC, *START, "--epsilon", "1e6").out.split())
    assert "less than 1%" in text


def test_noise_that_dominates_is_said(fastlloyd: Command) -> None:
    # Not said of 9 clusters only if 5 noisy counts lie 3, and 4 lie 1 standard deviation above
    # counts that are a tenth of one: 1e-15. At epsilon 50, from START, counts of 100 have noise of
    # less than 1.
    settings = [("--epsilon", "0.02", "-k", "9"), ("--epsilon", "50", "-k", "3", *START)]
    outs = [
        fastlloyd("fit", "data.csv", *BOUNDS, "--n-records", "500", *setting).out
        for setting in settings
    ]
    assert ["noise dominates" in out or "stayed in the last" in out for out in outs] == [
        True,
        False,
    ]


def test_centroids_that_all_stayed_are_said_to_be_worth_nothing(fastlloyd: Command) -> None:
    """With a floor of 10**9 records no count is large enough."""
    code, out, _ = fastlloyd(
        "fit", "data.csv", *PUBLIC, *PAPERS, "--min-count", "1e9", "--out", "result"
    )
    assert code == 0
    assert "3 of 3 centroids stayed" in out
    assert "Trust in the centroids" not in out
    assert all(
        line.split(",")[4:6] == ["", ""]
        for line in Path("result/centroids.csv").read_text().splitlines()[1:]
    )


def test_rounds_and_iterations_are_told_apart_in_words(fastlloyd: Command) -> None:
    out = " ".join(fastlloyd("fit", "data.csv", *PUBLIC, "--out", "result").out.split())
    said = strict(Path("result/privacy.json").read_text())
    assert len(said["rounds"]) == said["n_rounds"] > said["n_iterations"]
    assert (
        f"over all {said['n_rounds']} rounds ({said['n_iterations']} of them move the centroids)"
        " together" in out
    )
    assert (
        said["iterations_and_rounds"]
        == "a round is one noisy answer; an iteration is a round that moves the centroids"
    )
    out = " ".join(
        fastlloyd("fit", "data.csv", *PUBLIC, *PAPERS, "--iterations", "3", "--no-out").out.split()
    )
    assert "over all 3 iterations together" in out
