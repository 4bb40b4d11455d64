"""A disk that a test can look at block by block: a file with an ext4 file system, mounted for a
while.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

SIZE, BLOCK = 24 << 20, 4096


@contextmanager
def mounted(folder: Path) -> Iterator[tuple[Path, Path]]:
    """Make an image in `folder` and mount it: the image, and where it is mounted.

    Skips the test where nothing can be mounted. What was written is in the image at the end.
    """
    make, mount, unmount = (shutil.which(name) for name in ("mkfs.ext4", "mount", "umount"))
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        pytest.skip("only root may mount a disk image, on Linux")
    if make is None or mount is None or unmount is None:
        pytest.skip("mkfs.ext4, mount or umount is missing: no disk image can be mounted")
    image, place = folder / "disk.img", folder / "mounted"
    place.mkdir()
    image.touch()
    os.truncate(image, SIZE)
    subprocess.run([make, "-q", "-F", image], check=True)
    done = subprocess.run([mount, "-o", "loop", image, place], check=False, capture_output=True)
    if done.returncode:
        pytest.skip(f"this machine mounts no disk image: {done.stderr.decode().strip()[:200]}")
    try:
        yield image, place
    finally:
        subprocess.run([unmount, place], check=True)


def holds(image: Path, pieces: set[bytes]) -> set[bytes]:
    """The pieces that are anywhere in the raw image."""
    blocks = []
    with image.open("rb") as file:
        while block := file.read(BLOCK):
            if any(block):  # most of a new disk is zeros
                blocks.append(block)
    content = b"".join(blocks)
    return {piece for piece in pieces if piece in content}


def pieces(secret: bytes, length: int = 16) -> set[bytes]:
    """Parts of a secret of this length, so that one that is split between blocks is found."""
    found = {secret[at : at + length] for at in range(0, len(secret) - length + 1, length)}
    return {piece for piece in found if len(set(piece)) > length // 4}  # no zeros
