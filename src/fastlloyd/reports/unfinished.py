"""What a run that ended early leaves at a client: the centroids so far, in a file that says what they are not."""

from typing import Any

from fastlloyd.base.files import to_json
from fastlloyd.federation.plan.plan import Plan, TrustMode
from fastlloyd.federation.protocol.actions import Unfinished
from fastlloyd.reports.run_result import PLAN, UNFINISHED, rounds
from fastlloyd.reports.statement import plan_statement


def caution(plan: Plan, unfinished: Unfinished) -> str:
    """Say how far the run had come, and what to do before the centroids are used."""
    said = (
        f"unconfirmed: the centroids after round {unfinished.round} of {plan.mechanism.n_rounds} of a run that ended early. "
        "Others may hold different ones: compare them before use"
    )
    if plan.trust is TrustMode.SERVER_NOISE:
        said += ". Keep them from the server, for ever, like a result"
    return said


def contents(plan: Plan, unfinished: Unfinished, reason: str) -> dict[str, bytes]:
    """Return the files by name. The centroids are private, and paid for: their rounds are charged."""
    m = plan.mechanism
    said: dict[str, Any] = {
        "caution": caution(plan, unfinished),
        "reason": reason,
        "after_round": unfinished.round,
        "n_rounds": m.n_rounds,
        "features": list(m.domain.features),
        "centroids": m.domain.from_grid(unfinished.centroids).tolist(),
        "rounds": rounds(m, unfinished.included, unfinished.doubtful),
        "privacy": plan_statement(plan, len(unfinished.included[-1])),
    }
    return {UNFINISHED: to_json(said).encode(), PLAN: plan.to_toml().encode()}
