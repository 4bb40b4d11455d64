"""What `make quick` runs starts no process and talks to nobody: whatever tries to is a failure."""

import asyncio
import multiprocessing
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable

import grpc
import grpc.aio
import pytest

from alone import UNIT, alone
from clone import ROOT


def spawn() -> None:
    multiprocessing.get_context("spawn").Process(target=int).start()


def fork() -> None:
    if os.fork() == 0:
        os._exit(0)


def bind() -> None:
    with socket.socket() as ours:
        ours.bind(("127.0.0.1", 0))


def connect() -> None:
    with socket.socket() as ours:
        ours.connect(("127.0.0.1", 1))


async def serve() -> None:
    grpc.aio.server()


async def call() -> None:
    grpc.aio.insecure_channel("localhost:1")


async def start() -> None:
    await asyncio.create_subprocess_exec(sys.executable, "-c", "")


@pytest.mark.parametrize(
    "action",
    [
        lambda: subprocess.run([sys.executable, "-c", ""], check=True),
        lambda: os.system("true"),  # noqa: S605, S607
        lambda: asyncio.run(start()),
        fork,
        spawn,
        bind,
        connect,
        lambda: socket.getaddrinfo("localhost", 1),
        lambda: asyncio.run(serve()),
        lambda: asyncio.run(call()),
        lambda: grpc.insecure_channel("localhost:1"),
    ],
)
def test_a_quick_test_that_starts_a_process_or_opens_a_socket_fails(
    action: Callable[[], object],
) -> None:
    with alone(), pytest.raises(pytest.fail.Exception, match="tests/thorough"):
        action()


def test_event_loops_and_threads_are_no_talk_with_anybody() -> None:
    async def work() -> int:
        return await asyncio.to_thread(int, 3)

    with alone():
        assert asyncio.run(work()) == 3


def test_after_a_quick_test_others_may_start_processes() -> None:
    with alone():
        pass
    subprocess.run([sys.executable, "-c", ""], check=True)


def test_quick_tests_are_those_of_the_folder_that_is_watched() -> None:
    makefile = (ROOT / "Makefile").read_text()
    recipe = re.search(r"^quick:.*\n\t(.*)$", makefile, re.MULTILINE)
    assert recipe is not None
    assert recipe[1].split()[-1] == UNIT.relative_to(ROOT).as_posix()
