"""Make what `kept/` holds: `python tests/vectors/keep.py FOLDER [PART ...]`, with the program whose
files are to stay readable.

What users have on disk of a version stays as that version wrote it, so `kept/` is not made anew
when the program changes: whatever a later version can no longer read is a fault of that version. To
keep files of a later version too, add a folder beside these: `version-4` has plans and stores of
that version of the protocol, all others are of version 3. The keys are test keys, which expire ten
years after they were made; the records are made up.
"""

import json
import pickle
import shutil
import signal
import socket
import subprocess
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
from clustering_vectors import central_cases, settings_text
from recorded import KEPT, copy_kept

import fastlloyd

NAMES, SERVER = ("a", "b", "c"), "sums"
HANG = 120  # seconds
MARKED = Path(__file__).parents[1] / "support" / "marked_process.py"
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
MECHANISMS = {
    "momentlloyd": "momentlloyd default k=5 d=4",
    "momentlloyd-directions": "momentlloyd default k=2 d=40",
    "momentlloyd-loss": "momentlloyd, large budget, replace_one, loss",
    "fastlloyd": "fastlloyd default k=5 d=2",
    "fastlloyd-paper": "fastlloyd paper k=15 d=1",
    "fastlloyd-laplace": "fastlloyd, laplace, replace_one, loss",
    "fastlloyd-constant": "fastlloyd, constant radius",
    "glloyd": "glloyd default k=1 d=1",
    "sulloyd": "sulloyd default k=1 d=1",
    "lloyd": "lloyd, loss",
}
"""Cases whose `mechanism.toml` is kept."""


def start(
    folder: Path, *arguments: str, program: Sequence[str] = ("-m", "fastlloyd")
) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-W", "ignore", *program, *arguments]
    # our own program
    return subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL)


def run(folder: Path, *arguments: str) -> None:
    code = start(folder, *arguments).wait(HANG)
    if code:
        raise SystemExit(f"{' '.join(arguments)}: exit code {code}")


def free_address() -> str:
    with socket.socket() as tried:
        tried.bind(("127.0.0.1", 0))
        return f"localhost:{tried.getsockname()[1]}"


def write_records(path: Path, seed: int, n: int = 60) -> None:
    """Records in three groups, in a file of text."""
    rng = np.random.RandomState(seed)
    X = np.array([[20, 1], [50, 4], [80, 2]])[rng.randint(0, 3, n)] + rng.normal(
        0, [3, 0.2], (n, 2)
    )
    np.savetxt(path, X, delimiter=",", header="age,dose", comments="", fmt="%.3f")


PUBLIC = ("--bounds", "age=0:100,dose=0:5", "-k", "3", "--public-seed", "8")


def results(folder: Path) -> None:
    """Folders of finished commands; without pictures, which nothing reads."""
    write_records(folder / "records.csv", 1, 200)
    cap = ("--n-records", "400")
    run(
        folder,
        "fit",
        "records.csv",
        *PUBLIC,
        *cap,
        "--epsilon",
        "5",
        "--loss",
        "--out",
        "fit-momentlloyd",
    )
    run(
        folder,
        "fit",
        "records.csv",
        *PUBLIC,
        *cap,
        "--algorithm",
        "fastlloyd",
        "--out",
        "fit-fastlloyd",
    )
    run(folder, "fit", "records.csv", *PUBLIC, *cap, "--algorithm", "lloyd", "--out", "fit-lloyd")
    run(
        folder,
        "simulate",
        "records.csv",
        *PUBLIC,
        *cap,
        "--epsilon",
        "5",
        "--clients",
        "3",
        "--out",
        "simulate",
    )
    for picture in folder.glob("*/clusters.png"):
        picture.unlink()


