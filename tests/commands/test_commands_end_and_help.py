"""How a command ends, whatever goes wrong; its help, and what that loads."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path

import pytest

from command_line import (
    FIT,
    HANG,
    NEW,
    PUBLIC,
    SECRET_NUMBER,
    SECRET_TEXT,
    SECRETS,
    SIMULATE,
    Command,
    started,
    strict,
    tree,
)
from fastlloyd.cli import progress
from fastlloyd.cli.app import COMMANDS, LAB, subcommand
from fastlloyd.jobs import fit as fit_job
from fastlloyd.mechanisms import central

PATIENCE = 10  # seconds after which somebody presses Ctrl-C again


@pytest.mark.parametrize("is_terminal", [True, False])
def test_long_work_shows_progress_on_a_terminal_only_and_never_on_stdout(
    fastlloyd: Command, monkeypatch: pytest.MonkeyPatch, is_terminal: bool
) -> None:
    monkeypatch.setattr(progress, "LARGE_WORK", 0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    monkeypatch.setenv("TERM", "xterm")
    # A bar that is drawn ten times a second may miss quick rounds, but never the last state.
    for command, shown, output in (
        ("simulate", "3 clients at work", "--json"),
        ("fit", r"round (\d+) of \1", "--json"),
        ("fit", r"round (\d+) of \1", "--no-out"),
    ):
        code, out, err = fastlloyd(
            command,
            "data.csv",
            *PUBLIC,
            *(["--clients", "3"] if command == "simulate" else []),
            output,
        )
        assert code == 0
        assert (re.search(shown, err) is not None) == is_terminal
        assert "records (exact: NOT PRIVATE)" not in err or (is_terminal and output != "--json")
        assert output != "--json" or strict(out)["private"] is True


@pytest.mark.parametrize("is_terminal", [True, False])
def test_the_search_for_many_initial_centroids_shows_progress_on_a_terminal_only(
    fastlloyd: Command, monkeypatch: pytest.MonkeyPatch, is_terminal: bool
) -> None:
    monkeypatch.setattr(fit_job, "MANY_CLUSTERS", 3)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    monkeypatch.setenv("TERM", "xterm")
    for command in (FIT, SIMULATE, (*NEW[:-1], "3", "--out", "p.toml")):
        outcome = fastlloyd(*command)
        assert outcome.code == 0
        assert ("placing 3 initial centroids" in outcome.err) == is_terminal
        assert "placing" not in outcome.out
    assert "placing" not in fastlloyd(*NEW[:-1], "2", "--out", "q.toml").err


def test_an_unexpected_error_keeps_its_message_to_itself(
    fastlloyd: Command, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ValueError(f"record {SECRET_TEXT} {SECRET_NUMBER}")

    monkeypatch.setattr(central, "cluster", fail)
    before = tree(here)
    code, out, err = fastlloyd(*FIT, "--out", "result")
    assert (code, out) == (1, "")
    assert len(err.splitlines()) == 1
    assert "report" in err
    assert not any(secret in err for secret in SECRETS)
    assert SECRET_TEXT in fastlloyd("--debug", *FIT).err
    monkeypatch.setenv("FASTLLOYD_DEBUG", "1")
    assert SECRET_TEXT in fastlloyd(*FIT, "--out", "result").err
    assert tree(here) == before


@pytest.mark.parametrize(("failure", "code"), [(KeyboardInterrupt(), 130), (MemoryError(), 1)])
@pytest.mark.parametrize("where", ["computing", "writing"])
def test_an_interruption_leaves_nothing_half_written(
    fastlloyd: Command,
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    failure: BaseException,
    code: int,
    where: str,
) -> None:
    def fail(*_: object) -> None:
        raise failure

    before = tree(here)
    if where == "computing":
        monkeypatch.setattr(central, "cluster", fail)
    else:
        monkeypatch.setattr(os, "fsync", fail)
    outcome = fastlloyd(*FIT, "--out", "result")
    assert (outcome.code, outcome.out) == (code, "")
    assert len(outcome.err.splitlines()) == 1
    assert tree(here) == before


def test_a_full_disk_is_said_and_leaves_nothing(
    fastlloyd: Command, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    before = tree(here)
    code, out, err = fastlloyd(*FIT, "--out", "result")
    assert (code, err.count("\n")) == (2, 1)
    assert (
        "No space left on device); no part of it was kept; the result was shown, and its epsilon is"
        " spent" in err
    )
    assert "noisy count" in out  # it is spent, so it is not lost
    assert strict(fastlloyd(*FIT, "--json", "--out", "result").out)["files"] == []
    assert tree(here) == before


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (OSError(5, f"of record {SECRET_TEXT}"), 1, "an unexpected OSError (Input/output error)"),
        (OSError(f"record {SECRET_TEXT}"), 1, "an unexpected OSError; please report"),
        (PermissionError(13, "no", "kept.bin"), 2, "kept.bin cannot be used (Permission denied)"),
    ],
)
def test_what_the_system_refuses_is_not_called_the_output_unless_it_was(
    fastlloyd: Command, monkeypatch: pytest.MonkeyPatch, error: OSError, code: int, said: str
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(central, "cluster", fail)
    outcome = fastlloyd(*FIT, "--no-out")
    assert (outcome.code, outcome.out) == (code, "")
    assert said in outcome.err
    assert "output cannot be written" not in outcome.err
    assert SECRET_TEXT not in outcome.err


@pytest.mark.parametrize(
    ("redirected", "code", "said"),
    [
        (">/dev/full", 2, "Error: the output cannot be written (No space left on device)\n"),
        (">&-", 2, "Error: the output cannot be written (Bad file descriptor)\n"),
        ("2>/dev/full", 0, ""),
        ("2>&-", 0, ""),
    ],
)
def test_a_screen_that_takes_nothing_is_named_and_notes_are_let_go(
    here: Path, redirected: str, code: int, said: str
) -> None:
    program = f"exec {sys.executable} -m fastlloyd datasets list {redirected}"
    # our own program
    done = subprocess.run(["/bin/sh", "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (code, said)


def test_ctrl_c_ends_a_process_quietly(here: Path) -> None:
    """The data come through a named pipe: once it is open for reading, the program is at work, and
    stays so.
    """
    os.mkfifo(here / "pipe.csv")
    # a shell lets background jobs, and so their children, ignore SIGINT: a handler, unlike that, is
    # not handed on to a child
    ours = signal.signal(signal.SIGINT, signal.default_int_handler)
    process = started("fit", "pipe.csv", *PUBLIC, "--out", "result", stdout=subprocess.PIPE)
    signal.signal(signal.SIGINT, ours)
    with process, (here / "pipe.csv").open("w") as pipe:
        pipe.write("age,dose\n1,2\n")
        pipe.flush()
        # a signal that comes right before a read blocks wakes nobody: people press again
        for _ in range(HANG // PATIENCE):
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                out, err = process.communicate(timeout=PATIENCE)
                break
        else:
            pytest.fail("Ctrl-C does not end it")
    assert (process.returncode, out, err) == (
        130,
        "",
        "Interrupted. Nothing was spent. No result was written.\n",
    )
    assert {p.name for p in here.iterdir()} == {"data.csv", "pipe.csv"}


@pytest.mark.parametrize("options", [(), ("--json",)], ids=["text", "json"])
def test_a_reader_that_has_gone_costs_no_result_and_no_traceback(
    here: Path, options: Sequence[str]
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with started(*FIT, "--out", "result", *options, stdout=writer) as process:
        os.close(writer)
        _, err = process.communicate(timeout=HANG)
    assert process.returncode == 1
    assert "Traceback" not in err
    assert "Error" not in err
    assert (here / "result" / "centroids.csv").exists()


def test_a_poor_terminal_gets_question_marks_and_no_error(here: Path) -> None:
    (here / "data.csv").write_text("\u5e74\u9f84\n" + "1\n2\n3\n" * 30, encoding="utf-8")
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    options = ("-k", "1", "--bounds", "0:4", "--n-records", "100", "--no-out")
    with started(
        "fit", "data.csv", *options, stdout=subprocess.PIPE, env=environment, encoding="ascii"
    ) as process:
        out, err = process.communicate(timeout=HANG)
    assert (process.returncode, err) == (0, "")
    assert "?" in out


def test_help_loads_none_of_the_heavy_libraries_and_that_of_all_no_command() -> None:
    """That is why it answers at once; how fast is measured by the benchmarks."""
    script = """
