"""How vectors are written and compared: integers and words exactly, floating-point numbers to 1e-12
relative.
"""

import gzip
import hashlib
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
MANY = 32  # entries of an array that are written out; of a larger one, its digest and the first few
FIRST = 6
RELATIVE = 1e-12
SENTENCE = 4  # words, or more, are a sentence, of which only the presence is recorded


def plain(value: Any) -> Any:
    """The same in what JSON knows."""
    if isinstance(value, np.ndarray):
        return _array(value)
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, str) and len(value.split()) >= SENTENCE:
        return "(a sentence)"
    return value


def _array(array: np.ndarray[Any, Any]) -> Any:
    if array.size <= MANY:
        return array.tolist()
    first: list[Any] = array.ravel()[:FIRST].tolist()
    if array.dtype.kind == "f":  # bits may differ: sums stand for all of them
        finite = array[np.isfinite(array)]
        sums = [float(finite.sum()), float((finite**2).sum())]
        return {"shape": list(array.shape), "first": first, "n_finite": finite.size, "sums": sums}
    content = np.ascontiguousarray(array, dtype="<i8").tobytes()
    return {
        "shape": list(array.shape),
        "first": first,
        "sha256": hashlib.sha256(content).hexdigest(),
    }


def digest(text: str) -> str:
    """SHA-256 of a text, hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


def key_paths(value: Any, path: str = "") -> set[str]:
    """Where something stands in a JSON document; all entries of a list count as one."""
    if isinstance(value, dict):
        return {path or "."} | {
            found for key, item in value.items() for found in key_paths(item, f"{path}.{key}")
        }
    if isinstance(value, list):
        return {path or "."} | {found for item in value for found in key_paths(item, f"{path}[]")}
    return {path or "."}


def differences(expected: Any, found: Any, path: str = "") -> Iterator[str]:
    """One line for each place where two vectors differ."""
    if isinstance(expected, dict) and isinstance(found, dict):
        for key in sorted({*expected, *found}):
            if key not in found or key not in expected:
                yield f"{path}.{key}: {'is gone' if key in expected else 'is new'}"
            else:
                yield from differences(expected[key], found[key], f"{path}.{key}")
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        for number, (before, now) in enumerate(zip(expected, found, strict=True)):
            yield from differences(before, now, f"{path}[{number}]")
    elif not _same(expected, found):
        yield f"{path}: {_short(expected)} -> {_short(found)}"


def _same(expected: Any, found: Any) -> bool:
    if isinstance(expected, float) and isinstance(found, float):
        if math.isnan(expected) or math.isnan(found):
            return math.isnan(expected) and math.isnan(found)
        return expected == found or math.isclose(expected, found, rel_tol=RELATIVE)
    return type(expected) is type(found) and bool(expected == found)


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) < 120 else f"{text[:117]}..."


def read(name: str) -> dict[str, Any]:
    """The recorded vectors of this name."""
    content: dict[str, Any] = json.loads(gzip.decompress((HERE / f"{name}.json.gz").read_bytes()))
    return content


def write(name: str, content: dict[str, Any]) -> None:
    """Record vectors; equal ones make equal files."""
    lines = [
        f"{json.dumps(case)}: {json.dumps(said, sort_keys=True)}" for case, said in content.items()
    ]
    text = "{\n" + ",\n".join(lines) + "\n}\n"
    (HERE / f"{name}.json.gz").write_bytes(gzip.compress(text.encode(), mtime=0))


def as_written(content: dict[str, Any]) -> dict[str, Any]:
    """What would be read if this were written."""
    again: dict[str, Any] = json.loads(json.dumps(content))
    return again
