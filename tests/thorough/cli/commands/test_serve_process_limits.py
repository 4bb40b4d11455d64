"""What a process of ours may leave of its memory on disk, and how many connections it may have."""

import os
import subprocess
import sys

import pytest

from fastlloyd.errors import NetworkError
from fastlloyd.jobs.server import OWN_FILES, allow_connections

resource = pytest.importorskip("resource")

ASKED = """
import ctypes, resource, sys
hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
from fastlloyd import __main__ as program
before = resource.getrlimit(resource.RLIMIT_CORE)
sys.argv = ["fastlloyd", "--version"]
code = program.main()
dumpable = ctypes.CDLL(None).prctl(3, 0, 0, 0, 0) if sys.platform == "linux" else 0  # PR_GET_DUMPABLE
print(code, before[0] != 0, *resource.getrlimit(resource.RLIMIT_CORE), dumpable)
"""


def test_no_command_leaves_a_core_dump_and_importing_it_changes_nothing() -> None:
    """Read back from the system, in a process that was allowed to leave one."""
    allowed = resource.getrlimit(resource.RLIMIT_CORE)[1] != 0
    found = subprocess.run(
        [sys.executable, "-c", ASKED], capture_output=True, text=True, check=True
    )
    assert found.stdout.splitlines()[-1].split() == ["0", str(allowed), "0", "0", "0"]


LIMITED = """
import resource, sys
from fastlloyd.jobs.server import allow_connections
soft, hard, needed, wanted = map(int, sys.argv[1:])
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
print(allow_connections(needed, wanted), *resource.getrlimit(resource.RLIMIT_NOFILE))
"""


@pytest.mark.parametrize(
    ("soft", "hard", "found"),
    [
        (128, 4096, [1012, 1012 + OWN_FILES, 4096]),  # raised to what is wanted
        (128, 500, [500 - OWN_FILES, 500, 500]),  # as far as it goes
        (3000, 4096, [1012, 3000, 4096]),  # left alone where it is enough
    ],
)
def test_the_soft_limit_of_open_files_is_raised_as_far_as_it_helps(
    soft: int, hard: int, found: list[int]
) -> None:
    command = [sys.executable, "-c", LIMITED, *map(str, (soft, hard, 6, 1012))]
    said = subprocess.run(
        command, env=os.environ, capture_output=True, text=True, check=True
    ).stdout
    assert [int(word) for word in said.split()] == found


def test_a_hard_limit_below_what_the_clients_need_is_refused_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (100, 2000 + OWN_FILES - 1))
    monkeypatch.setattr(
        resource, "setrlimit", lambda *_: pytest.fail("nothing is changed where the run is refused")
    )
    with pytest.raises(
        NetworkError,
        match=f"2063 files.*{2000 + OWN_FILES};.*LimitNOFILE=",
    ):
        allow_connections(2000, 5000)


def test_no_limit_is_a_limit_that_is_high_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (-1, -1))
    monkeypatch.setattr(resource, "setrlimit", lambda *_: pytest.fail("there is nothing to raise"))
    assert allow_connections(2000, 5000) == 5000


def test_a_system_that_refuses_to_raise_it_is_taken_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> None:
        raise ValueError("current limit exceeds maximum limit")

    monkeypatch.setattr(resource, "getrlimit", lambda _: (2100, -1))
    monkeypatch.setattr(resource, "setrlimit", refuse)
    assert allow_connections(2000, 5000) == 2100 - OWN_FILES
