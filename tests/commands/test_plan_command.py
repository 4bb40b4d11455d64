"""`fastlloyd plan`: plans that are made and shown, and files that are none."""

from pathlib import Path

import pytest

from command_line import BOUNDS, FROM_DATA, NEW, PAPERS, PUBLIC, Command, refused
from fastlloyd.cli.commands.plan import HEADING
from fastlloyd.cli.failures import run
from fastlloyd.federation.plan.plan import Plan


def test_a_plan_is_made_shown_and_explained(fastlloyd: Command) -> None:
    clients = (
        "--client",
        "hospital-a:200",
        "--client",
        "hospital-b:150",
        "--client",
        "hospital-c:150",
        "--client",
        "hospital-d:100",
    )
    features = ("--features", "age,dose", *BOUNDS, "--n-clusters", "3", "--epsilon", "1.5")
    dropouts = ("--max-dropouts", "1", "--masks", "group")
    code, out, err = fastlloyd(
        "plan", "new", "--simulation", *clients, *features, *dropouts, "--out", "p.toml"
    )
    plan = Plan.from_toml(Path("p.toml").read_text())
    assert code == 0
    assert plan.digest.hex() in out
    assert "Warning" not in err
    assert Path("p.toml").read_text().startswith(HEADING)
    assert plan.names == ("hospital-a", "hospital-b", "hospital-c", "hospital-d")
    assert (plan.mechanism.n_records, plan.mechanism.epsilon, plan.max_dropouts) == (600, 1.5, 1)
    shown = fastlloyd("plan", "show", "p.toml")
    assert shown.code == 0
    for expected in (
        plan.digest.hex(),
        "hospital-b: at most 150",
        "age: 0 to 100",
        "client-noise",
        "1.5",
    ):
        assert expected in shown.out
    explained = fastlloyd("plan", "explain", "p.toml")
    assert explained.code == 0
    assert "Outside the guarantee:" in explained.out


def test_a_plan_with_one_digit_changed_is_refused_wherever_the_digit_stands(
    fastlloyd: Command,
) -> None:
    fastlloyd(*NEW, *PAPERS, "--iterations", "2", "--out", "plan.toml")
    text = Path("plan.toml").read_text()
    positions = [i for i, character in enumerate(text) if character.isdigit()]
    assert len(positions) > 200
    for i in positions:
        changed = text[:i] + str((int(text[i]) + 1) % 10) + text[i + 1 :]
        Path("changed.toml").write_text(changed)
        refused(fastlloyd("plan", "show", "changed.toml"), "changed.toml")


GARBAGE = {
    "nothing": b"",
    "bytes": bytes(range(256)) * 40,
    "zeros": bytes(10_000),
    "huge": b"a" * (5 << 20),
    "brackets": b"x = " + b"[" * 100_000,
    "digits": b"x = " + b"9" * 10_000,
    "another table": b"[seal]\ndigest = 'x'\n",
}


@pytest.mark.parametrize("case", GARBAGE)
def test_garbage_is_no_plan(fastlloyd: Command, here: Path, case: str) -> None:
    (here / "plan.toml").write_bytes(GARBAGE[case])
    for command in ("show", "explain"):
        refused(fastlloyd("plan", command, "plan.toml"), "plan.toml")


def test_the_settings_of_a_fit_are_no_plan_and_that_is_said(fastlloyd: Command) -> None:
    for given in (PUBLIC[:4], FROM_DATA):
        assert (
            fastlloyd("fit", "data.csv", "-k", "3", *given, "--out", "result", "--force").code == 0
        )
        for command in ("show", "explain"):
            outcome = fastlloyd("plan", command, "result/mechanism.toml")
            refused(outcome, "result/mechanism.toml has the", "privacy.json")


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.999])
def test_a_plan_cut_off_is_refused(fastlloyd: Command, share: float) -> None:
    fastlloyd(*NEW)
    text = Path("plan.toml").read_text()
    Path("plan.toml").write_text(text[: int(share * len(text))])
    refused(fastlloyd("plan", "show", "plan.toml"), "plan.toml")


def test_a_file_that_a_stranger_sent_reaches_no_terminal_as_a_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "plan.toml"
    for text in (
        '"\\u0007\\u001b]0;title" = 1\n[seal]\ndigest = ""',
        'run_id = 1\n[seal]\ndigest = "\\u0007\\u202e"',
    ):
        file.write_text(text)
        assert run(["plan", "show", str(file)]) == 2
        assert capsys.readouterr().err.rstrip("\n").isprintable()
