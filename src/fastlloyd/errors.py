"""Everything fastlloyd raises on purpose.

Messages are written for the person at the terminal: they name the field, say what was expected and
what to do, and never contain a private value.
"""


class FastLloydError(Exception):
    """Base class of all errors raised on purpose.

    code : a word for the kind of fault, which programs may rely on, or None if the class says
    enough. field : the column or feature at fault, or None.
    """

    def __init__(self, *args: object, code: str | None = None, field: str | None = None) -> None:
        super().__init__(*args)
        self.code, self.field = code, field


class DataError(FastLloydError, ValueError):
    """The records, or what was said about them (bounds, columns), cannot be used."""


class CellTypeError(DataError, TypeError):
    """Cells of an array are objects that are no numbers, for which Python raises TypeError."""


class PlanError(FastLloydError, ValueError):
    """A setting, mechanism or plan is inconsistent, was changed, or cannot give the guarantee it
    states.
    """


class IdentityError(FastLloydError, ValueError):
    """A private identity, a public file, a certificate or the keys of a run cannot be used. The
    message holds no secret.
    """


class BudgetError(FastLloydError, ValueError):
    """A privacy parameter is out of range, or a guarantee cannot be reached with it."""


# the name says what it is: a risk refused before it is an error
class OverflowRisk(FastLloydError, ValueError):  # noqa: N818
    """Integers could leave the range in which they are exact; refused before anything is
    computed.
    """


class OutputError(FastLloydError, OSError):
    """A result cannot be written where it was asked to go."""


class StateError(FastLloydError):
    """A store of events cannot be used, is in use, is damaged or old, or a step cannot be made
    durable in it.
    """


class OldStoreError(StateError):
    """A store is an older copy than one that was seen, or another one."""


class OldServerError(StateError):
    """The store of a run's server is an older copy than one that was seen."""


class LocalProtocolError(FastLloydError):
    """The caller used a session wrongly."""


class RemoteProtocolError(FastLloydError):
    """Another party sent something the protocol does not allow."""


class OldCopyError(RemoteProtocolError):
    """A client's store is an older copy than one that was seen, or another one.

    fact : that, without what to do about it.
    """

    def __init__(self, fact: str, remedy: str) -> None:
        super().__init__(f"{fact}; {remedy}")
        self.fact = fact


class NetworkError(FastLloydError, OSError):
    """The network, or what this machine needs for it, cannot be used as asked."""


class EngineError(FastLloydError):
    """The processes or the cluster that were to pass over the records cannot be used, or ended."""


class WeakGuaranteeWarning(UserWarning):
    """The guarantee holds as stated, but states little: delta is large."""


class UncountedFitWarning(UserWarning):
    """A fit names no data set, so nobody adds it up with others. Said once in a process, and again
    after a block `with fastlloyd.dataset(...)`.
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
