"""A task that finds no room, as its user sees it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.integration.cli.conftest import Orrery
from tests.integration.cli.test_live_system import submit, wait_for

pytestmark = [pytest.mark.usefixtures("world"), pytest.mark.timeout(300)]
LIMIT = "jobbroker.NQUEUELIMITSITE"


def test_a_task_that_waits_says_for_what_at_which_queue_and_until_when_and_goes_on_when_there_is_room(
    orrery: Orrery, tmp_path: Path
) -> None:
    assert orrery("config", "set", LIMIT, "1").code == 0
    first = submit(orrery, tmp_path, 0, "fills")
    wait_for(orrery, first, "scouting")
    queue = orrery("jobs", "--task", str(first), "--json").json()[0]["queue"]
    assert orrery("queues", queue, "--json").json()[0]["jobs"]
    waiting = submit(orrery, tmp_path, 0, "waits", site=queue)
    wait_for(orrery, waiting, "pending")
    explained = orrery("explain", "task", str(waiting)).out
    waits = re.search(r"^ *waits for: (.*)$", explained, re.MULTILINE)
    assert waits is not None, explained
    assert re.search(rf"room at {queue}\S* \(\d+ (queued|activated and starting) of its VO, at most 1\)", waits[1]), (
        explained
    )
    assert re.search(r" or \d\d:\d\d UTC$", waits[1]), explained
    considered = re.search(r"(\d+) queues, 0 passed", explained)
    assert considered is not None and int(considered[1]) == len(orrery("queues", "--json").json()), explained
    assert "wanted: at most 1 jobs" in explained
    assert "nearest miss" in orrery("task", str(waiting)).out
    assert orrery("config", "unset", LIMIT).code == 0
    wait_for(orrery, waiting, "scouting")
