"""Whatever is refused is counted by the declared path of its route and by its cause, in every service."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import Any

import httpx
import pytest
from prometheus_client import CollectorRegistry

from services.cli.one_process import composition_roots
from shared.auth import Authority
from shared.runtime.metrics import RuntimeMetrics
from shared.runtime.service import Context
from shared.web.service import install
from tests.handlers.task_definition.world import analysis

FOREIGN = {
    **analysis("user.ada.x"), "vo": "cms", "workQueueName": "gpu", "gshare": "All", "parent_tid": 999, "maxAttempt": 99,
}  # fmt: skip
#: service, role, method, path, what is sent, causes; the path is the route where no other one is said
TABLE: list[tuple[str, str, str, str, dict[str, Any], set[str], str]] = [
    ("task-definition", "user", "POST", "/api/v1/task/submit", {"task_parameters": FOREIGN},
     {"vo", "workQueueName", "gshare", "parent_tid", "maxAttempt"}, ""),
    ("task-definition", "user", "POST", "/api/v1/task/submit",
     {"task_parameters": {**analysis("user.ada.x"), "requirements": "(((", "unheard_of": 1}},
     {"requirements", "value"}, ""),
    ("task-definition", "user", "POST", "/api/v1/task/kill", {"task_id": 999}, {"not found"}, ""),
    ("task-definition", "user", "POST", "/api/v1/task/reassign", {"task_id": 999}, {"not permitted"}, ""),
    ("task-definition", "user", "POST", "/api/v1/token/revoke", {"subject": "bob"}, {"not permitted"}, ""),
    ("task-definition", "user", "GET", "/signed/forged/cache/a.gz", {}, {"not found"},
     "/signed/{permission}/cache/{name:sandbox}"),
    ("job-dispatch", "user", "POST", "/api/v1/job/set_command", {"job_id": 1, "command": "tail /etc/passwd"},
     {"command"}, ""),
    ("job-dispatch", "user", "POST", "/api/v1/job/set_command", {"job_id": 1, "command": "debug"}, {"not found"}, ""),
    ("job-dispatch", "user", "POST", "/server/panda/getStatus", {"ids": "1"}, {"not permitted"}, ""),
    ("job-dispatch", "user", "POST", "/server/panda/getProxy", {"role": "production"}, {"not permitted"}, ""),
    ("job-dispatch", "user", "POST", "/api/v1/pilot/update_worker_status", {}, {"not permitted"}, ""),
    ("job-dispatch", "pilot", "POST", "/server/panda/setDebugMode", {"pandaID": 7, "modeOn": True},
     {"not permitted"}, ""),
    ("job-dispatch", "pilot", "POST", "/api/v1/pilot/acquire_jobs", {"memory": "x"}, {"value"}, ""),
    ("job-dispatch", "pilot", "POST", "/server/panda/getJob", {"mem": "x"}, {"value"}, ""),
    ("job-brokerage", "user", "POST", "/api/v1/harvester/add_target_slots", {"panda_queue": "Q1", "slots": 0},
     {"not permitted"}, ""),
]  # fmt: skip


@pytest.mark.parametrize(("name", "role", "method", "path", "sent", "causes", "route"), TABLE)
async def test_a_refusal_is_counted_by_its_route_and_its_causes(
    context: Context,
    authority: Authority,
    name: str,
    role: str,
    method: str,
    path: str,
    sent: dict[str, Any],
    causes: set[str],
    route: str,
) -> None:
    registry = CollectorRegistry()
    built, counted = composition_roots()[name](dataclasses.replace(context, metrics=registry)), Counter[str]()
    metrics = RuntimeMetrics(registry)

    def count(on: str, cause: str) -> None:
        counted[on] += 1
        metrics.request_refused(on, cause)

    assert built.web is not None
    install(built.web, authority, built.body_limits, count_refusal=count)
    for action in built.on_start:
        await action()
    headers = {"Authorization": f"Bearer {authority.issue('ada', [role], ['atlas'])}"}
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(built.web), base_url="http://s", headers=headers
    ) as client:
        as_form = {"data": sent} if path.startswith("/server") else {"json": sent}
        answer = await client.request(method, path, **(as_form if method == "POST" else {}))  # type: ignore[arg-type]
        again = await client.get(f"{path}/made-up-by-the-caller")
        assert again.status_code in (404, 405)
    assert set(counted) <= {route or path, "none"}, answer.text
    for cause in causes:
        labels = {"route": route or path, "cause": cause}
        assert registry.get_sample_value("orrery_refused_total", labels) == 1, (cause, answer.text)
    assert counted[route or path] == len(causes), answer.text
