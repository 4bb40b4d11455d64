"""Pack everything that an installation without a network needs into one archive, and install it.

The archive has the wheels that requirements-run.lock names for this platform and this Python, the
wheels of fastlloyd, the lock file, SHA256SUMS and the two lines that install it. Only files whose
hashes are in the lock file get in.
"""

import argparse
import hashlib
import os
import shutil
import sys
import sysconfig
import tarfile
import tempfile
from pathlib import Path

from environments import DIST, FIRST, Environment
from wheels import ROOT, run

LOCK = ROOT / "requirements-run.lock"
INSTALL = """\
sha256sum --check --quiet SHA256SUMS && {python} -m venv ENVIRONMENT
ENVIRONMENT/bin/pip install --no-index --find-links wheels --require-hashes -r requirements.lock
"""


def pack(folder: Path, python: str) -> None:
    """Fill a folder with the content of the archive."""
    wheels = folder / "wheels"
    pip = (sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check")
    run(*pip, "--only-binary", ":all:", "--require-hashes", "-r", LOCK, "--dest", wheels)
    product = Environment.wheel("fastlloyd")
    shutil.copy(product, wheels)
    digest = hashlib.sha256(product.read_bytes()).hexdigest()
    version = product.name.split("-")[1]
    mine = f"fastlloyd=={version} \\\n    --hash=sha256:{digest}\n"
    (folder / "requirements.lock").write_text(LOCK.read_text() + mine)
    (folder / "INSTALL.txt").write_text(INSTALL.format(python=python))
    sums = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(folder)}\n"
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    ]
    (folder / "SHA256SUMS").write_text("".join(sums))


def installed(archive: Path) -> None:
    """Install an archive as INSTALL.txt says, and run the commands of a first result.

    Raises CalledProcessError if that does not work.
    """
    with tempfile.TemporaryDirectory() as empty:
        folder = Path(empty)
        with tarfile.open(archive) as files:
            files.extractall(folder, filter="data")
        (unpacked,) = folder.iterdir()
        no_network = {
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_FIND_LINKS": "",
            "PIP_INDEX_URL": "file:///",
        }
        for line in (unpacked / "INSTALL.txt").read_text().splitlines():
            run("sh", "-c", line, folder=unpacked, **no_network)
        run(unpacked / "ENVIRONMENT/bin/python", FIRST, folder=folder)


def main() -> None:
    """Make the archive, and try it."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    python = f"python{sys.version_info.major}.{sys.version_info.minor}"
    version = Environment.wheel("fastlloyd").name.split("-")[1]
    name = f"fastlloyd-{version}-offline-{python}-{sysconfig.get_platform()}"
    archive = DIST / f"{name}.tar"
    with tempfile.TemporaryDirectory() as folder:
        content = Path(folder) / name
        content.mkdir()
        pack(content, python)
        n = len(list((content / "wheels").iterdir()))
        with tarfile.open(archive, "w") as files:
            files.add(content, name)
    installed(archive)
    print(f"Written: {archive}, {archive.stat().st_size / 1e6:.0f} MB, {n} wheels; it installs.")


if __name__ == "__main__":
    main()
