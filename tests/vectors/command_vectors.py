"""Command lines, good, mistyped and nonsense: exit codes, and what stands in the JSON they print.
Not their wording.

Values are compared where they follow from the command line and the kept files alone; what depends
on the system's noise, on fresh keys or on the day is not. Each group runs in a folder of its own,
in order: a command may read what an earlier one left.
"""

import contextlib
import io
import json
import os
import shutil
import warnings
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import internals
import numpy as np
from recorded import key_paths, plain

from fastlloyd import Plan
from fastlloyd.dp.noise import SystemNoise
from fastlloyd.federation.admission import DataSet
from fastlloyd.federation.identity.identity import PrivateIdentity
from fastlloyd.federation.protocol.actions import SERVER, Finish, Send
from fastlloyd.federation.protocol.client import ClientSession
from fastlloyd.federation.runs import DurableClient, DurableServer
from fastlloyd.federation.store import Role, Store
from fastlloyd.mechanisms.answering import LocalRecords
from known_records import known_records

FIXED = ("mechanism_digest", "epsilon", "delta", "mu", "coalitions", "features", "leaks", "private")
"""Keys of a result's JSON whose values the noise does not touch."""

_PUBLIC = "--bounds age=0:100,dose=0:5 -k 3 --n-records 500 --public-seed 8"
_FIT = f"fit data.csv {_PUBLIC} --no-out"
_BOUNDED = "fit data.csv -k 3 --n-records 500 --public-seed 8 --no-out --bounds"
_PLAN = "plan new --bounds age=0:100,dose=0:5 --features age,dose -k 3 --public-seed 8"
_TWO = "--simulation --client x:100 --client y:150"
_JOIN = "join plan.toml --key a.identity.toml --data a.csv --dataset patients"

SPEC = """\
title = "Three methods on generated sets"
seed = 1
runs = 3
epsilons = [0.5, 2.0]
measures = ["nicv", "centroid_mse"]
clients = 1

[[grid]]
datasets = ["synthk-2-1", "ablation-4-2-0.5"]
methods = ["lloyd", "fastlloyd", "momentlloyd"]
"""

