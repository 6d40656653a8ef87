"""How much memory a private PostgreSQL takes."""

from __future__ import annotations

import pytest

from deploy.local.postgresql import buffers_mb


@pytest.mark.parametrize(("memory_mb", "expected"), [(512, 128), (4_096, 256), (8_192, 512), (24_000, 1_024)])
def test_shared_buffers_are_a_sixteenth_of_the_memory_between_two_bounds(memory_mb: int, expected: int) -> None:
    assert buffers_mb(memory_mb) == expected
