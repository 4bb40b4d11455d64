"""Tests of specifications: the trials that they ask for, refused values, and the content that their
digest covers.
"""

import math
import re
import signal
import sys
from pathlib import Path

import numpy as np
import pytest

from clone import ROOT
from fastlloyd.errors import FastLloydError, PlanError
from fastlloyd_lab.datasets import CATALOGUE
from fastlloyd_lab.experiments.measures import FIGURES, MEASURES
from fastlloyd_lab.experiments.methods import METHODS, load_method
from fastlloyd_lab.experiments.problem import make_problem
from fastlloyd_lab.experiments.spec import expand, read, trials
from fastlloyd_lab.experiments.trial import Trial

HEAD = """
title = "t"
runs = 2
epsilons = [0.1, 1]
measures = ["nicv"]
"""
GRID = """
[[grid]]
datasets = ["sets.py:{one,two}"]
methods = ["lloyd", "fastlloyd"]
[grid.options]
alpha = [0.4, 0.8]
"""
QUICK = """
[quick]
runs = 1
"""
SETS = "import numpy as np\none = two = (np.arange(20.0).reshape(10, 2) ** 2, 2)\n"

PUBLIC = "ebfa252ebcae0cfb44d7d7470f408d7ca41602a6979be44fef0cd7507961d1ca"
NOISE = "8b9907577a601cfcb51379ac41c945811f34eb577920fb1383f0c005fc86b091"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "sets.py").write_text(SETS)
    return tmp_path


def write(folder: Path, text: str) -> Path:
    path = folder / "spec.toml"
    path.write_text(text)
    return path


def asked(folder: Path, text: str, *, quick: bool = False) -> list[Trial]:
    return trials(read(write(folder, text), quick=quick), folder)


def test_every_trial_is_asked_for_once_and_in_order(folder: Path) -> None:
    found = asked(folder, HEAD + GRID)
    told = [(t.dataset, t.method, t.epsilon, t.options.get("alpha"), t.run) for t in found]
    expected = [
        (name, method, epsilon, alpha, run)
        for name in ("sets.py:one", "sets.py:two")
        for method, alphas, epsilons in (
            ("lloyd", [None], [math.inf]),
            ("fastlloyd", [0.4, 0.8], [0.1, 1.0]),
        )
        for alpha in alphas
        for epsilon in epsilons
        for run in (0, 1)
    ]
    assert told == expected
    assert len({trial.key for trial in found}) == len(found)


def test_a_method_that_is_not_private_runs_once_for_all_epsilons_and_takes_none_of_the_others_options(
    folder: Path,
) -> None:
    lloyd = [
        trial
        for trial in asked(folder, HEAD + GRID)
        if trial.method == "lloyd" and trial.dataset == "sets.py:one"
    ]
    assert [(t.epsilon, t.delta, t.options, t.run) for t in lloyd] == [
        (math.inf, 0.0, {}, 0),
        (math.inf, 0.0, {}, 1),
    ]


def test_all_methods_share_the_public_seed_of_set_and_run_and_none_shares_its_noise(
    folder: Path,
) -> None:
    found = asked(folder, HEAD + GRID)
    public = {(t.dataset, t.run): t.public_seed for t in found}
    assert len(set(public.values())) == len(public) == 4
    assert all(t.public_seed == public[t.dataset, t.run] for t in found)
    assert len({t.noise_seed for t in found}) == len(found)


def test_the_seed_of_the_specification_changes_everything_that_is_drawn(folder: Path) -> None:
    first, second = (asked(folder, f"seed = {seed}\n{HEAD}{GRID}") for seed in (1, 2))
    assert [t.key for t in first] == [t.key for t in second]
    assert not {t.noise_seed for t in first} & {t.noise_seed for t in second}
    assert not {t.public_seed for t in first} & {t.public_seed for t in second}


def test_seeds_stay_what_they_were(folder: Path) -> None:
    """A later version may continue results on disk. So the seeds of a trial must not change
    unnoticed between versions.
    """
    trial = asked(folder, HEAD + GRID)[2]
    assert trial.key == '["sets.py:one", "fastlloyd", 0.1, {"alpha": 0.4}, 2, 0]'
    assert trial.public_seed.hex() == PUBLIC
    assert f"{trial.noise_seed:064x}" == NOISE


def test_a_grid_may_set_anew_what_the_specification_says(folder: Path) -> None:
    text = (
        HEAD
        + GRID
        + '\n[[grid]]\nruns = 3\nclients = 1\npreset = "default"\nepsilons = [2.0]\n'
        + 'datasets = ["sets.py:one"]\nmethods = ["glloyd"]\n'
    )
    own = [trial for trial in asked(folder, text) if trial.method == "glloyd"]
    assert [(t.run, t.clients, t.preset, t.epsilon) for t in own] == [
        (run, 1, "default", 2.0) for run in range(3)
    ]


