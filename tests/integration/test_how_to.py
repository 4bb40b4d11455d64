"""Tutorial and how-to pages: what they tell people to type works, in the order of the page, and shows what the page shows."""

import re
import shlex
from pathlib import Path

import pytest
import typer

from fastlloyd.cli.app import subcommand
from fastlloyd.cli.failures import run

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ["tutorial.md", *(f"how-to/{path.name}" for path in sorted(DOCS.glob("how-to/*.md")))]
NOTHING_TO_TYPE = {  # here: about other programs' settings; for six people at six machines
    "how-to/firewalls-and-proxies.md",
    "how-to/run-a-study.md",
}
BLOCK = re.compile(r"^ *```(python|console|toml)\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
COMMAND = re.compile(r"^ *\$ ((?:[A-Z_]+=\S+ )*)(\S+) (.*)\n((?: *[^ $].*\n)*)", re.MULTILINE)
INSTALL = re.compile(r'-m pip install "\.\[[a-z,]+\]"(?: pandas)?')


def _lines(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines()]


@pytest.mark.parametrize("page", PAGES)
def test_everything_on_the_page_runs_in_its_order_and_shows_what_it_says(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every line below a command must be among those it prints; a comment after print must end in what is printed.

    The Python of a page is one session. A block of TOML is saved in the file that its first line names. A command with an
    error below it must be refused with that error.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    blocks = BLOCK.findall((DOCS / page).read_text())
    assert len(blocks) > 2 or page in NOTHING_TO_TYPE
    session: dict[str, object] = {}
    for language, block in blocks:
        capsys.readouterr()
        if language == "python":
            exec(compile(block, page, "exec"), session)  # noqa: S102 - our own documents
            shown = re.findall(r"^print.*: ([\d.]+)$", block, re.MULTILINE)
            printed = capsys.readouterr().out.split("\n")
            assert all(number in printed for number in shown), block
        elif language == "toml":
            Path(block.partition("\n")[0].removeprefix("# ")).write_text(block)
        else:
            _type(block, monkeypatch, capsys)


def test_the_first_blocks_of_the_readme_run_in_a_clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(DOCS.parent / "examples")
    targets = re.findall(r"^([a-z-]+):", (DOCS.parent / "Makefile").read_text(), re.MULTILINE)
    made, fitted = re.findall(r"^```console\n(.*?)^```$", (DOCS.parent / "README.md").read_text(), re.DOTALL | re.MULTILINE)[:2]
    assert made == "$ make demo\n"
    assert "demo" in targets
    (arguments,) = re.findall(r"^\$ \.venv/bin/fastlloyd (.*)$", fitted, re.MULTILINE)
    assert run(shlex.split(arguments)) == 0
    assert (tmp_path / "result/centroids.csv").exists()


@pytest.mark.parametrize("page", PAGES)
def test_every_command_that_is_only_shown_exists_with_its_options(page: str) -> None:
    """Blocks of sh are for several people at several machines, or for other programs."""
    blocks = re.findall(r"^```(?:sh|text)?\n(.*?)^```$", (DOCS / page).read_text(), re.DOTALL | re.MULTILINE)
    for line in "".join(blocks).replace("\\\n", " ").splitlines():
        if line.startswith("fastlloyd "):
            words = shlex.split(line, comments=True)[1:]
            command = subcommand(words.pop(0))
            while isinstance(command, typer.core.TyperGroup):
                command = command.commands[words.pop(0)]
            known = {option for parameter in command.params for option in parameter.opts}
            assert {word for word in words if word.startswith("-")} <= known, line


def _type(block: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    commands = COMMAND.findall(block)
    assert len(commands) == block.count("$ ")
    for variables, program, arguments, expected in commands:
        if program == "python":
            assert INSTALL.fullmatch(arguments), "only what was installed already"
            continue
        assert program == "fastlloyd"
        refused = expected.lstrip().startswith("Error: ")
        with monkeypatch.context() as patch:
            for name, _, value in (variable.partition("=") for variable in variables.split()):
                patch.setenv(name, value)
            assert run(shlex.split(arguments)) == (2 if refused else 0), arguments
        out, err = capsys.readouterr()
        for line in _lines(expected):
            assert line in _lines(err if refused else out), f"{arguments}\n{line}"
