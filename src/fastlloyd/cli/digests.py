"""Check of the digest of a plan in the option `--digest`."""

from pathlib import Path

from fastlloyd.errors import PlanError
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.jobs.digests import bare, is_any_digest, is_digest_of, mistyped, other_number


def check_digest(plan: Plan, digest: str, path: Path) -> None:
    """Raise PlanError unless `digest` is the digest of the plan. Spaces, colons, dashes and
    capitals do not matter.

    path : file of the plan, for the error message.
    """
    agreed, own = bare(digest), plan.digest.hex()
    if is_digest_of(plan, digest):
        return
    if what := mistyped(agreed, own):
        raise PlanError(
            f"--digest is almost the digest of {path}: {what}. Compare --digest with the digest"
            " that you were told; nothing was done"
        )
    if not is_any_digest(digest):
        raise PlanError(
            f"--digest is {digest!r:.80}, the run id; expected the 64 hex digits that `fastlloyd"
            " plan digest PLAN` prints"
            if agreed == plan.run_id
            else f"--digest is {digest!r:.80}; expected the 64 hex digits that `fastlloyd plan"
            " digest PLAN` prints"
        )
    if what := other_number(plan, agreed):
        raise PlanError(
            f"--digest is {what}, not the digest of the plan; pass the digest that the other"
            " parties told you"
        )
    raise PlanError(
        f"{path} is not the plan that was agreed on: its digest is {own}, and --digest says"
        f" {agreed}; ask for the plan with that digest, and compare `fastlloyd plan explain` of"
        " both"
    )
