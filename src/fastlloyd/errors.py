"""Errors and warnings that fastlloyd raises on purpose.

Messages are for the person at the terminal. They name the field, the expected value and the remedy,
and never contain the value of a record.
"""

from collections.abc import Iterator, Sequence
from typing import ClassVar, NamedTuple

# codes of files; `records/declared.py` has those of columns, `clustering/domain.py` that of bounds
UNREADABLE_FILE, WRONG_FILE = "unreadable-file", "wrong-file"
CHANGED_FILE, OTHER_VERSION = "changed-file", "other-version"
OTHER_PLAN = "other-plan"  # the server serves another plan
NO_STORE, DAMAGED_STORE, OPEN_TO_OTHERS = "no-store", "damaged-store", "open-to-others"
BEGUN = "begun"  # the ledger has a run with this id
NO_FINGERPRINTS = "no-fingerprints"


class FastLloydError(Exception):
    """Base class of all errors that fastlloyd raises on purpose.

    Attributes
    ----------
    code : str
        Word for the fault, for programs (docs/compatibility.md). The default is the `kind` of the
        class.
    kind : str
        Word for all faults of the class.
    field : str or None
        Setting or column at fault, or None.

    Examples
    --------
    >>> import fastlloyd
    >>> try:
    ...     fastlloyd.read_mechanism("no TOML")
    ... except fastlloyd.FastLloydError as error:
    ...     print(error.code)
    changed-file
    """

    kind: ClassVar[str] = "error"

    def __init__(self, *args: object, code: str | None = None, field: str | None = None) -> None:
        super().__init__(*args)
        self.code, self.field = code or self.kind, field


class Problem(NamedTuple):
    """One fault of a request.

    code : word for the kind of fault, for programs.
    field : setting or column at fault, or None.
    sentence : fault and remedy, for readers.
    """

    code: str
    field: str | None
    sentence: str


# several errors, and one itself
class Problems(FastLloydError, ValueError):  # noqa: N818
    """All faults of a request that cannot be carried out. No budget was spent.

    errors : one error for each fault.
    """

    kind = "request"

    def __init__(self, errors: Sequence[FastLloydError]) -> None:
        super().__init__("; ".join(map(str, errors)))
        self.errors = tuple(errors)

    def __iter__(self) -> Iterator[Problem]:
        """Yield every fault."""
        return (Problem(error.code, error.field, str(error)) for error in self.errors)

    @property
    def plain(self) -> FastLloydError:
        """Return the only error if there is one error, otherwise this group of all errors."""
        return self.errors[0] if len(self.errors) == 1 else self


class DataError(FastLloydError, ValueError):
    """Raised if the records, or statements about them (bounds, columns), cannot be used."""

    kind = "data"


class CellTypeError(DataError, TypeError):
    """Raised if cells of an array are objects instead of numbers. It is a TypeError, as in
    NumPy.
    """


class PlanError(FastLloydError, ValueError):
    """Raised if a setting, mechanism or plan is inconsistent, was changed, or cannot give the
    guarantee it states.
    """

    kind = "setting"


class IdentityError(FastLloydError, ValueError):
    """Raised if an identity, a certificate or the keys of a run cannot be used.

    The message contains no secret.
    """

    kind = "identity"


class BudgetError(FastLloydError, ValueError):
    """Raised if a privacy parameter is out of range or cannot give a guarantee. Also raised if a
    ledger refuses a run: because of a limit, or because of the name of the data set.
    """

    kind = "budget"


# the name says what it is: a risk refused before it is an error
class OverflowRisk(FastLloydError, ValueError):  # noqa: N818
    """Raised before the computation if integers could leave the range in which they are exact."""

    kind = "overflow"


class OutputError(FastLloydError, OSError):
    """Raised if a result cannot be written to its destination."""

    kind = "output"


class StateError(FastLloydError):
    """Raised if a store of events cannot be used, or cannot store a step.

    The store may be in use, damaged or of an old version.
    """

    kind = "state"


class OldStoreError(StateError):
    """Raised if a store is not the store that this party knows. It is an older copy, or a different
    store.
    """

    kind = "old-store"


class OldServerError(StateError):
    """Raised if the store of a run's server is an older copy of the store that this party knows."""

    kind = "old-server"


class LocalProtocolError(FastLloydError):
    """Raised if the caller uses a session wrongly."""

    kind = "session"


class RemoteProtocolError(FastLloydError):
    """Raised if another party sends something that the protocol does not allow."""

    kind = "protocol"


class OldCopyError(RemoteProtocolError):
    """Raised if a client's store is not the store that the server knows. It is an older copy, or a
    different store.

    fact : statement of the fault, without the remedy.
    """

    kind = "old-copy"

    def __init__(self, fact: str, remedy: str) -> None:
        super().__init__(f"{fact}; {remedy}")
        self.fact = fact


class NetworkError(FastLloydError, OSError):
    """Raised if the network, or software that this machine needs for it, cannot be used."""

    kind = "network"


class EngineError(FastLloydError):
    """Raised if the processes or the cluster that should read the records fail, or cannot be
    used.
    """

    kind = "engine"


class WeakGuaranteeWarning(UserWarning):
    """Warning that the guarantee holds but is weak, because delta or epsilon is large.

    Examples
    --------
    >>> import warnings
    >>> import fastlloyd
    >>> warnings.simplefilter("ignore", fastlloyd.WeakGuaranteeWarning)
    """


class UncountedFitWarning(UserWarning):
    """Warning that a fit names no data set, so no ledger adds its cost to that of other fits.

    It is given once in a process, and again after a block `with fastlloyd.dataset(...)`.

    Examples
    --------
    >>> import warnings
    >>> import fastlloyd
    >>> warnings.simplefilter("ignore", fastlloyd.UncountedFitWarning)
    """


class LedgerWarning(UserWarning):
    """Warning to the owner of a ledger, for example that it is new.

    Examples
    --------
    >>> import warnings
    >>> import fastlloyd
    >>> warnings.simplefilter("ignore", fastlloyd.LedgerWarning)
    """


class NoisyResultWarning(UserWarning):
    """Warning that the noise dominates the result.

    It follows from noisy answers and public scales, so the guarantee covers this warning too.

    Examples
    --------
    >>> import warnings
    >>> import fastlloyd
    >>> warnings.simplefilter("ignore", fastlloyd.NoisyResultWarning)
    """


class ClippedRecordsWarning(UserWarning):
    """Warning that many values of a feature lie outside the bounds.

    This is an exact fact about the records, only for their owner. Do not publish it, and do not
    keep it in a log or notebook that others can read.

    Examples
    --------
    >>> import warnings
    >>> import fastlloyd
    >>> warnings.simplefilter("ignore", fastlloyd.ClippedRecordsWarning)
    """


class PrivacyLeakWarning(UserWarning):
    """Warning that a public parameter was taken from the data, so the stated guarantee does not
    hold.

    Examples
    --------
    >>> import warnings
    >>> import fastlloyd
    >>> warnings.simplefilter("error", fastlloyd.PrivacyLeakWarning)  # no fit takes bounds from X
    """
