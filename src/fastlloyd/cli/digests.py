"""Check of a plan's digest that a user typed. The error for a wrong digest names the cause: a
typing error, another number of the plan, or another plan.
"""

import hmac
import re
from pathlib import Path
from typing import Final

from fastlloyd.errors import PlanError
from fastlloyd.federation.plan.plan import Plan

DIGITS: Final = 64
MOST_MISTYPED: Final = 4
"""Largest number of wrong digits, out of 64, in a digest that counts as mistyped. Two unrelated
digests agree in 60 digits with a probability below 1e-60.
"""


def check_digest(plan: Plan, digest: str, path: Path) -> None:
    """Raise PlanError unless `digest` is the digest of the plan. Spaces, colons, dashes and
    capitals do not matter.

    path : file of the plan, for the message.
    """
    agreed, own = re.sub(r"[\s:-]", "", digest).lower(), plan.digest.hex()
    if hmac.compare_digest(agreed.encode(), own.encode()):
        return
    if what := mistyped(agreed, own):
        raise PlanError(
            f"--digest is almost the digest of {path}: {what}. Compare --digest with the digest"
            " that you were told; nothing was done"
        )
    if not re.fullmatch(rf"[0-9a-f]{{{DIGITS}}}", agreed):
        raise PlanError(
            f"--digest is {digest!r:.80}, the run id; expected the 64 hex digits that `fastlloyd"
            " plan digest PLAN` prints"
            if agreed == plan.run_id
            else f"--digest is {digest!r:.80}; expected the 64 hex digits that `fastlloyd plan"
            " digest PLAN` prints"
        )
    if what := _of_the_plan(plan, agreed):
        raise PlanError(
            f"--digest is {what}, not the digest of the plan; pass the digest that the other"
            " parties told you"
        )
    raise PlanError(
        f"{path} is not the plan that was agreed on: its digest is {own}, and --digest says"
        f" {agreed}; ask for the plan with that digest, and compare `fastlloyd plan explain` of"
        " both"
    )


def mistyped(typed: str, digest: str) -> str:
    """Return a phrase that says where a typing error in a digest is, or "" if the difference is no
    typing error.

    A typing error is up to four wrong digits, one missing digit, or one additional digit.
    """
    wrong = [at for at, (a, b) in enumerate(zip(typed, digest, strict=False), 1) if a != b]
    first = wrong[0] if wrong else min(len(typed), len(digest)) + 1
    if len(typed) == len(digest):
        if not 0 < len(wrong) <= MOST_MISTYPED:
            return ""
        if len(wrong) == 1:
            return f"one digit differs, digit {first}"
        return f"{len(wrong)} digits differ, and the first of them is digit {first}"
    if len(typed) == len(digest) - 1 and typed[first - 1 :] == digest[first:]:
        return f"one digit is missing, at digit {first} or later"
    if len(typed) == len(digest) + 1 and typed[first:] == digest[first - 1 :]:
        return f"there is one digit too many, at digit {first} or later"
    return ""


def _of_the_plan(plan: Plan, number: str) -> str:
    """Return the name of another value in the plan that was typed instead of the digest, such as a
    fingerprint. Return "" if `number` equals no value in the plan.
    """
    names = {plan.server.fingerprint: f"the fingerprint of the server {plan.server.name!r}"}
    for client in plan.clients:
        names[client.fingerprint] = f"the fingerprint of {client.name!r}"
        names[client.signing_key] = f"the signing key of {client.name!r}"
        if client.store is not None:
            names[client.store.head] = f"the newest hash of the store of {client.name!r}"
    if plan.issuer is not None:
        names[plan.issuer.fingerprint] = f"the fingerprint of the authority {plan.issuer.name!r}"
    return names.get(number, "")
