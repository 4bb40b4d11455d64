"""States of a run that the app started."""

import enum


class RunState(enum.Enum):
    """State of a run. A run is paused if it is part of a study, has stopped, and can continue with
    the same request.
    """

    RUNNING = "running"
    PAUSED = "paused"
    DONE = "done"
    NOT_SPENT = "not-spent"
    SPENT = "spent"
    REFUNDED = "refunded"
