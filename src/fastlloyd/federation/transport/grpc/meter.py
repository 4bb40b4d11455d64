"""How many bytes of frames went either way, without what TLS and HTTP/2 add."""

from dataclasses import dataclass


@dataclass(slots=True)
class Meter:
    """Bytes that one process sent and received, over all its connections so far."""

    sent: int = 0
    received: int = 0

    def __str__(self) -> str:
        """In words, for a line that lives."""
        return f"{_size(self.sent)} sent, {_size(self.received)} received"


def _size(n_bytes: int) -> str:
    size, units = float(n_bytes), ["bytes", "kB", "MB", "GB", "TB"]
    while size >= 999.5 and len(units) > 1:
        size /= 1000
        units.pop(0)
    return f"{size:.3g} {units[0]}" if size < 999.5 else f"{size:,.0f} {units[0]}"
