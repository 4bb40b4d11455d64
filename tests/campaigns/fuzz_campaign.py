"""A coverage-guided fuzzer on every parser that a stranger's bytes reach: `make campaign`, a
million executions per message.

EXECUTIONS says how many. Plain `pytest` does not collect it. The fuzzer's seed is fixed, so a
campaign of n executions begins every larger one, as far as keys that are drawn anew (of
certificates) do not matter. An input that shows a fault is told in hexadecimal, to be pinned as a
test. First the same fuzzer must find mistakes that are planted.
"""

import datetime as dt
import os
import re
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pytest

from campaign_page import aligned, keep, kept, measured, table, write_section
from fuzz_mutants import MUTANTS
from fuzz_process import COUNTS, FAULT, FIELDS, LAST, MAX_REASONS, MEASURED, SECONDS, WORD
from fuzz_targets import EXECUTIONS, TARGETS

pytestmark = pytest.mark.campaign

FULL_SIZE = 1_000_000
N_EXECUTIONS = int(os.environ.get("EXECUTIONS", str(FULL_SIZE)))
DRIVER = Path(__file__).parents[1] / "support" / "fuzz_process.py"
HANG = 4 * 3600  # seconds for a process, whose single inputs have a limit of their own
COLUMNS = (
    "target",
    "executions",
    "accepted",
    "refused",
    "reasons",
    "branches",
    "corpus",
    "peak, KiB",
)
TEXT = """\
{measured}
Atheris, which is libFuzzer for Python, on every parser that a stranger's bytes reach: {n_found} faults.
{taken_up}
{targets}

- *executions*: inputs tried. Documents take longer, because reading them works out plans and checks signatures.
- *accepted*: read without an error, and written again as the same bytes (a document: as the same content under its digest).
  An accepted certificate is signed, and is what we would sign again, byte for byte.
- *refused*: with the one documented error. For messages the reason is one printable sentence of bounded length; for a private
  file it shows no part of the keys.
- *reasons*: refusals that differ in more than numbers and names, at most {max_reasons:,}. The decoders are compiled
  code without visible branches, so the fuzzer counts every new reason as a new branch.
- *branches*: of fastlloyd's Python code, and reasons, as libFuzzer counts them. *corpus*: inputs kept because each shows
  something new.
- *peak*: the most memory that Python allocated for one input, measured in every {measured_every}th.

An input may be changed anywhere, behind a valid beginning, or in its meaning: one to three places of the tree, written again
with right lengths, digest and signatures. None took {seconds} seconds of processor time. None allocated more
than 64 times its length and a fixed amount: 64 KiB, and for documents the buffer that reads a file.

The fuzzer's power: {n_mutants} mistakes planted into the parsers, all found.

{mutants}

Not shown: that no fault exists. The decoders' own branches (msgspec, tomllib, OpenSSL) are not seen, and no sanitizer watched
compiled code. Private files under a passphrase are fuzzed without scrypt. Records and stores on disk come from their owner, not
from a stranger; of a store only the events are fuzzed. Schedules cover valid messages in a wrong order."""