def test_quick_sets_its_values_in_every_grid_and_its_own_grids_win(folder: Path) -> None:
    grid = '\n[[grid]]\nruns = 9\ndatasets = ["sets.py:one"]\nmethods = ["glloyd"]\n'
    assert {t.run for t in asked(folder, HEAD + GRID + grid + QUICK, quick=True)} == {0}
    other = '\n[[quick.grid]]\nruns = 4\ndatasets = ["sets.py:two"]\nmethods = ["sulloyd"]\n'
    found = asked(folder, HEAD + GRID + QUICK + other, quick=True)
    assert {(t.dataset, t.method, t.run) for t in found} == {
        ("sets.py:two", "sulloyd", run) for run in range(4)
    }


def test_quick_needs_a_table_of_that_name(folder: Path) -> None:
    with pytest.raises(PlanError, match=r"no \[quick\] table"):
        read(write(folder, HEAD + GRID), quick=True)


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ("runs = 2", "rums = 2", "key 'rums' is unknown .did you mean 'runs'"),
        ("methods", "method", r"in \[\[grid\]\], key 'method' is unknown .did you mean 'methods'"),
        ('"fastlloyd"', '"fastloyd"', "method 'fastloyd' is unknown .did you mean 'fastlloyd'"),
        ("alpha", "alhpa", "option 'alhpa' is unknown .did you mean 'alpha'"),
        ("0.8]", "9]", "option alpha is 9"),
        ("alpha = [0.4, 0.8]", 'radius = ["steps"]', "radius 'steps' is unknown"),
        ("alpha = [0.4, 0.8]", 'clipping = ["yes"]', "clipping is 'yes'; expected true or false"),
        ("alpha = [0.4, 0.8]", "alpha = [true]", "alpha is True"),
        ("alpha = [0.4, 0.8]", 'preset = ["papers"]', "preset 'papers' is unknown"),
        ("alpha = [0.4, 0.8]", 'initialization = ["half"]', "initialization 'half' is unknown"),
        ("alpha", "nicv", "option 'nicv' has the name of a column"),
        ("alpha", "seconds", "option 'seconds' has the name of a column"),
        ('"nicv"', '"nicw"', "measure 'nicw' is unknown .did you mean 'nicv'"),
        ("0.1, 1", "0.0", r"epsilons is \[0.0\]; expected a list of numbers above 0"),
        ("0.1, 1", "inf", r"epsilons is \[inf\]; expected a list of numbers"),
        (
            "[0.1, 1]",
            "[]",
            r"epsilons is \[\]; expected a list of numbers above 0 with one at least",
        ),
        ("[0.1, 1]", "0.5", "epsilons is 0.5; expected a list of numbers"),
        ("0.1, 1", "0.1, 'x'", r"epsilons is \[0.1, 'x'\]; expected a list of numbers"),
        ("runs = 2", "runs = 0", "runs is 0; expected a whole number from 1 to 100,000"),
        ("runs = 2", "runs = 2.0", "runs is 2.0; expected a whole number"),
        ("runs = 2", "", "runs is missing; add a whole number from 1 to 100,000"),
        (
            "runs = 2",
            "runs = 2\nclients = 0",
            "clients is 0; expected a whole number from 1 to 1,000",
        ),
        ("runs = 2", "runs = 2\nseed = true", "seed is true; expected a whole number"),
        ("runs = 2", "runs = 2\nfigures = 'curves'", "figures is 'curves'; expected a list"),
        ("runs = 2", "runs = 2\npreset = 1", "preset is 1; expected the name of a preset"),
        ("runs = 2", "runs = 2\nquick = 1", r"quick is 1; expected a table below a line \[quick\]"),
        (
            "[[grid]]",
            "[quick]\nrun = 1\n[[grid]]",
            r"in \[quick\], key 'run' is unknown .did you mean 'runs'",
        ),
        ("[[grid]]", "[quick]\nruns = 0\n[[grid]]", r"in \[quick\], runs is 0"),
        (
            "[[grid]]",
            "[[quick.grid]]\nmethods = ['lloyd']\n[[grid]]",
            r"in \[\[quick.grid\]\], datasets is missing",
        ),
        ("runs = 2", "runs = 2\nepsilon = 1", "key 'epsilon' is unknown .did you mean 'epsilons'"),
        (
            "[[grid]]",
            "[grid]",
            r"grid is a table; expected one table or more, each below a line \[\[grid\]\]",
        ),
        ("[[grid]]", "[[grid]]\nruns = -1", r"in \[\[grid\]\], runs is -1"),
        (
            '["lloyd", "fastlloyd"]',
            '"lloyd"',
            r"in \[\[grid\]\], methods is 'lloyd'; expected a list of names",
        ),
        (
            "alpha = [0.4, 0.8]",
            "alpha = 0.4",
            r"in \[\[grid\]\], option alpha is 0.4; expected a list",
        ),
        (
            "alpha = [0.4, 0.8]",
            "alpha = [1, 1.0]",
            "option alpha has one value in two spellings, 1 and 1.0; write",
        ),
        (
            "alpha = [0.4, 0.8]",
            "alpha = [0.8, '4/5']",
            "option alpha has one value in two spellings, 0.8 and '4/5'",
        ),
        ("alpha = [0.4, 0.8]", "rounds = [inf]", "option rounds is inf; expected a finite number"),
        ("epsilons = [0.1, 1]", "epsilons = [1" + "0" * 400 + "]", "."),
        ("runs = 2", "runs = 2\ndelta = 1.5", "delta is 1.5"),
        (
            "runs = 2",
            'runs = 2\ndelta = "papers"',
            """delta is 'papers'; expected a number above 0 and below 1, or "paper\"""",
        ),
        ("runs = 2", 'runs = 2\npreset = "papers"', "preset 'papers' is unknown"),
        ("{one,two}", "{one,two", "brace"),
        ("sets.py:{one,two}", "sets.py:three", "there is no 'three'"),
        ("sets.py:{one,two}", "absent.py:x", "does not exist"),
        ('"lloyd"', '"sets.py:one"', "is not a method"),
        ('title = "t"', "", "title is missing; add a text, such as title = "),
        ('title = "t"', "title = [", "not valid TOML"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_one_sentence(
    folder: Path, before: str, after: str, reason: str
) -> None:
    text = HEAD + GRID
    assert before in text
    with pytest.raises(FastLloydError, match=reason) as raised:
        asked(folder, text.replace(before, after, 1))
    assert "\n" not in str(raised.value)
    assert "$" not in str(raised.value)  # as the library that converts names places


def test_two_grids_may_ask_for_the_same_trial_but_not_in_two_ways(folder: Path) -> None:
    again = (
        '\n[[grid]]\ndatasets = ["sets.py:one"]\nmethods = ["fastlloyd"]\n[grid.options]\nalpha ='
        " [0.8]\n"
    )
    assert asked(folder, HEAD + GRID + again) == asked(folder, HEAD + GRID)
    with pytest.raises(PlanError, match="two grids ask"):
        asked(folder, HEAD + GRID + again.replace("datasets", "delta = 0.001\ndatasets"))


def test_two_grids_may_not_write_one_value_in_two_ways(folder: Path) -> None:
    other = (
        '\n[[grid]]\ndatasets = ["sets.py:two"]\nmethods = ["fastlloyd"]\n[grid.options]\nalpha ='
        ' ["0.80"]\n'
    )
    with pytest.raises(PlanError, match=r"0\.8 and '0\.80'"):
        asked(folder, HEAD + GRID + other)


def test_what_is_listed_twice_is_run_once(folder: Path) -> None:
    twice = (
        (HEAD + GRID).replace("[0.4, 0.8]", "[0.4, 0.8, 0.4]").replace("[0.1, 1]", "[0.1, 1, 1.0]")
    )
    assert asked(folder, twice) == asked(folder, HEAD + GRID)


def test_a_mark_of_byte_order_is_no_part_of_a_specification(folder: Path) -> None:
    path = write(folder, HEAD + GRID)
    before = read(path)
    path.write_bytes("\ufeff".encode() + path.read_bytes())
    assert read(path) == before


def test_two_methods_of_one_name_are_refused(folder: Path) -> None:
    (folder / "mine.py").write_text(
        "from fastlloyd_lab.experiments.methods import Method\n"
        "M, N = (Method(name='x', label=label, cluster=lambda p, s: None) for label in 'mn')\n"
    )
    with pytest.raises(PlanError, match=r"have.*name 'x'"):
        asked(folder, HEAD + GRID.replace('"lloyd"', '"mine.py:{M,N}"'))


@pytest.mark.parametrize(
    "path", sorted((ROOT / "lab/paper").glob("*.toml")), ids=lambda path: path.name
)
@pytest.mark.parametrize("quick", [False, True])
def test_the_papers_specifications_can_be_read(path: Path, quick: bool) -> None:
    assert read(path, quick=quick).title


def test_the_page_on_data_sets_fetches_what_the_papers_specifications_need_and_no_more() -> None:
    page = (ROOT / "docs/how-to/data-sets.md").read_text()
    (part,) = re.findall(r"### What make paper needs\n+```sh\n(.*?)```", page, re.DOTALL)
    fetched = {name for word in part.split() for name in expand(word)} & CATALOGUE.keys()
    specs = [read(path) for path in (ROOT / "lab/paper").glob("*.toml")]
    words = [word for spec in specs for grid in spec.grid for word in grid.datasets]
    named = {name for word in words for name in expand(word)} & CATALOGUE.keys()
    assert fetched == {name for name in named if CATALOGUE[name].bundled is None}


def test_a_specification_that_is_not_there_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"absent\.toml cannot be"):
        read(tmp_path / "absent.toml")


