"""Server of a run that one of the clients hosts: a process that the client's process starts, reads
and stops.

The server process is a new interpreter. It gets its orders on standard input, and nothing else: no
records, and no key of the client. It writes each step to disk before it sends anything that depends
on the step, so it may be killed at any time. It ends when the client's process ends.
"""

import asyncio
import json
import logging
import os
import subprocess  # nosec B404 - runs this very program
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Final, NamedTuple, Self, TypeVar

import msgspec

from fastlloyd.cli import network
from fastlloyd.cli.failures import DONE
from fastlloyd.cli.network_options import HostOptions
from fastlloyd.errors import NetworkError, PlanError, StateError
from fastlloyd.federation.identity.identity import PrivateIdentity, PublicIdentity
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.federation.secagg.masks import Secret
from fastlloyd.jobs.parties import check_server, place_of_store

T = TypeVar("T")
_LOG = logging.getLogger(__name__)
_LOOK: Final = 0.1  # seconds between two looks at whether the process runs
_STOPPING: Final = 15.0  # seconds for the step in progress
_SOON: Final = 3.0  # seconds in which the server usually ends when its last client has
# recognised, not listened at
_OF_ALL_ADDRESSES: Final = ("[::]", "0.0.0.0")  # noqa: S104  # nosec B104
_ALWAYS_ASKED: Final = "FASTLLOYD_PASSPHRASE_FILE"  # of the client's identity


