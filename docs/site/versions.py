"""Lead to the versions of the documentation site that lie in a folder, one folder each.

    python docs/site/versions.py FOLDER

`stable` leads to the newest release, `latest` to the newest version of all. They have a small page
for each page of their version, because a ZIP file and some web servers keep no symbolic links.
`index.html` lists the versions. Run it again when a version was added to the folder.
"""

import re
import shutil
import sys
from html import escape
from pathlib import Path

VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)(\S*)")
HEAD = '<!doctype html>\n<html lang="en"><meta charset="utf-8">'
LED = (
    HEAD + '<title>Documentation of fastlloyd {version}</title><meta http-equiv="refresh"'
    ' content="0; url={to}"><script>location.replace("{to}" + location.search + location.hash)'
    '</script><p>This page is in <a href="{to}">version {version}</a>.</p></html>\n'
)
LIST = (
    HEAD + '<meta name="viewport" content="width=device-width, initial-scale=1"><meta'
    ' name="color-scheme" content="light dark"><title>Documentation of fastlloyd</title><style>body'
    " {{ font: 1.1em/1.6 sans-serif; margin: 2em auto; max-width: 40em; padding: 0 1em; }}</style>"
    "<main><h1>Documentation of fastlloyd</h1><ul>{entries}</ul></main></html>\n"
)


def key(version: str) -> tuple[int, int, int, bool, str]:
    """Return the place of a version in their order. A release follows its candidates."""
    match = VERSION.fullmatch(version)
    if match is None:
        raise ValueError(f"{version} is no version, such as 0.1.0 or 0.2.0rc1")
    major, minor, patch, rest = match.groups()
    return int(major), int(minor), int(patch), rest == "", rest


def lead(folder: Path) -> list[str]:
    """Write `stable`, `latest` and `index.html`. Return the versions, the newest first."""
    found = [path.name for path in folder.iterdir() if VERSION.fullmatch(path.name)]
    versions = sorted(found, key=key, reverse=True)
    releases = [version for version in versions if key(version)[3]]
    names = {"latest": versions[:1], "stable": releases[:1]}
    for name, chosen in names.items():
        shutil.rmtree(folder / name, ignore_errors=True)
        for version in chosen:
            _lead_to(folder / version, folder / name)
    entries = "".join(
        f'<li><a href="{version}/index.html">{escape(version)}</a>'
        + "".join(f" ({name})" for name, chosen in names.items() if version in chosen)
        for version in versions
    )
    (folder / "index.html").write_text(LIST.format(entries=entries), encoding="utf-8")
    return versions


def _lead_to(version: Path, name: Path) -> None:
    """Write a page in the folder `name` for each page of a version."""
    for page in version.rglob("*.html"):
        path = page.relative_to(version)
        target = "../" * len(path.parts) + f"{version.name}/{path.as_posix()}"
        (name / path).parent.mkdir(parents=True, exist_ok=True)
        text = LED.format(version=version.name, to=escape(target))
        (name / path).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    lead(Path(sys.argv[1]))