import sys
from fastlloyd.cli.failures import run

heavy = {"numpy", "scipy", "matplotlib", "sklearn", "mpmath", "cryptography"}
for arguments in (["--version"], ["--help"]):
    run(arguments)
    assert "fastlloyd.cli.commands.fit" not in sys.modules, arguments
    assert "fastlloyd_lab" not in sys.modules, arguments
for arguments in ([], ["fit"], ["simulate"], ["advise"], ["assign"], ["keygen"]):
    run([*arguments, "--help"])
    assert not heavy & set(sys.modules), arguments
"""
    # our own interpreter
    subprocess.run([sys.executable, "-c", script], check=True, stdout=subprocess.DEVNULL)


HELPED = [
    (),
    *((name,) for name in COMMANDS),
    ("plan", "new"),
    ("bounds", "template"),
    ("plan", "show"),
]


@pytest.mark.parametrize("command", HELPED, ids=" ".join)
def test_help_says_nothing_of_the_kind_of_a_switch_and_breaks_no_word_at_80_columns(
    fastlloyd: Command, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = fastlloyd(*command, "--help")
    assert code == 0
    assert "<bool>" not in out
    assert all(len(line) <= 80 for line in out.splitlines())
    if command in (("fit",), ("simulate",), ("plan", "new")):
        words = (
            "momentlloyd fastlloyd glloyd sulloyd add_or_remove_one replace_one none truncate fold"
        )
        assert set(words.split()) <= set(out.split())


def _completed(line: str) -> list[str]:
    """What a shell is told to complete a line with, its last word being the one that is typed."""
    variables = {
        "_FASTLLOYD_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(line.split()) - 1),
    }
    with started(stdout=subprocess.PIPE, env=os.environ | variables) as process:
        out, err = process.communicate(timeout=HANG)
    assert (process.returncode, err) == (0, "")
    return out.split()


def test_a_shell_completes_commands_and_options(here: Path) -> None:
    assert _completed("fastlloyd si") == ["simulate"]
    assert _completed("fastlloyd fit --n-r") == ["--n-records"]
    assert _completed("fastlloyd plan ren") == ["renew"]


def test_the_way_to_complete_is_shown(fastlloyd: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    # typer shows it for the shell from which it was started
    monkeypatch.setattr("shellingham.detect_shell", lambda: ("bash", "/bin/bash"))
    code, out, _ = fastlloyd("--show-completion")
    assert code == 0
    assert "_FASTLLOYD_COMPLETE=complete_bash" in out


@pytest.mark.parametrize("name", COMMANDS)
def test_the_line_of_a_command_is_how_its_own_help_begins(fastlloyd: Command, name: str) -> None:
    assert " ".join(subcommand(name).help.split()).startswith(COMMANDS[name].rstrip("."))
    code, out, err = fastlloyd(name, "--help")
    assert (code, err) == (0, "")
    assert f"Usage: fastlloyd {name} " in out
    assert f" {name} " in fastlloyd("--help").out


@pytest.mark.parametrize("name", LAB)
def test_without_the_lab_its_commands_are_not_listed_and_say_what_to_install(
    fastlloyd: Command, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(metadata, "entry_points", lambda **_: [])
    assert f" {name} " not in fastlloyd("--help").out
    for arguments in ([name], [name, "--help"], [name, "list", "--json"]):
        code, out, err = fastlloyd(*arguments)
        assert (code, out) == (2, "")
        assert re.fullmatch(
            rf"Error: {name} is a command of fastlloyd-lab, which is not installed; in a clone of"
            r" fastlloyd \S+ run: python -m pip install ./lab\n",
            err,
        )


def test_the_shell_sees_the_exit_code(here: Path) -> None:
    with started("fit", "none.csv", *PUBLIC, stdout=subprocess.PIPE) as process:
        out, err = process.communicate(timeout=HANG)
    assert (process.returncode, out, err) == (2, "", "Error: none.csv: there is no such file\n")
