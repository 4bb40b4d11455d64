"""Times of noise, masks, a federated round, reading and starting, each compared with a named
peer.
"""

import importlib
import os
import subprocess
import sys
import tempfile
from fractions import Fraction
from pathlib import Path

import numpy as np

from benchmarks.report import Row, as_markdown
from benchmarks.runs import box, settings_of
from benchmarks.stream import read_alone
from benchmarks.timing import Pair, Work, paired
from fastlloyd.clustering import kernels
from fastlloyd.dp.noise import SystemNoise
from fastlloyd.federation.plan.design import ProtocolChoices, design_plan
from fastlloyd.federation.plan.plan import Masks
from fastlloyd.federation.secagg.masks import GroupKey, GroupMasks, MaskContext
from fastlloyd.federation.secagg.ring import Ring
from fastlloyd.federation.simulation import roster, simulate
from fastlloyd.mechanisms.answering import LocalRecords
from fastlloyd.mechanisms.lloyd.algorithm import FASTLLOYD
from fastlloyd.mechanisms.lloyd.mechanism import LloydMechanism
from fastlloyd.records import open_records

ROUNDS = 40
REPETITIONS = 15
B = 1 << 16  # of the grid


def table() -> str:
    """Return a table with a row for each part."""
    return as_markdown(
        [*(part(REPETITIONS) for part in (noise, masks, a_round, reading)), *starting(REPETITIONS)]
    )


def noise(repetitions: int) -> Row:
    """Compare the exact sampler of noise with NumPy's floating-point Gaussian, which gives no
    privacy.
    """
    source, rng = SystemNoise(), np.random.default_rng()
    pair = paired(
        lambda: source.gaussian(Fraction(1 << 24), 100 * 1025),
        lambda: rng.normal(0, 1 << 24, 100 * 1025),
        repetitions,
    )
    return Row(
        "noise for 100 x 1025 entries, exact, from the CSPRNG",
        "numpy Generator.normal (not private)",
        pair,
    )


def masks(repetitions: int) -> Row:
    """Compare making masks for ten clients with reading the same number of bytes from the operating
    system.
    """
    masks, words = GroupMasks(GroupKey.draw(os.urandom), Ring.Z64), 100 * 1025 + 1
    context, zeros, names = (
        mask_context(),
        Ring.Z64.zeros(words),
        [f"client-{i}" for i in range(10)],
    )
    pair = paired(
        lambda: [masks.hide(zeros, context, name, bytes(8)) for name in names],
        lambda: [os.urandom(8 * words) for _ in names],
        repetitions,
    )
    return Row(
        "masks of 10 clients, 100 x 1025 words of 64 bits", "os.urandom of as many bytes", pair
    )


def a_round(repetitions: int) -> Row:
    """Compare a federated round in this process with the computations of this round alone: kernels,
    noise and masks.
    """
    X = np.random.default_rng(0).integers(-B, B + 1, (2000, 2))
    domain = box(2, -1.0)
    clients, identities = roster(("a", "b"), len(X))
    plan = design_plan(
        settings_of(domain, 15, len(X), algorithm=FASTLLOYD, n_iterations=ROUNDS),
        clients=clients,
        run_id=os.urandom(16),
        protocol=ProtocolChoices(masks=Masks.GROUP),
        simulated=True,
    )
    parts = np.array_split(X, 2)
    source, masks = SystemNoise(), GroupMasks(GroupKey.draw(os.urandom), plan.ring)
    m = plan.mechanism
    if not isinstance(m, LloydMechanism):
        raise TypeError("the parts of a round are measured for FastLloyd")
    start = m.initial_centroids()

    def parts_alone() -> None:
        for _ in range(ROUNDS):
            for part in parts:
                kernels.cluster_statistics(
                    part, start, m.rounds[-1].squared_radius, limits=m.domain.half_widths
                )
                plan.draw_client_noise(m.rounds[-1], source, plan.n_clients)
                # its own for the upload, which serves for the broadcast as well, and the other's
                for _ in range(2):
                    masks.hide(
                        plan.ring.zeros(plan.n_words(plan.mechanism.rounds[0])),
                        mask_context(),
                        "a",
                        os.urandom(8),
                    )

    records = [LocalRecords(domain, part) for part in parts]
    whole, alone, ratio = paired(
        lambda: simulate(plan, identities, records), parts_alone, repetitions
    )
    return Row(
        "a federated round in process, 2 clients, k = 15, d = 2",
        "its kernels, noise and masks alone",
        Pair(whole / ROUNDS, alone / ROUNDS, ratio),
    )


def reading(repetitions: int) -> Row:
    """Compare a pass over a Parquet file of a million float32 records with pyarrow's reader
    alone.
    """
    pa, pq = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    n, d = 1_000_000, 16
    cells = np.random.default_rng(0).normal(size=(d, n)).astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "records.parquet"
        pq.write_table(
            pa.table(list(cells), names=[f"x{i}" for i in range(d)]),
            path,
            row_group_size=n,
            use_dictionary=False,
        )
        file = open_records(path)
        pair = paired(
            lambda: [None for _ in file.blocks()], lambda: read_alone(path, d), repetitions
        )
    return Row(
        f"a pass over Parquet, N = {n:,}, d = {d}, float32",
        "pyarrow ParquetFile.iter_batches",
        pair,
    )


def starting(repetitions: int) -> list[Row]:
    """Compare `fastlloyd --help` and `import fastlloyd` with starting Python alone."""
    ours = {
        "fastlloyd --help": ("-m", "fastlloyd", "--help"),
        "import fastlloyd": ("-c", "import fastlloyd"),
    }
    return [
        Row(name, "python -c ''", paired(_process(*arguments), _process("-c", ""), repetitions))
        for name, arguments in ours.items()
    ]


def _process(*arguments: str) -> Work:
    return lambda: subprocess.run(
        [sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL
    )


def mask_context() -> MaskContext:
    """Return the context of masks of some round."""
    return MaskContext(
        plan_digest=bytes(32),
        run_id=bytes(16),
        round=1,
        transcript_hash=bytes(32),
        centroids_digest=bytes(32),
    )
