"""A long run over gRPC with stores, in this process: what it holds after so many rounds, on both
sides.
"""

import asyncio
import contextlib
import gc
import os
import sys
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from fastlloyd.federation.admission import DataSet
from fastlloyd.federation.protocol.client import ClientSession
from fastlloyd.federation.protocol.messages import Broadcast, Message
from fastlloyd.federation.runs import DurableClient, DurableServer
from fastlloyd.federation.store import Role, Store
from fastlloyd.federation.store.files import files
from fastlloyd.mechanisms.answering import LocalRecords
from fastlloyd.testing import repeatable_noise
from federation import entropy, identity, injected, make_federation, make_plan
from grpc_site import Outcome, Site, serving
from known_records import known_records


@dataclass(frozen=True)
class Held:
    """What the process holds between two rounds. blocks : of Python's memory; stores : bytes of
    each party's files.
    """

    blocks: int
    resident: int
    descriptors: int
    threads: int
    stores: dict[str, int]


def held(stores: dict[str, Path]) -> Held:
    gc.collect()
    pages = (
        int(Path("/proc/self/statm").read_text().split()[1])
        if Path("/proc/self/statm").exists()
        else 0
    )
    descriptors = (
        sum(1 for _ in Path("/proc/self/fd").iterdir()) if Path("/proc/self/fd").exists() else 0
    )
    sizes = {
        name: sum(file.stat().st_size for file in files(path)[:2] if file.exists())
        for name, path in stores.items()
    }
    return Held(
        sys.getallocatedblocks(),
        pages * os.sysconf("SC_PAGE_SIZE"),
        descriptors,
        threading.active_count(),
        sizes,
    )


def soak(
    folder: Path, n_rounds: int, look_at: Iterable[int], n_clients: int = 3
) -> tuple[dict[int, Held], Site, list[Outcome]]:
    """Run so many rounds; what was held when the first client had received the sum of each round in
    `look_at`.
    """
    site = Site(make_federation(make_plan(n_clients, n_iterations=n_rounds)))
    plan, federation, seen = site.plan, site.federation, dict[int, Held]()
    paths = {name: folder / f"{name}.store" for name in (*plan.names, "server")}

    class Watched(DurableClient):
        """Looks around when a sum has come and before it is opened."""

        def receive(self, message: Message):  # type: ignore[no-untyped-def]  # as the genuine one
            if isinstance(message, Broadcast) and message.round in look_at:
                seen[message.round] = held(paths)
            return super().receive(message)

    with contextlib.ExitStack() as stack, repeatable_noise():
        store = stack.enter_context(
            Store.create(paths["server"], role=Role.SERVER, identity=bytes(32))
        )
        site.party = DurableServer.open(plan, store=store, noise=injected(federation.server_noise))  # type: ignore[assignment]
        for name in plan.names:
            store = stack.enter_context(
                Store.create(paths[name], role=Role.CLIENT, identity=identity(name).public)
            )
            session = ClientSession(
                plan,
                name,
                LocalRecords(plan.mechanism.domain, federation.X[name]),
                identity=identity(name),
                noise=injected(federation.client_noise[name]),
                random_bytes=entropy(name),
            )
            site.parties[name] = (Watched if name == plan.names[0] else DurableClient).join(  # type: ignore[assignment]
                session,
                store,
                identity(name),
                dataset=DataSet(name="records"),
                records=known_records(store),
            )

        async def run() -> list[Outcome]:
            async with serving(site.server()) as port:
                return await site.run_clients(port)

        return seen, site, asyncio.run(run())


# objects: a broadcast, who was in it and their nonces, a charge, in four parties; measured: 14
BLOCKS_PER_ROUND = 40
BYTES_PER_ROUND = 16_384  # of memory; measured: 4.5 kB
STORE_BYTES_PER_ROUND = (
    24_576  # two steps a round of a client, of two pages of SQLite's log each, or three
)
LOG_BYTES = 1_100 * 4_120  # SQLite brings its log into the file when it has 1000 pages
FILE_BYTES_PER_ROUND = 1_024  # what stays: an event or three, and the messages of the open run


def check_growth(before: Held, after: Held, *, n_rounds: int) -> None:
    """No descriptor, no thread, and a few objects a round; of the stores what steps write, the log
    bounded for good.

    Some objects and four megabytes are forgiven: caches of this process, filled by whatever happens
    first, and pages of memory.
    """
    assert after.descriptors <= before.descriptors
    assert after.threads <= before.threads
    assert after.blocks - before.blocks <= 2_000 + BLOCKS_PER_ROUND * n_rounds
    assert after.resident - before.resident <= 4_000_000 + BYTES_PER_ROUND * n_rounds
    for name, size in after.stores.items():
        assert size - before.stores[name] <= STORE_BYTES_PER_ROUND * n_rounds, name
        assert size <= LOG_BYTES + 65_536 + FILE_BYTES_PER_ROUND * (n_rounds + 64), name
