from __future__ import annotations

import pytest

from shared.model.analysis import is_analysis


@pytest.mark.parametrize(
    ("task_type", "label", "expected"),
    [
        ("anal", "user", True), ("anal", "panda", True), ("anal", "test", True), ("anal", None, True),
        ("prod", "managed", False), ("prod", "user", False), ("prod", None, False),
        (None, "user", True), (None, "panda", True), (None, "managed", False), (None, "test", False),
        (None, None, False), ("", "user", True),
    ],
)  # fmt: skip
def test_the_type_of_a_task_says_whether_it_is_analysis_and_its_label_where_there_is_no_type(
    task_type: str | None, label: str | None, expected: bool
) -> None:
    assert is_analysis(task_type, label) is expected