TAKEN_UP = "{n} of the targets were fuzzed in an earlier run, by an earlier commit.\n"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a process ended. fault : what it found, and the input in hexadecimal; empty if
    nothing.
    """

    counts: dict[str, int]
    branches: str
    corpus: str
    fault: str

    @property
    def row(self) -> list[str]:
        """Its cells of the table, behind the name."""
        c = self.counts
        numbers = [f"{c[name]:,}" for name in ("executions", "accepted", "refused", "reasons")]
        return [*numbers, self.branches, self.corpus, f"{c['peak'] / 1024:,.0f}"]


def fuzz(target: str, mutant: str, executions: int, folder: Path) -> Outcome:
    """Run a process of its own on the target, to its end or its first fault."""
    folder.mkdir()
    command = [sys.executable, str(DRIVER), target, mutant, str(executions), str(folder)]
    with (folder / "log").open("wb") as log:
        process = subprocess.run(
            command,
            cwd=folder,
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            timeout=HANG,
            check=False,
        )
    said = (folder / "log").read_text(errors="replace")
    words = (
        (folder / COUNTS).read_bytes() if (folder / COUNTS).exists() else bytes(WORD * len(FIELDS))
    )
    counts = dict(zip(FIELDS, memoryview(words).cast("Q").tolist(), strict=True))
    branches, corpus = (re.findall(r"cov: (\d+) ft: \d+ corp: (\d+)", said) or [("0", "0")])[-1]
    fault = (
        ""
        if process.returncode == 0
        else _fault(process.returncode, said, counts["length"], folder)
    )
    return Outcome(counts, branches, corpus, fault)


def _fault(code: int, said: str, length: int, folder: Path) -> str:
    written, last = folder / FAULT, folder / LAST
    ended = signal.Signals(-code).name if code < 0 else f"exit {code}"
    found = (
        written.read_text()
        if written.exists()
        else "\n".join(re.findall(r"^SUMMARY.*", said, re.MULTILINE)) or said[-2000:]
    )
    return (
        f"{ended}: {found}; input {last.read_bytes()[:length].hex() if last.exists() else 'none'}"
    )


def executions(target: str) -> int:
    return max(1000, EXECUTIONS[target] * N_EXECUTIONS // FULL_SIZE)


@pytest.mark.skipif(
    find_spec("atheris") is None,
    reason="Atheris is not installed: `make campaign` does where it has a wheel",
)
def test_no_parser_is_broken_by_any_bytes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    started = dt.datetime.now(dt.UTC)
    jobs = [
        *((mutant.target, name, mutant.executions) for name, mutant in MUTANTS.items()),
        *((target, "", executions(target)) for target in TARGETS),
    ]
    earlier = {job: Outcome(**found) for job, found in kept().items()}
    n_earlier = len(earlier)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        running = {
            job: pool.submit(fuzz, *job, tmp_path / str(i))
            for i, job in enumerate(jobs)
            if job not in earlier
        }
        for job, future in running.items():
            earlier[job] = future.result()
            if bool(job[1]) == bool(earlier[job].fault):
                keep(job, asdict(earlier[job]))
    outcomes = [earlier[job] for job in jobs]
    found = dict(zip(MUTANTS, outcomes, strict=False))
    targets = dict(zip(TARGETS, outcomes[len(MUTANTS) :], strict=True))
    rows = [[target, *outcome.row] for target, outcome in targets.items()]
    with capsys.disabled():
        planted = [
            [name, f"found after {outcome.counts['executions']:,}"]
            for name, outcome in found.items()
            if outcome.fault
        ]
        sys.stdout.write(f"\n{aligned([COLUMNS, *rows])}\n\n{aligned(planted)}\n")
        sys.stdout.writelines(
            f"{target}: {outcome.fault}\n" for target, outcome in targets.items() if outcome.fault
        )
    assert {name: outcome.fault for name, outcome in targets.items() if outcome.fault} == {}
    assert {
        name: found[name].fault
        for name, mutant in MUTANTS.items()
        if mutant.shown not in found[name].fault
    } == {}
    text = TEXT.format(
        measured=measured(
            started,
            Atheris=version("atheris"),
            msgspec=version("msgspec"),
            cryptography=version("cryptography"),
        ),
        n_found="no",
        taken_up=TAKEN_UP.format(n=n_earlier) if n_earlier else "",
        targets=table(COLUMNS, rows),
        max_reasons=MAX_REASONS,
        measured_every=MEASURED,
        seconds=SECONDS,
        n_mutants=len(MUTANTS),
        mutants=table(
            ("mistake", "target", "found after", "of at most"),
            (
                [name, m.target, f"{found[name].counts['executions']:,}", f"{m.executions:,}"]
                for name, m in MUTANTS.items()
            ),
        ),
    )
    write_section("Fuzzed parsers", text, is_full_size=N_EXECUTIONS >= FULL_SIZE)
