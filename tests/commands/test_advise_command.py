"""`fastlloyd advise`: what to expect of a run, from public numbers."""

from pathlib import Path

import pytest

from command_line import FIT, Command, refused, strict, tree
from fastlloyd.errors import OutputError
from fastlloyd.mechanisms.catalogue import ALGORITHMS
from fastlloyd.reports import advice, advice_picture

ADVISE = ("advise", "--records", "2000", "--features", "4", "--clusters", "8")


def test_advise_says_what_to_expect_and_keeps_it(fastlloyd: Command, here: Path) -> None:
    code, out, err = fastlloyd(*ADVISE, "--algorithm", "fastlloyd", "--out", "advice")
    assert (code, err) == (0, "")
    read = strict(Path("advice/advise.json").read_text())
    for expected in (
        "fastlloyd: 2000 records, 4 features, 8 clusters",
        "mostly noise",
        "clear",
        "of 100",
        "Error bars do not account for",
        f"clear clusters is {read['least_epsilon']:g}.",
        f"clear clusters need {read['needed_records']} records",
    ):
        assert expected in " ".join(out.split())
    assert b"PNG" in Path("advice/advise.png").read_bytes()[:8]
    assert set(tree(here)) == {"data.csv", "advice", "advice/advise.json", "advice/advise.png"}


def test_advise_without_an_algorithm_is_about_momentlloyd(fastlloyd: Command) -> None:
    code, out, err = fastlloyd(*ADVISE)
    assert (code, err) == (0, "")
    for said in (
        "momentlloyd: 2000 records",
        "4 of 5 runs",
        "many kinds of records",
        "noise of a count",
    ):
        assert said in " ".join(out.split())
    federated = fastlloyd(*ADVISE, "--clients", "5", "--epsilons", "1")
    assert "5 clients, client-noise: bytes" in " ".join(federated.out.split())
    few = fastlloyd(
        "advise", "--records", "40", "--features", "20", "--clusters", "10", "--epsilons", "0.1"
    ).out
    assert "mostly noise" in few


BOUNDS = ("advise", "--records", "20000", "-k", "5", "--bounds", "AGE=0:100,CR=0:15")


def test_with_bounds_the_bars_are_in_the_units_of_the_columns(
    fastlloyd: Command, here: Path
) -> None:
    ran = fastlloyd(*BOUNDS, "--wanted-error", "AGE=2", "--wanted-error", "CR=0.4")
    assert ran.code == 0
    assert "bars in the units of the columns" in ran.out
    assert "bars of at most AGE 2, CR 0.4 is" in " ".join(ran.out.split())
    read = strict(fastlloyd(*BOUNDS, "--wanted-error", "AGE=2", "--json").out)
    age, cr = read["outlooks"][3]["bars"]
    assert age["size"] / 100 == pytest.approx(cr["size"] / 15)
    assert age["size"] == pytest.approx(100 * read["outlooks"][3]["bar"], rel=1e-3)
    assert read["wanted"]["outlook"]["bars"][0]["size"] <= 2
    assert read["question"]["bounds"] == {"AGE": [0, 100], "CR": [0, 15]}
    Path("bounds.toml").write_text("[bounds]\nAGE = [0, 100]\nCR = [0, 15]\n")
    from_file = (*BOUNDS[:-1], "bounds.toml", "--wanted-error", "AGE=2", "--json")
    assert strict(fastlloyd(*from_file).out) == read


