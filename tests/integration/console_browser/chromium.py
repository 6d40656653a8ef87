"""The browser of Debian's packages: Playwright drives it and downloads none."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, sync_playwright

MISSING = (
    "Chromium is not on this machine: stories in a browser are skipped. `.ci/run` installs Debian's package before the "
    "tests; `apt-get install chromium` does it by hand"
)
#: a page that is refused is looked at; Chromium says so in its console, too
LOOKED_AT = "Failed to load resource: the server responded with a status of 4"
WAIT_MS = 20_000


@contextmanager
def chromium() -> Iterator[Browser]:
    """A running Chromium; the test is skipped where there is none."""
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.skip(MISSING)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--disable-dev-shm-usage"])
        yield browser
        browser.close()


@contextmanager
def context_of(browser: Browser, base_url: str, **options: Any) -> Iterator[BrowserContext]:
    """A person's browser with cookies of its own; what its scripts, styles or requests failed of fails the test."""
    problems: list[str] = []

    def said(message: ConsoleMessage) -> None:
        if message.type == "error" and not message.text.startswith(LOOKED_AT):
            problems.append(message.text)

    context = browser.new_context(base_url=base_url, **options)
    context.set_default_timeout(WAIT_MS)
    context.on("console", said)
    context.on("weberror", lambda error: problems.append(str(error.error)))
    yield context
    context.close()
    assert problems == []
