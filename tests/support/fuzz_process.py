"""One process of the fuzzing campaign: Atheris on one target. It never returns; it ends at the
first fault.

`python fuzz_process.py TARGET MUTANT EXECUTIONS FOLDER`: FOLDER takes the corpus; COUNTS and the
input read last, which outlive the process however it ends; and FAULT, what was wrong with that
input.
"""

import importlib
import mmap
import os
import re
import resource
import signal
import sys
import traceback
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fuzz_mutation import Chance, Engine, anywhere, behind_a_valid_beginning

if TYPE_CHECKING:  # at run time it must be imported under the fuzzer's hook
    from fuzz_targets import Target

COUNTS, LAST, FAULT = "counts", "last", "fault.txt"
FIELDS = ("executions", "accepted", "refused", "reasons", "peak", "length")
EXECUTIONS, ACCEPTED, REFUSED, REASONS, PEAK, LENGTH = range(len(FIELDS))
WORD = 8
MAX_REASONS = 2048
# of processor time for one input: the system ends the process with SIGVTALRM, whatever code it is
# in
SECONDS = 10
NEVER = 1 << 20  # seconds
RSS_MIB = 1024
HEADROOM = (
    256 << 20
)  # bytes of address space, for all readings together: whatever asks for more fails
MEASURED = (
    16  # every so many executions what Python allocates is measured, which takes four times as long
)
NAMES_IN_REASONS = re.compile(
    r"(?<![\[0-9])[0-9]+|'[^']*'|\"[^\"]*\"|field `[^`]*`|\b[0-9a-f]{2,}\b"
)


def shared(path: Path, size: int) -> memoryview:
    """Memory that is a file."""
    path.write_bytes(bytes(size))
    with path.open("r+b") as file:
        return memoryview(mmap.mmap(file.fileno(), 0))


def told(atheris: Any) -> Callable[[str], int]:
    """Tells the fuzzer of a reason for refusal as of a branch that was taken, and returns how many
    there were.

    The decoders are compiled code that shows no branches; the reasons say how far they came.
    """
    free = [atheris._reserve_counter() for _ in range(MAX_REASONS)]
    known: dict[str, int] = {}

    def tell(reason: str) -> int:
        reason = NAMES_IN_REASONS.sub("#", reason)
        if reason not in known and free:
            known[reason] = free.pop()
        if reason in known:
            atheris._trace_branch(known[reason])
        return len(known)

    return tell


class Watch:
    """Reads inputs under limits of time and memory, and keeps count in files."""

    def __init__(self, target: "Target", folder: Path, tell: Callable[[str], int]) -> None:
        self._target, self._folder, self._tell = target, folder, tell
        self._counts = shared(folder / COUNTS, WORD * len(FIELDS)).cast("Q")
        self._last = shared(folder / LAST, 2 * target.max_bytes)

    def once(self, data: bytes) -> None:
        """One execution. Whatever it raises ends the fuzzer."""
        self._counts[LENGTH], self._last[: len(data)] = len(data), data
        self._counts[EXECUTIONS] += 1
        signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
        try:
            if self._counts[EXECUTIONS] % MEASURED:
                self._read(data)
            else:
                self._measure(data)
        except BaseException as error:
            (self._folder / FAULT).write_text(
                f"{type(error).__qualname__}: {error}", errors="replace"
            )
            raise
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)

    def _read(self, data: bytes) -> None:
        try:
            self._target.read(data)
            self._counts[ACCEPTED] += 1
        except self._target.refusal as error:
            self._counts[REFUSED] += 1
            self._counts[REASONS] = self._tell(str(error))

    def _measure(self, data: bytes) -> None:
        tracemalloc.start(1)
        try:
            self._read(data)
            allocated = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        self._counts[PEAK] = max(self._counts[PEAK], allocated)
        assert allocated <= self._target.allowance + 64 * len(data), (
            f"{allocated} bytes were allocated for {len(data)}"
        )


def mutator(target: "Target", engine: Engine) -> Callable[[bytes, int, int], bytes]:
    """Often begins anew with a valid example; changes it anywhere, behind its beginning, or in its
    meaning.
    """
    ways: list[Callable[[bytes, Chance], bytes]] = [
        anywhere,
        behind_a_valid_beginning,
        target.in_meaning,
        target.in_meaning,
    ]

    def mutated(data: bytes, max_size: int, seed: int) -> bytes:
        chance = Chance.of(seed, engine, max_size)
        example, way = chance.rng.choice(target.seeds), chance.rng.choice(ways)
        for start in (example,) if chance.rng.random() < 1 / 4 else (data, example):
            with suppress(
                ValueError, TypeError, LookupError, AttributeError, OverflowError
            ):  # it means nothing
                return way(start, chance)[:max_size]
        return anywhere(data, chance)

    return mutated


def main(name: str, mutant: str, executions: int, folder: Path) -> None:
    atheris: Any = importlib.import_module("atheris")  # no wheel on some platforms, and no types
    with atheris.instrument_imports(include=["fastlloyd"]):
        from fuzz_mutants import MUTANTS
        from fuzz_targets import TARGETS
    target = TARGETS[name]()
    for seed in target.seeds:  # which imports what is imported late
        target.read(seed)
    if mutant:
        MUTANTS[mutant].plant()
    corpus = folder / "corpus"
    corpus.mkdir()
    for i, seed in enumerate(target.seeds):
        (corpus / str(i)).write_bytes(seed)
    options = {
        "runs": executions,
        "seed": 1,
        "max_len": target.max_bytes,
        "len_control": 0,
        "timeout": NEVER,  # it would count the time in which other processes ran
        "rss_limit_mb": RSS_MIB,
        "print_final_stats": 1,
    }
    arguments = [name, *(f"-{option}={value}" for option, value in options.items()), str(corpus)]
    watch = Watch(target, folder, told(atheris))

    def engine(data: bytes, max_size: int) -> bytes:
        changed: bytes = atheris.Mutate(
            data, max_size
        )  # looked up each time: Fuzz() puts another in its place
        return changed

    atheris.Setup(arguments, watch.once, custom_mutator=mutator(target, engine))
    in_use = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (in_use + HEADROOM, in_use + HEADROOM))
    atheris.Fuzz()


if __name__ == "__main__":
    try:
        main(sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4]))
    # whatever it is: the fuzzer's threads would not let the interpreter end
    except BaseException:  # noqa: BLE001
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
