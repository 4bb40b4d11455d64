"""List everything that the product installs with the extra `all`: a page of licences for people,
and a bill of materials (CycloneDX) for programs.

Both are read from the packages themselves, in a clean environment made from requirements-run.lock.
"""

import argparse
import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from environments import DIST, Environment, uv
from wheels import ROOT, run

PAGE = ROOT / "docs/licences.md"
SBOM = DIST / "fastlloyd-sbom.cdx.json"
LOCK = "requirements-run.lock"
WINDOWS = {"colorama": "BSD-3-Clause"}  # cannot be installed where the page is written
HEADING = """\
# Licences of what is installed

`make parts` writes this page from the packages that `requirements-run.lock` installs for the extra
`all`, as they describe themselves, on Linux with Python 3.11. Change nothing here by hand. *without
extras* and *network* say which of them the smaller lock files install, too. The same list for
programs is a bill of materials (CycloneDX), `dist/fastlloyd-sbom.cdx.json`.

fastlloyd itself: Apache-2.0. Why each of them: [dependencies](design/dependencies.md).

| package | version | licence, as the package says | installed |
|---|---|---|---|
"""


def normal(name: str) -> str:
    """Return the common spelling of the name of a package."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pinned(lock: str) -> dict[str, str]:
    """Return the versions in a lock file by package: of two, that for a newer Python."""
    lines = (ROOT / lock).read_text().splitlines()
    pins = (line.split()[0].split("==") for line in lines if re.match(r"[\w.-]+==", line))
    return {normal(name): version for name, version in pins}


def licence(component: dict[str, Any]) -> str:
    """Return what a component says of its licence: an expression, or its classifiers."""
    found = []
    for each in component.get("licenses", []):
        if "expression" in each:
            return str(each["expression"])
        of = each["license"]
        found.append(str(of.get("id") or of.get("name", "")).partition("\n")[0])
    named = dict.fromkeys(name.removeprefix("License :: OSI Approved :: ") for name in found)
    return ", ".join(name for name in named if len(name) < 60) or "not stated"


def page(components: list[dict[str, Any]]) -> str:
    """Return the page of licences."""
    base, network = pinned("requirements-run-base.lock"), pinned("requirements-run-network.lock")
    rows = {normal(each["name"]): (each["version"], licence(each), "") for each in components}
    for name, words in WINDOWS.items():
        rows[name] = (pinned(LOCK)[name], words, "on Windows")
    lines = []
    for name, (version, words, where) in sorted(rows.items()):
        kind = "without extras" if name in base else "network" if name in network else "all"
        lines.append(
            f"| {name} | {version} | {words} | {f'{kind}, {where}' if where else kind} |\n"
        )
    return HEADING + "".join(lines)


def main() -> None:
    """Write the page and the bill of materials."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    version = Environment.wheel("fastlloyd").name.split("-")[1]
    with tempfile.TemporaryDirectory() as folder:
        made = Environment("", "locked", Path(folder) / "environment")
        uv("venv", "--quiet", "--python", sys.executable, made.folder)
        made.install("--require-hashes", "--only-binary", ":all:", "--requirements", ROOT / LOCK)
        uv("pip", "uninstall", "--quiet", "--python", made.python, "setuptools")  # builds only
        cyclonedx = Path(sys.executable).with_name("cyclonedx-py")
        run(
            cyclonedx, "environment", "--output-reproducible", "--pyproject",
            ROOT / "pyproject.toml", "-o", SBOM, made.python,
        )  # fmt: skip
    found = json.loads(SBOM.read_text())
    found["metadata"]["component"]["version"] = version
    SBOM.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    PAGE.write_text(page(found["components"]))
    print(f"Written: {SBOM} and {PAGE}, with {len(found['components'])} packages.")


if __name__ == "__main__":
    main()
