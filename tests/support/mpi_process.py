"""One rank of runs over MPI, one after the other: a folder for what each rank ends with. Rank 0 is
the server.
"""

import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from fastlloyd.federation.plan.plan import TrustMode
from fastlloyd.federation.protocol.actions import ClientResult, Ended
from fastlloyd.federation.protocol.messages import Upload
from fastlloyd.federation.protocol.rounds import ClientRounds
from fastlloyd.federation.transport.mpi import load_mpi, serve, take_part
from fastlloyd.mechanisms.lloyd.algorithm import GLLOYD
from federation import Federation, make_federation, make_plan

CASES: dict[str, Callable[[], Federation]] = {
    "client-noise": lambda: make_federation(make_plan(3)),
    "server-noise-loss": lambda: make_federation(
        make_plan(
            3, trust=TrustMode.SERVER_NOISE, ring_bits=32, algorithm=GLLOYD, estimate_loss=True
        )
    ),
    "large": lambda: make_federation(make_plan(3, n_clusters=60, n_features=40)),
    "garbled": lambda: make_federation(make_plan(3, max_dropouts=1)),
    "oversized": lambda: make_federation(make_plan(3, max_dropouts=1)),
    "too-few": lambda: make_federation(make_plan(3)),
}
LENGTHENED = {"garbled": 1, "oversized": 1 << 20, "too-few": 1}
"""Bytes by which the last client's second upload is too long."""


def shown(outcome: ClientResult | Ended) -> dict[str, object]:
    """An outcome in JSON."""
    match outcome:
        case Ended(reason):
            return {"reason": reason}
        case ClientResult(clustering=clustering, included=included):
            fields = {
                name: np.asarray(getattr(clustering, name)).tolist()
                for name in clustering.__struct_fields__
            }
            return {"clustering": fields, "included": [list(names) for names in included]}


@contextlib.contextmanager
def lengthened(case: str) -> Iterator[None]:
    """In some cases the last client's upload of round 2 is too long."""
    upload, liar = ClientRounds.upload, CASES[case]().plan.names[-1]

    def longer(rounds: ClientRounds) -> Upload:
        made = upload(rounds)
        n_bytes = LENGTHENED.get(case, 0) if rounds.name == liar and made.round == 2 else 0
        return Upload(made.round, made.nonce, made.payload + bytes(n_bytes))

    with mock.patch.object(ClientRounds, "upload", longer):
        yield


def take_turn(case: str, comm: Any) -> dict[str, object]:
    """One rank's part in one run: how it ended."""
    federation, rank = CASES[case](), comm.Get_rank()
    if rank == 0:
        result = serve(federation.server(), comm)
        return {"reason": result.reason, "included": [list(each) for each in result.included]}
    return shown(take_part(federation.client(federation.plan.names[rank - 1]), comm))


def main(folder: Path) -> None:
    comm, said = load_mpi().COMM_WORLD, {}
    for case in CASES:
        with lengthened(case):
            said[case] = take_turn(case, comm)
    (folder / str(comm.Get_rank())).write_text(json.dumps(said))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
