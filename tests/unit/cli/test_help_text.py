"""The help of a command: what a run needs first, the paper's ablation last, on any screen."""

import re
import shlex

import pytest

from command_line import Command
from fastlloyd.cli.app import COMMANDS, LAB
from fastlloyd.cli.help_text import EXAMPLES, NARROW, NEEDED

TITLE = re.compile(r"^(\S.*):$", re.MULTILINE)


def _help(run: Command, command: str, width: int, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("COLUMNS", str(width))
    code, out, err = run(*command.split(), "--help")
    assert (code, err) == (0, "")
    return out


@pytest.mark.parametrize("command", ["fit", "simulate", "plan new"])
def test_needed_usual_and_expert_options_come_in_this_order_and_the_ablation_last(
    fastlloyd: Command, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    titles = TITLE.findall(_help(fastlloyd, command, 80, monkeypatch))
    assert titles[:3] == ["Examples", "Needed", "Usual"]
    assert all(title.startswith("Expert, ") for title in titles[3:-1])
    assert titles[-1] == "The paper's ablation"


@pytest.mark.parametrize("command", EXAMPLES)
def test_a_command_with_many_options_has_two_examples_with_all_that_a_run_needs(
    fastlloyd: Command, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    text = _help(fastlloyd, command, 80, monkeypatch)
    shown = text[text.index("Examples:") : text.index("Needed:")].replace(" \\\n", " ")
    lines = [shlex.split(line) for line in shown.splitlines()[1:] if line]
    assert lines == [shlex.split(example) for example in EXAMPLES[command]]
    assert len(lines) == 2
    known = set(re.findall(r"^  (?:-\w, )?(--[\w-]+)", text, re.MULTILINE)) | {"-k"}
    for line in lines:
        assert {word for word in line if word.startswith("-")} <= known | {"-"}


@pytest.mark.parametrize("command", NEEDED)
def test_an_option_of_the_tables_of_the_help_exists(
    fastlloyd: Command, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    text = _help(fastlloyd, command, 80, monkeypatch)
    needed = text[text.index("\nNeeded:") : text.index("\nUsual:")]
    assert all(name in needed for name in NEEDED[command])


@pytest.mark.parametrize("width", [40, NARROW - 1])
def test_on_a_narrow_screen_help_stands_under_the_name_of_its_option(
    fastlloyd: Command, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    lines = _help(fastlloyd, "fit", width, monkeypatch).splitlines()
    at = lines.index("  --epsilon EPS")
    assert lines[at + 1].startswith("      Privacy budget")
    assert max(map(len, lines)) <= width


@pytest.mark.parametrize("command", [name for name in COMMANDS if name not in LAB])
def test_no_help_has_a_box_whatever_the_screen(
    fastlloyd: Command, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    assert _help(fastlloyd, command, 100, monkeypatch).isascii()


@pytest.mark.parametrize("command", [(), ("fit",), ("plan",), ("plan", "new")])
def test_h_and_the_command_help_are_the_option_help(
    fastlloyd: Command, command: tuple[str, ...]
) -> None:
    by_option = fastlloyd(*command, "--help")
    assert fastlloyd(*command, "-h") == by_option
    assert fastlloyd("help", *command) == by_option


def test_the_command_version_is_the_option_version(fastlloyd: Command) -> None:
    assert fastlloyd("version") == fastlloyd("--version")
    assert fastlloyd("version").out.startswith("fastlloyd ")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("help", "fitt"), "there is no command 'fitt'; did you mean fit?"),
        (("plan", "nwe"), "there is no command 'nwe'; did you mean new?"),
        (("plan", "xxxxxxx"), "there is no command 'xxxxxxx'; --help lists the commands"),
        (("--verson",), "there is no option --verson; did you mean --version?"),
        (("ledger", "--foo"), "there is no option --foo; --help lists the options"),
        (("fit", "data.csv", "--epsilon"), "--epsilon needs a value: --epsilon EPS"),
        (("fit", "data.csv", "--json=3"), "--json takes no value; leave the value out"),
    ],
)
def test_every_misuse_of_a_command_line_is_one_sentence_of_ours(
    fastlloyd: Command, arguments: tuple[str, ...], said: str
) -> None:
    assert fastlloyd(*arguments) == (2, "", f"Error: {said}\n")


@pytest.mark.parametrize("arguments", [(), ("plan",), ("ledger",)])
def test_a_group_without_a_command_shows_its_help_and_fails(
    fastlloyd: Command, arguments: tuple[str, ...]
) -> None:
    code, out, err = fastlloyd(*arguments)
    assert (code, err) == (2, "")
    assert out == fastlloyd(*arguments, "--help").out
