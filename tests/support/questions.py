"""Answers to a program's questions at a terminal."""

import os
import pty
import select
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

SECONDS = 120


def answered(command: list[str], folder: Path, reply: Callable[[str], str]) -> tuple[int, str]:
    """Run a command at a terminal and return its exit code with the screen.

    reply : answer to a question, which is the last line on the screen while the program waits.
    """
    master, slave = pty.openpty()
    process = subprocess.Popen(command, cwd=folder, stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    shown, deadline = "", time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        ready, _, _ = select.select([master], [], [], 0.3)
        if ready:
            try:
                shown += os.read(master, 4096).decode()
            except OSError:  # the program has ended
                break
        elif shown.endswith(": "):  # the last character comes when the program reads
            os.write(master, (reply(shown.rpartition("\n")[2]) + "\n").encode())
            select.select([master], [], [], SECONDS)  # the terminal shows the answer at once
    os.close(master)
    return process.wait(SECONDS), shown.replace("\r\n", "\n")
