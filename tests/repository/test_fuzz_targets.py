"""What the fuzzer begins with is accepted, its changes of meaning are well formed, and its engine
is not needed to say so.
"""

import base64
import random
from pathlib import Path

import msgspec
import pytest

import fuzz_documents
from fastlloyd.federation.identity import identity
from fuzz_mutants import MUTANTS
from fuzz_mutation import Chance
from fuzz_targets import EXECUTIONS, TARGETS


def chance(seed: int) -> Chance:
    """Whose engine flips a bit."""
    rng = random.Random(seed)  # noqa: S311 - it draws test data, not keys

    def flip(data: bytes, max_size: int) -> bytes:
        at = rng.randrange(len(data) + 1)
        return (data[:at] + bytes([(data + b"\0")[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :])[
            :max_size
        ]

    return Chance.of(seed, flip, 4096)


@pytest.mark.parametrize("name", TARGETS)
def test_every_example_of_a_target_is_accepted_and_its_changes_are_mostly_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(identity, "_cipher", identity._cipher)  # a target replaces it
    target = TARGETS[name]()
    for seed in target.seeds:
        assert len(seed) <= target.max_bytes
        target.read(seed)
    n_refused = 0
    for number in range(20):
        try:
            data = target.in_meaning(target.seeds[number % len(target.seeds)], chance(number))
        except (ValueError, TypeError, LookupError, AttributeError, OverflowError):
            continue
        try:
            target.read(data)
        except target.refusal:
            n_refused += 1
    assert n_refused


def test_a_certificate_is_taken_apart_and_put_together_again() -> None:
    der = base64.b64decode(fuzz_documents.certificates()[0])
    tree, behind = fuzz_documents._taken_apart(der)
    assert behind == b""
    assert fuzz_documents._put_together(tree) == der


def test_a_change_of_meaning_is_a_message_again() -> None:
    hello = TARGETS["Hello"]().seeds[0]
    read = 0
    for number in range(50):
        changed = TARGETS["Hello"]().in_meaning(hello, chance(number))
        try:
            msgspec.msgpack.decode(changed[1:])
            read += 1
        except (msgspec.MsgspecError, UnicodeDecodeError):
            pass
    assert read >= 25


def test_mutants_and_numbers_of_executions_are_of_targets_that_there_are() -> None:
    assert {mutant.target for mutant in MUTANTS.values()} <= set(TARGETS)
    assert set(EXECUTIONS) == set(TARGETS)
