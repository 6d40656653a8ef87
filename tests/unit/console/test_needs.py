"""What a task needs: as it was stated, and as it is now."""

from __future__ import annotations

from services.console.policy.needs import Need, needs_of

TASK = {
    "core_count": 8, "ram_count": 1450, "ram_unit": "MBPerCore", "cpu_time": 700, "cpu_time_unit": "HS06sPerEvent",
    "io_intensity": 40, "io_intensity_unit": "kBPerS", "out_disk_count": 900, "out_disk_unit": "kBPerEvent",
    "work_disk_count": 800, "work_disk_unit": "MB", "walltime": None, "walltime_unit": None,
    "measured_units": ["ram_count", "io_intensity"], "fixed_units": ["cpu_time"],
    "task_parameters": {"coreCount": 8, "ramCount": 2, "ramUnit": "GBPerCore", "cpuTime": 700, "outDiskCount": 900,
                        "workDiskCount": 500, "workDiskUnit": "MB"},
}  # fmt: skip


def test_each_need_says_what_was_stated_what_counts_now_and_where_that_comes_from() -> None:
    assert needs_of(TASK) == [
        Need("cores", 8, "", 8, "", "as stated"),
        Need("memory", 2, "GBPerCore", 1450, "MBPerCore", "measured by its scouts"),
        Need("CPU time", 700, "HS06sPerEvent", 700, "HS06sPerEvent", "as stated; scouts do not change it"),
        Need("output", 900, "kBPerEvent", 900, "kBPerEvent", "as stated"),
        Need("work directory", 500, "MB", 800, "MB", "changed since"),
        Need("input and output over the network", None, "", 40, "kBPerS", "measured by its scouts"),
    ]


def test_of_a_task_that_is_not_told_in_full_nothing_is_said() -> None:
    assert needs_of({"task_id": 7, "status": "running"}) == []
