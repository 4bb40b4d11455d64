"""How large the noise in the answers of a federated run is: it depends on how many clients an answer includes."""

import math

from fastlloyd.federation.plan.plan import Plan, TrustMode
from fastlloyd.mechanisms.mechanism import Clustering
from fastlloyd.mechanisms.uncertainty import LossEstimate, NoiseDeviation, loss_estimate, noise_deviation


def noise_deviation_of_run(plan: Plan, n_included: int) -> NoiseDeviation:
    """The noise in the last round, which included `n_included` clients: in `client-noise` each of them added a share.

    That is sqrt(n_included / h) times what the guarantee needs (see `explain.noise_factor`), shares being rounded up.
    """
    if plan.trust is TrustMode.SERVER_NOISE:
        return noise_deviation(plan.mechanism)
    sums, counts = plan.share_scales(plan.mechanism.clustering_rounds[-1])
    together = math.sqrt(n_included)
    return NoiseDeviation(sums=together * float(sums), counts=together * float(counts / 2**plan.mechanism.count_bits))


def loss_estimate_of_run(plan: Plan, clustering: Clustering, n_included: int) -> LossEstimate | None:
    """The loss of a run whose exchange for the loss included `n_included` clients; None where the plan does not ask for it."""
    loss = plan.mechanism.loss
    if plan.trust is TrustMode.SERVER_NOISE or loss is None:
        return loss_estimate(plan.mechanism, clustering)
    (share,) = plan.share_scales(loss)
    deviation = math.sqrt(n_included) * float(share) * loss.unit(plan.mechanism.domain.fraction_bits)
    return loss_estimate(plan.mechanism, clustering, deviation)
