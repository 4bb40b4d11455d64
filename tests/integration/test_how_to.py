"""The how-to pages: what they tell people to type works, in the order of the page, and shows what the page shows."""

import re
import shlex
from pathlib import Path

import pytest

from fastlloyd.cli.failures import run

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^ *```(python|console)\n(.*?)^ *```", re.DOTALL | re.MULTILINE)


def _lines(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines()]


@pytest.mark.parametrize("page", ["choosing-parameters.md", "compare-with-non-private.md", "label-new-records.md"])
def test_everything_on_the_page_runs_in_its_order_and_shows_what_it_says(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every line below a command must be among those it prints; a comment after print must end in what is printed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    blocks = BLOCK.findall((ROOT / "docs/how-to" / page).read_text())
    assert len(blocks) > 2
    for language, block in blocks:
        capsys.readouterr()
        if language == "python":
            exec(compile(block, page, "exec"), {})  # noqa: S102 - our own documents
            shown = re.findall(r"^print.*: ([\d.]+)$", block, re.MULTILINE)
            printed = capsys.readouterr().out.split("\n")
            assert all(number in printed for number in shown), block
            continue
        for command, expected in re.findall(r"^ *\$ fastlloyd (.*)\n((?: *[^ $].*\n)*)", block, re.MULTILINE):
            assert run(shlex.split(command)) == 0, command
            printed = _lines(capsys.readouterr().out)
            for line in _lines(expected):
                assert line in printed, f"{command}\n{line}"
