"""What a task belongs to when its needs or places have changed."""

from __future__ import annotations

from typing import Any

import pytest

from services.task_definition.desk.policy.work_queues import WorkQueue
from services.task_definition.tasks.policy.classes import Classes, Sharing, classes_of
from services.task_definition.tasks.policy.shares import ShareNode
from shared.model.resource_types import DEFAULT_RESOURCE_TYPES
from tests.unit.task_definition.test_refine import spec_of

SHARING = Sharing(
    (
        ShareNode("Small", None, {"resource_type": "SCORE$"}),
        ShareNode("Large", None, {"resource_type": ".*HIMEM"}),
        ShareNode("Express", None, {"prod_source_label": "nothing"}),
    ),
    DEFAULT_RESOURCE_TYPES,
    (
        WorkQueue(1, "somewhere", "managed", "demo", order=1, criteria="site = 'ALPHA'"),
        WorkQueue(2, "rest", "managed", "demo", order=2),
    ),
)
ROW = {
    "core_count": 1, "ram_count": 1000, "ram_unit": "MB", "base_ram_count": None, "site": None, "gshare": "Small",
    "resource_type": "SCORE", "work_queue_id": 2, "user_name": "ada",
}  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, ("SCORE", "Small", 2)),
        ({"ram_count": 3000}, ("SCORE_HIMEM", "Large", 2)),
        ({"ram_count": 3000, "gshare": "Express"}, ("SCORE_HIMEM", "Express", 2)),  # raised near the end: it stays
        ({"core_count": 8}, ("MCORE", "Small", 2)),  # no share takes it: it keeps its own
        ({"site": "ALPHA"}, ("SCORE", "Small", 1)),
        ({"resource_type": "SCORE_HIMEM", "gshare": "Large"}, ("SCORE", "Small", 2)),
    ],
)
def test_class_share_and_queue_follow_what_has_changed(changed: dict[str, Any], expected: tuple[str, str, int]) -> None:
    spec = spec_of(coreCount=1, ramCount=1000, ramUnit="MB")
    assert classes_of(spec, {**ROW, **changed}, SHARING) == Classes(*expected)


def test_a_share_or_queue_that_the_task_names_stays() -> None:
    spec = spec_of(coreCount=1, gshare="Small", workQueueName="rest")
    found = classes_of(spec, {**ROW, "ram_count": 3000, "site": "ALPHA"}, SHARING)
    assert found == Classes("SCORE_HIMEM", "Small", 2)
    gone = spec_of(coreCount=1, gshare="Small", workQueueName="gone")
    assert classes_of(gone, {**ROW, "work_queue_id": 7}, SHARING).work_queue_id == 7
