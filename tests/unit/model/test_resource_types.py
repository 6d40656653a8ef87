from __future__ import annotations

import pytest

from shared.model.resource_types import (
    DEFAULT_RESOURCE_TYPES,
    ResourceType,
    compensate,
    decompensate,
    queue_part,
    resource_type_of,
)
from tests.unit.brokerage.conformance import sample


@pytest.mark.parametrize("case", sample("childqueue")["cases"], ids=lambda case: case["in"]["resource_type"]["name"])
def test_a_queue_is_cut_for_a_resource_type_as_in_the_field(case) -> None:
    queue, wanted = case["in"]["queue"], case["in"]["resource_type"]
    resource_type = ResourceType(
        wanted["name"], wanted["mincore"], wanted["maxcore"], wanted["minrampercore"], wanted["maxrampercore"]
    )
    part = queue_part(queue["core_count"], queue["minrss"], queue["maxrss"], resource_type)
    if case["out"] is None:
        assert part is None
    else:
        assert part is not None
        out = case["out"]
        assert (part.core_count, part.min_rss_mb, part.max_rss_mb) == (out["core_count"], out["minrss"], out["maxrss"])


@pytest.mark.parametrize("case", sample("ramcomp")["cases"], ids=lambda case: str(case["in"]))
def test_memory_is_compensated_as_in_the_field(case) -> None:
    assert [compensate(case["in"]), decompensate(case["in"])] == case["out"]


@pytest.mark.parametrize(
    ("cores", "ram_mb", "per_core", "base_mb", "expected"),
    [
        (1, 2000, True, 0, "SCORE"),
        (None, 2000, True, 0, "SCORE"),
        (1, 2222, True, 0, "SCORE"),
        (1, 2224, True, 0, "SCORE_HIMEM"),
        (8, 2000, True, 1000, "MCORE"),
        (8, 2500, True, 0, "MCORE_HIMEM"),
        (8, 16000, False, 0, "MCORE"),
        (0, 2000, True, 0, "MCORE"),
    ],
)
def test_a_task_takes_the_first_type_that_its_compensated_memory_fits(
    cores, ram_mb, per_core, base_mb, expected
) -> None:
    assert resource_type_of(cores, ram_mb, per_core, base_mb, DEFAULT_RESOURCE_TYPES) == expected


def test_work_that_no_type_fits_is_undefined() -> None:
    assert resource_type_of(1, 5000, True, 0, DEFAULT_RESOURCE_TYPES[:1]) == "Undefined"
