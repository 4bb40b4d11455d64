"""Entry point of `fastlloyd` and of `python -m fastlloyd`."""

import sys


def main() -> int:
    """Run the command line and return its exit code."""
    try:
        from fastlloyd.cli.failures import run_alone
    except KeyboardInterrupt:
        return 130
    return run_alone(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
