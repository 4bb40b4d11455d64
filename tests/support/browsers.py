"""A browser for tests of pages: Debian's Chromium, driven by Playwright, without a download.

Without them these tests are skipped, and say so; with FASTLLOYD_REQUIRE_BROWSER=1 they fail.
"""

import os
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING, NoReturn

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def missing(what: str) -> NoReturn:
    """Skip the test, or let it fail if a browser is required."""
    if os.environ.get("FASTLLOYD_REQUIRE_BROWSER") == "1":
        pytest.fail(f"{what} is required and not there")
    pytest.skip(f"needs {what}: CONTRIBUTING.md says how to get it")


@pytest.fixture(scope="session")
def browser() -> "Iterator[Browser]":
    """Chromium, started once."""
    path = next((found for name in CHROMIUM if (found := shutil.which(name))), None)
    if path is None:
        missing("Chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        missing("the package playwright")
    with sync_playwright() as playwright:
        # a root user of a container has no sandbox
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        started = playwright.chromium.launch(executable_path=path, args=arguments)
        yield started
        started.close()
