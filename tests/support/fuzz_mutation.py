"""How a fuzzer's input is changed: anywhere, behind a valid beginning, or in one place of what it
means.

A change of meaning takes the input apart, changes one place of the tree and writes it again, with
lengths, digests and signatures that are right: a parser that checks these first would otherwise
refuse everything before the code behind.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

Engine = Callable[[bytes, int], bytes]
"""The fuzzer's own mutation of bytes, to at most so many."""
Tree = Any
"""What MessagePack or TOML hold: dicts, lists, and leaves."""

NUMBERS = (
    0,
    1,
    2,
    127,
    128,
    255,
    256,
    1000,
    1001,
    65535,
    1 << 20,
    1 << 31,
    1 << 32,
    1 << 40,
    1 << 53,
    (1 << 63) - 1,
    1 << 63,
)
FLOATS = (
    0.0,
    -0.0,
    5e-324,
    1e-300,
    1e-9,
    0.5,
    1.0,
    8.0,
    1e9,
    1e300,
    1.7976931348623157e308,
    float("inf"),
    float("nan"),
)
STRINGS = (
    "",
    "0",
    "1/0",
    "-1/3",
    "1e99999999",
    "9" * 80,
    "1/" + "9" * 80,
    "../x",
    "a.b",
    "A",
    "\x1b[2J",
    "é",
    "\ud7ff\U0010ffff",
)


@dataclass(frozen=True, slots=True)
class Chance:
    """The choices of one mutation, drawn from the seed that the fuzzer gives it."""

    rng: random.Random
    engine: Engine
    max_size: int

    @classmethod
    def of(cls, seed: int, engine: Engine, max_size: int) -> "Chance":
        # it draws test data, not keys
        return cls(random.Random(seed), engine, max_size)  # noqa: S311

    def mutate(self, data: bytes) -> bytes:
        return self.engine(data, max(1, self.max_size))

    def same_length(self, data: bytes) -> bytes:
        """Other bytes; in two of three cases as many, since most fields have one length."""
        changed = self.mutate(data)
        return changed if self.rng.random() < 1 / 3 else (changed + bytes(len(data)))[: len(data)]

    def text(self, text: str) -> str:
        return (
            self.rng.choice(STRINGS)
            if self.rng.random() < 1 / 4
            else self.same_length(text.encode()).decode(errors="replace")
        )


def anywhere(data: bytes, chance: Chance) -> bytes:
    return chance.mutate(data)


def behind_a_valid_beginning(data: bytes, chance: Chance) -> bytes:
    n = chance.rng.randrange(len(data) + 1)
    return data[:n] + chance.mutate(data[n:])


def in_meaning(tree: Tree, chance: Chance) -> Tree:
    """One to three places changed; the tree is used up."""
    box = [tree]
    for _ in range(chance.rng.choice((1, 1, 2, 3))):
        places = (
            [(box, 0), *_places(tree)] if isinstance(tree := box[0], dict | list) else [(box, 0)]
        )
        container, key = chance.rng.choice(places)
        _change(container, key, places, chance)
        if not box:
            return None
    return box[0]


def _places(tree: Tree) -> Iterator[tuple[Any, Any]]:
    for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
        yield tree, key
        if isinstance(value, dict | list):
            yield from _places(value)


def _change(container: Any, key: Any, places: list[tuple[Any, Any]], chance: Chance) -> None:
    match chance.rng.randrange(10):
        case 0:
            del container[key]
        case 1 if isinstance(container, list):
            container.insert(key, _copy(container[key]))
        case 1:
            container[chance.text(key)] = _copy(container[key])
        case 2:
            other, at = chance.rng.choice(places)
            container[key] = _copy(other[at])
        case _:
            container[key] = _other(container[key], chance)


def _copy(tree: Tree) -> Tree:
    """A tree of its own: one that held itself would have no end."""
    if isinstance(tree, dict):
        return {key: _copy(value) for key, value in tree.items()}
    return [_copy(value) for value in tree] if isinstance(tree, list) else tree


def _other(value: Tree, chance: Chance) -> Tree:
    rng = chance.rng
    match value:
        case bool():
            return not value
        case int():
            return rng.choice(
                (value + 1, value - 1, -value, rng.choice(NUMBERS), rng.randrange(1 << 16))
            )
        case float():
            return rng.choice(
                (
                    -value,
                    value * rng.choice((0.5, 2, 1e-9, 1e9)),
                    rng.choice(FLOATS),
                    int(rng.choice(NUMBERS)),
                )
            )
        case bytes():
            return chance.same_length(value)
        case str():
            return chance.text(value)
        case list() if value:
            return (
                value[: rng.randrange(len(value))]
                if rng.random() < 1 / 2
                else value * rng.choice((2, 3, 50))
            )
        case _:
            return rng.choice((0, "", [], {}, True, 0.5))


def message_pack(data: bytes, chance: Chance, *, start: int) -> bytes:
    """Of a message behind `start` bytes of version."""
    changed = msgspec.msgpack.encode(in_meaning(msgspec.msgpack.decode(data[start:]), chance))
    return data[:start] + (
        _longer_form(changed, chance) if chance.rng.random() < 1 / 8 else changed
    )


def _longer_form(data: bytes, chance: Chance) -> bytes:
    """One byte that may be a short header is spelled as a longer one that means the same, or claims
    two thousand million.
    """
    at = chance.rng.randrange(len(data))
    first, rest = data[at], data[at + 1 :]
    claimed = b"\x7f\xff\xff\xff"
    match first:
        case _ if first < 0x80:
            header = b"\xcc" + bytes([first])
        case _ if first >> 4 == 9:
            header = chance.rng.choice(
                (
                    b"\xdc\0" + bytes([first & 15]),
                    b"\xdd\0\0\0" + bytes([first & 15]),
                    b"\xdd" + claimed,
                )
            )
        case _ if first >> 5 == 5:
            header = chance.rng.choice((b"\xd9" + bytes([first & 31]), b"\xdb" + claimed))
        case 0xC4:
            header = chance.rng.choice((b"\xc5\0", b"\xc6\0\0\0", b"\xc6" + claimed))
        case _:
            header = b"\xc0"
    return data[:at] + header + rest