GROUPS: Mapping[str, tuple[str, ...]] = {
    "fit": (
        f"{_FIT} --json",
        f"{_FIT} --json --loss --epsilon 4 --neighboring-relation replace_one",
        f"{_FIT} --json --algorithm fastlloyd --preset paper --epsilon 0.5",
        f"{_FIT} --json --preset paper --loss --loss-share 0.2",
        f"{_FIT} --json --algorithm sulloyd --iterations 3",
        f"{_FIT} --json --algorithm glloyd --postprocessing fold --delta 1e-6",
        f"{_FIT} --json --algorithm lloyd",
        (
            f"{_FIT} --json --algorithm fastlloyd --radius constant --alpha 0.5 --no-clipping"
            " --noise laplace --min-count 2"
        ),
        f"{_BOUNDED} 0:100 --json --columns age",
        f"{_FIT} --json --compare-non-private --algorithm fastlloyd",
        (
            "fit data.csv -k 3 --bounds from-data --n-records from-data --public-seed 8 --no-out"
            " --json"
        ),
        f"fit data.csv {_PUBLIC} --out result",
        f"fit data.csv {_PUBLIC} --out result",
        f"fit data.csv {_PUBLIC} --out result --force --json",
        f"{_FIT} --iterations 3",
        f"{_FIT} --algorithm fastloyd",
        f"{_FIT} --algorithm lloyd --epsilon 3",
        f"{_FIT} --epsilon 0",
        f"{_FIT} --epsilon nan",
        f"{_FIT} --delta 2",
        f"{_FIT} --preset papers",
        f"{_FIT} --loss-share 0.2",
        f"{_FIT} --bounds age=0:100",
        f"{_BOUNDED} age=0:100",
        f"{_BOUNDED} 5:1",
        f"{_BOUNDED} 0:3 --outside refuse",
        f"{_FIT} --columns weight",
        f"{_FIT} --n-clusters 0",
        f"{_FIT} --n-records 10",
        f"{_FIT} --nonsense",
        "fit data.csv -k 3",
        f"fit nowhere.csv {_PUBLIC} --no-out",
        f"fit broken.csv {_PUBLIC} --no-out",
        f"fit broken.csv {_PUBLIC} --no-out --missing drop --json",
        f"fit words.csv {_PUBLIC} --no-out",
        "fit",
    ),
    "simulate": (
        f"simulate data.csv {_PUBLIC} --no-out --clients 3 --json",
        (
            f"simulate data.csv {_PUBLIC} --no-out --clients 4 --json --drop 2@2 --trust"
            " server-noise --algorithm fastlloyd --loss"
        ),
        (
            f"simulate data.csv {_PUBLIC} --no-out --clients 4 --json --drop client-2@2+"
            " --max-dropouts 1 --epsilon 3"
        ),
        (
            f"simulate data.csv {_PUBLIC} --no-out --clients 3 --algorithm sulloyd --trust"
            " server-noise --json"
        ),
        f"simulate data.csv {_PUBLIC} --no-out --clients 3 --algorithm sulloyd",
        f"simulate data.csv {_PUBLIC} --no-out --clients 3 --drop 9@2",
        f"simulate data.csv {_PUBLIC} --no-out --clients 3 --drop nonsense",
        f"simulate data.csv {_PUBLIC} --no-out --clients 0",
        f"simulate data.csv {_PUBLIC} --no-out --clients 5 --max-dropouts 1 --drop 1@2 --drop 2@2",
        f"simulate data.csv {_PUBLIC} --no-out --clients 3 --ring-bits 32",
        (
            f"simulate data.csv {_PUBLIC} --no-out --clients 5 --max-dropouts 1 --masks pairwise"
            " --json"
        ),
        f"simulate data.csv {_PUBLIC} --no-out --clients 5 --max-dropouts 1",
    ),
    "advise": (
        "advise --records 10000 --features 4 -k 5 --json",
        (
            "advise --records 10000 --features 4 -k 5 --clients 5 --max-dropouts 1 --masks group"
            " --json --algorithm fastlloyd --loss"
        ),
        (
            "advise --records 500 --features 2 -k 3 --clients 3 --trust server-noise --algorithm"
            " sulloyd --epsilons 0.5,2 --json"
        ),
        (
            "advise --records 500 --features 2 -k 3 --neighboring-relation replace_one --json"
            " --epsilons 1"
        ),
        "advise --records 500 --features 2 -k 3 --epsilons 0,1",
        "advise --records 500 --features 2 -k 3 --clients 1",
        "advise --records 500 --features 2",
    ),
    "plan": (
        f"{_PLAN} {_TWO} --out made.toml",
        f"{_PLAN} {_TWO} --out made.toml",
        f"{_PLAN} {_TWO} --out made.toml --force --algorithm fastlloyd --iterations 2 --loss",
        "plan show made.toml --json",
        "plan digest made.toml",
        f"{_PLAN} {_TWO} --max-dropouts 1 --masks group --out other.toml",
        f"{_PLAN} {_TWO} --max-dropouts 1 --out asked.toml",
        f"{_PLAN} {_TWO} --masks pairwise --host nobody --out hosted.toml",
        f"{_PLAN} --simulation --client x:100 --out other.toml",
        f"{_PLAN} --simulation --client x:100 --client x:100 --out other.toml",
        f"{_PLAN} --simulation --client x --client y:9 --out other.toml",
        f"{_PLAN} --member data.csv:9 --member data.csv:8 --out other.toml",
        f"{_PLAN} {_TWO} --algorithm lloyd --out other.toml",
        "plan new -k 3",
        "plan explain data.csv",
        "plan explain nowhere.toml",
        "plan show changed.toml",
        "plan digest changed.toml",
        "plan renew made.toml",
        "plan nonsense",
        "keygen --name clinic --json",
        "keygen --name clinic",
        "keygen --name clinic --replace-identity --json",
        "keygen --name ../clinic",
        "keygen --name other --expires 0",
        "keygen",
    ),
    "network": (
        "serve plan.toml --key nowhere.toml",
        "serve plan.toml --key a.identity.toml",
        "serve changed.toml --key sums.identity.toml",
        "serve",
        f"{_JOIN} --digest 0",
        f"{_JOIN} --digest {'0' * 64}",
        f"{_JOIN.replace('plan.toml', 'changed.toml')} --digest DIGEST",
        f"{_JOIN.replace('a.identity', 'sums.identity')} --digest DIGEST",
        f"{_JOIN.replace('a.csv', 'nowhere.csv')} --digest DIGEST",
        f"{_JOIN} --digest DIGEST --out elsewhere",
        f"{_JOIN} --digest DIGEST --dry-run",
        f"{_JOIN} --digest DIGEST --dataset others --out elsewhere",
        "ledger limit a.identity.toml --dataset patients --epsilon 0.1 --delta 1e-6",
        "ledger limit a.identity.toml --dataset others --epsilon 3 --delta 1e-6",
        "ledger limit a.identity.toml --dataset others --epsilon 3 --delta 1e-6 --new --json",
        "ledger show plan.toml",
        "ledger show nowhere.store",
        "ledger positions a.store",
        "ledger positions sums.store --json",
        "ledger forget sums.store --client nobody",
        "ledger release a.store",
        "status nowhere.store",
        "ledger verify damaged.store",
    ),
    "others": (
        "bounds template data.csv",
        "bounds template data.csv --columns dose --out bounds.toml",
        "bounds template nowhere.csv",
        "datasets list --json",
        "datasets show synthk-2-1 --json",
        "datasets show nonsense",
        "datasets fetch synthk-2-1 --json",
        "datasets fetch nonsense",
        "experiment run spec.toml --out results --dry-run --json",
        "experiment run spec.toml --out results --dry-run --json --quick",
        "experiment run bad.toml --out results",
        "experiment run nowhere.toml --out results",
        "experiment table nowhere",
        "experiment table kept --measure nonsense",
        "assign nowhere data.csv",
        "assign earlier words.csv",
        "assign earlier narrow.csv",
        "assign earlier data.csv --distance",
        "status data.csv",
        "--version",
        "nonsense",
        "",
    ),
}
VALUES = ("advise ", "datasets show", "experiment run")
"""Commands all of whose JSON follows from what is asked."""


