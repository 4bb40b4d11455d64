"""`fastlloyd` and `python -m fastlloyd`: one process, which leaves no picture of its memory on disk."""

import sys
from contextlib import suppress
from typing import Final

_PR_SET_DUMPABLE: Final = 4  # linux/prctl.h


def main() -> int:
    """Run the command line and return its exit code."""
    try:
        from fastlloyd.cli.failures import run

        forbid_core_dumps()
    except KeyboardInterrupt:
        return 130
    return run(sys.argv[1:])


def forbid_core_dumps() -> None:
    """Have the system write no core dump of this process, and on Linux let no other process of this user read its memory.

    Keys, records and noise are in it. The limit alone is not enough: Linux hands a dump to a program that asks for it
    (systemd-coredump, apport) whatever the limit is, but makes none of a process that is not dumpable. Where the system has
    neither, or refuses, nothing happens.
    """
    with suppress(ImportError, OSError, ValueError):  # Windows has no such limit, and writes no dump unless it is told to
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        with suppress(ImportError, OSError, AttributeError):
            import ctypes

            ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


if __name__ == "__main__":
    sys.exit(main())
