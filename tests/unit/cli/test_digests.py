"""What is said of a digest that is not the plan's: mistyped, another number, or another plan's."""

import secrets
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastlloyd.cli.digests import check_digest
from fastlloyd.errors import PlanError
from fastlloyd.jobs.digests import DIGITS, MOST_MISTYPED, mistyped

HEX = "0123456789abcdef"
digests = st.text(HEX, min_size=DIGITS, max_size=DIGITS)
PATH = Path("plan.toml")


PLAN: Any = SimpleNamespace(
    digest=bytes.fromhex("0123456789abcdef" * 4),
    run_id="5" * 32,
    server=SimpleNamespace(name="sums", fingerprint="a" * 64),
    clients=(
        SimpleNamespace(
            name="a",
            fingerprint="b" * 64,
            signing_key="c" * 64,
            store=SimpleNamespace(head="d" * 64),
        ),
        SimpleNamespace(name="b", fingerprint="e" * 64, signing_key="f" * 64, store=None),
    ),
    issuer=SimpleNamespace(name="ca", fingerprint="9" * 64),
)
"""What of a plan has digits."""


@given(digests, st.data())
def test_up_to_four_other_digits_are_called_mistyped_and_the_first_is_named(
    digest: str, data: st.DataObject
) -> None:
    places = data.draw(st.sets(st.integers(0, DIGITS - 1), min_size=1, max_size=MOST_MISTYPED))
    typed = "".join(
        data.draw(st.sampled_from((HEX + "ol").replace(digit, ""))) if at in places else digit
        for at, digit in enumerate(digest)
    )
    assert mistyped(typed, digest).endswith(f" digit {min(places) + 1}")


@given(digests, st.integers(0, DIGITS - 1), st.sampled_from(HEX))
def test_a_digit_left_out_or_typed_besides_is_found(digest: str, at: int, digit: str) -> None:
    """Named is the first place where the numbers part: a digit of a row of equal ones has none of
    its own.
    """
    missing = mistyped(digest[:at] + digest[at + 1 :], digest)
    assert missing.startswith("one digit is missing, at digit ")
    assert int(missing.split()[-3]) >= at + 1
    many = mistyped(digest[:at] + digit + digest[at:], digest)
    assert many.startswith("there is one digit too many, at digit ")
    assert int(many.split()[-3]) >= at + 1


def test_numbers_that_have_nothing_to_do_with_each_other_are_not_called_mistyped() -> None:
    for n in (DIGITS - 1, DIGITS, DIGITS + 1):
        for _ in range(300):
            assert mistyped(secrets.token_hex(40)[:n], secrets.token_hex(32)) == ""


def said(typed: str) -> str:
    with pytest.raises(PlanError) as raised:
        check_digest(PLAN, typed, PATH)
    return str(raised.value)


@pytest.mark.parametrize(
    ("number", "what"),
    [
        ("a" * 64, "fingerprint of the server 'sums'"),
        ("b" * 64, "fingerprint of 'a'"),
        ("C" * 64, "signing key of 'a'"),
        ("d" * 64, "store of 'a'"),
        ("e" * 64, "fingerprint of 'b'"),
        ("9" * 64, "fingerprint of the authority 'ca'"),
        ("5" * 32, "the run id"),
    ],
)
def test_another_number_of_the_plan_is_called_what_it_is(number: str, what: str) -> None:
    assert what in said(number)


def test_only_the_digest_of_another_plan_is_called_that() -> None:
    own = PLAN.digest.hex()
    check_digest(PLAN, " ".join(own.upper()), PATH)
    assert "is not the plan that was agreed on" in said(secrets.token_hex(32))
    assert "is not the plan" not in said("f" + own[1:])
    assert "expected the 64 hex digits" in said(own[:60])
    assert "expected the 64 hex digits" in said("ü" * 64)
