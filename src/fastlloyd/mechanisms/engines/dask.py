"""Engine that uses the workers of the user's own Dask cluster.

Dask's configuration decides about TLS, and Dask replaces workers that die.
"""

import asyncio
import importlib
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from ipaddress import ip_address
from queue import Empty, SimpleQueue
from typing import Any

from fastlloyd.base import extras
from fastlloyd.errors import EngineError
from fastlloyd.mechanisms.engines.engine import PULSE, Result

KEPT_SHARE = 0.25  # of the memory that Dask allows a worker; from 0.6 on it writes to disk
KEPT_BYTES = 1 << 28  # of a worker whose memory is not limited
_SILENCE = {"distributed": "critical", "distributed.client": "critical"}
_KEY = "fastlloyd"  # name of the work in Dask, also on its dashboard
_PATIENCE = 10  # seconds in which a scheduler answers, and has workers
_ALONE = 120  # seconds for which a scheduler may have no workers in the middle of a pass


class DaskEngine:
    """Engine that uses the workers of a Dask cluster. Pieces may be Dask's futures or delayed
    values.

    client : a `distributed.Client`, which `close` closes.
    name : name of the engine, for error messages.
    """

    def __init__(self, client: Any, name: str) -> None:
        self._client, self.name = client, name
        self._delayed = importlib.import_module("dask").delayed
        self._alone_since: float | None = None
        workers = self._client.scheduler_info(n_workers=-1)["workers"].values()
        self.n_workers = len(workers)
        self.kept_bytes = sum(
            int(KEPT_SHARE * worker["memory_limit"]) or KEPT_BYTES for worker in workers
        )

    @classmethod
    def connected(
        cls, address: str, *, tls: bool = False, holds_keys: bool = False
    ) -> "DaskEngine":
        """Return an engine that is connected to the scheduler at HOST:PORT.

        TLS is used if Dask is configured for it.

        tls : whether to refuse a connection without TLS.
        holds_keys : whether this process has keys of a client. Data from Dask can run code in this
            process, so without TLS the scheduler must be on this machine.

        Raises EngineError if TLS is missing, no scheduler answers, or the cluster has no workers.
        """
        if not extras.is_installed("dask"):
            raise EngineError(f"Dask is not installed: {extras.command('dask')}")
        dask = _imported("dask")
        # its log would tell of what is said in a sentence below
        dask.config.set({"logging": _SILENCE, "distributed.comm.timeouts.connect": f"{_PATIENCE}s"})
        has_tls = dask.config.get("distributed.comm.tls.ca-file", None)
        if tls and not has_tls:
            raise EngineError(
                "Dask's configuration names no certificates: set distributed.comm.tls (ca-file,"
                " client.cert, client.key) in ~/.config/dask"
            )
        if holds_keys and not has_tls and not _is_here(address):
            raise EngineError(
                f"the Dask cluster at {address} is on another machine: without TLS, anyone who"
                " reaches its ports can run code in this command, which holds your keys; name"
                f" the cluster as tls://{address}, or use a cluster on this machine"
            )
        distributed = _imported("distributed")
        protocol = "tls" if has_tls else "tcp"
        try:
            asyncio.run(_greet(distributed, f"{protocol}://{address}"))
            client = distributed.Client(
                f"{protocol}://{address}", timeout=_PATIENCE, set_as_default=False
            )
        except Exception as error:  # noqa: BLE001 - whatever answers there may say anything
            raise EngineError(
                f"no Dask scheduler answers at {address} ({type(error).__name__}); start one with"
                " `dask scheduler`, or correct --engine"
            ) from None
        try:
            client.wait_for_workers(1, timeout=_PATIENCE)
        except TimeoutError:
            client.close()
            raise EngineError(
                f"the Dask cluster at {address} has no workers; start some with `dask worker`"
            ) from None
        return cls(client, f"{'tls' if tls else 'dask'}://{address}")

    def map(
        self, function: Callable[[Any], Result], pieces: Sequence[Any]
    ) -> Iterator[tuple[int, Result] | None]:
        """Yield each result when its worker has finished, as `Engine.map` does.

        If a worker dies, another worker computes its pieces again.
        """
        futures = self._submitted(function, pieces)
        numbers = {future.key: number for number, future in enumerate(futures)}
        done = SimpleQueue[Any]()
        for future in futures:
            future.add_done_callback(done.put)
        try:
            for _ in futures:
                while (future := self._next(done)) is None:
                    yield None
                while (
                    found := self._result(future)
                ) is None:  # a worker died with it, and another works it out again
                    yield None
                yield numbers[future.key], found
        finally:
            with suppress(Exception):  # the scheduler may be gone
                self._client.cancel(futures)

    def keep(self, function: Callable[[Any], Any], pieces: Sequence[Any]) -> list[Any]:
        """Keep results at the workers, as `Engine.keep` does.

        If a worker dies, another worker computes the lost results again.
        """
        return self._submitted(function, pieces)

    def close(self) -> None:
        """Close the connection to the Dask cluster."""
        self._client.close()

    def _submitted(self, function: Callable[[Any], Any], pieces: Sequence[Any]) -> list[Any]:
        name = f"{_KEY}-{uuid.uuid4().hex}"
        task = self._delayed(function, name=f"{name}-function", pure=False, traverse=False)
        tasks = [
            task(piece, dask_key_name=f"{name}-{number}") for number, piece in enumerate(pieces)
        ]
        try:
            return list(self._client.compute(tasks)) if tasks else []
        except Exception as error:  # noqa: BLE001 - a client whose scheduler is gone
            raise self._failed(error) from None

    def _next(self, done: "SimpleQueue[Any]") -> Any:
        """Return the next finished future, or None if no future finishes within `PULSE` seconds.

        Raises EngineError if no future can finish any more.
        """
        try:
            future = done.get(timeout=PULSE)
        except Empty:
            self._check_workers()
            return None
        self._alone_since = None
        return future

    def _result(self, future: Any) -> Any:
        try:
            return future.result(timeout=PULSE)
        except TimeoutError:
            self._check_workers()
            return None
        except Exception as error:  # noqa: BLE001 - of the cluster: the work itself raises nothing
            raise self._failed(error) from None

    def _failed(self, error: Exception) -> EngineError:
        return EngineError(
            f"{self.name} could not do a piece of the work ({type(error).__name__}): its scheduler"
            " or workers ended, have too little memory, or lack fastlloyd"
        )

    def _check_workers(self) -> None:
        """Raise EngineError if the scheduler has gone, or has had no workers for `_ALONE`
        seconds.
        """
        now = time.monotonic()
        if self._client.status in ("closing", "closed"):  # it no longer tries to connect
            raise self._failed(ConnectionError())
        if self._client.scheduler_info(n_workers=1).get(
            "workers"
        ):  # none where the scheduler is gone
            self._alone_since = None
        elif self._alone_since is None:
            self._alone_since = now
        elif now - self._alone_since > _ALONE:
            raise EngineError(
                f"{self.name} has had no workers for {_ALONE} seconds; start some with `dask"
                " worker`, and start the command again"
            )


def _imported(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except Exception as error:  # noqa: BLE001 - a package may fail in any way
        raise EngineError(f"this needs Dask, which {extras.why_not(error, 'dask')}") from None


def _is_here(address: str) -> bool:
    host = address.rpartition(":")[0].strip("[]")
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:  # a name, wherever it leads
        return False


async def _greet(distributed: Any, url: str) -> None:
    """Raise an error unless a scheduler answers in time.

    A Dask client would wait forever for a scheduler that is silent.

    distributed : the module `distributed`.
    url : address of the scheduler.
    """
    arguments = distributed.Security().get_connection_args("client")
    async with asyncio.timeout(_PATIENCE):
        comm = await distributed.comm.connect(url, timeout=_PATIENCE, **arguments)
        try:
            answer = await distributed.core.send_recv(comm, op="identity")
        finally:
            comm.abort()
    if answer["type"] != "Scheduler":  # a worker, of which a client would not let go
        raise ConnectionError
