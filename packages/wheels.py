"""Build sdist and wheel of both packages twice, from the last commit, and keep them if all bytes
are the same.

The time of the last commit stands in for the time of the build, so that another machine with the
same Python and the same setuptools builds the same bytes.
"""

import argparse
import gzip
import io
import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def run(*command: str | Path, folder: Path = ROOT, **variables: str) -> str:
    """Run a command, and return what it prints. Raises CalledProcessError if it fails."""
    return subprocess.run(
        [str(each) for each in command],
        cwd=folder,
        env=os.environ | variables,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout


def exported(folder: Path) -> Path:
    """Copy the files of the last commit to a folder, and return it."""
    archive = folder / "clone.tar"
    run("git", "archive", "--output", archive, "HEAD")
    with tarfile.open(archive) as files:
        files.extractall(folder / "clone", filter="data")
    return folder / "clone"


def built(folder: Path, seconds: str) -> dict[str, bytes]:
    """Build both packages in a folder, and return the content of each file by its name.

    seconds : time to note in the files, in seconds since 1970.
    """
    clone, out = exported(folder), folder / "dist"
    build = (sys.executable, "-m", "build", "--no-isolation", "--outdir", out)
    for package in (clone, clone / "lab"):
        run(*build, package, SOURCE_DATE_EPOCH=seconds)
    return {
        path.name: repacked(path, int(seconds)) if path.name.endswith(".gz") else path.read_bytes()
        for path in sorted(out.iterdir())
    }


def repacked(sdist: Path, seconds: int) -> bytes:
    """Return the same sdist with one time, one owner and one order for all its files."""
    content = io.BytesIO()
    with (
        tarfile.open(sdist) as old,
        gzip.GzipFile("", "wb", fileobj=content, mtime=seconds) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as new,
    ):
        for each in sorted(old.getmembers(), key=lambda member: member.name):
            each.mtime, each.uid, each.gid, each.uname, each.gname = seconds, 0, 0, "", ""
            each.pax_headers = {}
            each.mode = 0o755 if each.isdir() or each.mode & 0o100 else 0o644
            new.addfile(each, old.extractfile(each) if each.isfile() else None)
    return content.getvalue()


def left_out(found: dict[str, bytes]) -> list[str]:
    """Return the files of the last commit that belong into a wheel and are in none."""
    packed = {
        name
        for wheel, content in found.items()
        if wheel.endswith(".whl")
        for name in zipfile.ZipFile(io.BytesIO(content)).namelist()
    }
    listed = run("git", "ls-tree", "-r", "--name-only", "HEAD", "src", "lab/src").split()
    return [path for path in listed if path.partition("src/")[2] not in packed]


def main() -> None:
    """Build twice, compare, and write the files."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--out", type=Path, default=ROOT / "dist")
    out = options.parse_args().out
    if run("git", "status", "--porcelain", "--untracked-files=no").strip():
        print("Note: changes that are not committed are not in the packages.")
    os.umask(0o022)
    seconds = run("git", "log", "-1", "--format=%ct").strip()
    found = []
    for _ in range(2):
        with tempfile.TemporaryDirectory() as folder:
            found.append(built(Path(folder), seconds))
    different = [name for name, content in found[0].items() if found[1].get(name) != content]
    if different:
        sys.exit(f"Two builds differ in {', '.join(different)}")
    if missing := left_out(found[0]):
        sys.exit(f"The wheels lack {', '.join(missing)}")
    out.mkdir(exist_ok=True)
    for old in [*out.glob("fastlloyd*.whl"), *out.glob("fastlloyd*.tar.gz")]:
        old.unlink()
    for name, content in found[0].items():
        (out / name).write_bytes(content)
    run(sys.executable, "-m", "twine", "check", "--strict", *(out / name for name in found[0]))
    for name, content in found[0].items():
        print(f"{out / name}: {len(content):,} bytes; two builds gave the same bytes")


if __name__ == "__main__":
    main()
