"""`fastlloyd check`: no fault on a sound machine, and each planted fault by its code."""

import inspect
import json
import os
import re
import shutil
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from email.message import Message
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fastlloyd.federation.holder import place
from fastlloyd.federation.identity.identity import PrivateIdentity
from fastlloyd.federation.store import lock
from fastlloyd.jobs import machine, site_check
from fastlloyd.reports.run_result import PLAN
from network_processes import DATASET, SERVER, Site
from network_site import FAST, REFUSED, STOPPED, here, other_site, tree
from network_site import made as made  # noqa: PLC0414 - a fixture
from network_site import site as site  # noqa: PLC0414 - a fixture

Patch = pytest.MonkeyPatch
SITE = ("check", PLAN, "--key", "a.identity.toml")


@pytest.fixture(autouse=True)
def no_compiler(monkeypatch: Patch) -> None:
    monkeypatch.setattr(machine, "compiles", lambda: 0)


def found(site: Site, *arguments: str) -> tuple[int, list[dict[str, Any]]]:
    code, out, err = here(site, [*arguments, "--json"])
    assert err == ""
    said = json.loads(out)
    assert said["sound"] is (code == 0)
    findings: list[dict[str, Any]] = said["findings"]
    return code, findings


def faults(findings: Sequence[dict[str, Any]]) -> set[str]:
    return {one["code"] for one in findings if one["level"] == "fault"}


def with_ledger(site: Site) -> None:
    budget = ["--epsilon", "9", "--delta", "1e-6", "--new"]
    assert here(site, ["ledger", "limit", "--dataset", DATASET, *budget])[0] == 0


def test_a_sound_machine_has_no_fault_and_nothing_is_left(site: Site) -> None:
    with_ledger(site)
    before = tree(site.folder), tree(place().parent)
    for arguments in (("check",), (*SITE, "--offline")):
        code, findings = found(site, *arguments)
        assert (code, faults(findings)) == (0, set())
    codes = {one["code"] for one in findings}
    assert codes >= {
        "clock",
        "entropy",
        "python",
        "packages",
        "extras",
        "compiler",
        "locks",
        "disk",
    }
    assert codes >= {"key", "plan", "store", "secrets", "party", "certificate"}
    code, out, _ = here(site, [*SITE, "--offline"])
    assert (code, out.splitlines()[-1]) == (0, "No faults found.")
    assert (tree(site.folder), tree(place().parent)) == before


def test_the_server_is_asked_whether_it_serves_the_plan(site: Site) -> None:
    code, findings = found(site, *SITE)
    assert (code, faults(findings)) == (REFUSED, {"server-unreachable"})
    server = site.start(SERVER, site.serve(), FAST)
    site.wait_for(lambda: "listening at" in site.said(SERVER))
    code, findings = found(site, *SITE)
    assert (code, findings[-1]["code"]) == (0, "reachable")
    code, findings = found(site, "check", "--connect", site.plan.server.address)
    assert (code, findings[-1]["code"]) == (0, "reachable")
    assert site.end(server) == STOPPED


def test_numba_compiles_in_a_process_of_its_own(monkeypatch: Patch) -> None:
    monkeypatch.undo()
    (one,) = machine.compiler()
    assert one.code == "compiler"
    monkeypatch.setattr(machine, "_COMPILE", "raise SystemExit(1)")
    (one,) = machine.compiler()
    assert one.code == "compiler-fails"


