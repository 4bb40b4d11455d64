"""Lloyd's algorithm that reveals nothing but its result: three parties compute on secret shares,
with MPyC. It is exact, without noise.

Each party has a third of the records, and inputs them as Shamir shares. Then assignments, counts,
sums, comparisons and divisions are computed on shares. This is secure for an honest majority of
parties that follow the protocol. `measure` starts the three processes. As a program,
`secure_baseline.py FOLDER -M3`, this module is one of them. It imports only numpy and mpyc, so it
can be started alone.
"""

import asyncio
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.float64]
N_PARTIES = 3
# bits of a number and of its fraction: MPyC's division wants twice the fraction
LENGTH, FRACTION = 64, 32


class Baseline(NamedTuple):
    """Cost and error of the run on shares.

    seconds : seconds of each iteration for the slowest party.
    n_bytes : bytes that all parties send per iteration.
    error : largest error of a coordinate, compared with `lloyd`.
    """

    seconds: list[float]
    n_bytes: float
    error: float


def missing() -> str:
    """Return a sentence that names the missing software, or "" if nothing is missing."""
    return (
        ""
        if importlib.util.find_spec("mpyc")
        else "the secure baseline left out: mpyc is not installed"
    )


def measure(X: Matrix, start: Matrix, n_iterations: int) -> Baseline:
    """Measure Lloyd's algorithm on shares.

    X : records (n, d) in [-1, 1].
    start : initial centroids (k, d).
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.save(folder / "records.npy", X)
        np.save(folder / "start.npy", start)
        (folder / "iterations").write_text(str(n_iterations))
        command = [sys.executable, str(Path(__file__)), name, f"-M{N_PARTIES}", "--no-log"]
        subprocess.run(
            command,
            check=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdout=subprocess.DEVNULL,
        )
        parties = [json.loads((folder / f"party-{i}").read_text()) for i in range(N_PARTIES)]
    seconds = [max(times) for times in zip(*(party["seconds"] for party in parties), strict=True)]
    error = max(
        float(np.abs(np.array(party["centroids"]) - lloyd(X, start, n_iterations)).max())
        for party in parties
    )
    return Baseline(seconds, sum(party["bytes"] for party in parties) / n_iterations, error)


def lloyd(X: Matrix, C: Matrix, n_iterations: int) -> Matrix:
    """Return the centroids (k, d) of Lloyd's algorithm without shares. At equal distances the first
    centroid is chosen. A cluster without records keeps its centroid.
    """
    for _ in range(n_iterations):
        labels = (X @ (-2 * C.T) + (C**2).sum(axis=1)).argmin(axis=1)
        C = np.array(
            [X[labels == j].mean(axis=0) if (labels == j).any() else C[j] for j in range(len(C))]
        )
    return C


def _iteration(mpc: Any, X: Any, C: Any) -> Any:
    """Return shares of the next centroids (k, d), from shares of the records (n, d) and of the
    centroids (k, d). No value is opened.
    """
    # squared distances without |x|^2, which is the same for all centroids
    scores = X @ (-2 * C.T) + mpc.np_sum(C * C, axis=1)
    best, chosen = scores[:, 0], list[Any]([1])
    for j in range(1, C.shape[0]):
        nearer = scores[:, j] < best
        best = mpc.np_where(nearer, scores[:, j], best)
        chosen = [*(each * (1 - nearer) for each in chosen), nearer]
    H = mpc.np_vstack(chosen)  # (k, n), one 1 per record
    counts = mpc.np_sum(H, axis=1).reshape(C.shape[0], 1)
    empty = counts < 1
    return mpc.np_where(empty, C, (H @ X) / (counts + empty))


async def _party(folder: Path) -> None:
    mpc: Any = import_module("mpyc.runtime").mpc  # reads the command line
    records, n_iterations = (
        np.load(folder / "records.npy"),
        int((folder / "iterations").read_text()),
    )
    number = mpc.SecFxp(LENGTH, FRACTION)
    await mpc.start()
    # every process reads the file for the shapes, and hands in its own third
    thirds = np.array_split(records, N_PARTIES)
    shares = [mpc.input(number.array(third), senders=i) for i, third in enumerate(thirds)]
    X, C = mpc.np_vstack(shares), number.array(np.load(folder / "start.npy"))
    await mpc.barrier("records")
    seconds, begun_bytes = [], _sent(mpc)
    for t in range(n_iterations):
        begun = time.perf_counter()
        C = _iteration(mpc, X, C)
        await mpc.gather(C)
        await mpc.barrier(f"iteration {t}")
        seconds.append(time.perf_counter() - begun)
    n_bytes = _sent(mpc) - begun_bytes
    centroids = (await mpc.output(C)).tolist()
    (folder / f"party-{mpc.pid}").write_text(
        json.dumps({"seconds": seconds, "bytes": n_bytes, "centroids": centroids})
    )
    await mpc.shutdown()


def _sent(mpc: Any) -> int:
    return sum(peer.protocol.nbytes_sent for peer in mpc.parties if peer.pid != mpc.pid)


if __name__ == "__main__":
    asyncio.run(_party(Path(sys.argv[1])))