class Orders(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Orders for the server process.

    plan : text of the plan.
    key : path of the server's private identity.
    store : path of the server's store.
    address : address at which the server listens.
    passphrase : passphrase of the identity, or "".
    """

    plan: str
    key: str
    store: str
    address: str
    passphrase: str = ""

    __repr__ = Secret.__repr__

    @classmethod
    def read(cls, stream: BinaryIO) -> Self:
        """Return the orders in the line that `ServerProcess` wrote.

        Raises StateError if the line contains no orders.
        """
        try:
            return msgspec.json.decode(stream.readline(), type=cls)
        except msgspec.DecodeError:
            raise StateError(
                "only `fastlloyd join --serve FILE` starts this process; run that command"
            ) from None


class ServerProcess:
    """Server in a process of its own. The client's process copies each line of the server's log to
    its own log, with a mark.

    orders : orders for the server.
    """

    def __init__(self, orders: Orders) -> None:
        host, _, port = orders.address.rpartition(":")
        self.address = f"localhost:{port}" if host in _OF_ALL_ADDRESSES else orders.address
        self._has_begun, self._is_stopped, self._said = threading.Event(), False, ""
        environment = {name: value for name, value in os.environ.items() if name != _ALWAYS_ASKED}
        # this very program, with arguments made here
        self._process = subprocess.Popen(  # nosec B603
            [sys.executable, "-P", "-m", "fastlloyd", "hosted"],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for this process, which stops it
        )
        self._hearing = threading.Thread(
            target=self._hear, name="fastlloyd-server-log", daemon=True
        )
        self._hearing.start()
        with suppress(OSError):  # it has ended already, and has said why
            self._stdin.write(msgspec.json.encode(orders) + b"\n")
            self._stdin.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        """Stop the server process, and wait until it ends. After a KeyboardInterrupt it
        is killed.
        """
        if kind is not None and issubclass(kind, KeyboardInterrupt):
            self._process.kill()
        self.close()

    @property
    def is_running(self) -> bool:
        """Return whether the server process is still running."""
        return self._process.poll() is None

    @property
    def has_failed(self) -> bool:
        """Return whether the server process ended by itself before the run was over."""
        return self._process.poll() not in (None, DONE, network.NO_RESULT) and not self._is_stopped

    def begin(self) -> None:
        """Wait until the server listens, or until its run is over.

        Raises NetworkError if the server did not start.
        """
        self._has_begun.wait()
        if self.has_failed:
            raise self._failure("did not start")

    def stop(self) -> None:
        """Ask the server process to finish its current step, and to end."""
        self._is_stopped |= self.is_running
        self._process.terminate()

    def close(self) -> None:
        """Stop the server process, wait until it ends, and forward the rest of its log.

        A second call does nothing.
        """
        if self.is_running:
            self.stop()
        try:
            self._process.wait(_STOPPING)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._hearing.join()
        with suppress(OSError):
            self._stdin.close()

    async def accompany(
        self, run: Callable[[], Coroutine[Any, Any, T]], stop: Callable[[], None]
    ) -> T:
        """Run a task that needs the server. If the server process fails, stop the task.

        run : function that returns the task as a coroutine.
        stop : function that stops the task.
        """

        async def watch() -> None:
            while not self.has_failed:
                await asyncio.sleep(_LOOK)
            stop()

        watching = asyncio.create_task(watch())
        try:
            return await run()
        finally:
            watching.cancel()

    def see_out(self, *, as_json: bool) -> None:
        """Wait until the server has told every client that the run is over.

        as_json : whether messages are JSON.

        Raises typer.Exit if the server was stopped, and NetworkError if the server failed.
        """

        async def ended() -> None:
            waited = 0.0
            while self.is_running:
                await asyncio.sleep(_LOOK)
                waited += _LOOK
                if waited - _LOOK < _SOON <= waited:
                    network.say(
                        (
                            "This client is done. The server runs until all other clients know"
                            " that the run is over. Ctrl-C stops the server; run the same command"
                            " again to continue."
                        ),
                        as_json=as_json,
                    )

        network.heed_signals(ended, self.stop)
        self._hearing.join()
        if self._process.returncode not in (DONE, network.NO_RESULT):
            raise self.gone(as_json=as_json)

    def gone(self, *, as_json: bool) -> Exception:
        """Return the exception that tells the user that the server process has failed, or was
        stopped.

        as_json : whether the message about a stopped server is JSON.
        """
        if self.has_failed:
            return self._failure("failed")
        self.close()
        return network.stopped(as_json=as_json)

    def _failure(self, how: str) -> NetworkError:
        self._hearing.join()
        code = self._process.returncode
        if self._said:
            return NetworkError(f"the server {how}: {self._said}")
        return NetworkError(
            f"the server {how}: signal {-code} ended it; run the same command again to continue"
            if code is not None and code < 0
            else f"the server {how}: exit code {code}"
        )

    @property
    def _stdin(self) -> BinaryIO:
        if self._process.stdin is None:
            raise AssertionError("expected a pipe to the input of the server's process")
        return self._process.stdin  # type: ignore[return-value]  # a pipe of bytes

    def _hear(self) -> None:
        """Forward the log of the server process, line by line, until the process ends."""
        if self._process.stderr is None:
            raise AssertionError("expected a pipe from the log of the server's process")
        with self._process.stderr as log:
            for line in log:
                self._pass_on(line.decode(errors="replace").strip())
        self._process.wait()
        self._has_begun.set()

    def _pass_on(self, line: str) -> None:
        try:
            said = json.loads(line)
            level, message = (
                logging.getLevelNamesMapping()[said.pop("level").upper()],
                said.pop("message"),
            )
            del said["time"]
        except (ValueError, KeyError, AttributeError, TypeError):
            # how a process ends that could not begin, or go on
            self._said = line.removeprefix("Error: ")
            if self._said == line:
                # of a traceback that was asked for
                _LOG.error("server: %s", line, extra={"facts": {"party": "server"}})
            return
        _LOG.log(level, "server: %s", message, extra={"facts": {"party": "server", **said}})
        if "listening" in said:
            self._has_begun.set()


class Hosting(NamedTuple):
    """Choice of one client to run the server of its plan, or not to.

    plan : plan of the run.
    path : file of the plan, for messages.
    client : name of the client.
    options : options of the host.
    """

    plan: Plan
    path: Path
    client: str
    options: HostOptions

    def check(self) -> None:
        """Raise PlanError unless the host's options are complete, and the plan names this client as
        host.
        """
        options, path, host = self.options, self.path, self.plan.host
        if options.serve is None:
            given = {
                "--listen": options.listen,
                "--server-store": options.server_store,
                "--server-passphrase-file": options.server_passphrase_file,
            }
            if stray := [name for name, value in given.items() if value is not None]:
                raise PlanError(
                    f"{stray[0]} has no effect without --serve FILE, which runs the server here;"
                    f" add --serve, or leave out {stray[0]}"
                )
            return
        if host is None:
            raise PlanError(
                f"{path} names no host, so its server runs on a separate machine: leave out"
                " --serve, or make the plan with `fastlloyd plan new --masks pairwise --host"
                f" {self.client}`"
            )
        if host != self.client:
            raise PlanError(
                f"{path} names {host!r} as the host, and you are {self.client!r}; leave out --serve"
            )

    def server(self, *, as_json: bool) -> PublicIdentity | None:
        """Return the public identity of the server that runs here. Without --serve, return None,
        and tell the user if the plan names this client as host.

        as_json : whether messages are JSON.

        Raises IdentityError or PlanError unless the identity is that of the plan's server.
        """
        key = self.options.serve
        if key is not None:
            public = PrivateIdentity.public_of(key)
            check_server(public, self.plan, key, self.path)
            return public
        if self.plan.host == self.client:
            network.say(
                f"Note: {self.path} names you as the host; start the server here with --serve FILE,"
                " or with `fastlloyd serve`.",
                as_json=as_json,
            )
        return None

    @contextmanager
    def process(self, *, as_json: bool) -> Iterator[ServerProcess | None]:
        """Context manager: run the server until the end of the block, if `check` allows it.

        It yields the server process, or None without --serve.

        as_json : whether messages are JSON.

        Raises NetworkError if the server cannot start.
        """
        public, options = self.server(as_json=as_json), self.options
        key = options.serve
        if key is None or public is None:
            yield None
            return
        store = place_of_store(public.name, key, options.server_store)
        passphrase = ""  # nosec B105 - none
        if PrivateIdentity.is_under_passphrase(key):
            option = "--server-passphrase-file"
            passphrase = network.given_passphrase(
                options.server_passphrase_file, f"Passphrase of the server, {key}: ", option
            )
        orders = Orders(
            plan=self.plan.to_toml(),
            key=str(key),
            store=str(store),
            address=network.address_to_listen_at(self.plan, options.listen),
            passphrase=passphrase,
        )
        with ServerProcess(orders) as process:
            process.begin()
            yield process
