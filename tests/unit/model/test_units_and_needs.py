from __future__ import annotations

import pytest

from shared.model.units import UnknownUnit, parse_cpu_time, parse_output_size, parse_ram, parse_size
from shared.task.needs import needs_of_merge_job, needs_of_task


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        (2000, "MBPerCore", (2000, True, False)),
        (2000, "MBPerCoreFixed", (2000, True, True)),
        (4000, "MB", (4000, False, False)),
        (4000, None, (4000, False, False)),
        (None, "MB", (0, False, False)),
    ],
)
def test_ram_says_whether_it_is_for_each_core_and_whether_scouts_may_change_it(value, unit, expected) -> None:
    ram = parse_ram(value, unit)
    assert (ram.mb, ram.per_core, ram.fixed) == expected


@pytest.mark.parametrize(
    ("value", "unit", "size_bytes", "per_event"),
    [
        (1500, "kBPerEvent", 1500 * 1024, True),
        (1500, "kBPerEvents", 1500 * 1024, True),
        (2, "MB", 2 * 1024**2, False),
        (1, "GBFixed", 1024**3, False),
        (500, "kBPerEventFixed", 500 * 1024, True),
    ],
)
def test_output_size_is_1024_based_and_knows_whether_it_scales_with_events(value, unit, size_bytes, per_event) -> None:
    size = parse_output_size(value, unit)
    assert (size.size_bytes, size.per_event) == (size_bytes, per_event)


def test_milli_hs06_is_a_thousandth() -> None:
    assert parse_cpu_time(2500, "mHS06sPerEvent") == 2.5
    assert parse_cpu_time(None, None) is None


@pytest.mark.parametrize(
    "call",
    [
        lambda: parse_ram(1, "GBPerCore"),
        lambda: parse_output_size(1, "TB"),
        lambda: parse_cpu_time(1, "HS23"),
        lambda: parse_size("workDiskCount", 1, "TB"),
    ],
)
def test_an_unknown_unit_is_refused_with_what_is_allowed(call) -> None:
    with pytest.raises(UnknownUnit, match="allowed"):
        call()


@pytest.mark.parametrize("value", [-1, float("nan"), float("inf")])
def test_sizes_below_zero_and_sizes_that_are_no_numbers_are_refused(value) -> None:
    with pytest.raises(ValueError, match="workDiskCount"):
        parse_size("workDiskCount", value, "MB")


def test_a_task_without_numbers_has_the_fields_defaults() -> None:
    needs = needs_of_task({})
    assert (needs.core_count, needs.cpu_efficiency, needs.base_walltime_s) == (1, 0.9, 600)
    assert needs.cpu_time_hs06_s_per_event is None


def test_connectivity_and_ip_stack_come_from_one_field() -> None:
    needs = needs_of_task({"ip_connectivity": "http#IPv6"})
    assert (needs.connectivity, needs.ip_stack) == ("http", "IPv6")


def test_merge_jobs_have_their_own_cores_and_memory_and_copy_their_input() -> None:
    row = {"core_count": 8, "ram_count": 1000, "ram_unit": "MBPerCore", "merge_ram_count": 3000, "cpu_time": 100}
    needs = needs_of_merge_job(row)
    assert (needs.core_count, needs.ram_mb, needs.ram_per_core) == (1, 3000, False)
    assert needs.cpu_time_hs06_s_per_event is None
    assert needs.output_bytes(n_events=0, input_bytes=7 * 1024**2) == 7 * 1024**2
