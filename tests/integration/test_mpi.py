"""Whole runs over MPI: by ranks that are threads, with a stand-in for MPI, and by processes that
mpirun starts.

The latter are skipped where mpirun or mpi4py is absent; `make bench-overhead` installs both.
"""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from clone import SUPPORT
from fake_mpi import HANG, MPI, Rank
from fastlloyd.errors import NetworkError
from fastlloyd.federation.protocol.actions import SERVER, ClientResult
from fastlloyd.federation.protocol.server import ServerSession
from fastlloyd.federation.transport import mpi
from fastlloyd.federation.transport.in_process import run_in_process
from federation import make_plan
from mpi_process import CASES, lengthened, shown, take_turn

Ended = dict[str, list[dict[str, Any]]]

MPIRUN = shutil.which(
    "mpirun", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
)
needs_mpi = pytest.mark.skipif(
    MPIRUN is None or importlib.util.find_spec("mpi4py") is None,
    reason="mpirun or mpi4py is not installed",
)


@pytest.fixture(scope="module", params=["threads", pytest.param("mpirun", marks=needs_mpi)])
def ended(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """What each rank ended with, by case."""
    return in_threads() if request.param == "threads" else by_mpirun(tmp_path_factory.mktemp("mpi"))


def in_threads() -> Ended:
    """Ranks that are threads of this process: the transport without MPI."""
    said = {}
    with mock.patch.object(mpi, "load_mpi", return_value=MPI):
        for case in CASES:
            with lengthened(case), ThreadPoolExecutor(4) as pool:
                said[case] = list(pool.map(partial(take_turn, case), Rank.of(4)))
    return said


def by_mpirun(folder: Path) -> Ended:
    """Processes; all runs are in one job, one after the other."""
    program = SUPPORT / "mpi_process.py"
    environment = {
        **os.environ,
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    }
    environment["OMPI_MCA_mpi_yield_when_idle"] = "1"
    assert MPIRUN is not None
    command = [
        MPIRUN,
        "--oversubscribe",
        "-n",
        "4",
        sys.executable,
        "-m",
        "mpi4py",
        str(program),
        str(folder),
    ]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=HANG, check=False
    )
    assert done.returncode == 0, done.stderr
    ranks = [json.loads((folder / str(rank)).read_text()) for rank in range(4)]
    return {case: [rank[case] for rank in ranks] for case in CASES}


@pytest.mark.parametrize("case", ["client-noise", "server-noise-loss", "large"])
def test_a_run_over_mpi_equals_the_run_in_one_process_bit_for_bit(case: str, ended: Ended) -> None:
    federation = CASES[case]()
    server, *clients = ended[case]
    reference = run_in_process(federation.server(), federation.clients())
    assert server["reason"] is None
    for name, client in zip(federation.plan.names, clients, strict=True):
        expected = reference.clients[name]
        assert isinstance(expected, ClientResult)
        assert client == shown(expected)


@pytest.mark.parametrize(
    ("case", "why"),
    [("garbled", "in round 2 of this run each has"), ("oversized", "none has more than")],
)
def test_a_client_that_breaks_the_protocol_is_told_so_and_the_others_go_on(
    case: str, why: str, ended: Ended
) -> None:
    server, *others, refused = ended[case]
    included = [["c0", "c1", "c2"], ["c0", "c1"], ["c0", "c1"]]
    assert server == {"reason": None, "included": included}
    assert refused["reason"].startswith("the server refuses this client: ")
    assert why in refused["reason"]
    expected = CASES[case]().plain_result(included)
    for client in others:
        assert client["included"] == included
        assert client["clustering"]["centroids"] == expected.centroids.tolist()


def test_a_run_that_too_few_are_left_of_ends_without_a_result_for_everyone(ended: Ended) -> None:
    server, *clients = ended["too-few"]
    assert "at least 3 are needed" in server["reason"]
    assert all("clustering" not in client for client in clients)
    assert [server["reason"] in client["reason"] for client in clients] == [True, True, False]


@pytest.mark.parametrize(
    ("size", "rank", "said"),
    [(3, 0, "needs 4: start it by mpirun -n 4"), (4, 2, r"belongs to rank 0")],
)
def test_a_job_of_other_ranks_than_the_plan_has_parties_is_refused_in_a_sentence(
    size: int, rank: int, said: str
) -> None:
    with pytest.raises(NetworkError, match=said):
        mpi.serve(CASES["client-noise"]().server(), Rank.of(size)[rank])


@pytest.mark.parametrize(
    "error",
    [ImportError("No module named 'mpi4py'"), RuntimeError("cannot load MPI library\nlibmpi.so")],
)
def test_a_machine_without_mpi_is_told_what_to_install(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_name: str) -> None:
        raise error

    monkeypatch.setattr(mpi, "import_module", fail)
    with pytest.raises(NetworkError, match=r"install fastlloyd\[mpi\]") as raised:
        mpi.load_mpi()
    assert "\n" not in str(raised.value)


def test_between_the_sends_of_one_step_nothing_is_asked_of_mpi(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Asked about a message on its way, MPI lets its receiver compute first, and the next receiver
    waits for that.
    """
    ranks, calls, serving = Rank.of(4), list[str](), threading.local()

    def noted(owner: type, name: str) -> None:
        method = getattr(owner, name)

        def call(*arguments: Any, **named: Any) -> Any:
            if getattr(serving, "yes", False):
                calls.append(name)
            return method(*arguments, **named)

        monkeypatch.setattr(owner, name, call)

    for owner, name in ((Rank, "Isend"), (Rank, "Mprobe"), (MPI.Request, "Test")):
        noted(owner, name)

    def turn(rank: Rank) -> object:
        serving.yes = rank.Get_rank() == 0
        return take_turn("server-noise-loss", rank)

    with (
        mock.patch.object(mpi, "load_mpi", return_value=MPI),
        lengthened("server-noise-loss"),
        ThreadPoolExecutor(4) as pool,
    ):
        list(pool.map(turn, ranks))
    assert calls.count("Test") > 10
    assert ("Test", "Isend") not in pairwise(calls)


def test_the_server_draws_noise_ahead_once_nothing_came_for_a_moment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn, genuine = list[str](), ServerSession.draw_ahead

    def draw_ahead(session: ServerSession) -> None:
        drawn.append(session.progress)
        genuine(session)

    monkeypatch.setattr(ServerSession, "draw_ahead", draw_ahead)
    monkeypatch.setattr(mpi._Wire, "hears_within", lambda _wire, _seconds: False)
    with mock.patch.object(mpi, "load_mpi", return_value=MPI), ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda rank: take_turn("server-noise-loss", rank), Rank.of(4)))
    assert {f"round {t} of 4" for t in (1, 2, 3, 4)} <= set(drawn)


def test_what_has_come_already_is_answered_before_noise_is_drawn_ahead() -> None:
    server, client, _ = Rank.of(3)
    with mock.patch.object(mpi, "load_mpi", return_value=MPI):
        wire = mpi._Wire.of(server, make_plan(2), SERVER)
        assert not wire.hears_within(1e-4)
        client.Isend([b"x", None], dest=0, tag=1)
        assert wire.hears_within(60)
