"""States of a run that the app started."""

import enum


class RunState(enum.Enum):
    """State of a run. A paused run is a study that goes on with the same request."""

    RUNNING = "running"
    PAUSED = "paused"
    DONE = "done"
    NOT_SPENT = "not-spent"
    SPENT = "spent"
    REFUNDED = "refunded"
