"""Set-up of the lab. It has the version of fastlloyd, read from the file that defines it, and
requires exactly this version.
"""

import re
from pathlib import Path

from setuptools import setup

HERE = Path(__file__).resolve().parent
CLONE = HERE.parent / "src" / "fastlloyd" / "base" / "version.py"
UNPACKED = HERE / "PKG-INFO"  # of a source distribution, which has no clone around it


def version() -> str:
    """Return the version of fastlloyd in this clone, or the version of this source distribution."""
    if CLONE.exists():
        text, pattern = CLONE.read_text(), r'^__version__ = "(.+)"$'
    else:
        text, pattern = UNPACKED.read_text(), r"^Version: (.+)$"
    (found,) = re.findall(pattern, text, re.MULTILINE)
    return str(found)


setup(
    version=version(),
    install_requires=[
        f"fastlloyd[sklearn,plot,fast,data]=={version()}",
        *(HERE / "requirements.in").read_text().split("\n")[1:-1],
    ],
)
