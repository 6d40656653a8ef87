"""Each path of PanDA's server is carried out, answered with a refusal, or refused by its name with the reason."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from pathlib import Path

import httpx
import pytest
from prometheus_client import CollectorRegistry

from services.cli.addresses import SERVICES
from shared.auth import Authority
from shared.runtime.service import Context
from shared.web.panda_paths import ANSWERED, API, LEGACY, carried_out, path_table, refused_paths, why_not
from tests.applications import application_of
from tests.routes import routes_of

#: the paths of panda-server 9cc36033, and the methods of the interface before its 31d7e056
PATHS = (Path(__file__).parents[1] / "data" / "panda_server_paths.txt").read_text().split()


def test_the_table_has_every_path_of_the_published_server_and_no_other() -> None:
    told = [*carried_out(), *ANSWERED, *refused_paths()]
    assert sorted(told) == sorted(set(told)) == sorted(PATHS) and len(PATHS) == 194


async def test_what_is_carried_out_has_a_route_and_what_is_refused_has_none(context: Context) -> None:
    served = {route.path for service in SERVICES for route in routes_of(service, context)}
    assert {*carried_out(), *ANSWERED} - served == set(), "no route: say why in shared/web/panda_paths.py"
    assert set(refused_paths()) & served == set(), "there is a route: it is carried out (shared/web/panda_paths.py)"


async def test_what_is_only_answered_refuses_whoever_may_submit_whatever_is_sent(
    context: Context, authority: Authority
) -> None:
    refusals = 0
    for service in ("task_definition", "job_dispatch"):
        routes = {route.path for route in routes_of(service, context)} & set(ANSWERED)
        built = import_module(f"services.{service}.app").build(replace(context, metrics=CollectorRegistry()))
        headers = {"Authorization": f"Bearer {authority.issue('ada', ['user'])}"}
        transport = httpx.ASGITransport(app=application_of(built, authority))
        async with httpx.AsyncClient(transport=transport, base_url="http://service", headers=headers) as client:
            for path in sorted(routes):
                told = (await client.post(path, json={"params": {}})).text
                assert "not supported by this version; allowed: " in told, (path, told)
                refusals += 1
    assert refusals == len(ANSWERED)
    assert all(f"| `{path}` | answered with a refusal: {reason} |" in path_table() for path, reason in ANSWERED.items())


def test_a_reason_that_names_another_path_names_one_that_is_there() -> None:
    for path, reason in refused_paths().items():
        for word in reason.replace(";", " ").replace(",", " ").replace(":", " ").split():
            if word.startswith((f"{API}/", f"{LEGACY}/")) and word.count("/") == 4:
                assert word in set(carried_out()), (path, word)


@pytest.mark.parametrize(
    ("service", "path"),
    [
        ("task_definition", f"{API}/data_carousel/force_to_staging"),
        ("task_definition", f"{API}/task/change_modification_time"),
        ("job_dispatch", f"{API}/harvester/heartbeat"), ("job_dispatch", f"{LEGACY}/insertTaskParams"),
    ],
)  # fmt: skip
async def test_a_path_that_is_not_carried_out_is_refused_by_its_name(
    context: Context, authority: Authority, service: str, path: str
) -> None:
    built = import_module(f"services.{service}.app").build(context)
    transport = httpx.ASGITransport(app=application_of(built, authority))
    async with httpx.AsyncClient(transport=transport, base_url="http://service") as client:
        answer = await client.post(path, json={})
    assert answer.status_code == 404 and why_not(path) and why_not(path) in answer.text
