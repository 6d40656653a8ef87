"""A console over recorded answers, and a browser of somebody who signed in."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

import httpx
import pytest
from fastapi import FastAPI

from tests.handlers.console.stubbed_api import StubbedApi, browser_at, console_over, sign_in


@pytest.fixture
def api() -> StubbedApi:
    return StubbedApi()


@pytest.fixture
def clock() -> list[float]:
    """The time of day, which a test may move."""
    return [time.time()]


@pytest.fixture
def web(api: StubbedApi, clock: list[float]) -> FastAPI:
    return console_over(api, lambda: clock[0])


@pytest.fixture
async def visitor(web: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    """Somebody who is not signed in."""
    async with browser_at(web) as browser:
        yield browser


@pytest.fixture
async def browser(web: FastAPI, api: StubbedApi) -> AsyncIterator[httpx.AsyncClient]:
    """Ada, an operator of atlas, who signed in."""
    async with browser_at(web) as browser:
        assert (await sign_in(browser)).status_code == 303
        api.asked.clear()
        yield browser
