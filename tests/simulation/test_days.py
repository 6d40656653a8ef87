"""Weeks of a small grid in minutes: every task ends, every table stays small, and a rule that is broken is named."""

from __future__ import annotations

import asyncio

import pytest

from services.watchdog.policy.retention import RULES
from tests import servers
from tests.drawn import HALF
from tests.simulation.days import Days, growing, one_day_kept
from tests.simulation.prepared import ensure_world
from tests.simulation.running import authority, note_death
from tests.simulation.simulation import Report
from tests.simulation.stage import Stage

pytestmark = [pytest.mark.simulation]
#: tasks are archived after days: in a short run what leaves with them is still coming
WITH_TASKS = ("tasks", "tasks_archive", "event_range_files")
OF_RULES = sorted({table for rule in RULES if rule.name not in WITH_TASKS for table in rule.tables})


def run(n_days: int, *switched_off: str) -> tuple[Report, Days]:
    """So many days with every rule keeping one, but for some that are switched off."""

    async def go() -> tuple[Report, Days]:
        asyncio.get_running_loop().set_exception_handler(note_death)
        url = servers.Servers.find().database_url
        stage = await Stage.set_up(url, await ensure_world(url, authority()))
        try:
            with one_day_kept(*switched_off):
                days = Days(1, stage, authority(), n_days=n_days)
                return await days.run(), days
        finally:
            await stage.drop(url)

    return asyncio.run(go())


@pytest.mark.night
@pytest.mark.timeout(1500)
def test_in_thirty_days_every_task_ends_and_no_table_grows() -> None:
    report, days = run(30)
    assert set(report.statuses.values()) <= {"done", "finished", "aborted", "exhausted"}
    assert growing(days.sizes, range(10, 20), range(20, 30)) == []


@pytest.mark.drawn(0, HALF)
@pytest.mark.timeout(600)
def test_in_six_days_the_one_rule_that_is_switched_off_is_named() -> None:
    """All others keep what they have: their tables do not grow."""
    report, days = run(6, "audit_log")
    assert set(report.statuses.values()) <= {"done", "finished", "aborted", "exhausted"}
    found = growing(days.sizes, range(2, 4), range(4, 6), OF_RULES)
    assert [one.partition(": ")[2] for one in found] == ["rule audit_log"]


@pytest.mark.drawn(1, HALF)
@pytest.mark.timeout(600)
def test_what_is_kept_for_another_rule_names_that_rule() -> None:
    _, days = run(6, "generation_history")
    with one_day_kept("generation_history"):
        found = growing(days.sizes, range(2, 4), range(4, 6), ["generation_history", "tasks"], most_more=2.0)
    assert [one.partition(": ")[2] for one in found] == [
        "rule generation_history",
        "rule tasks, which keeps them for rule generation_history",
    ]
