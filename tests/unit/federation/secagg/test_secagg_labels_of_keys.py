"""Every label under which keys, masks, signatures and transcripts of a run are derived is told apart
from every other, whatever follows it.
"""

import ast
from itertools import permutations
from pathlib import Path

import fastlloyd

ROOMS = ("federation/secagg", "federation/protocol", "federation/identity", "federation/transport")
FILES = ("federation/positions.py", "federation/holder.py")


def labels() -> dict[bytes, str]:
    """The constants that begin as our labels do, with the file each stands in."""
    root = Path(fastlloyd.__file__).parent
    paths = [path for room in ROOMS for path in (root / room).rglob("*.py")]
    return {
        node.value: path.name
        for path in [*paths, *(root / file for file in FILES)]
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, bytes)
        and node.value.startswith(b"fastlloyd/")
    }


def test_no_label_is_the_beginning_of_another() -> None:
    found = labels()
    assert len(found) >= 15
    assert b"fastlloyd/v1/mask" in found
    for one, other in permutations(found, 2):
        assert not other.startswith(one), (one, found[one], other, found[other])