def networks(folder: Path) -> None:
    """Identities; a run that finished, and one that all left after a client was gone; plans."""
    keys = folder / "identities"
    keys.mkdir()
    for number, name in enumerate((*NAMES, SERVER)):
        run(keys, "keygen", "--name", name, "--expires", "3650")
        if name != SERVER:
            write_records(keys / f"{name}.csv", 10 + number)
    finished, interrupted = (
        Path(shutil.copytree(keys, folder / name)) for name in ("finished", "interrupted")
    )
    plan(finished, "plan.toml", "--algorithm", "fastlloyd", "--iterations", "2", "--loss")
    network_to_the_end(finished)
    plan(interrupted, "plan.toml")
    network_that_is_killed(interrupted, 8)
    plans(Path(shutil.copytree(keys, folder / "plans")), finished)
    twice = [
        path
        for copy in ("finished", "interrupted", "plans")
        for path in (folder / copy).iterdir()
        if (keys / path.name).exists()
    ]
    passing = [
        path
        for path in folder.glob("*/*")
        if path.name.endswith(("-shm", "-lock")) or path.stat().st_size == 0
    ]
    like_that_of_b = folder.glob("*/c.store*")
    for file in {*twice, *passing, *like_that_of_b, *folder.glob("*/*/clusters.png")}:
        file.unlink()


def plans(folder: Path, finished: Path) -> None:
    """Plans of each kind, in a folder with the identities."""
    plan(
        folder, "client-noise-momentlloyd.toml", "--max-dropouts", "1", "--masks", "group", "--loss"
    )
    plan(
        folder,
        "server-noise-fastlloyd.toml",
        "--trust",
        "server-noise",
        "--algorithm",
        "fastlloyd",
        "--loss",
    )
    study = (
        "--study",
        "visits",
        "--purpose",
        "to see",
        "--controller",
        "Clinic",
        "--contact",
        "clinic@example.org",
    )
    plan(
        folder,
        "server-noise-sulloyd.toml",
        "--trust",
        "server-noise",
        "--algorithm",
        "sulloyd",
        *study,
    )
    simulated = ("--simulation", "--client", "x:100", "--client", "y:150", "--algorithm", "glloyd")
    run(
        folder,
        "plan",
        "new",
        *PUBLIC,
        "--features",
        "age,dose",
        *simulated,
        "--out",
        "simulation-glloyd.toml",
    )
    run(folder, "ledger", "positions", str(finished / f"{SERVER}.store"), "--out", "positions.toml")
    known = ("--positions", "positions.toml")
    run(folder, "plan", "renew", str(finished / "plan.toml"), *known, "--out", "renewed.toml")


def plan(folder: Path, out: str, *options: str) -> None:
    members = [part for name in NAMES for part in ("--member", f"{name}.public.toml:100")]
    address = ("--server", f"{SERVER}.public.toml", "--address", free_address())
    run(
        folder,
        "plan",
        "new",
        *PUBLIC,
        "--features",
        "age,dose",
        "--epsilon",
        "4",
        *members,
        *address,
        *options,
        "--out",
        out,
    )


def join(
    folder: Path, name: str, program: Sequence[str] = ("-m", "fastlloyd")
) -> "subprocess.Popen[bytes]":
    digest = subprocess.check_output(
        [sys.executable, "-m", "fastlloyd", "plan", "digest", "plan.toml"], cwd=folder, text=True
    )
    return start(folder, "join", "plan.toml", "--digest", digest.strip(), "--key", f"{name}.identity.toml",
                 "--data", f"{name}.csv", "--dataset", "patients", "--out", f"result-{name}", program=program)  # fmt: skip


def network_to_the_end(folder: Path) -> None:
    """All that clients and server leave."""
    server = start(folder, "serve", "plan.toml", "--key", f"{SERVER}.identity.toml")
    clients = [join(folder, name) for name in NAMES]
    assert [process.wait(HANG) for process in (*clients, server)] == [0] * 4
    run(
        folder,
        "ledger",
        "limit",
        "a.identity.toml",
        "--dataset",
        "patients",
        "--epsilon",
        "20",
        "--delta",
        "1e-4",
    )
    for name in NAMES[1:]:
        shutil.rmtree(folder / f"result-{name}")


def network_that_is_killed(folder: Path, commit: int) -> None:
    """Stores of a run that ended in its midst: the client `b` dies after this commit, then all
    others are killed.
    """
    dying = (str(MARKED), json.dumps({"die": [commit, "after"], "fast": True}))
    server = start(folder, "serve", "plan.toml", "--key", f"{SERVER}.identity.toml")
    clients = [join(folder, name, dying if name == "b" else ("-m", "fastlloyd")) for name in NAMES]
    assert clients[1].wait(HANG) == -signal.SIGKILL
    for process in (server, *clients):
        process.kill()
        process.wait()


