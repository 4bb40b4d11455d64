"""What pages tell people to type works: in the tutorial and the how-to pages in their order,
showing what the page shows.
"""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer

from clone import ROOT
from command_line import drawn_once
from fastlloyd.cli.app import COMMANDS, subcommand
from fastlloyd.cli.failures import run
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.reports import pictures
from ports import free_address
from questions import answered

# bounds that noise finds leave out about 2 % of the records, so it may warn by chance
pytestmark = pytest.mark.filterwarnings("ignore::fastlloyd.errors.ClippedRecordsWarning")

DOCS = ROOT / "docs"
ALL_PAGES = sorted(
    path.relative_to(ROOT).as_posix() for path in [*ROOT.glob("*.md"), *DOCS.glob("**/*.md")]
)
PAGES = [
    "for-approval.md",
    "gallery.md",
    "questions.md",
    "tutorial.md",
    "tutorial-sites.md",
    *(f"how-to/{path.name}" for path in sorted(DOCS.glob("how-to/*.md"))),
]
# here: about other programs' settings; for people at several machines; a server that goes on; with
# packages that are not here
NOTHING_TO_TYPE = {
    "how-to/app.md",
    "how-to/certificates.md",
    "how-to/fingerprints.md",
    "how-to/firewalls-and-proxies.md",
    "how-to/incidents.md",
    "how-to/install.md",
    "how-to/logs.md",
    "how-to/number-of-clusters.md",
    "how-to/operate-a-site.md",
    "how-to/prepare-a-study.md",
    "how-to/run-a-study.md",
    "how-to/server-as-a-service.md",
    "how-to/spark-and-ray.md",
    "how-to/specifications.md",
    "how-to/study-in-the-app.md",
    "how-to/when-a-study-stops.md",
}
BLOCK = re.compile(r"^ *```(python|console|toml|text)\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
COMMAND = re.compile(r"^ *\$ ((?:[A-Z_]+=\S+ )*)(\S+) (.*)\n((?: *[^ $].*\n)*)", re.MULTILINE)
DIGEST = "3f9c..."  # of the plan at hand
OF_OTHERS = {"--build-arg", "--hypothesis-seed"}
INSTALL = re.compile(r'-m pip install (?:"\.\[[a-z,]+\]"(?: pandas)?|\. \./lab)')


def _leaves(name: str, command: Any) -> Iterator[tuple[str, set[str]]]:
    """Every command below this one by its whole name, with its options."""
    if isinstance(command, typer.core.TyperGroup):
        for word, below in command.commands.items():
            yield from _leaves(f"{name} {word}", below)
    else:
        yield (
            name,
            {"--help"}.union(
                *(parameter.opts + parameter.secondary_opts for parameter in command.params)
            ),
        )


BEFORE = {"--version", "--debug", "--install-completion", "--show-completion", "--help"}
OPTIONS = dict(leaf for name in COMMANDS for leaf in _leaves(name, subcommand(name))) | {"": BEFORE}
OF_ANY: set[str] = set().union(*OPTIONS.values())


def _options(words: list[str]) -> set[str]:
    return {word.partition("=")[0] for word in words if re.match("--?[a-z]", word)}


def _patients() -> None:
    """A table of the holder's own."""
    rng = np.random.default_rng(3)
    rows = np.array([[30, 1], [50, 4], [75, 2]])[rng.integers(0, 3, 900)] + rng.normal(
        0, [4, 0.3], (900, 2)
    )
    np.savetxt(
        "patients.csv", rows.clip([0, 0], [100, 5]), delimiter=",", header="age,dose", comments=""
    )


def _gather() -> None:
    """What the other members sent to whoever makes the plan, and what the host has."""
    for name in ("clinic-b", "clinic-c", "clinic-d", "registry"):
        assert run(["keygen", "--name", name]) == 0
    Path("patients.csv").write_text("age,bmi,hba1c,systolic\n31,22.5,5.4,118\n54,31.0,7.1,141\n")
    Path("bounds.toml").write_text(
        "[bounds]\nage = [0, 100]\nbmi = [10, 60]\nhba1c = [3, 15]\nsystolic = [70, 220]\n"
    )


def _hospital() -> None:
    """The made-up table of a hospital."""
    make = [sys.executable, str(ROOT / "examples/hospital/make_table.py")]
    subprocess.run(make, check=True, capture_output=True)


BEFOREHAND = {
    "$ fastlloyd recipe new hospital.csv --force": _hospital,
    "$ fastlloyd ledger limit --dataset patients --new --epsilon 3 --delta 1e-5": _patients,
    "$ fastlloyd plan new --masks pairwise --host clinic-a --max-colluding 2 \\": _gather,
}  # what happened before a block that begins with this


def _words(text: str) -> str:
    """Words of a text, whatever its numbers and lines are."""
    return " ".join(re.sub(r"-?\d[\d.,e+-]*", "#", text).split())


def _lines(text: str) -> list[str]:
    """Words of each line, without the frame that only a terminal draws around a table."""
    return [" ".join(re.sub("[┃│]", " ", line).split()) for line in text.splitlines()]


@pytest.mark.parametrize("page", PAGES)
def test_everything_on_the_page_runs_in_its_order_and_shows_what_it_says(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every line below a command must be among those it prints; a comment after print must end in
    what is printed.

    The Python of a page is one session. A block of TOML is saved in the file that its first line
    names. A command with an error below it must be refused with that error. A block of text shows
    what was just printed, with other numbers, for the noise is new in every run; tables are left
    out, for their columns depend on it.
    """
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(pictures, "draw", drawn_once)
    port = free_address().rpartition(":")[2]
    blocks = BLOCK.findall((DOCS / page).read_text().replace(":8443", f":{port}"))
    assert len(blocks) > 2 or page in NOTHING_TO_TYPE or "/" not in page
    session: dict[str, object] = {}
    printed = ""
    for language, block in blocks:
        BEFOREHAND.get(block.partition("\n")[0], lambda: None)()
        capsys.readouterr()
        if language == "python":
            exec(compile(block, page, "exec"), session)  # noqa: S102 - our own documents
            shown = re.findall(r"^print.*: ([\d.]+)$", block, re.MULTILINE)
            printed = capsys.readouterr().out
            assert all(number in printed.split("\n") for number in shown), block
        elif language == "toml":
            Path(block.partition("\n")[0].removeprefix("# ")).write_text(block)
        elif language == "console" and "\n\n" in block:
            _answer(block, tmp_path)
        elif language == "console":
            printed = _type(block, monkeypatch, capsys)
        elif page not in NOTHING_TO_TYPE:
            said = "".join(
                line
                for line in block.splitlines(keepends=True)
                if not line.startswith((*"┏┃┡│└", "  ", "cluster "))
            )
            assert _words(said) in _words(printed), block


def test_every_page_with_commands_is_tried_here() -> None:
    """Those of the readme have a test of their own. A release is made by people, from a clone, and
    other libraries are compared in an environment of their own.
    """
    typed = {page for page in ALL_PAGES if "\n```console\n" in (ROOT / page).read_text()}
    here = {f"docs/{page}" for page in PAGES}
    assert typed - here == {"README.md", "docs/releasing.md", "docs/results/peers.md"}


def _answer(block: str, folder: Path) -> None:
    """Give a command the answers of a block, and compare the whole screen with it."""
    command, _, screen = block.partition("\n")
    left = iter(screen.splitlines())
    words = shlex.split(command.removeprefix("$ fastlloyd "))

    def reply(question: str) -> str:
        return next(line.removeprefix(question) for line in left if line.startswith(question))

    run_here = [sys.executable, "-m", "fastlloyd", *words]
    assert answered(run_here, folder, reply) == (0, screen)


def test_the_first_block_of_the_readme_runs_in_a_clone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    first = re.findall(
        r"^```console\n(.*?)^```$", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE
    )[0]
    made, fitted = first.splitlines()
    assert made == "$ make demo"
    assert "demo" in targets
    assert run(shlex.split(fitted.removeprefix("$ .venv/bin/fastlloyd "))) == 0
    assert (tmp_path / "first/centroids.csv").exists()


@pytest.mark.parametrize("page", ALL_PAGES)
def test_every_command_that_is_only_shown_exists_with_its_options(page: str) -> None:
    """Blocks of sh are for several people at several machines, or for other programs."""
    blocks = re.findall(
        r"^ *```(\w*)\n(.*?)^ *```$", (ROOT / page).read_text(), re.DOTALL | re.MULTILINE
    )
    shown = "".join(block for language, block in blocks if language in ("", "sh", "text"))
    for line in shown.replace("\\\n", " ").splitlines():
        if line.lstrip().startswith("fastlloyd "):
            words = shlex.split(line, comments=True)[1:]
            name = next((name for name in (" ".join(words[:2]), words[0]) if name in OPTIONS), None)
            assert name is not None, line
            assert _options(words) <= OPTIONS[name], line


@pytest.mark.parametrize("page", ALL_PAGES)
def test_every_command_and_option_in_the_sentences_of_a_page_exists(page: str) -> None:
    prose = re.sub(
        r"^ *```.*?^ *```", "", (ROOT / page).read_text(), flags=re.DOTALL | re.MULTILINE
    )
    for span in re.findall(r"`([^`]+)`", prose):
        words = span.split()
        ours = words[0] == "fastlloyd"
        name = next(
            (name for n in (2, 1) if (name := " ".join(words[ours : n + ours])) in OPTIONS), None
        )
        if ours:
            assert name is not None or {*words[1:2]} <= {*COMMANDS, *OPTIONS[""]}, span
        if ours or name is not None or words[0].startswith("--"):
            assert _options(words) <= (OPTIONS[name] if name is not None else OF_ANY | OF_OTHERS), (
                span
            )


def _type(block: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """Run the commands of a block; what the last of them printed."""
    out = ""
    commands = COMMAND.findall(block.replace("\\\n", ""))
    assert len(commands) == block.count("$ ")
    for variables, program, arguments, expected in commands:
        if program == "python" and arguments.startswith("examples/"):
            made = subprocess.run(
                [sys.executable, *shlex.split(arguments)], check=True, capture_output=True
            )
            assert made.stdout.decode() == expected
            continue
        if program == "python":
            assert INSTALL.fullmatch(arguments), "only what was installed already"
            continue
        assert program == "fastlloyd"
        refused = expected.lstrip().startswith("Error: ")
        with monkeypatch.context() as patch:
            for name, _, value in (variable.partition("=") for variable in variables.split()):
                patch.setenv(name, value)
            words = shlex.split(arguments)
            if DIGEST in words:
                words[words.index(DIGEST)] = Plan.from_toml(
                    Path("plan.toml").read_text()
                ).digest.hex()
            assert run(words) == (2 if refused else 0), arguments
        out, err = capsys.readouterr()
        for line in _lines(expected):
            assert line in _lines(err if refused else out), f"{arguments}\n{line}"
    return out
