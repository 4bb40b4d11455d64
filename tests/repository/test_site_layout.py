"""The documentation site can be laid out: each link of a page leads to a place on it, and its
reference names every public name, command, file of a result and method of experiments.
"""

import re
import subprocess
import sys
from pathlib import Path

import fastlloyd
from clone import ROOT
from fastlloyd_lab.experiments.methods import METHODS


def test_every_page_has_a_place_on_the_site_and_in_its_lists(tmp_path: Path) -> None:
    site = tmp_path / "pages"
    # it fails for a link without a place, and where a table of the reference lacks an entry
    subprocess.run([sys.executable, ROOT / "docs/site/assemble.py", site], check=True)
    listed = {"index.md"}
    for page in site.rglob("*.md"):
        for tree in re.findall(r"```{toctree}\n(.*?)```", page.read_text(), re.DOTALL):
            names = re.findall(r"^(?:.*<)?([\w/.-]+)>?$", tree.partition("\n\n")[2], re.MULTILINE)
            listed |= {_within(site, page.parent / name) for name in names}
    pages = {_within(site, page) for end in ("*.md", "*.ipynb") for page in site.rglob(end)}
    assert pages - listed == set()
    shown = "".join(page.read_text() for page in site.glob("reference/python-*.md"))
    assert all(f"fastlloyd.{name}\n" in shown for name in fastlloyd.__all__ if name[0] != "_")
    for_experiments = (site / "reference/experiments.md").read_text()
    assert all(f"| `{name}` | " in for_experiments for name in METHODS)


def _within(site: Path, page: Path) -> str:
    found = page.resolve().relative_to(site.resolve()).as_posix()
    return found if page.suffix else f"{found}.md"
