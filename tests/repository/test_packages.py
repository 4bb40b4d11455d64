"""What is installed: the lock files belong together, and the page of licences lists all of it."""

import re

import pytest

from clone import ROOT
from parts import LOCK, PAGE, normal, pinned

RUN = "requirements-run-base.lock", "requirements-run-network.lock", LOCK
COPYLEFT = re.compile("GPL|AGPL|EUPL|CDDL|not stated|Commercial|Proprietary", re.IGNORECASE)


def entries(lock: str) -> set[str]:
    """Packages of a lock file, each with its version, its condition and its hashes."""
    text = re.sub(r"^#.*\n", "", (ROOT / lock).read_text(), flags=re.MULTILINE)
    return {" ".join(each.split()) for each in re.split(r"\n(?=\S)", text)}


def rows() -> dict[str, list[str]]:
    lines = PAGE.read_text().splitlines()
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    return {of[0]: of[1:] for of in cells if len(of) == 4 and of[0] not in ("package", "---")}


@pytest.mark.parametrize(("smaller", "larger"), [RUN[:2], RUN[1:]])
def test_a_larger_lock_has_all_of_a_smaller_one_with_the_same_versions_and_hashes(
    smaller: str, larger: str
) -> None:
    assert entries(smaller)
    assert entries(smaller) <= entries(larger)
    assert all("--hash=sha256:" in entry for entry in entries(smaller))


def test_the_server_is_installed_without_compiled_loops_and_frames() -> None:
    assert not {"numba", "llvmlite", "pyarrow", "scikit-learn", "matplotlib"} & set(pinned(RUN[1]))
    assert "grpcio" in pinned(RUN[1])


def test_the_page_of_licences_has_every_package_of_the_lock_with_its_version() -> None:
    listed = rows()
    assert set(listed) == set(pinned(LOCK)) - {"setuptools"}  # builds only
    for line in (ROOT / LOCK).read_text().splitlines():
        name, _, version = line.partition(" ")[0].partition("==")
        if version and listed.get(normal(name), [version])[0] != version:
            assert "python_full_version" in line, line  # another one is for this Python


def test_every_licence_is_permissive() -> None:
    assert not {name: of[1] for name, of in rows().items() if COPYLEFT.search(of[1])}


def test_the_page_says_which_lock_installs_a_package() -> None:
    for name, (_, _, kind) in rows().items():
        smallest = next(lock for lock in RUN if name in pinned(lock))
        said = {RUN[0]: "without extras", RUN[1]: "network", LOCK: "all"}[smallest]
        assert kind.split(",")[0] == said
