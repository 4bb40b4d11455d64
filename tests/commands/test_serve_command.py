"""`fastlloyd serve`: what it refuses; no noise that could be repeated."""

import inspect
import re
import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from fastlloyd.base.files import write_file
from fastlloyd.cli.commands.join import join as join_command
from fastlloyd.cli.commands.serve import serve as serve_command
from fastlloyd.federation.identity import identity
from fastlloyd.reports.run_result import PLAN
from network_processes import SERVER, Site
from network_site import other_site, refused


def test_serve_refuses_what_is_not_its_own(site: Site) -> None:
    other_site(site, SERVER)
    refused(
        site,
        site.serve("--key", f"others/{SERVER}.identity.toml"),
        "is not the identity of the server",
    )
    refused(site, site.serve("--key", "a.identity.toml"), "is not the identity of the server")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        refused(site, site.serve("--listen", address), f"cannot listen at {address}", new=(SERVER,))
    for nowhere in ("127.0.0.1:99999", "127.0.0.1:0", "127.0.0.1", ":8443"):
        refused(site, site.serve("--listen", nowhere), f"--listen '{nowhere}' is not HOST:PORT")
    simulated = msgspec.structs.replace(site.plan, server=type(site.plan.server)())
    write_file(site.folder / "simulated.toml", simulated.to_toml())
    arguments = [part if part != PLAN else "simulated.toml" for part in site.serve()]
    refused(site, arguments, "has no certificate of the server")


def test_serve_is_refused_where_the_system_lets_it_open_too_few_files(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(resource, "getrlimit", lambda _: (60, 60))
    refused(site, site.serve(), "may open 60 files", "LimitNOFILE=70")


def test_an_expired_identity_is_refused_on_both_sides(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    earlier = datetime.now(UTC) - timedelta(days=30)
    monkeypatch.setattr(identity, "datetime", SimpleNamespace(now=lambda _: earlier))
    old = identity.PrivateIdentity.make("a", earlier.date() + timedelta(days=1))
    old.save(site.folder / "old.identity.toml")
    plan = msgspec.structs.replace(
        site.plan, clients=(old.public.client(50), *site.plan.clients[1:])
    )
    write_file(site.folder / "old.toml", plan.to_toml())
    for arguments in (
        site.serve(),
        site.join("a", "--digest", plan.digest.hex(), "--key", "old.identity.toml"),
    ):
        refused(site, [part if part != PLAN else "old.toml" for part in arguments], "expired on")


def test_nothing_on_the_command_line_or_around_it_makes_noise_that_can_be_repeated() -> None:
    """No option, no variable, and no word of the testing sources in anything that a command of the
    product imports.
    """
    package = Path(inspect.getfile(serve_command)).parents[2]
    sources = {
        path: path.read_text() for path in package.rglob("*.py") if path.name != "testing.py"
    }
    for path, text in sources.items():
        assert not re.search(r"fastlloyd\.testing import|SeededNoise|InjectedNoise", text), path
    variables = {
        name for text in sources.values() for name in re.findall(r"FASTLLOYD_[A-Z_]+", text)
    }
    assert variables <= {
        "FASTLLOYD_DEBUG",
        "FASTLLOYD_LEDGER",
        "FASTLLOYD_PASSPHRASE_FILE",
        "FASTLLOYD_REQUIRE_DATASET",
    }
    for command in (join_command, serve_command):
        assert not [
            name
            for name in inspect.signature(command).parameters
            if re.search("noise|seed|random", name)
        ]
    for path in (
        package / "jobs" / "client.py",
        package / "jobs" / "server.py",
    ):
        assert re.findall(r"noise=(\w+\(\))", sources[path]) == ["SystemNoise()"]
