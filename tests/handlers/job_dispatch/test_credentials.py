"""Proxies, tokens, keys, secrets and machines: what pilots ask for and tell beside jobs."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
from prometheus_client import CollectorRegistry

from services.job_dispatch.app import Parts, build_parts
from services.job_dispatch.environment import DispatchSettings
from shared.auth import KEY_AUDIENCE, Authority
from shared.config.settings import load_settings
from shared.runtime.service import Context
from tests.applications import application_of
from tests.handlers.job_dispatch.conftest import client
from tests.handlers.job_dispatch.grid_of_jobs import Rows
from tests.handlers.job_dispatch.published_pilot import LEGACY, by_curl, by_urllib

CONFIGURED: dict[str, dict[str, Any]] = {
    "PROXY_RECIPIENTS": {"default.atlas_Role_production": ["pilot-1"], "alice": ["pilot-1"], "gone": ["pilot-1"]},
    "KEY_PAIR_RECIPIENTS": {"public.pem": ["pilot-1"], "private.pem": ["pilot-1"], "none.pem": ["pilot-1"]},
    "PILOT_SECRETS": {"Q2": "log-keeper"},
}


@pytest.fixture
async def pilot(context: Context, rows: Rows, authority: Authority, tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    """A pilot at a dispatcher with a folder for credentials, and a configuration that names the pilot."""
    for folder, name in (
        ("proxies", "default.atlas_Role_production.pem"),
        ("proxies", "alice.pem"),
        ("key_pairs", "public.pem"),
        ("key_pairs", "private.pem"),
    ):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / name).write_text(f"-----BEGIN {name}\n")
    async with rows.database.pool.acquire() as connection:
        for key, value in CONFIGURED.items():
            await connection.execute(
                "INSERT INTO parameters (component, key, value, type) VALUES ('job_dispatch', $1, $2, 'json')",
                key,
                orjson.dumps(value).decode(),
            )
    url = context.settings.database_url
    settings = load_settings(DispatchSettings, database_url=url, credentials_directory=tmp_path)
    parts = build_parts(dataclasses.replace(context, settings=settings, metrics=CollectorRegistry()))
    for action in parts.service.on_start:
        await action()
    async with client(parts, authority, "pilot-1", "pilot") as found:
        yield found
    await parts.close()


@pytest.mark.parametrize(
    ("asked", "code", "told"),
    [
        ({"role": "atlas:/Role=production"}, 0, "-----BEGIN default.atlas_Role_production.pem\n"),
        ({"dn": "alice"}, 0, "-----BEGIN alice.pem\n"),
        ({"dn": "gone"}, 90, "there is no proxy gone"),
        ({"dn": "bob"}, 70, "pilot-1 is not among those who may have the proxy bob"),
        ({}, 70, "pilot-1 is not among those who may have the proxy default"),
        ({"dn": "../key_pairs/private"}, 70, "may have the proxy key_pairs_private"),
    ],
)
async def test_getproxy_gives_a_proxy_to_those_whom_the_configuration_names_with_a_status_code_that_is_a_number(
    pilot: httpx.AsyncClient, asked: dict[str, str], code: int, told: str
) -> None:
    for call in (by_urllib, by_curl):
        answer = (await call(pilot, "getProxy", **asked)).json()
        assert answer["StatusCode"] == code and type(answer["StatusCode"]) is int
        assert told in (answer.get("userProxy") or answer["errorDialog"])


@pytest.mark.parametrize(
    ("public", "private", "code"),
    [("public.pem", "private.pem", 0), ("public.pem", "none.pem", 80), ("public.pem", "other.pem", 70),
     ("public.pem", "../../etc/passwd", 30), ("", "private.pem", 30)],
)  # fmt: skip
async def test_getkeypair_gives_both_halves_or_says_why_not(
    pilot: httpx.AsyncClient, public: str, private: str, code: int
) -> None:
    answer = (await by_curl(pilot, "getKeyPair", publicKeyName=public, privateKeyName=private)).json()
    assert answer["StatusCode"] == code
    if code == 0:
        assert (answer["publicKey"], answer["privateKey"]) == ("-----BEGIN public.pem\n", "-----BEGIN private.pem\n")
    else:
        assert answer["errorDialog"] and "publicKey" not in answer


async def test_get_access_token_renews_a_token_that_is_over_for_its_key_as_a_python_literal(
    parts: Parts, authority: Authority, rows: Rows
) -> None:
    await rows.jobs(1)
    key = authority.issue("pilot-1", ["pilot", "operator"], ["atlas"], audience=KEY_AUDIENCE)
    transport = httpx.ASGITransport(app=application_of(parts.service, authority))
    async with httpx.AsyncClient(transport=transport, base_url="http://dispatch") as pilot:
        pilot.headers["Authorization"] = f"Bearer {authority.issue('pilot-1', ['pilot'], lifetime_s=-1000)}"
        assert (await by_curl(pilot, "getJob", siteName="Q1")).json()["StatusCode"] == 50
        asked = {"client_name": "pilot_server", "token_key": key}
        answer = await pilot.get(f"{LEGACY}/get_access_token", params=asked)
        read = ast.literal_eval(answer.text)  # as the pilot does
        assert read["StatusCode"] == 0
        caller = authority.verify(read["userProxy"])
        assert (caller.name, caller.roles, caller.groups) == ("pilot-1", {"pilot"}, {"atlas"})
        pilot.headers["Authorization"] = f"Bearer {read['userProxy']}"
        assert (await by_curl(pilot, "getJob", siteName="Q1")).json()["StatusCode"] == 0
        for wrong in ("", "x", authority.issue("pilot-1", ["pilot"]), Authority.generate().issue("p", ["pilot"])):
            refused = await pilot.get(f"{LEGACY}/get_access_token", params={"token_key": wrong})
            assert refused.status_code == 200 and ast.literal_eval(refused.text)["StatusCode"] == 50
        pilot.headers["Authorization"] = f"Bearer {key}"  # a key is no token
        assert (await by_curl(pilot, "getJob", siteName="Q1")).json()["StatusCode"] == 50


async def test_a_renewed_token_may_no_more_than_its_key(parts: Parts, authority: Authority) -> None:
    limited = authority.issue("pilot-1", ["pilot"], audience=KEY_AUDIENCE, rights=["cancel"])
    without_role = authority.issue("pilot-1", ["user"], audience=KEY_AUDIENCE)
    transport = httpx.ASGITransport(app=application_of(parts.service, authority))
    async with httpx.AsyncClient(transport=transport, base_url="http://dispatch") as pilot:
        renewed = await pilot.get(f"{LEGACY}/get_access_token", params={"token_key": limited})
        assert authority.verify(ast.literal_eval(renewed.text)["userProxy"]).rights == {"cancel"}
        refused = await pilot.get(f"{LEGACY}/get_access_token", params={"token_key": without_role})
        assert ast.literal_eval(refused.text)["StatusCode"] == 60


async def test_getresourcetypes_is_a_text_from_which_the_pilot_reads_a_list(pilot: httpx.AsyncClient) -> None:
    text = httpx.QueryParams((await by_urllib(pilot, "getResourceTypes")).text)
    assert text["StatusCode"] == "0"
    types = orjson.loads(text["ResourceTypes"].replace("None", "null").replace("'", '"'))  # as the pilot does
    assert types[0] == {"resource_name": "SCORE", "mincore": 1, "maxcore": 1, "maxrampercore": 2000}
    assert (await by_curl(pilot, "getResourceTypes")).json() == {"StatusCode": 0, "ResourceTypes": types}


async def test_secrets_are_their_owners_only_and_reach_the_jobs_of_tasks_that_use_them(
    rows: Rows, parts: Parts, authority: Authority, pilot: httpx.AsyncClient
) -> None:
    plain, using = await rows.jobs(2)
    async with rows.database.pool.acquire() as connection:
        await connection.execute("UPDATE tasks SET vo = 'atlas', submitted_by = 'alice'")
    spec = {"PandaID": using, "prodUserID": "alice", "useSecrets": "True", "jobPars": 'echo "useSecrets"'}
    other = {"PandaID": plain, "prodUserID": "alice", "preprocess": {"useSecrets": "True"}}
    async with rows.database.read() as connection:
        await connection.executemany(
            "UPDATE job_specs SET spec = $2 WHERE job_id = $1", [(using, spec), (plain, other)]
        )
    async with client(parts, authority, "alice", "user") as alice, client(parts, authority, "bob", "user") as bob:
        alice.headers["Origin"] = bob.headers["Origin"] = "atlas"
        for key, value in (("A", "1"), ("B", 'two "2"'), ("C", "3")):
            kept = await alice.post("/api/v1/creds/set_user_secrets", json={"key": key, "value": value})
            assert kept.json()["success"]
        assert (await alice.post("/api/v1/creds/set_user_secrets", json={"key": "C"})).json()["success"]
        assert not (await alice.post("/api/v1/creds/set_user_secrets", json={"key": "C"})).json()["success"]
        mine = {"A": "1", "B": 'two "2"'}
        get = "/api/v1/creds/get_user_secrets"
        assert (await alice.get(get, params={"get_json": "True"})).json()["data"] == mine
        assert orjson.loads((await alice.get(get)).json()["data"]) == mine, "PanDA's client parses a text"
        assert orjson.loads((await alice.get(get, params={"keys": "B,X"})).json()["data"]) == {"B": 'two "2"'}
        assert (await bob.get(get)).json()["data"] == "{}"
        assert (await by_curl(alice, "get_user_secrets", keys="A", get_json="True")).json() == [True, {"A": "1"}]
        assert (await by_curl(bob, "get_user_secrets", keys="A")).json() == [True, {}]
        bob.headers["Authorization"] = "Bearer x.y.z"
        assert (await by_curl(bob, "get_user_secrets", keys="A")).json()[0] is False
    first = (await by_curl(pilot, "getJob", siteName="Q1")).json()
    second = (await pilot.post("/api/v1/pilot/acquire_jobs", json={"site_name": "Q1"})).json()["data"]["jobs"][0]
    assert first == {"StatusCode": 0, **other}
    assert orjson.loads(second.pop("secrets")) == mine and second == spec


async def test_pilots_of_a_queue_get_what_the_configuration_keeps_for_them_with_every_job(
    rows: Rows, parts: Parts, authority: Authority, pilot: httpx.AsyncClient
) -> None:
    async with rows.database.pool.acquire() as connection:
        await connection.execute("UPDATE tasks SET vo = 'atlas'")
    await rows.jobs(2, queue="Q2")
    await rows.jobs(1)
    async with client(parts, authority, "log-keeper", "production") as keeper:
        login = {"key": "logstash_login", "value": "l", "vo": "atlas", "for_pilots": True}
        await keeper.post("/api/v1/creds/set_user_secrets", json=login)
    first = (await by_curl(pilot, "getJob", siteName="Q2")).json()
    second = (await pilot.post("/api/v1/pilot/acquire_jobs", json={"site_name": "Q2"})).json()["data"]["jobs"][0]
    assert first["pilotSecrets"] == second["pilotSecrets"] == {"logstash_login": "l"}
    assert "pilotSecrets" not in (await by_curl(pilot, "getJob", siteName="Q1")).json()
    async with rows.database.pool.acquire() as connection:
        await rows.task(2)
        await connection.execute("UPDATE tasks SET user_name = 'bob', vo = 'atlas' WHERE task_id = 2")
    await rows.jobs(1, queue="Q2", task_id=2, shape="user", user_name="bob")
    async with client(parts, authority, "bob", "user") as bob:
        own = (await by_curl(bob, "getJob", siteName="Q2")).json()
        assert own["StatusCode"] == 0 and "pilotSecrets" not in own


async def test_a_job_is_not_taken_while_what_goes_with_it_cannot_be_read(
    context: Context, rows: Rows, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    await rows.jobs(1)
    async with rows.database.pool.acquire() as connection:
        await connection.execute(
            "INSERT INTO parameters (component, key, value, type)"
            """ VALUES ('job_dispatch', 'PILOT_SECRETS', '{"*": "keeper"}', 'json')"""
        )
    parts = build_parts(dataclasses.replace(context, metrics=CollectorRegistry()))
    for action in parts.service.on_start:
        await action()

    async def away(*_: Any) -> dict[str, str]:
        raise ConnectionError("PostgreSQL is away")

    async with client(parts, authority, "pilot-1", "pilot") as pilot:
        with monkeypatch.context() as patched:
            patched.setattr("services.job_dispatch.acquire.job_secrets.secrets_of_pilots", away)
            assert (await by_curl(pilot, "getJob", siteName="Q1")).json()["StatusCode"] == 10
            assert (await rows.row(1))["status"] == "activated"
        assert (await by_curl(pilot, "getJob", siteName="Q1")).json()["PandaID"] == 1
    await parts.close()


async def test_of_secrets_there_are_at_most_a_hundred_of_one_person(parts: Parts, authority: Authority) -> None:
    async with client(parts, authority, "alice", "user") as alice:
        answers = [(await set_(alice, key=f"K{n}", value="v"))["success"] for n in range(101)]
        again = await set_(alice, key="K0", value="w")
    assert answers == [True] * 100 + [False] and again["success"]


async def set_(person: httpx.AsyncClient, **said: Any) -> dict[str, Any]:
    answer = await person.post("/api/v1/creds/set_user_secrets", json={"vo": "atlas", **said})
    return dict(answer.json())


@pytest.mark.parametrize(
    ("method", "said", "kind", "item"),
    [
        (
            "update_worker_node",
            {"cpu_model": "EPYC", "panda_queue": "Q1", "n_logical_cpus": "64", "clock_speed": 2.4},
            "node",
            "",
        ),
        (
            "update_worker_node_gpu",
            {"vendor": "nvidia", "model": "a100", "count": 4, "vram": 40_000},
            "gpu",
            "nvidia a100",
        ),
    ],
)
async def test_what_a_pilot_says_of_its_machine_is_kept_once_for_each_machine(
    rows: Rows, pilot: httpx.AsyncClient, method: str, said: dict[str, Any], kind: str, item: str
) -> None:
    body = {"site": "SITE-A", "host_name": "node7", **said}
    for _ in range(2):
        answer = await pilot.post(f"/api/v1/pilot/{method}", json=body)
        assert answer.json() == {"success": True, "message": "", "data": None}
    refused = (await pilot.post(f"/api/v1/pilot/{method}", json={"site": "SITE-A", "host_name": "node7"})).json()
    assert not refused["success"] and refused["problems"]
    async with rows.database.read() as connection:
        (row,) = await connection.fetch("SELECT kind, item, data FROM worker_nodes")
    assert (row["kind"], row["item"], row["data"]["host_name"]) == (kind, item, "node7")
    assert row["data"].get("n_logical_cpus", 64) == 64


@pytest.mark.parametrize("value", [-1, "-7", 2**60, "many"])
async def test_a_number_that_a_machine_cannot_have_costs_its_field_and_is_told(
    rows: Rows, pilot: httpx.AsyncClient, value: Any
) -> None:
    body = {"site": "SITE-A", "host_name": "node7", "cpu_model": "EPYC", "n_sockets": 2}
    odd = dict.fromkeys(("n_logical_cpus", "total_memory", "total_local_disk", "clock_speed"), value)
    told = (await pilot.post("/api/v1/pilot/update_worker_node", json=body | odd)).json()
    assert told["success"] and {one["field"] for one in told["problems"]} == set(odd)
    assert "total_memory: value" in told["message"] and "allowed" in told["message"]
    gpu = {"site": "SITE-A", "host_name": "node7", "vendor": "v", "model": "m", "count": value, "vram": 40_000}
    told = (await pilot.post("/api/v1/pilot/update_worker_node_gpu", json=gpu)).json()
    assert told["success"] and [one["field"] for one in told["problems"]] == ["count"]
    async with rows.database.read() as connection:
        found = await connection.fetch("SELECT data FROM worker_nodes ORDER BY kind DESC")
    assert [row["data"].keys() & {*odd, "count", "n_sockets", "vram"} for row in found] == [{"n_sockets"}, {"vram"}]


@pytest.mark.parametrize(("letters", "proxy", "keys"), [("", 70, 70), ("p", 0, 70), ("k", 70, 0), ("kp", 0, 0)])
async def test_letters_of_a_user_give_proxies_and_key_pairs(
    pilot: httpx.AsyncClient, rows: Rows, authority: Authority, letters: str, proxy: int, keys: int
) -> None:
    async with rows.database.pool.acquire() as connection:
        await connection.execute("INSERT INTO users (user_name, grid_pref) VALUES ('alice', $1)", letters)
    pilot.headers["Authorization"] = f"Bearer {authority.issue('alice', ['user'])}"
    pair = {"publicKeyName": "public.pem", "privateKeyName": "private.pem"}
    assert (await by_urllib(pilot, "getProxy", dn="alice")).json()["StatusCode"] == proxy
    assert (await by_urllib(pilot, "getKeyPair", **pair)).json()["StatusCode"] == keys


async def test_the_renewal_of_version_1_gives_the_same_in_an_envelope(parts: Parts, authority: Authority) -> None:
    key = authority.issue("pilot-1", ["pilot"], ["atlas"], audience=KEY_AUDIENCE)
    transport = httpx.ASGITransport(app=application_of(parts.service, authority))
    async with httpx.AsyncClient(transport=transport, base_url="http://dispatch") as pilot:
        told = (await pilot.get("/api/v1/creds/get_access_token", params={"token_key": key})).json()
        assert told["success"] and told["data"]["StatusCode"] == 0
        caller = authority.verify(told["data"]["userProxy"])
        assert (caller.name, caller.roles, caller.groups) == ("pilot-1", {"pilot"}, {"atlas"})
        for wrong, code in (("x", 50), (authority.issue("pilot-1", ["user"], audience=KEY_AUDIENCE), 60)):
            told = (await pilot.get("/api/v1/creds/get_access_token", params={"token_key": wrong})).json()
            assert not told["success"] and told["data"]["StatusCode"] == code
