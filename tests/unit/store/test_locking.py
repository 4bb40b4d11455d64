"""One holder per lock; the file that stays behind locks nobody out."""

from pathlib import Path

import pytest

from fastlloyd.errors import StateError
from fastlloyd.federation.store.files import Lock


def test_a_lock_has_one_holder_at_a_time_and_its_file_stays(tmp_path: Path) -> None:
    for _ in range(3):
        lock = Lock(tmp_path / "a.store")
        with pytest.raises(StateError, match="in use by another process"):
            Lock(tmp_path / "a.store")
        Lock(tmp_path / "b.store").release()
        lock.release()
        assert (tmp_path / "a.store-lock").read_bytes() == b""


def test_a_lock_is_not_taken_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "a.store-lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StateError, match="cannot be made"):
        Lock(tmp_path / "a.store")
    assert not (tmp_path / "elsewhere").exists()
