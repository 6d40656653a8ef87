"""Rules of retention: what may be set, and how long rows are kept whatever is set."""

from __future__ import annotations

from typing import Any

import pytest

from services.watchdog.policy.retention import (
    BY_NAME,
    BYTES_OF_GB,
    RULES,
    Kept,
    Order,
    Rule,
    is_nearly_full,
    kept,
)
from shared.config.parameter import Parameter
from shared.db.partitions import DAILY_TABLES
from tests.contracts.ownership import TABLES


def reading(**days: int) -> Any:
    """What is set, by rule; all others have their defaults."""

    def read(parameter: Parameter[int]) -> int:
        return next((value for name, value in days.items() if BY_NAME[name].days is parameter), parameter.default)

    return read


def test_each_table_has_one_rule_at_most_and_exists() -> None:
    tables = [table for rule in RULES for table in rule.tables]
    assert len(set(tables)) == len(tables) and set(tables) <= set(TABLES)
    assert {rule.name for rule in RULES if rule.order is Order.DAYS} == {table.name for table in DAILY_TABLES}


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.least_days > 1], ids=lambda rule: rule.name)
def test_less_than_the_system_needs_is_refused_with_the_reason(rule: Rule) -> None:
    with pytest.raises(ValueError, match=f"1 days are too short: .+; allowed: 0 .for ever., {rule.least_days} days"):
        rule.days.parsed("1")
    assert rule.days.parsed("0") == 0 and rule.days.parsed(str(rule.least_days)) == rule.least_days
    assert rule.days.default >= rule.least_days


def test_negative_and_absurd_ages_are_refused() -> None:
    for text in ("-1", "100000", "soon", "1.5"):
        with pytest.raises(ValueError, match="allowed: a whole number from 0 to 3650"):
            BY_NAME["transfers"].days.parsed(text)


def test_what_was_written_past_the_service_keeps_what_the_system_needs() -> None:
    assert kept(BY_NAME["inbox"], reading(inbox=1)) == Kept(2)
    assert kept(BY_NAME["inbox"], reading(inbox=0)) == Kept(None)


def test_rows_are_kept_as_long_as_another_rule_needs_them() -> None:
    audit = BY_NAME["audit_log"]
    # two days more than transitions, which go by whole days
    assert kept(audit, reading(audit_log=60, transition_log=90)) == Kept(92, "transition_log")
    assert kept(audit, reading(audit_log=60, transition_log=30)) == Kept(60)
    assert kept(audit, reading(audit_log=60, transition_log=0)) == Kept(None, "transition_log")
    archive = BY_NAME["jobs_archive"]
    assert kept(archive, reading(jobs_archive=30, job_files=40, job_reports=200)) == Kept(200, "job_reports")


def test_a_rule_is_nearly_full_from_nine_tenths_of_its_size_on() -> None:
    assert not is_nearly_full(9 * BYTES_OF_GB - 1, 10)
    assert is_nearly_full(9 * BYTES_OF_GB, 10)
    assert not is_nearly_full(10**15, 0), "no size is set"
