"""`fastlloyd` and `python -m fastlloyd`. The command line runs in one process, which leaves no core
dump on disk.
"""

import sys


def main() -> int:
    """Run the command line and return its exit code."""
    try:
        from fastlloyd.base.processes import forbid_core_dumps
        from fastlloyd.cli.failures import run

        forbid_core_dumps()
    except KeyboardInterrupt:
        return 130
    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
