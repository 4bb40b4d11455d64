"""Options and records that are refused, in one sentence and before anything is read or written."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from command_line import (
    BOUNDS,
    FIT,
    FROM_DATA,
    NEW,
    PAPERS,
    PUBLIC,
    SECRET_NUMBER,
    SECRET_TEXT,
    SIMULATE,
    Command,
    refused,
    tree,
)


@pytest.mark.parametrize(
    "option",
    [
        ("--alpha", "0.5"),
        ("--iterations", "3"),
        ("--min-count", "0"),
        ("--initialization", "halving"),
        ("--noise", "laplace"),
    ],
)
@pytest.mark.parametrize(
    "command", [("fit", "data.csv"), ("simulate", "data.csv", "--clients", "3")], ids=lambda c: c[0]
)
def test_settings_of_the_papers_algorithms_are_refused_where_momentlloyd_runs(
    fastlloyd: Command, command: tuple[str, ...], option: tuple[str, str]
) -> None:
    refused(
        fastlloyd(*command, *PUBLIC, *option),
        f"{option[0].lstrip('-')} has no effect: momentlloyd chooses its own settings",
    )


@pytest.mark.parametrize("share", ["0", "1", "nan", "1.5", "-0.1", "inf", "a"])
@pytest.mark.parametrize(
    "command", [["fit", "data.csv"], ["simulate", "data.csv", "--clients", "3"]]
)
def test_a_share_of_the_loss_that_is_none_is_refused(
    fastlloyd: Command, command: list[str], share: str
) -> None:
    code, out, err = fastlloyd(
        *command, *PUBLIC, "--loss", "--loss-share", share, "--out", "result"
    )
    assert (code, out) == (2, "")
    assert err.startswith("Error: ")
    assert "loss" in err
    assert err.count("\n") == 1
    assert not Path("result").exists()
    code, _, err = fastlloyd(*command, *PUBLIC, "--loss-share", "0.1")
    assert code == 2
    assert "--loss-share has an effect only with" in err


K2 = ("-k", "2")

REFUSED_DATA = {
    "missing file": (None, (), "no such file"),
    "empty": ("", (), "empty"),
    "header only": ("age,dose\n", (), "no records"),
    "text": (f"age,dose\n{SECRET_NUMBER},1\n{SECRET_TEXT},2\n", (), "not a number"),
    "missing cell": (f"age,dose\n{SECRET_NUMBER},\n", (), "missing"),
    "NaN": (f"age,dose\n{SECRET_NUMBER},nan\n", (), "line 2"),
    "inf": (f"age,dose\n{SECRET_NUMBER},inf\n", (), "not a finite number"),
    "short row": (f"age,dose\n1,2\n{SECRET_NUMBER}\n", (), "line 3"),
    "not text": ("age,dose\n\udcff\udcfe,1\n", (), "UTF-8"),
    "repeated names": (f"age,age\n{SECRET_NUMBER},1\n", (), "'age'"),
    "k above the number of records": (f"age,dose\n{SECRET_NUMBER},1\n", (), "fewer records"),
    "bounds of huge values": (
        f"age,dose\n{SECRET_NUMBER}e303,1\n-{SECRET_NUMBER}e303,1\n",
        (),
        "'age'",
    ),
    "bounds of near values": (
        f"age,dose\n{SECRET_NUMBER}00001,1\n{SECRET_NUMBER},1\n",
        (),
        "'age'",
    ),
    "above the cap": (f"age,dose\n{SECRET_NUMBER},1\n1,1\n1,1\n", ("--n-records", "2"), "cap of 2"),
}

REFUSED = {
    "no data": (("fit",), "DATA"),
    "no k": (("fit", "data.csv"), "--n-clusters"),
    "k of 0": (("fit", "data.csv", "-k", "0"), "--n-clusters"),
    "k above the cap": (
        ("fit", "data.csv", *BOUNDS, "--n-records", "300", "-k", "301"),
        "n_clusters is 301",
    ),
    "epsilon of 0": ((*FIT, "--epsilon", "0"), "epsilon is 0"),
    "epsilon below 0": ((*FIT, "--epsilon=-1"), "epsilon is -1"),
    "epsilon of nan": ((*FIT, "--epsilon", "nan"), "--epsilon is 'nan'; expected a number"),
    "epsilon of inf": ((*FIT, "--epsilon", "inf"), "--epsilon is 'inf'; expected a number"),
    "epsilon of text": ((*FIT, "--epsilon", "one"), "--epsilon is 'one'; expected a number"),
    "k of text": (
        ("fit", "data.csv", "-k", "four"),
        "--n-clusters is 'four'; expected a whole number, 1 or more",
    ),
    "clients without end": (
        (*SIMULATE[:-1], "2000"),
        "--clients is '2000'; expected a whole number from 1 to 1000",
    ),
    "columns twice": (
        (*FIT, "--columns", "age", "--columns", "dose"),
        "--columns is given 2 times; give all values in one list",
    ),
    "bounds twice": ((*FIT, *BOUNDS), "--bounds is given 2 times"),
    "k twice": ((*FIT, "--n-clusters", "4"), "--n-clusters is given 2 times"),
    "features of a plan twice": ((*NEW, "--features", "x"), "--features is given 2 times"),
    "a folder of labels twice": (
        ("assign", "r", "data.csv", "--out", "a", "--out", "b"),
        "--out is given 2 times",
    ),
    "clipping and not": ((*FIT, "--clipping", "--no-clipping"), "--clipping is given 2 times"),
    "delta of 1": ((*FIT, "--delta", "1"), "delta is 1"),
    "delta of 0": ((*FIT, "--delta", "0"), "delta is 0"),
    "delta of nan": ((*FIT, "--delta", "nan"), "--delta is 'nan'; expected a number"),
    "delta without use": (
        (*FIT, "--algorithm", "sulloyd", "--delta", "1e-6"),
        "--delta has no effect: sulloyd has",
    ),
    "delta of Laplace noise": (
        (*FIT, *PAPERS, "--noise", "laplace", "--delta", "1e-6"),
        "--delta has no effect: fastlloyd with",
    ),
    "epsilon without use": (
        (*FIT, "--algorithm", "lloyd", "--epsilon", "1"),
        "--epsilon has no effect: lloyd adds no noise",
    ),
    "delta without noise": (
        (*FIT, "--algorithm", "lloyd", "--delta", "1e-6"),
        "--delta has no effect: lloyd adds no noise",
    ),
    "more expected than allowed": (
        (*FIT, "--n-expected", "501"),
        "n_expected is 501, above n_records",
    ),
    "more expected of a plan than allowed": (
        (*NEW, "--n-expected", "101"),
        "n_expected is 101, above n_records",
    ),
    "bounds equal": (("fit", "data.csv", *K2, *PUBLIC[2:4], "--bounds", "5:5"), "equal"),
    "bounds reversed": (("fit", "data.csv", *K2, *PUBLIC[2:4], "--bounds", "5:1"), "reversed"),
    "bounds for one of two": (
        ("fit", "data.csv", *K2, *PUBLIC[2:4], "--bounds", "age=0:100", "--columns", "age,dose"),
        "'dose'",
    ),
    "bounds for a third": (
        ("fit", "data.csv", *K2, *PUBLIC[2:4], "--bounds", "age=0:100,dose=0:5,x=0:1"),
        "'x'",
    ),
    "bounds of nan": (("fit", "data.csv", *K2, *PUBLIC[2:4], "--bounds", "nan:5"), "LO:HI"),
    "bounds of text": (("fit", "data.csv", *K2, *PUBLIC[2:4], "--bounds", "wide"), "LO:HI"),
    "bounds in no file": (
        ("fit", "data.csv", *K2, *PUBLIC[2:4], "--bounds", "none.toml"),
        "none.toml",
    ),
    "unknown treatment of missing cells": ((*FIT, "--missing", "fill"), "missing"),
    "unknown treatment of values outside": ((*FIT, "--outside", "refuze"), "did you mean 'refuse'"),
    "template of no file": (("bounds", "template", "none.csv"), "none.csv: there is no such file"),
    "template of an unknown column": (
        ("bounds", "template", "data.csv", "--columns", "dosis"),
        "did you mean 'dose'",
    ),
    "template in place of the data": (
        ("bounds", "template", "data.csv", "--out", "data.csv", "--force"),
        ".toml",
    ),
    "template without a file to replace": (("bounds", "template", "data.csv", "--force"), "--out"),
    "unknown column": ((*FIT, "--columns", "age,dosis"), "did you mean 'dose'"),
    "unknown algorithm": ((*FIT, "--algorithm", "fastloyd"), "did you mean 'fastlloyd'"),
    "unknown preset": ((*FIT, "--preset", "papr"), "did you mean 'paper'"),
    "unknown scaling": ((*FIT, "--scaling", "comon"), "did you mean 'common'"),
    "unknown relation": ((*FIT, "--neighboring-relation", "replace"), "neighboring_relation"),
    "unknown radius": ((*FIT, *PAPERS, "--radius", "steps"), "did you mean 'step'"),
    "unknown noise": ((*FIT, *PAPERS, "--noise", "gausian"), "did you mean 'gaussian'"),
    "no noise": ((*FIT, *PAPERS, "--noise", "none"), "lloyd"),
    "unknown postprocessing": ((*FIT, *PAPERS, "--postprocessing", "flod"), "did you mean 'fold'"),
    "unknown initialization": ((*FIT, *PAPERS, "--initialization", "random"), "initialization"),
    "unknown option": ((*FIT, "--epsilom", "1"), "no option --epsilom; did you mean --epsilon?"),
    "scikit-learn's name of the seed": (
        (*FIT, "--random-state", "1"),
        "no option --random-state; did you mean --public-seed?",
    ),
    "an option like none": ((*FIT, "-x"), "no option -x; --help lists the options"),
    "unknown command": (("fitt", "data.csv"), "fit"),
    "a needed option is left out": (
        ("fit", "data.csv"),
        "--n-clusters is missing (number of clusters); --help says more",
    ),
    "a needed file is left out": (
        ("plan", "explain"),
        "PLAN is missing (a plan); --help says more",
    ),
    "two files": (
        (*FIT, "more.csv"),
        "'more.csv' is one argument too many; expected DATA; for several files name their folder",
    ),
    "two plans": (
        ("plan", "explain", "a.toml", "b.toml"),
        "'b.toml' is one argument too many; expected PLAN",
    ),
    "an argument for none": (
        ("demo", "data.csv"),
        "'data.csv' is one argument too many; expected options only",
    ),
    "alpha of 0": ((*FIT, "--alpha", "0"), "alpha"),
    "no iterations": ((*FIT, "--iterations", "0"), "--iterations"),
    "min-count of nan": ((*FIT, *PAPERS, "--min-count", "nan"), "--min-count is 'nan'"),
    "min-count below 0": ((*FIT, *PAPERS, "--min-count=-1"), "min_count"),
    "cap of 0": (("fit", "data.csv", *BOUNDS, *K2, "--n-records", "0"), "n_records is 0"),
    "none expected": (
        (*FIT, "--n-expected", "0"),
        "n_expected is 0; expected 1 or more, an honest guess",
    ),
    "seed too large": ((*FIT, "--public-seed", "9" * 80), "seed"),
    "output exists": ((*FIT, "--out", "existing"), "existing"),
    "output is not ours": ((*FIT, "--out", "existing", "--force"), "mine.txt"),
    "output is a file": ((*FIT, "--out", "data.csv", "--force"), "is a file"),
    "output below a file": ((*FIT, "--out", "data.csv/result"), "data.csv"),
    "output where none can be": ((*FIT, "--out", "/proc/fastlloyd"), "/proc"),
    "cap of text": (
        ("fit", "data.csv", *BOUNDS, *K2, "--n-records", "many"),
        "--n-records is 'many'",
    ),
    "cap with a fraction": (
        ("fit", "data.csv", *BOUNDS, *K2, "--n-records", "5.5"),
        "or from-data",
    ),
    "cap of very many digits": (
        ("fit", "data.csv", *BOUNDS, *K2, "--n-records", "9" * 5000),
        "expected a whole number",
    ),
    "plan with bounds of no data": (
        ("plan", "new", *NEW[2:9], "--bounds", "from-data", *K2),
        "a plan needs --bounds",
    ),
    "plan with a cap of no data": (
        (*NEW, "--n-records", "from-data"),
        "no records to count",
    ),
    "nowhere and somewhere": ((*FIT, "--no-out", "--out", "result"), "leave one of them out"),
    "force for a new folder": ((*FIT, "--no-out", "--force"), "--force needs"),
    "picture without a folder": ((*FIT, "--no-out", "--plot-data"), "--out"),
    "force without a folder": ((*FIT, "--force"), "--out"),
    "no clients": ((*SIMULATE[:-1], "0"), "--clients"),
    "one client": ((*SIMULATE[:-1], "1"), "no share of noise"),
    "everyone colludes": ((*SIMULATE, "--max-colluding", "3"), "no share of noise"),
    "nobody colludes": ((*SIMULATE, "--max-colluding", "0"), "max_colluding is 0"),
    "drop of nobody": ((*SIMULATE, "--drop", "client-9@1"), "client-9@1"),
    "drop without a round": ((*SIMULATE, "--drop", "client-1"), "CLIENT@ROUND"),
    "drop after the run": ((*SIMULATE, "--drop", "1@999"), "round 999"),
    "drops above the tolerated": (
        (*SIMULATE, "--drop", "1@1", "--max-dropouts", "0"),
        "without a result",
    ),
    "shares of Laplace noise": ((*SIMULATE, "--algorithm", "sulloyd"), "server-noise"),
    "a federated run without noise": ((*SIMULATE, "--algorithm", "lloyd"), "protects nobody"),
    "unknown trust": ((*SIMULATE, "--trust", "client"), "did you mean 'client-noise'"),
    "odd ring": ((*SIMULATE, "--ring-bits", "16"), "ring_bits is 16"),
    "plan without bounds": ((*NEW[:9], "-k", "2"), "--bounds"),
    "plan without a server": (("plan", "new", *NEW[3:]), "needs --server FILE"),
    "plan of which half the clients are enough": (
        (*NEW, "--client", "c:50", "--client", "d:50", "--max-dropouts", "2", "--masks", "group"),
        "max_dropouts is 2 of 4 clients; expected at most 1",
    ),
    "plan whose clients may be missing, nobody knows when": (
        (*NEW, "--client", "c:50", "--max-dropouts", "1"),
        "--masks pairwise or --masks group",
    ),
    "simulation whose clients may be missing": (
        (*SIMULATE, "--max-dropouts", "1"),
        "--masks pairwise or --masks group",
    ),
    "plan with an odd client": ((*NEW, "--client", "c"), "NAME:CAP"),
    "plan with an odd name": ((*NEW, "--client", "c d:5"), "c d"),
    "plan with one name twice": ((*NEW, "--client", "a:5"), "'a'"),
    "plan that exists": ((*NEW, "--out", "data.csv"), "data.csv"),
    "plan in the place of data": ((*NEW, "--out", "data.csv", "--force"), "not replaced"),
    "plan in no folder": ((*NEW, "--out", "none/plan.toml"), "none/plan.toml"),
    "no plan": (("plan", "show", "none.toml"), "none.toml"),
    "data for a plan": (("plan", "explain", "data.csv"), "data.csv"),
}


@pytest.mark.parametrize(
    "command", [("fit",), ("simulate", "--clients", "2")], ids=["fit", "simulate"]
)
@pytest.mark.parametrize("case", REFUSED_DATA)
def test_bad_records_are_refused_in_a_sentence_without_a_value_of_them(
    fastlloyd: Command, here: Path, case: str, command: Sequence[str]
) -> None:
    content, options, fragment = REFUSED_DATA[case]
    if content is not None:
        (here / "bad.csv").write_text(content, encoding="utf-8", errors="surrogateescape")
    before = tree(here)
    name, *more = command
    taken = [
        *(() if "--bounds" in options else FROM_DATA[:2]),
        *(() if "--n-records" in options else FROM_DATA[2:]),
    ]
    refused(fastlloyd(name, "bad.csv", *K2, *more, *taken, *options, "--out", "result"), fragment)
    assert tree(here) == before


@pytest.mark.parametrize("case", REFUSED)
def test_bad_settings_are_refused_in_a_sentence_and_nothing_is_written(
    fastlloyd: Command, here: Path, case: str
) -> None:
    (here / "existing").mkdir()
    (here / "existing" / "mine.txt").write_text("mine")
    arguments, fragment = REFUSED[case]
    before = tree(here)
    refused(fastlloyd(*arguments), fragment)
    assert tree(here) == before


def test_the_output_is_checked_before_the_records_are_read(fastlloyd: Command, here: Path) -> None:
    (here / "existing").mkdir()
    (here / "existing" / "mine.txt").write_text("mine")
    refused(fastlloyd("fit", "none.csv", *PUBLIC, "--out", "existing"), "existing")


@pytest.mark.parametrize(
    ("options", "fragment"),
    [
        (("--algorithm", "sulloyd", "--delta", "1e-6"), "--delta has no effect"),
        (("--algorithm", "lloyd", "--epsilon", "1"), "--epsilon has no effect"),
        (("--loss-share", "0.1"), "loss_share has an effect"),
        (("--algorithm", "lloyd", "--compare-non-private"), "--compare-non-private"),
        (("--epsilon", "-1"), "epsilon is -1"),
        (("--delta", "2"), "delta is 2"),
        ((*PAPERS, "--alpha", "9"), "alpha is 9"),
        (("--n-expected", "600"), "n_expected is 600"),
        (("--scaling", "comon"), "did you mean 'common'"),
        (("--outside", "refuze"), "did you mean 'refuse'"),
        ((*PAPERS, "--initialization", "halfing"), "did you mean 'halving'"),
    ],
)
@pytest.mark.parametrize(
    "command", [("fit",), ("simulate", "--clients", "2")], ids=["fit", "simulate"]
)
def test_options_are_checked_before_the_records_are_read(
    fastlloyd: Command, command: tuple[str, ...], options: tuple[str, ...], fragment: str
) -> None:
    name, *more = command
    refused(fastlloyd(name, "none.csv", *more, *PUBLIC, *options), fragment)


@pytest.mark.parametrize(
    ("options", "fragment"),
    [(("--trust", "server"), "server-noise"), (("--drop", "client-9@1"), "client-9")],
)
def test_options_of_a_federation_are_checked_before_the_records_are_read(
    fastlloyd: Command, options: tuple[str, ...], fragment: str
) -> None:
    refused(fastlloyd("simulate", "none.csv", "--clients", "2", *PUBLIC, *options), fragment)


@pytest.mark.parametrize(
    ("option", "fragment"),
    [
        (("--sep", ";"), "no option --sep; did you mean --separator?"),
        (("--delimiter", ";"), "did you mean --separator?"),
        (("--no-header",), "did you mean --header?"),
        (("--na-values", "-"), "did you mean --missing-words?"),
    ],
)
def test_options_of_other_programs_for_text_lead_to_those_of_this_one(
    fastlloyd: Command, option: tuple[str, ...], fragment: str
) -> None:
    refused(fastlloyd("fit", "data.csv", *PUBLIC, *option), fragment)


def test_a_cap_that_is_no_number_of_records_is_refused_by_its_name(fastlloyd: Command) -> None:
    refused(
        fastlloyd("fit", "data.csv", *PUBLIC[:2], "--n-records", "-5", "-k", "3"),
        "n_records is -5",
    )


def test_a_file_that_is_closed_to_this_user_is_named_with_a_remedy(
    fastlloyd: Command, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "closed.toml").touch()
    monkeypatch.setattr("os.access", lambda *_, **__: False)  # nothing is closed to root
    for command in (("plan", "show", "closed.toml"), ("check", "--key", "closed.toml")):
        refused(fastlloyd(*command), "closed.toml cannot be read (Permission denied)", "; ")
