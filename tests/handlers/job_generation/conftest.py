from __future__ import annotations

import pytest

from shared.runtime.service import Context
from tests.handlers.job_generation.story import Story


@pytest.fixture
async def story(context: Context) -> Story:
    return await Story.begin(context)