def version_4(folder: Path) -> None:
    """By kind of masks: the stores of a run that finished, and of one that all left in its midst;
    with the kept identities.
    """
    for masks in ("group", "pairwise"):
        finished, interrupted = folder / masks / "finished", folder / masks / "interrupted"
        for place in (finished, interrupted):
            place.mkdir(parents=True)
            copy_kept("identities", place)
            plan(
                place,
                "plan.toml",
                "--algorithm",
                "fastlloyd",
                "--iterations",
                "3",
                "--masks",
                masks,
            )
        network_to_the_end(finished)
        network_that_is_killed(interrupted, 4)
        shutil.rmtree(finished / "result-a")
        given = [
            place / file.name
            for place in (finished, interrupted)
            for file in (KEPT / "identities").iterdir()
        ]
        passing = [
            path
            for path in folder.glob("*/*/*")
            if path.name.endswith(("-shm", "-lock")) or path.stat().st_size == 0
        ]
        for path in {*given, *passing, *finished.glob("[bc].store*")}:
            path.unlink()


def experiment(folder: Path) -> None:
    """The folder of results of a small experiment."""
    (folder / "methods.toml").write_text(SPEC)
    run(folder, "experiment", "run", "methods.toml", "--out", "experiment", "--workers", "1")
    (folder / "methods.toml").unlink()


def pickles(folder: Path) -> None:
    """Fitted estimators, what they were fitted to, and what they say of it."""
    folder.mkdir()
    rng = np.random.RandomState(7)
    X = np.array([[-0.6, 0.5], [0.1, -0.4], [0.6, 0.6]])[rng.randint(0, 3, 200)] + rng.normal(
        0, 0.08, (200, 2)
    )
    X = X.round(4)
    public: dict[str, Any] = {
        "n_clusters": 3,
        "bounds": (-1.0, 1.0),
        "n_records": 400,
        "random_state": 3,
        "epsilon": 4.0,
    }
    said: dict[str, object] = {
        "sklearn": sklearn.__version__,
        "numpy": np.__version__,
        "X": X.tolist(),
    }
    kinds = {
        kind.__name__: kind
        for kind in (fastlloyd.MomentLloyd, fastlloyd.FastLloyd, fastlloyd.Lloyd)
    }
    for name in (*kinds, "MomentLloyd-loss", "FastLloyd-loss"):
        kind = kinds[name.removesuffix("-loss")]
        own = public | ({"estimate_loss": True, "epsilon": 1.0} if name.endswith("-loss") else {})
        parameters = {key: value for key, value in own.items() if key in kind().get_params()}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = kind(**parameters).fit(X)
        (folder / f"{name}.pickle").write_bytes(pickle.dumps(model, protocol=4))
        said[name] = {
            "labels": model.predict(X).tolist(),
            "cluster_centers": model.cluster_centers_.tolist(),
            "noisy_counts": model.noisy_counts_.tolist(),
            "mechanism_digest": model.mechanism_.digest.hex(),
        }
    (folder / "said.json").write_text(json.dumps(said) + "\n")


def mechanisms(folder: Path) -> None:
    """One `mechanism.toml` of each kind."""
    folder.mkdir()
    cases = dict(central_cases())
    for name, case in MECHANISMS.items():
        (folder / f"{name}.toml").write_text(settings_text(cases[case]))


PARTS: dict[str, Callable[[Path], None]] = {
    "mechanisms": lambda folder: mechanisms(folder / "mechanisms"),
    "pickles": lambda folder: pickles(folder / "pickles"),
    "results": results,
    "experiment": experiment,
    "networks": networks,
    "version-4": lambda folder: version_4(folder / "version-4"),
}


def main(arguments: Sequence[str]) -> None:
    folder = Path(arguments[0]).resolve()
    folder.mkdir(parents=True)  # never over what is there
    for part in arguments[1:] or PARTS:
        PARTS[part](folder)


if __name__ == "__main__":
    main(sys.argv[1:])
