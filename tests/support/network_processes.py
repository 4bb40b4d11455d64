"""A server and clients as processes of this machine: their files, their commands, and what they
must end with.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np

import marked_process
from designs import design_plan
from fastlloyd.base.files import write_file
from fastlloyd.base.randomness import PublicSeed
from fastlloyd.cli.commands.demo import make_identities, write_records
from fastlloyd.clustering.domain import Domain
from fastlloyd.federation.holder import place
from fastlloyd.federation.identity.identity import PrivateIdentity
from fastlloyd.federation.plan.plan import Masks, Plan, Timeouts
from fastlloyd.federation.protocol.actions import SERVER as SERVER_NAME
from fastlloyd.federation.protocol.actions import ClientResult
from fastlloyd.federation.store import read
from fastlloyd.federation.store.key_file import keys_path
from fastlloyd.mechanisms.lloyd.algorithm import FASTLLOYD
from fastlloyd.mechanisms.lloyd.mechanism import LloydMechanism
from fastlloyd.mechanisms.settings import AnyAlgorithm
from fastlloyd.reports.result import Result
from fastlloyd.reports.run_result import EXACT, PLAN
from federation import Federation
from known_noise import KnownNoise
from ledgers import knowing
from ports import free_address

NAMES, SERVER, DATASET = ("a", "b", "c"), "sums", "patients"
HANG = 120  # seconds after which a process counts as hung; one that works needs a few
FORKS = get_context("forkserver")
# What a server and a client import, imported once; in the midst of a run neither imports anything
# else that takes long.
FORKS.set_forkserver_preload(["pytest", "mpmath", *(f"fastlloyd.{name}" for name in (
    "cli.commands.join", "cli.commands.serve", "cli.network", "cli.results", "cli.screen", "federation.transport.grpc.client",
    "federation.transport.grpc.server", "federation.runs", "federation.identity.x509", "reports.pictures", "testing",
))])  # fmt: skip
DOMAIN = Domain(features=("age", "dose"), lower=(0.0, 0.0), upper=(100.0, 5.0))
N_COMMITS = {"a": 10, "b": 10, "c": 10, SERVER: 9}
"""Of a run of two rounds with pairwise masks: a client commits its Hello, what it makes of the
Deal, that the keys of the others fit, that all are ready with its first upload, each sum, then its
answer, and the others' confirmations; the last ends the run and wipes it.
"""
DISK_FAILED = re.compile(
    r"Error: (\S+\.store cannot be used: the disk failed, or is full or read-only \((?:SQLITE_|E)\w+\);"
    r" put that right and start "
    r"again|result-\w cannot be written \(File too large\); no part of it was kept; the result is"
    r" kept in \S+\.store: .*)"
)
"""What a process says, with exit code 2, when it meets a disk that is full at a commit or when it
writes its result.
"""
Death = tuple[int, str]
"""Which commit of a party, from 0, counted over all its lives; before or after it, or the write of
its key, which the first one waits for and the last one is followed by; "full": its disk is, during
it. "result": its disk is full while the result is written, before this commit.
"""


def mark_of(commit: int, when: str) -> dict[str, Any]:
    """For `marked_process.py`: how the next life of a party ends, `commit` counted from its
    beginning.
    """
    if when == "result":
        return {"full": when}
    return {"full": commit} if when == "full" else {"die": [commit, when]}


def make_site(folder: Path) -> None:
    """Identities and records for everyone, once for all tests of a module."""
    for name, identity in make_identities(folder, (*NAMES, SERVER)).items():
        write_file(folder / f"{name}.public.toml", identity.public.to_toml())
    rng = np.random.default_rng(5)
    for name in NAMES:
        write_records(
            folder / f"{name}.csv", DOMAIN.features, rng.uniform([0, 0], [100, 5], (40, 2))
        )


@dataclass
class Forked:
    """What tests ask of a `subprocess.Popen`, of a process that was forked."""

    process: BaseProcess

    @property
    def pid(self) -> int:
        assert self.process.pid is not None
        return self.process.pid

    def poll(self) -> int | None:
        return self.process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self.process.join(timeout)
        code = self.process.exitcode
        assert code is not None, f"it has not ended in {timeout} seconds"
        return code

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        self.process.kill()


Process = Forked | subprocess.Popen[bytes]


@dataclass
class Site:
    """One run: a folder of its own with a plan of its own."""

    folder: Path
    plan: Plan
    processes: list[Process] = field(default_factory=list)

    @classmethod
    def make(
        cls,
        made: Path,
        folder: Path,
        *,
        algorithm: AnyAlgorithm = FASTLLOYD,
        timeouts: Timeouts | None = None,
        **options: Any,
    ) -> "Site":
        """A copy of the files that `make_site` made, and a new plan. The timeouts are long: no test
        waits for one of these.
        """
        shutil.copytree(made, folder, dirs_exist_ok=True)
        public = {
            name: PrivateIdentity.load(folder / f"{name}.identity.toml").public
            for name in (*NAMES, SERVER)
        }
        if algorithm is FASTLLOYD:
            options = {"n_iterations": 2} | options
        plan = design_plan(
            algorithm,
            DOMAIN,
            clients=tuple(public[name].client(50) for name in NAMES),
            run_id=os.urandom(16),
            server=public[SERVER].server(free_address()),
            timeouts=(
                Timeouts(joining=3600, dealing=3600, round=3600, confirming=3600)
                if timeouts is None
                else timeouts
            ),
            n_clusters=2,
            epsilon=2.0,
            public_seed=PublicSeed.from_int(3),
            **options,
        )
        write_file(folder / PLAN, plan.to_toml())
        return cls(folder, plan)

    @property
    def n_commits(self) -> dict[str, int]:
        """Of a run without deaths; `N_COMMITS` for the usual plan.

        In a round a client commits the sum, and its answer; the server the sum. Where parameters
        travel the answer waits for them, the server commits them too, and `a` works them out.
        """
        m = self.plan.mechanism
        of_round = (
            {"a": 2, "b": 2, "c": 2, SERVER: 1}
            if isinstance(m, LloydMechanism)
            else {"a": 3, "b": 2, "c": 2, SERVER: 2}
        )
        n_made = 3 if self.plan.masks is Masks.PAIRWISE else 1
        fixed = {"a": 6, "b": 6, "c": 6, SERVER: 4 + n_made}
        return {name: fixed[name] + of_round[name] * m.n_rounds for name in N_COMMITS}

    def join(self, name: str, *more: str, without: Sequence[str] = ()) -> list[str]:
        """The command line of a client."""
        options = {
            "--digest": self.plan.digest.hex(), "--key": f"{name}.identity.toml", "--data": f"{name}.csv",
            "--dataset": DATASET, "--out": f"result-{name}",
        }  # fmt: skip
        given = [
            part
            for option, value in options.items()
            if option not in (*more, *without)
            for part in (option, value)
        ]
        return ["join", PLAN, *given, *more]

    def serve(self, *more: str) -> list[str]:
        """The command line of the server."""
        options = {"--key": f"{SERVER}.identity.toml", "--listen": self.plan.server.address}
        given = [
            part
            for option, value in options.items()
            if option not in more
            for part in (option, value)
        ]
        return ["serve", PLAN, *given, *more]

    def command(self, name: str) -> list[str]:
        return self.serve() if name == SERVER else self.join(name)

    def start(
        self, log: str, arguments: Sequence[str], marks: dict[str, Any] | None = None
    ) -> Process:
        """A process whose output goes to LOG.out and LOG.err: without marks the genuine command,
        else a forked one.
        """
        if marks is not None:
            what = self.folder, log, dict(os.environ), marks, arguments
            forked = FORKS.Process(target=marked_process.begin, args=what)
            forked.start()
            self.processes.append(Forked(forked))
            return self.processes[-1]
        with (
            (self.folder / f"{log}.out").open("ab") as out,
            (self.folder / f"{log}.err").open("ab") as err,
        ):
            command = [sys.executable, "-m", "fastlloyd", *arguments]
            process = subprocess.Popen(
                command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=out, stderr=err
            )
        self.processes.append(process)
        return process

    def said(self, log: str, stream: str = "err") -> str:
        path = self.folder / f"{log}.{stream}"
        return path.read_text() if path.exists() else ""

    def run(
        self, arguments: Sequence[str], marks: dict[str, Any] | None = None
    ) -> "tuple[int, str, str]":
        """A process to its end: exit code, what it said on both streams."""
        log = f"run-{len(self.processes)}"
        code = self.start(log, arguments, marks).wait(HANG)
        return code, self.said(log, "out"), self.said(log)

    def wait_for(self, happened: Callable[[], Any]) -> None:
        """Until it has happened; AssertionError if it never does."""
        end = time.monotonic() + HANG
        while not happened():
            assert time.monotonic() < end, {
                path.name: path.read_text()[-500:] for path in self.folder.glob("*.err")
            }
            time.sleep(0.02)

    def end(self, process: Process) -> int:
        """SIGTERM, and the exit code."""
        process.send_signal(signal.SIGTERM)
        return process.wait(HANG)

    def centroids(self) -> dict[str, bytes]:
        """What each client that has a result wrote."""
        found = {name: self.folder / f"result-{name}" / EXACT for name in NAMES}
        return {name: path.read_bytes() for name, path in found.items() if path.is_file()}

    def expected(self) -> dict[str, bytes]:
        """The files of a run of all clients with known noise, computed with plain integers: no
        masks, messages or stores.
        """
        table = {
            name: np.loadtxt(self.folder / f"{name}.csv", delimiter=",", skiprows=1, ndmin=2)
            for name in NAMES
        }
        X = {name: DOMAIN.to_grid(values) for name, values in table.items()}
        exchanges = self.plan.mechanism.all_rounds
        client_noise = {
            name: [
                self.plan.draw_client_noise(e, KnownNoise(name), self.plan.n_clients)
                for e in exchanges
            ]
            for name in NAMES
        }
        server_noise = [self.plan.draw_server_noise(e, KnownNoise(SERVER_NAME)) for e in exchanges]
        everyone = (NAMES,) * len(exchanges)
        clustering = Federation(self.plan, X, client_noise, server_noise).plain_result(everyone)
        return Result.of_run(
            self.plan, ClientResult(found=clustering, included=everyone, unconfirmed=())
        ).files()

    def run_to_the_end(self, deaths: dict[str, list[Death]] | None = None, **more: Any) -> int:
        """Start everyone, again whenever somebody died; how often somebody did. Results are
        compared with `expected`.

        deaths : of each party, commits counted over its whole run, rising. more : further marks of
        all.
        """
        left = {name: list((deaths or {}).get(name, ())) for name in N_COMMITS}
        done, n_died = dict.fromkeys(N_COMMITS, 0), 0
        running: dict[str, Process] = {}

        def begin(name: str) -> None:
            marks: dict[str, Any] = {
                "noise": SERVER_NAME if name == SERVER else name,
                "fast": True,
            } | more
            if left[name]:
                commit, when = left[name].pop(0)
                marks |= mark_of(commit - done[name], when)
                is_done = when == "after" or (when.endswith(" key") and commit > 0)
                done[name] = commit + is_done
            running[name] = self.start(name, self.command(name), marks)

        for name in N_COMMITS:
            begin(name)
        finished: set[str] = set()
        end = time.monotonic() + HANG
        while finished < set(N_COMMITS):
            for name, process in list(running.items()):
                code = process.poll()
                if name in finished or code is None:
                    continue
                if self.has_died(name, code):
                    n_died += 1
                    begin(name)
                    end = (
                        time.monotonic() + HANG
                    )  # of each life, not of all: a busy machine is not a hang
                else:  # also if it died right after its last commit
                    assert code == 0, (name, code, self.said(name))
                    finished.add(name)
            if finished == set(NAMES) and not left[SERVER]:
                # a server that died after the end waits for clients that have all left its earlier
                # lives
                code = self.end(running[SERVER])
                assert code in (0, 4, -signal.SIGKILL, -signal.SIGTERM), (code, self.said(SERVER))
                n_died += self.has_died(SERVER, code)
                finished.add(SERVER)
            assert time.monotonic() < end, {name: self.said(name)[-800:] for name in N_COMMITS}
            time.sleep(0.02)
        self.check_results()
        return n_died

    def has_died(self, name: str, code: int) -> bool:
        """Whether a process that ended was killed, or ended with the sentence, and nothing else,
        for a disk that fails.
        """
        if code != 2 or not DISK_FAILED.fullmatch(self.said(name).splitlines()[-1]):
            return code == -signal.SIGKILL
        assert "Traceback" not in self.said(name)
        return True

    def check_results(self) -> None:
        """Results are as expected, and no store whose run has ended has a key left."""
        expected = self.expected()
        for name in N_COMMITS:
            path = self.folder / f"{name}.store"
            if not any(run.is_open for run in read(path)[0].history.runs.values()):
                assert not any(keys_path(path).read_bytes()), name
        for name in NAMES:
            folder = self.folder / f"result-{name}"
            for file, content in expected.items():
                assert (folder / file).read_bytes() == content, (name, file)


@contextmanager
def cleared(site: Site) -> Iterator[Site]:
    """Nobody is left behind; the ledger of the clients, who have one holder, knows the data set."""
    knowing(place(), DATASET)
    try:
        yield site
    finally:
        for process in site.processes:
            if process.poll() is None:
                process.kill()
            process.wait()