def test_a_figure_that_there_is_not_is_refused_before_anything_is_run(tmp_path: Path) -> None:
    path = tmp_path / "spec.toml"
    path.write_text(
        'title = "t"\nfigures = ["curve"]\nruns = 1\nepsilons = [1.0]\nmeasures = ["nicv"]\n'
        '[[grid]]\ndatasets = ["synthk-2-1"]\nmethods = ["lloyd"]\n'
    )
    with pytest.raises(PlanError, match="figure 'curve' is"):
        read(path)


def test_a_method_of_ones_own_may_not_have_the_name_of_the_products(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from fastlloyd_lab.experiments.methods import Method\n"
        "METHOD = Method(name='fastlloyd', label='Mine', cluster=lambda problem, setting: None)\n"
    )
    with pytest.raises(PlanError, match=r"name.*product's 'fastlloyd'"):
        load_method("mine.py:METHOD", tmp_path)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("sys.exit(3)", r"sys\.exit\(3\)"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("1 / 0", "Zero"),
    ],
)
def test_code_that_ends_the_process_when_it_is_loaded_is_refused_in_a_sentence(
    code: str, said: str, tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text(f"import sys\n{code}\n")
    with pytest.raises(PlanError, match=f"'mine.py:METHOD' cannot.*{said}"):
        load_method("mine.py:METHOD", tmp_path)


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_ctrl_c_while_code_is_loaded_ends_the_command(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("import signal\nsignal.raise_signal(signal.SIGINT)\n")
    # a job in the background was told to ignore it
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            load_method("mine.py:METHOD", tmp_path)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ("name=3", "name is 3; expected a text"),
        ("name=''", "name is ''; expected a text"),
        ("label=None", "label is None; expected a text"),
        ("cluster=None", "cluster is None; expected a function"),
        ("private='no'", "private is 'no'; expected True or False"),
        ("options='rounds'", "options is 'rounds'; expected names of options"),
    ],
)
def test_a_method_whose_record_holds_something_else_is_refused_by_its_field(
    changed: str, said: str, tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text(
        "from fastlloyd_lab.experiments.methods import Method\n"
        f"METHOD = Method(**(dict(name='mine', label='Mine', cluster=print) | dict({changed})))\n"
    )
    with pytest.raises(PlanError, match=f"'mine.py:METHOD': {said}"):
        load_method("mine.py:METHOD", tmp_path)


def test_too_many_trials_are_counted_before_any_is_made(folder: Path) -> None:
    many = (
        (HEAD + GRID)
        .replace("runs = 2", "runs = 100_000")
        .replace("[0.4, 0.8]", str([i / 100 for i in range(1, 301)]))
    )
    with pytest.raises(
        PlanError,
        match=("120,200,000 trials; expected"),
    ):
        asked(folder, many)


def test_what_all_trials_share_cannot_be_changed_by_a_method() -> None:
    problem = make_problem("mine", np.arange(20.0).reshape(10, 2), 2)
    for shared in (problem.X, problem.grid, problem.reference):
        with pytest.raises(ValueError, match="read-only"):
            shared[0, 0] = 1


def test_the_page_lists_all_methods_measures_figures_and_options_and_no_others() -> None:
    rows = re.findall(
        r"^\| `([a-z_-]+)` \| .* \| (.*) ?\|$",
        (ROOT / "docs/how-to/specifications.md").read_text(),
        re.MULTILINE,
    )
    listed = {name: set(re.findall("`([a-z]+)`", last)) for name, last in rows}
    assert listed.keys() == METHODS.keys() | MEASURES.keys() | set(FIGURES)
    assert {name: listed[name] for name in METHODS} == {
        name: set(method.options) for name, method in METHODS.items()
    }