def answers(group: str, folder: Path) -> dict[str, Any]:
    """By command line: its exit code, where something stands in its JSON, and the values that are
    fixed.
    """
    _furnish(folder, group)
    found: dict[str, Any] = {}
    with contextlib.chdir(folder):
        for number, line in enumerate(GROUPS[group], 1):
            code, out = said(line.replace("DIGEST", _digest(folder)).split())
            found[f"{number} {line}"] = {"code": code} | _json(line, out)
    return found


def said(arguments: list[str]) -> tuple[int, str]:
    """The exit code of a command, run in this process, and what it wrote to standard output."""
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        return internals.run_command(arguments), out.getvalue()


def _json(line: str, out: str) -> dict[str, Any]:
    if "--json" not in line or not out:
        return {}
    content = json.loads(out)
    values = plain(content) if line.startswith(VALUES) else dict(_fixed(content))
    return {"keys": sorted(key_paths(content)), "values": values}


def _fixed(content: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if not isinstance(content, dict):
        return
    for key, value in content.items():
        if key in FIXED:
            yield f"{path}.{key}", plain(value)
        else:
            yield from _fixed(value, f"{path}.{key}")


def _digest(folder: Path) -> str:
    plan = folder / "plan.toml"
    return plan.read_text().rsplit('digest = "', 1)[1].split('"')[0] if plan.exists() else "DIGEST"


def _furnish(folder: Path, group: str) -> None:
    """Records that are good, lack a cell, hold words, or lack a column; settings that were changed
    by hand.
    """
    rng = np.random.RandomState(2)
    X = np.array([[20, 1], [50, 4], [80, 2]])[rng.randint(0, 3, 300)] + rng.normal(
        0, [3, 0.2], (300, 2)
    )
    np.savetxt(folder / "data.csv", X, delimiter=",", header="age,dose", comments="", fmt="%.3f")
    (folder / "broken.csv").write_text("age,dose\n1,2\n3,\n4,1\n5,1\n")
    (folder / "words.csv").write_text("age,dose\n1,2\n3,many\n")
    (folder / "narrow.csv").write_text("age\n1\n3\n")
    (folder / "bad.toml").write_text('title = "t"\nruns = 0\n')
    (folder / "spec.toml").write_text(SPEC)
    with contextlib.chdir(folder):
        if group == "others":
            _made("experiment run spec.toml --out kept --workers 1")
            _made(f"fit data.csv {_PUBLIC} --algorithm fastlloyd --out earlier")
        if group == "network":
            _finish_a_run(folder)
        else:
            _made(f"{_PLAN} {_TWO} --algorithm glloyd --out changed.toml")
            (folder / "changed.toml").rename("plan-of-two.toml")
    plan = (folder / ("plan.toml" if group == "network" else "plan-of-two.toml")).read_text()
    (folder / "changed.toml").write_text(plan.replace("max_records = 100", "max_records = 101"))


def _made(line: str) -> None:
    assert said(line.split())[0] == 0, line


def _finish_a_run(folder: Path) -> None:
    """Identities, records, the plan and the stores of a run of three clients that has finished."""
    for name in ("a", "b", "c", "sums"):
        _made(f"keygen --name {name}")
    shutil.copy("data.csv", "a.csv")
    members = " ".join(f"--member {name}.public.toml:100" for name in ("a", "b", "c"))
    _made(
        f"{_PLAN} {members} --server sums.public.toml --address localhost:47001 --epsilon 4"
        " --algorithm fastlloyd --iterations 2 --loss --out plan.toml"
    )
    plan = Plan.from_toml((folder / "plan.toml").read_text())
    keys = {
        name: PrivateIdentity.load(Path(f"{name}.identity.toml")).signing for name in plan.names
    }
    mechanism = plan.mechanism
    records = LocalRecords(mechanism.domain, np.zeros((20, 2), dtype=np.int64))
    with contextlib.ExitStack() as stack:
        owner = PrivateIdentity.load(Path("sums.identity.toml")).signing.public
        stores = {
            name: stack.enter_context(
                Store.create(folder / f"{name}.store", role=Role.CLIENT, identity=keys[name].public)
            )
            for name in plan.names
        }
        store = Store.create(folder / "sums.store", role=Role.SERVER, identity=owner)
        server = DurableServer.open(plan, store=stack.enter_context(store), noise=SystemNoise())
        clients = {
            name: DurableClient.join(
                ClientSession(
                    plan,
                    name,
                    records,
                    identity=keys[name],
                    noise=SystemNoise(),
                    random_bytes=os.urandom,
                ),
                stores[name],
                keys[name],
                dataset=DataSet(name="patients"),
                records=known_records(stores[name]),
            )
            for name in plan.names
        }
        _pass_messages(server, clients)
        server.conclude()
        for client in clients.values():
            client.conclude()
    (folder / "damaged.store").write_bytes((folder / "a.store").read_bytes()[:5000])
    (folder / "damaged.store").chmod(0o600)


def _pass_messages(server: DurableServer, clients: Mapping[str, DurableClient]) -> None:
    """Carry messages between the parties until there are none."""
    waiting: deque[tuple[str, Send | Finish]] = deque()
    for name, client in clients.items():
        server.attach(name, client.position)
        waiting.extend((name, action) for action in client.begin())
    while waiting:
        name, action = waiting.popleft()
        if not isinstance(action, Send):
            continue
        if action.to == SERVER:
            answers = server.receive(name, clients[name].position, action.message)
            waiting.extend(("", answer) for answer in answers)
        else:
            answers = clients[action.to].receive(action.message)
            waiting.extend((action.to, answer) for answer in answers)
