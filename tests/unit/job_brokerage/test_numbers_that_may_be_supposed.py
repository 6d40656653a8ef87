"""What if: which numbers of a task say something about the jobs of a chunk, and in which units."""

from __future__ import annotations

from typing import Any

import pytest

from services.job_brokerage.supposing import NUMBERS, UNITS, check_read, numbers_of
from shared.web.problems import WrongRequest

TASK: dict[str, Any] = dict.fromkeys([*(column for columns in NUMBERS.values() for column in columns), *UNITS]) | {
    "ram_count": 2, "ram_unit": "GB", "merge_ram_count": 500, "merge_ram_unit": "MB", "merge_core_count": 1,
}  # fmt: skip


def test_memory_of_merge_jobs_is_in_its_own_unit_and_what_they_do_not_read_is_not_offered() -> None:
    normal, merge = numbers_of({**TASK, "kind": "normal"}), numbers_of({**TASK, "kind": "merge"})
    assert (normal["numbers"]["ram_count"], normal["units"]["ram_unit"]) == (2, "GB")
    assert (merge["numbers"]["ram_count"], merge["units"]["ram_unit"]) == (500, "MB")
    assert set(normal["numbers"]) - set(merge["numbers"]) == {"cpu_time", "out_disk_count"}


def test_a_number_that_merge_jobs_do_not_read_is_refused_with_those_that_they_do() -> None:
    check_read({**TASK, "kind": "normal"}, {"cpu_time": 1.0})
    with pytest.raises(WrongRequest, match="number: value 'cpu_time': allowed: of merge jobs core_count, ram_count"):
        check_read({**TASK, "kind": "merge"}, {"cpu_time": 1.0})
