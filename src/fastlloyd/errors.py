"""Everything fastlloyd raises on purpose.

Messages are written for the person at the terminal: they name the field, say what was expected and
what to do, and never contain a private value.
"""

from collections.abc import Iterator, Sequence
from typing import ClassVar, NamedTuple


class FastLloydError(Exception):
    """Base class of all errors raised on purpose.

    code : a word for the fault, which programs may rely on, or None if its kind says enough. kind :
    a word for all faults of the class. field : the setting or column at fault, or None.
    """

    kind: ClassVar[str] = "error"

    def __init__(self, *args: object, code: str | None = None, field: str | None = None) -> None:
        super().__init__(*args)
        self.code, self.field = code, field


class Problem(NamedTuple):
    """One fault of a request. code : a word for its kind, for programs. field : the setting or
    column at fault, or None. sentence : what is wrong and what to do, for people.
    """

    code: str
    field: str | None
    sentence: str


# several errors, and one itself
class Problems(FastLloydError, ValueError):  # noqa: N818
    """A request that cannot be carried out. Nothing was spent.

    errors : one for each fault, as the code raised it that found the fault.
    """

    kind = "request"

    def __init__(self, errors: Sequence[FastLloydError]) -> None:
        super().__init__("; ".join(map(str, errors)))
        self.errors = tuple(errors)

    def __iter__(self) -> Iterator[Problem]:
        """Yield every fault."""
        return (Problem(error.code or error.kind, error.field, str(error)) for error in self.errors)

    @property
    def plain(self) -> FastLloydError:
        """The error itself if there is only one, else all of them."""
        return self.errors[0] if len(self.errors) == 1 else self


class DataError(FastLloydError, ValueError):
    """The records, or what was said about them (bounds, columns), cannot be used."""

    kind = "data"


class CellTypeError(DataError, TypeError):
    """Cells of an array are objects that are no numbers, for which Python raises TypeError."""


class PlanError(FastLloydError, ValueError):
    """A setting, mechanism or plan is inconsistent, was changed, or cannot give the guarantee it
    states.
    """

    kind = "setting"


class IdentityError(FastLloydError, ValueError):
    """A private identity, a public file, a certificate or the keys of a run cannot be used. The
    message holds no secret.
    """

    kind = "identity"


class BudgetError(FastLloydError, ValueError):
    """A privacy parameter is out of range, or a guarantee cannot be reached with it."""

    kind = "budget"


# the name says what it is: a risk refused before it is an error
class OverflowRisk(FastLloydError, ValueError):  # noqa: N818
    """Integers could leave the range in which they are exact; refused before anything is
    computed.
    """

    kind = "overflow"


class OutputError(FastLloydError, OSError):
    """A result cannot be written where it was asked to go."""

    kind = "output"


class StateError(FastLloydError):
    """A store of events cannot be used, is in use, is damaged or old, or a step cannot be made
    durable in it.
    """

    kind = "state"


class OldStoreError(StateError):
    """A store is an older copy than one that was seen, or another one."""


class OldServerError(StateError):
    """The store of a run's server is an older copy than one that was seen."""


class LocalProtocolError(FastLloydError):
    """The caller used a session wrongly."""

    kind = "session"


class RemoteProtocolError(FastLloydError):
    """Another party sent something the protocol does not allow."""

    kind = "protocol"


class OldCopyError(RemoteProtocolError):
    """A client's store is an older copy than one that was seen, or another one.

    fact : that, without what to do about it.
    """

    def __init__(self, fact: str, remedy: str) -> None:
        super().__init__(f"{fact}; {remedy}")
        self.fact = fact


class NetworkError(FastLloydError, OSError):
    """The network, or what this machine needs for it, cannot be used as asked."""

    kind = "network"


class EngineError(FastLloydError):
    """The processes or the cluster that were to pass over the records cannot be used, or ended."""

    kind = "engine"


class WeakGuaranteeWarning(UserWarning):
    """The guarantee holds as stated, but states little: delta is large."""


class UncountedFitWarning(UserWarning):
    """A fit names no data set, so no ledger adds its cost to that of other fits. The warning is
    given once in a process, and again after a block `with fastlloyd.dataset(...)`.
    """


class LedgerWarning(UserWarning):
    """The ledger is new, or something else about it that its holder should know."""


class NoisyResultWarning(UserWarning):
    """The noise dominates the result. Noisy answers and public scales tell so: the guarantee covers
    this warning too.
    """


class ClippedRecordsWarning(UserWarning):
    """Many values of a feature lie outside the bounds. An exact fact about the records, for their
    owner: not to be published, nor kept in a log or notebook that others read.
    """


class PrivacyLeakWarning(UserWarning):
    """A public parameter was taken from the data, so the stated guarantee does not hold."""