def test_advise_on_a_federated_run_says_the_bytes_and_the_ring(fastlloyd: Command) -> None:
    options = (
        "--clients",
        "5",
        "--max-dropouts",
        "1",
        "--masks",
        "group",
        "--epsilons",
        "2,0.5",
        "--algorithm",
        "fastlloyd",
    )
    code, out, _ = fastlloyd(*ADVISE, *options)
    assert code == 0
    text = " ".join(out.split())
    for expected in ("5 clients, client-noise", "345", "380", "bits", "client-5", "--ring-bits 32"):
        assert expected in text
    read = strict(fastlloyd(*ADVISE, *options, "--json").out)
    assert all(o["required_bits"] <= 32 for o in read["outlooks"])
    assert (
        "--ring-bits 32" not in fastlloyd(*ADVISE, "--clients", "5", "--epsilons", "1").out
    )  # which needs more
    assert [o["epsilon"] for o in read["outlooks"]] == [0.5, 2]
    assert read["outlooks"][0]["client"]["sent_per_round"] == 345
    assert read["question"]["federation"]["trust"] == "client-noise"
    narrow = fastlloyd(
        *ADVISE, *options[:2], *options[-2:], "--trust", "server-noise", "--ring-bits", "32"
    ).out
    assert "ring of 32 bits" in " ".join(narrow.split())


def test_advise_reckons_with_the_loss_on_request(fastlloyd: Command) -> None:
    code, out, _ = fastlloyd(*ADVISE, "--loss", "--loss-share", "0.2")
    assert code == 0
    assert "noise of the loss per record: " in " ".join(out.split())
    with_loss, without = (
        strict(fastlloyd(*ADVISE, *more, "--json").out) for more in (("--loss",), ())
    )
    assert all(outlook["loss_noise"] > 0 for outlook in with_loss["outlooks"])
    assert all(outlook["loss_noise"] is None for outlook in without["outlooks"])
    assert with_loss["least_epsilon"] > without["least_epsilon"]
    refused(
        fastlloyd(*ADVISE, "--loss-share", "0.2"),
        "loss_share has an effect",
    )


def test_advise_prints_strict_json_and_nothing_else_on_stdout(fastlloyd: Command) -> None:
    code, out, err = fastlloyd(
        *ADVISE, "--json", "--algorithm", "SuLloyd", "--neighboring-relation", "replace-one"
    )
    read = strict(out)
    assert code == 0
    assert "verdict" in err
    question = advice.PlannedRun(
        n_records=2000, n_features=4, n_clusters=8, algorithm=ALGORITHMS["sulloyd"]
    )
    assert len(read["outlooks"]) == len(advice.EPSILONS)
    assert read["question"]["neighboring_relation"] == "replace_one"
    assert read["outlooks"][3]["count_noise"] > advice.forecast(question, 1.0).count_noise


def test_advise_says_where_nothing_helps(fastlloyd: Command) -> None:
    code, out, _ = fastlloyd(
        "advise", "--records", "30", "--features", "30", "-k", "15", "--epsilons", "1"
    )
    assert code == 0
    assert "mostly noise" in out
    assert "No epsilon up to 10" in out


def test_advise_replaces_only_an_earlier_advice(fastlloyd: Command) -> None:
    assert fastlloyd(*ADVISE, "--out", "advice").code == 0
    refused(fastlloyd(*ADVISE, "--out", "advice"), "--force")
    assert fastlloyd(*ADVISE, "--out", "advice", "--force").code == 0
    assert fastlloyd(*FIT, "--out", "result").code == 0
    refused(fastlloyd(*ADVISE, "--out", "result", "--force"), "not replaced")
    refused(fastlloyd(*FIT, "--out", "advice", "--force"), "not replaced")