def at(when: datetime) -> Callable[[Site, Patch], None]:
    class Clock(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:  # type: ignore[override]
            return when.astimezone(tz)

    return lambda _, patch: patch.setattr(site_check, "datetime", Clock)


def package(**fields: str) -> Callable[[Site, Patch], None]:
    """What the installed package says of itself."""
    own = Message()
    own["Requires-Python"] = ">=3.11"
    for name, value in fields.items():
        del own[name.replace("_", "-")]
        own[name.replace("_", "-")] = value
    return lambda _, patch: patch.setattr("importlib.metadata.metadata", lambda _: own)


def random_bytes(draw: Callable[..., bytes]) -> Callable[[Site, Patch], None]:
    return lambda _, patch: patch.setattr(machine, "_drawn", draw)


def not_ready() -> bytes:
    raise BlockingIOError


def no_locks(_site: Site, patch: Patch) -> None:
    def take(_descriptor: int) -> None:
        raise OSError(37, "No locks available")

    patch.setattr(lock, "_take", take)


def locks_of_nobody(_site: Site, patch: Patch) -> None:
    patch.setattr(machine, "is_held", lambda _: False)


def behind(site: Site, patch: Patch) -> None:
    with_ledger(site)
    at(datetime.now(UTC) - timedelta(hours=1))(site, patch)


def damaged(site: Site, _patch: Patch) -> None:
    with_ledger(site)
    content = place().read_bytes()
    assert DATASET.encode() in content
    place().write_bytes(content.replace(DATASET.encode(), DATASET.upper().encode()))


def readable(site: Site, _patch: Patch) -> None:
    with_ledger(site)
    place().with_name(place().name + "-head").chmod(0o644)


def of_another(_site: Site, patch: Patch) -> None:
    user = os.geteuid() + 1
    patch.setattr("os.geteuid", lambda: user)


def another_identity(site: Site, _patch: Patch) -> None:
    other_site(site, "a")
    shutil.copy(site.folder / "others/a.identity.toml", site.folder)


def renamed(site: Site, _patch: Patch) -> None:
    """The plan has the certificate of b under the name of a."""
    of = {client.name: client.certificate for client in site.plan.clients}
    text = (site.folder / PLAN).read_text().replace(of["a"], of["b"])
    (site.folder / PLAN).write_text(text)


def garbage(name: str) -> Callable[[Site, Patch], None]:
    def write(site: Site, _patch: Patch) -> None:
        (site.folder / name).write_text("?")

    return write


def locked(site: Site, _patch: Patch) -> None:
    (site.folder / "run.lock").write_text("numpy==0.1 \\\n    --hash=sha256:00\nmsgspec==0.1\n")


def no_network(_site: Site, patch: Patch) -> None:
    patch.setattr(machine, "is_installed", lambda extra: extra != "network")


def not_writable(_site: Site, patch: Patch) -> None:
    patch.setattr("os.access", lambda _path, mode: mode != os.W_OK | os.X_OK)


NOW = datetime.now(UTC)
PLANTED = {
    "clock-implausible": at(datetime(1999, 1, 1, tzinfo=UTC)),
    "clock-behind": behind,
    "entropy-not-ready": random_bytes(not_ready),
    "entropy-repeats": random_bytes(lambda: bytes(32)),
    "python-too-old": package(Requires_Python=">=3.99"),
    "package-missing": package(Requires_Dist="no-such-package>=1"),
    "package-too-old": package(Requires_Dist="numpy>=99"),
    "package-not-locked": locked,
    "network-missing": no_network,
    "compiler-fails": lambda _, patch: patch.setattr(machine, "compiles", lambda: 1),
    "no-file-locks": no_locks,
    "folder-not-writable": not_writable,
    "disk-full": lambda _, patch: patch.setattr(
        "shutil.disk_usage", lambda _: SimpleNamespace(free=1 << 20)
    ),
    "key-unusable": garbage("a.identity.toml"),
    "plan-unusable": renamed,
    "store-unusable": damaged,
    "open-to-others": readable,
    "belongs-to-another": of_another,
    "not-in-plan": another_identity,
    "certificate-not-yet": at(NOW - timedelta(days=9)),
    "certificate-expired": at(NOW + timedelta(days=999)),
}


@pytest.mark.parametrize("code", PLANTED)
def test_a_planted_fault_is_named_by_its_code_with_what_to_do(
    site: Site, monkeypatch: Patch, code: str
) -> None:
    PLANTED[code](site, monkeypatch)
    lock_file = ["--lock", "run.lock"] if code == "package-not-locked" else []
    exit_code, findings = found(site, *SITE, "--offline", *lock_file)
    assert exit_code == REFUSED
    assert code in faults(findings)
    assert code != "open-to-others" or faults(findings) == {code}
    assert all(one["remedy"] for one in findings if one["level"] == "fault")
    exit_code, out, _ = here(site, [*SITE, "--offline", *lock_file])
    assert exit_code == REFUSED
    assert f"[{code}]" in " ".join(out.split())


def test_a_lock_file_for_several_versions_of_python_fits_each_of_them(site: Site) -> None:
    own = metadata.version("numpy")
    (site.folder / "run.lock").write_text(
        f"numpy=={own} ; python_full_version < '3.12'\nnumpy==99 ; python_full_version >= '3.12'\n"
    )
    code, findings = found(site, *SITE, "--offline", "--lock", "run.lock")
    assert (code, [one["code"] for one in findings].count("locked")) == (0, 1)
    assert len({one["said"] for one in findings}) == len(findings)


def test_a_server_needs_no_ledger_but_files_for_its_connections(
    site: Site, monkeypatch: Patch
) -> None:
    command = ("check", PLAN, "--key", f"{SERVER}.identity.toml")
    code, findings = found(site, *command)
    assert (code, findings[-1]["code"]) == (0, "files")
    monkeypatch.setattr("resource.getrlimit", lambda _: (64, 64))
    assert faults(found(site, *command)[1]) == {"too-few-files"}


def test_a_key_that_stays_locked_is_named_and_the_server_is_not_blamed(site: Site) -> None:
    known = PrivateIdentity.load(site.folder / "a.identity.toml")
    known.save(site.folder / "a.identity.toml", passphrase="correct horse", replace=True)  # noqa: S106
    assert faults(found(site, *SITE)[1]) == {"key-unusable"}
    assert faults(found(site, *SITE, "--offline")[1]) == set()


def test_every_fault_is_planted_and_listed() -> None:
    sources = "".join(inspect.getsource(module) for module in (machine, site_check))
    known = set(re.findall(r'fault\(\s*(?:"([a-z-]+)"|"([a-z-]+)" if)', sources))
    codes = {code for pair in known for code in pair if code}
    codes |= set(re.findall(r'(?:_read\(|_unless_open\(\s*error, )"([a-z-]+)"', sources))
    codes |= {"package-missing", "package-too-old"}
    page = (Path(__file__).parents[2] / "docs/compatibility.md").read_text()
    _, _, rest = page.partition("| area | codes |")
    table = rest.partition("\n\n")[0]
    assert set(re.findall(r"`([a-z-]+)`", table)) == codes
    assert codes - set(PLANTED) == {
        "server-unreachable",
        "other-plan",
        "lock-unreadable",
        "too-few-files",
    }


def test_locks_that_do_not_exclude_are_none(site: Site, monkeypatch: Patch) -> None:
    locks_of_nobody(site, monkeypatch)
    assert faults(found(site, *SITE, "--offline")[1]) == {"no-file-locks"}


@pytest.mark.parametrize("kind", ["empty", "pipe", "folder"])
def test_a_file_without_locked_versions_does_not_count_as_kept(site: Site, kind: str) -> None:
    path = site.folder / "a.lock"
    {"empty": path.touch, "pipe": lambda: os.mkfifo(path), "folder": path.mkdir}[kind]()
    assert "lock-unreadable" in faults(found(site, *SITE, "--offline", "--lock", "a.lock")[1])


def test_nobody_is_told_to_close_a_public_file(site: Site) -> None:
    key = ["check", "--key", "a.public.toml", "--ledger", "ledger.store"]
    assert faults(found(site, *key)[1]) == {"key-unusable"}
