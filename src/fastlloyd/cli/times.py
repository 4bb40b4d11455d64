"""Times of events of a store, in UTC, for people and for programs."""

from datetime import UTC, datetime


def utc(seconds: int) -> str:
    """Return the time on the screen, such as "2026-11-26 23:40:11 UTC"."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"


def iso(seconds: int) -> str:
    """Return the time for programs, as ISO 8601, such as "2026-11-26T23:40:11Z"."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}Z"
