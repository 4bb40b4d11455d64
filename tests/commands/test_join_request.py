"""`fastlloyd join --request`: one file is the whole request, the same file continues the run, and
the ledger counts it once.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from command_line import Command, refused
from fastlloyd.errors import WRONG_FILE, PlanError, StateError
from fastlloyd.federation.holder import HoldersLedger, place
from fastlloyd.jobs.approvals import Approval, approvals_path
from fastlloyd.jobs.data_files import files_of
from fastlloyd.jobs.fit_file import FitFile
from fastlloyd.jobs.join_file import JoinFile, id_of_run
from network_processes import DATASET, SERVER, Site
from network_site import REFUSED, made, site  # noqa: F401 - fixtures
from refusals import raises_code

APPROVAL = Approval(by="Dr. A. Keeper", on="2026-11-27", document="DPO 17/26")


def request_of(site: Site, name: str = "a", **changed: Any) -> JoinFile:  # noqa: F811
    records = str(site.folder / f"{name}.csv")
    facts, key = files_of(records), site.folder / f"{name}.identity.toml"
    assert facts is not None
    fields: dict[str, Any] = {
        "run_id": "0" * 32,
        "records": records,
        "files": facts,
        "out": str(site.folder / f"result-{name}"),
        "plan": site.plan.to_toml(),
        "digest": site.plan.digest.hex(),
        "key": str(key),
        "dataset": DATASET,
        "approval": APPROVAL,
    }
    file = JoinFile(**fields | changed)
    if "run_id" in changed:
        return file
    return JoinFile(**fields | changed | {"run_id": id_of_run(site.plan, file.member)})


def written(site: Site, name: str = "a", **changed: Any) -> Path:  # noqa: F811
    path = site.folder / f"{name}.json"
    path.unlink(missing_ok=True)
    request_of(site, name, **changed).write(path)
    return path


def test_a_request_takes_part_to_the_result_and_given_again_spends_nothing_more(
    site: Site,  # noqa: F811
) -> None:
    path = written(site)
    command = ["join", "--request", str(path)]
    for name in (SERVER, "b", "c"):
        site.start(name, site.command(name))
    assert site.start("a", command).wait(120) == 0, site.said("a")
    said = [json.loads(line) for line in site.said("a", "out").splitlines()]
    assert said[0]["pid"]
    assert said[-1]["done"]
    assert set(said[-1]["files"]) == {path.name for path in (site.folder / "result-a").iterdir()}
    file = JoinFile.read(path)
    assert HoldersLedger(place()).history().runs[bytes.fromhex(file.run_id)].counted
    kept = approvals_path(file.store)
    assert kept.stat().st_mode & 0o077 == 0
    (entry,) = map(json.loads, kept.read_text().splitlines())
    assert entry["approved_by"] == APPROVAL.by
    assert entry["plan"] == site.plan.digest.hex()
    n_runs = len(HoldersLedger(place()).history().runs)
    code, out, _ = site.run(command)
    assert code == 0
    assert json.loads(out.splitlines()[-1])["files"] == said[-1]["files"]
    assert len(HoldersLedger(place()).history().runs) == n_runs
    assert len(kept.read_text().splitlines()) == 1


def test_a_request_for_a_rehearsal_says_what_a_run_would_take_and_notes_nothing(
    site: Site,  # noqa: F811
) -> None:
    code, out, err = site.run(["join", "--request", str(written(site, is_rehearsal=True))])
    assert (code, err) == (0, "")
    assert json.loads(out)["contribution"]["number"] == 40
    assert not list(site.folder.glob("a.store*"))
    assert not approvals_path(site.folder / "a.store").exists()


def test_a_passphrase_is_the_first_line_of_standard_input(tmp_path: Path) -> None:
    folder = tmp_path / "under"
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "fastlloyd",
            "keygen",
            "--name",
            "a",
            "--out",
            str(folder),
            "--passphrase-file",
            "-",
            "--json",
        ],
        input=b"correct horse battery\n",
        capture_output=True,
        check=True,
    )
    assert json.loads(done.stdout)["under_passphrase"]
    assert b"correct horse" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("changed", "fragment"),
    [
        ({"run_id": "0" * 32}, "the id of another run"),
        ({"digest": "0" * 64}, "does not have the digest"),
    ],
)
def test_a_request_that_does_not_fit_its_plan_is_refused_and_nothing_is_made(
    site: Site,  # noqa: F811
    changed: dict[str, Any],
    fragment: str,
) -> None:
    file = request_of(site, **changed)
    with pytest.raises(PlanError, match=fragment):
        file.request()
    code, _, err = site.run(["join", "--request", str(written(site, **changed))])
    assert code == REFUSED
    assert fragment in err
    assert not (site.folder / "a.store").exists()


def test_a_file_that_changed_since_it_was_confirmed_is_refused(site: Site) -> None:  # noqa: F811
    path = written(site)
    with (site.folder / "a.csv").open("a") as records:
        records.write("1,2\n")
    code, _, err = site.run(["join", "--request", str(path)])
    assert code == REFUSED
    assert "is not the file that was confirmed" in err
    assert not (site.folder / "a.store").exists()


def test_a_request_for_a_fit_is_none_for_join(
    fastlloyd: Command,
    site: Site,  # noqa: F811
) -> None:
    path = written(site)
    with raises_code(StateError, WRONG_FILE):
        FitFile.read(path)
    refused(fastlloyd("fit", "--request", str(path)), "is not a request for fit")
    refused(fastlloyd("join", "--request", str(path), "--dataset", "x"), "leave out dataset")
