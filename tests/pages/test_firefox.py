"""Firefox shows a page of a result: drawings, colours and text, and no blank screen."""

import io
import subprocess
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from firefox import path_of_firefox
from pages import page, random_result

pytestmark = pytest.mark.pages


def test_firefox_draws_the_page_with_its_marks(tmp_path: Path) -> None:
    file, shot = tmp_path / "result.html", tmp_path / "shot.png"
    file.write_text(page(random_result(3, 3)))
    (tmp_path / "profile").mkdir()
    subprocess.run(
        [
            path_of_firefox(),
            "--headless",
            "--profile",
            str(tmp_path / "profile"),
            "--window-size=1280,1400",
            f"--screenshot={shot}",
            file.as_uri(),
        ],
        check=True,
        capture_output=True,
        timeout=180,
        env={"HOME": str(tmp_path), "MOZ_HEADLESS": "1", "PATH": "/usr/bin:/bin"},
    )
    image = np.asarray(imread(io.BytesIO(shot.read_bytes())))[..., :3]
    assert image.shape[1] == 1280
    red, green, blue = (image[..., colour] for colour in range(3))
    orange = (red > 0.5) & (green < 0.45) & (blue < 0.2)
    deep_blue = (red < 0.25) & (green > 0.25) & (green < 0.5) & (blue > 0.45)
    assert orange.sum() > 200  # marks and words above all together
    assert deep_blue.sum() > 200  # and below
    assert (image.max(axis=2) < 0.25).sum() > 2_000  # text
