"""A Dask cluster of the party's own. TLS is as Dask's configuration says; workers that die are replaced by it."""

import asyncio
import importlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from fastlloyd.base import extras
from fastlloyd.errors import EngineError
from fastlloyd.mechanisms.engines.engine import Result

KEPT_SHARE = 0.25  # of the memory that Dask allows a worker; from 0.6 on it writes to disk
KEPT_BYTES = 1 << 28  # of a worker whose memory is not limited
_SILENCE = {"distributed": "critical", "distributed.client": "critical"}
_KEY = "fastlloyd"  # what Dask calls the work, on its dashboard too
_PATIENCE = 10  # seconds in which a scheduler answers, and has workers


class DaskEngine:
    """The workers of a cluster; see `Engine`. client : a `distributed.Client`, which `close` closes."""

    def __init__(self, client: Any, name: str) -> None:
        self._client, self.name = client, name
        workers = self._client.scheduler_info(n_workers=-1)["workers"].values()
        self.n_workers = len(workers)
        self.kept_bytes = sum(int(KEPT_SHARE * worker["memory_limit"]) or KEPT_BYTES for worker in workers)

    @classmethod
    def connected(cls, address: str) -> "DaskEngine":
        """The cluster of the scheduler at HOST:PORT. Raises EngineError where none answers, or none that has workers."""
        if not extras.is_installed("dask"):
            raise EngineError(f"Dask is not installed: {extras.command('dask')}")
        dask = importlib.import_module("dask")
        # its log would tell of what is said in a sentence below
        dask.config.set({"logging": _SILENCE, "distributed.comm.timeouts.connect": f"{_PATIENCE}s"})
        has_tls = dask.config.get("distributed.comm.tls.ca-file", None)
        distributed = importlib.import_module("distributed")
        url = f"{'tls' if has_tls else 'tcp'}://{address}"
        try:
            asyncio.run(_greet(distributed, url))
            client = distributed.Client(url, timeout=_PATIENCE, set_as_default=False)
        except Exception as error:  # noqa: BLE001 - whatever answers there may say anything
            raise EngineError(
                f"no Dask scheduler answers at {address} ({type(error).__name__}); start one with `dask scheduler`, or correct "
                "--engine"
            ) from None
        try:
            client.wait_for_workers(1, timeout=_PATIENCE)
        except TimeoutError:
            client.close()
            raise EngineError(f"the Dask cluster at {address} has no workers; start some with `dask worker`") from None
        return cls(client, f"dask://{address}")

    def map(self, function: Callable[[Any], Result], pieces: Sequence[Any]) -> Iterator[tuple[int, Result]]:
        """See `Engine`."""
        as_completed = importlib.import_module("distributed").as_completed
        futures = self._client.map(function, pieces, key=_KEY, pure=False)
        numbers = {future.key: number for number, future in enumerate(futures)}
        try:
            for future in as_completed(futures, loop=self._client.loop):
                yield numbers[future.key], self._result(future)
        finally:
            self._client.cancel(futures)

    def keep(self, function: Callable[[Any], Any], pieces: Sequence[Any]) -> list[Any]:
        """See `Engine`: what a worker that dies has kept is made again by another."""
        return list(self._client.map(function, pieces, key=_KEY, pure=False))

    def close(self) -> None:
        """See `Engine`."""
        self._client.close()

    def _result(self, future: Any) -> Any:
        try:
            return future.result()  # waits where a worker died with it, and another works it out again
        except Exception as error:  # noqa: BLE001 - of the cluster: the work itself raises nothing
            raise EngineError(
                f"{self.name} could not do a piece of the work ({type(error).__name__}): its scheduler or workers ended, have "
                "too little memory, or lack fastlloyd"
            ) from None


async def _greet(distributed: Any, url: str) -> None:
    """Raise whatever shows that no scheduler answers in time; a client alone would wait for ever for one that says nothing."""
    arguments = distributed.Security().get_connection_args("client")
    comm = await asyncio.wait_for(distributed.comm.connect(url, timeout=_PATIENCE, **arguments), _PATIENCE)
    await comm.close()
