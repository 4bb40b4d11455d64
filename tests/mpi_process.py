"""One rank of runs over MPI, one after the other: a folder for what each rank ends with. Rank 0 is the server."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from fastlloyd.algorithms import GLLOYD
from fastlloyd.plan import TrustMode
from fastlloyd.protocol import ClientResult, Ended
from fastlloyd.protocol.client_rounds import ClientRounds
from fastlloyd.protocol.messages import Upload
from fastlloyd.transport.mpi import load_mpi, serve, take_part
from federation import Federation, make_federation, make_plan

CASES: dict[str, Callable[[], Federation]] = {
    "client-noise": lambda: make_federation(make_plan(3)),
    "server-noise-loss": lambda: make_federation(
        make_plan(3, trust=TrustMode.SERVER_NOISE, ring_bits=32, algorithm=GLLOYD, estimate_loss=True)
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
            fields = {name: np.asarray(getattr(clustering, name)).tolist() for name in clustering.__struct_fields__}
            return {"clustering": fields, "included": [list(names) for names in included]}


def lengthened(upload: Callable[[ClientRounds], Upload], n_bytes: int) -> Callable[[ClientRounds], Upload]:
    """The same uploads, but that of round 2 is too long."""

    def longer(rounds: ClientRounds) -> Upload:
        made = upload(rounds)
        return Upload(made.round, made.nonce, made.payload + bytes(n_bytes)) if made.round == 2 else made

    return longer


def take_turn(case: str, comm: Any) -> dict[str, object]:
    """This rank's part in one run: how it ended."""
    federation, rank = CASES[case](), comm.Get_rank()
    names = federation.plan.names
    if rank == 0:
        result = serve(federation.server(), comm)
        return {"reason": result.reason, "included": [list(each) for each in result.included]}
    n_bytes = LENGTHENED.get(case, 0) if rank == len(names) else 0
    with mock.patch.object(ClientRounds, "upload", lengthened(ClientRounds.upload, n_bytes)):
        return shown(take_part(federation.client(names[rank - 1]), comm))


def main(folder: Path) -> None:
    comm = load_mpi().COMM_WORLD
    said = {case: take_turn(case, comm) for case in CASES}
    (folder / str(comm.Get_rank())).write_text(json.dumps(said))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