def test_advise_without_matplotlib_writes_the_rest(
    fastlloyd: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(*_: object) -> bytes:
        raise OutputError("advise.png was left out because matplotlib is not installed")

    monkeypatch.setattr(advice_picture, "new_figure", missing)
    code, _, err = fastlloyd(*ADVISE, "--out", "advice")
    assert (code, err) == (
        0,
        "Warning: advise.png was left out because matplotlib is not installed\n",
    )
    assert [path.name for path in Path("advice").iterdir()] == ["advise.json"]


REFUSED_ADVICE = {
    "no numbers": (("advise",), "--records"),
    "no records": (("advise", "--records", "0", "--features", "1", "-k", "1"), "n_records is 0"),
    "records below 0": (("advise", "--records=-7", "--features", "1", "-k", "1"), "--records is '-7'"),
    "records of text": (("advise", "--records", "many", "--features", "1", "-k", "1"), "--records"),
    "no features": (("advise", "--records", "9", "--features", "0", "-k", "1"), "n_features is 0"),
    "no clusters": (("advise", "--records", "9", "--features", "1", "-k", "0"), "n_clusters is 0"),
    "more clusters than records": (("advise", "--records", "9", "--features", "1", "-k", "10"), "n_clusters is 10"),
    "epsilons of text": ((*ADVISE, "--epsilons", "small,large"), "expected numbers separated by commas"),
    "no epsilons": ((*ADVISE, "--epsilons", ""), "epsilons"),
    "an empty epsilon": ((*ADVISE, "--epsilons", "1,,2"), "epsilons '1,,2'"),
    "epsilon of 0": ((*ADVISE, "--epsilons", "0,1"), "epsilon is 0"),
    "epsilon of nan": ((*ADVISE, "--epsilons", "nan"), "epsilons 'nan'"),
    "epsilon of inf": ((*ADVISE, "--epsilons", "1,inf"), "epsilons '1,inf'"),
    "an epsilon twice": ((*ADVISE, "--epsilons", "1,1.0"), "twice"),
    "hopeless epsilon": ((*ADVISE, "--epsilons", "1e-12", "--algorithm", "sulloyd"), "epsilon 1e-12"),
    "delta of 1": ((*ADVISE, "--delta", "1"), "delta is 1"),
    "unknown algorithm": ((*ADVISE, "--algorithm", "fastloyd"), "did you mean 'fastlloyd'"),
    "no noise": ((*ADVISE, "--algorithm", "lloyd"), "lloyd adds no noise"),
    "unknown relation": ((*ADVISE, "--neighboring-relation", "x"), "neighboring_relation"),
    "unknown trust": ((*ADVISE, "--clients", "3", "--trust", "client"), "did you mean 'client-noise'"),
    "trust in nobody": ((*ADVISE, "--trust", "client-noise"), "--clients"),
    "a ring of nobody": ((*ADVISE, "--ring-bits", "32"), "--clients"),
    "no clients": ((*ADVISE, "--clients", "0"), "n_clients is 0"),
    "one client": ((*ADVISE, "--clients", "1"), "no share of noise"),
    "odd ring": ((*ADVISE, "--clients", "3", "--ring-bits", "16"), "ring_bits is 16"),
    "a narrow ring": (("advise", "--records", "9999999", *ADVISE[3:], "--clients", "3", "--ring-bits", "32"), "ring"),
    "shares of Laplace noise": ((*ADVISE, "--clients", "3", "--algorithm", "sulloyd"), "server-noise"),
    "force without a folder": ((*ADVISE, "--force"), "--out"),
    "a file in the way": ((*ADVISE, "--out", "data.csv"), "is a file"),
    "data": ((*ADVISE, "data.csv"), "data.csv"),
    "no features and no bounds": ((*ADVISE[:3], "-k", "2"), "--features is missing"),
    "bounds without names": ((*ADVISE[:3], "-k", "2", "--bounds", "0:1"), "n_features is missing"),
    "bounds of others": ((*BOUNDS, "--features", "3"), "n_features is 3, and bounds are stated for 2"),
    "bounds the wrong way": ((*BOUNDS[:-1], "AGE=9:1"), "AGE"),
    "a wish without a size": ((*BOUNDS, "--wanted-error", "AGE"), "expected NAME=SIZE"),
    "a wish of text": ((*BOUNDS, "--wanted-error", "AGE=small"), "expected NAME=SIZE"),
    "a wish of 0": ((*BOUNDS, "--wanted-error", "AGE=0"), "wanted error of 'AGE' is 0"),
    "a wish for another": ((*BOUNDS, "--wanted-error", "AGES=1"), "did you mean 'AGE'"),
    "a wish without bounds": ((*ADVISE, "--wanted-error", "x1=1"), "state bounds"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED_ADVICE)
def test_numbers_that_no_run_could_have_are_refused(
    fastlloyd: Command, here: Path, case: str
) -> None:
    arguments, fragment = REFUSED_ADVICE[case]
    before = tree(here)
    refused(fastlloyd(*arguments), fragment)
    assert tree(here) == before
