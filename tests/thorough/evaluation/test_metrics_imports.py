"""Importing metrics."""

import subprocess
import sys


def test_importing_metrics_and_records_loads_no_heavy_library() -> None:
    program = (
        "import sys, fastlloyd.evaluation.metrics, fastlloyd.records\n"
        "print({'sklearn', 'scipy', 'matplotlib'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "set()"
