"""Importing the package."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.filterwarnings("ignore::fastlloyd.errors.NoisyResultWarning")


def test_importing_the_package_imports_no_scikit_learn() -> None:
    said = "import fastlloyd, sys; fastlloyd.__all__; print('sklearn' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", said], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "False"
