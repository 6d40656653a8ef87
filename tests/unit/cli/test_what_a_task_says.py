"""What a task says of itself is not out of date, and its facts come in an order that means something."""

from __future__ import annotations

import pytest

from services.task_definition.tasks.policy.explaining import task_text
from shared.states.task import MEANINGS

SAID = "no queue passed: 20 queued"
#: what was said before is over: the task goes on, or is done
OVER = {"registered", "defined", "ready", "scouting", "scouted", "running", "prepared", "done"}


@pytest.mark.parametrize("status", MEANINGS)
def test_a_task_says_its_last_error_or_wait_as_long_as_it_holds(services, orrery, status: str) -> None:
    task = {"task_id": 7, "status": status, "task_name": "mine", "user_name": "ada", "error_dialog": SAID}
    services.says("task/list", [task])
    services.says("task/get_details", {**task, "datasets": [], "jobs": {}})
    facts = {
        **task, "state_change_time": None, "current_priority": 1, "gshare": "MC", "nucleus": None, "retry_at": None,
        "old_status": None,
    }  # fmt: skip
    text = task_text(
        {"task": facts, "files": {}, "jobs": {}, "decisions": [], "failures": [], "history": [], "generation": None}
    )
    shown = [orrery("tasks").out, orrery("task", "7").out, text]
    assert [SAID in " ".join(one.split()) for one in shown] == [status not in OVER] * 3


def test_the_facts_of_a_task_come_in_an_order_that_means_something(services, orrery) -> None:
    order = [
        "task_id", "task_name", "status", "error_dialog", "user_name", "vo", "trans_path", "gshare",
        "current_priority", "nucleus", "creation_date", "state_change_time", "core_count", "ram_count", "split_rule",
        "an_unknown_one",
    ]  # fmt: skip
    services.says("task/get_details", {name: f"value-{name}" for name in sorted(order)})
    out = orrery("task", "7").out
    places = [out.index(f"value-{name}") for name in order]
    assert places == sorted(places), out
