"""Comparison of a typed digest with the digest of a plan. A wrong digest is explained: it has a
typing error, is another number in the plan, or belongs to another plan.
"""

import hmac
import re
from typing import Final

from fastlloyd.federation.plan.plan import Plan

DIGITS: Final = 64
MOST_MISTYPED: Final = 4
"""Largest number of wrong digits, out of 64, in a digest that counts as mistyped. Two unrelated
digests agree in 60 digits with a probability below 1e-60.
"""


def bare(digest: str) -> str:
    """Return a typed digest without spaces, colons and dashes, in small letters."""
    return re.sub(r"[\s:-]", "", digest).lower()


def is_digest_of(plan: Plan, digest: str) -> bool:
    """Return whether a typed digest equals the digest of the plan in every digit."""
    return hmac.compare_digest(bare(digest).encode(), plan.digest.hex().encode())


def is_any_digest(digest: str) -> bool:
    """Return whether a typed text has the form of a digest."""
    return re.fullmatch(rf"[0-9a-f]{{{DIGITS}}}", bare(digest)) is not None


def mistyped(typed: str, digest: str) -> str:
    """Return a phrase that says where a typing error in a digest is, or "" if the difference is not
    a typing error.

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


def other_number(plan: Plan, number: str) -> str:
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
