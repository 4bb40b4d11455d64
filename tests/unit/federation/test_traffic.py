"""Bytes of a run: counted on the messages beforehand, and on the wire."""

from collections import Counter

import numpy as np
import pytest

from designs import design_plan
from fastlloyd.base.randomness import PublicSeed
from fastlloyd.clustering.domain import Domain
from fastlloyd.federation.plan.plan import Masks, TrustMode
from fastlloyd.federation.protocol.actions import SERVER
from fastlloyd.federation.protocol.client import ClientSession
from fastlloyd.federation.protocol.messages import Message, Upload
from fastlloyd.federation.protocol.server import ServerSession
from fastlloyd.federation.simulation import roster
from fastlloyd.federation.traffic import traffic
from fastlloyd.federation.transport.in_process import run_in_process
from fastlloyd.mechanisms.answering import LocalRecords
from fastlloyd.mechanisms.lloyd.algorithm import FASTLLOYD
from fastlloyd.testing import SeededNoise

pytestmark = pytest.mark.usefixtures("repeatable_noise")


@pytest.mark.parametrize(
    ("n_clients", "trust", "masks", "ring_bits", "n_features", "n_iterations", "estimate_loss"),
    [
        (1, TrustMode.SERVER_NOISE, Masks.GROUP, 64, 1, 2, False),
        (2, TrustMode.CLIENT_NOISE, Masks.GROUP, 64, 3, 2, True),
        (12, TrustMode.CLIENT_NOISE, Masks.GROUP, 32, 2, 3, False),
        (3, TrustMode.SERVER_NOISE, Masks.GROUP, 32, 40, 2, True),
        (2, TrustMode.CLIENT_NOISE, Masks.PAIRWISE, 64, 3, 2, True),
        (12, TrustMode.CLIENT_NOISE, Masks.PAIRWISE, 32, 2, 3, False),
        (3, TrustMode.SERVER_NOISE, Masks.PAIRWISE, 64, 2, 2, False),
    ],
)
def test_every_client_sends_and_receives_the_bytes_that_were_foretold(
    n_clients: int,
    trust: TrustMode,
    masks: Masks,
    ring_bits: int,
    n_features: int,
    n_iterations: int,
    estimate_loss: bool,
) -> None:
    names = [f"client-{i}" for i in range(1, n_clients + 1)]
    clients, identities = roster(names, 120)
    features = tuple(f"x{i}" for i in range(n_features))
    plan = design_plan(
        FASTLLOYD,
        Domain(
            features=features,
            lower=(-1.0,) * n_features,
            upper=(1.0,) * n_features,
            fraction_bits=10,
        ),
        clients=clients,
        run_id=bytes(range(16)),
        n_clusters=3,
        epsilon=5.0,
        public_seed=PublicSeed.from_int(1),
        trust=trust,
        masks=masks,
        ring_bits=ring_bits,
        n_iterations=n_iterations,
        estimate_loss=estimate_loss,
    )
    sent: Counter[str] = Counter()
    received: Counter[str] = Counter()
    uploads = set()

    def link(sender: str, recipient: str, message: Message, data: bytes) -> list[bytes]:
        sent[sender] += len(data)
        received[recipient] += len(data)
        if isinstance(message, Upload):
            uploads.add((sender, len(data)))
        return [data]

    noise, key = SeededNoise(0), np.random.default_rng(3)
    X = np.zeros((2, n_features), dtype=np.int64)
    sessions = [
        ClientSession(
            plan,
            name,
            LocalRecords(plan.mechanism.domain, X),
            identity=identities[name],
            noise=noise,
            random_bytes=key.bytes,
        )
        for name in names
    ]
    run_in_process(ServerSession(plan, noise), sessions, link=link)
    for name in names:
        foretold = traffic(plan, name)
        assert (foretold.sent, foretold.received) == (sent[name], received[name]), name
        assert (name, foretold.sent_per_round) in uploads
    assert len(uploads) == n_clients * (
        1 + estimate_loss
    )  # that of the loss is shorter than the others
    assert sent[SERVER] == sum(traffic(plan, name).received for name in names)
