"""Folders of this clone, wherever in it a test is."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
SUPPORT = ROOT / "tests/support"
VECTORS = ROOT / "tests/vectors"
