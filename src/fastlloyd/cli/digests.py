"""The digest of a plan as somebody typed it: the plan's, mistyped, another number of the plan, or
the digest of another plan.
"""

import hmac
import re
from pathlib import Path
from typing import Final

from fastlloyd.errors import PlanError
from fastlloyd.federation.plan.plan import Plan

DIGITS: Final = 64
MOST_MISTYPED: Final = 4
"""Digits of 64 that may differ in what is called mistyped. Two digests that were not made for each
other agree in 60 places with a probability below 1e-60.
"""


def check_digest(plan: Plan, digest: str, path: Path) -> None:
    """Raise PlanError unless the digest is that of the plan; spaces and capitals do not matter."""
    agreed, own = re.sub(r"[\s:-]", "", digest).lower(), plan.digest.hex()
    if hmac.compare_digest(agreed.encode(), own.encode()):
        return
    if what := mistyped(agreed, own):
        raise PlanError(
            f"--digest is not the digest of {path}, but nearly: {what}. Compare it with what you"
            " were told; nothing was done"
        )
    if not re.fullmatch(rf"[0-9a-f]{{{DIGITS}}}", agreed):
        other = " (it is the run id)" if agreed == plan.run_id else ""
        raise PlanError(
            f"--digest is {digest!r:.80}{other}; expected the 64 hex digits that `fastlloyd plan"
            " digest PLAN` prints"
        )
    if what := _of_the_plan(plan, agreed):
        raise PlanError(
            f"--digest is {what}, which is another number of 64 digits; pass the digest of the"
            " plan, as the others told it"
        )
    raise PlanError(
        f"{path} is not the plan that was agreed on: its digest is {own}, and --digest says"
        f" {agreed}; ask for the plan of that digest, and look at `fastlloyd plan explain` of both"
    )


def mistyped(typed: str, digest: str) -> str:
    """Return a sentence that shows the mistyped digits of a digest, at most four, or one omitted or
    repeated digit; "" for other differences.
    """
    wrong = [at for at, (a, b) in enumerate(zip(typed, digest, strict=False), 1) if a != b]
    first = wrong[0] if wrong else min(len(typed), len(digest)) + 1
    if len(typed) == len(digest):
        many = f"{len(wrong)} digits differ" if len(wrong) > 1 else "one digit differs"
        return f"{many}, the first is digit {first}" if 0 < len(wrong) <= MOST_MISTYPED else ""
    if len(typed) == len(digest) - 1 and typed[first - 1 :] == digest[first:]:
        return f"one digit is missing, from digit {first} on"
    if len(typed) == len(digest) + 1 and typed[first:] == digest[first - 1 :]:
        return f"there is one digit too many, from digit {first} on"
    return ""


def _of_the_plan(plan: Plan, number: str) -> str:
    """Return the name of another value in the plan that equals the number, or ""."""
    names = {plan.server.fingerprint: f"the fingerprint of the server {plan.server.name!r}"}
    for client in plan.clients:
        names[client.fingerprint] = f"the fingerprint of {client.name!r}"
        names[client.signing_key] = f"the signing key of {client.name!r}"
        if client.store is not None:
            names[client.store.head] = f"the newest hash of the store of {client.name!r}"
    if plan.issuer is not None:
        names[plan.issuer.fingerprint] = f"the fingerprint of the authority {plan.issuer.name!r}"
    return names.get(number, "")
