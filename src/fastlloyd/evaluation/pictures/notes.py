"""What a figure says at its foot of trials that it could not show."""

from collections.abc import Iterable
from typing import Protocol


class Counted(Protocol):
    """What a mean is of: values, failed trials and infinite values. A sample and its summary are such."""

    @property
    def n(self) -> int:
        """How many values."""

    @property
    def n_failed(self) -> int:
        """How many failed trials."""

    @property
    def n_infinite(self) -> int:
        """How many infinite values."""


def left_out(samples: Iterable[Counted]) -> list[str]:
    """Sentences that count failed trials and values that are no finite number; none if there are none."""
    listed = list(samples)
    failed, infinite = sum(s.n_failed for s in listed), sum(s.n_infinite for s in listed)
    said = []
    if failed:
        said.append(f"{failed:,} failed {'trials are' if failed > 1 else 'trial is'} left out.")
    if infinite:
        said.append(f"{infinite:,} infinite {'values are' if infinite > 1 else 'value is'} left out.")
    return said


def runs(samples: Iterable[Counted]) -> str:
    """How many runs a mean is of."""
    counts = sorted({sample.n for sample in samples if sample.n})
    if not counts:
        return ""
    number = f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"
    return f"Means of {number} run{'s' if counts[-1] > 1 else ''}" + (", 95% intervals shaded." if counts[-1] > 1 else ".")
