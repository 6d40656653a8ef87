from __future__ import annotations

import pytest

from shared.runtime.service import Context
from tests.databases import Databases
from tests.handlers.job_generation.story import Story


@pytest.fixture
async def story(context: Context, databases: Databases) -> Story:
    return await Story.begin(context, databases)
