"""Where programs keep what is theirs and not to be lost, on each system."""

import os
import sys
from pathlib import Path


def state_folder() -> Path:
    """The folder of this user's state; it may not be there yet. Raises RuntimeError if the user has no home."""
    if sys.platform == "win32":
        kept = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        kept = Path.home() / "Library" / "Application Support"
    else:
        kept = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(kept) / "fastlloyd"
