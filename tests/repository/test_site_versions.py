"""`docs/site/versions.py`: names that lead to versions, and the version that `make docs` builds."""

import re
import subprocess
import sys
from pathlib import Path

import fastlloyd
from clone import ROOT


def test_names_lead_to_the_newest_release_and_the_newest_version(tmp_path: Path) -> None:
    for version in ("0.9.0", "0.10.0", "1.0.0rc1"):
        (tmp_path / version / "deep").mkdir(parents=True)
        for page in ("index.html", "deep/page.html"):
            (tmp_path / version / page).touch()
    for _ in range(2):  # the second time over the first
        subprocess.run([sys.executable, ROOT / "docs/site/versions.py", tmp_path], check=True)
        assert "../../0.10.0/deep/page.html" in (tmp_path / "stable/deep/page.html").read_text()
        assert "../1.0.0rc1/index.html" in (tmp_path / "latest/index.html").read_text()
        listed = re.findall(r'href="(.+?)/index', (tmp_path / "index.html").read_text())
        assert listed == ["1.0.0rc1", "0.10.0", "0.9.0"]


def test_make_finds_the_version() -> None:
    (file,) = re.findall(r"^VERSION .* (\S+)\)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert f'__version__ = "{fastlloyd.__version__}"' in (ROOT / file).read_text()
