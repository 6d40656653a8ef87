"""Secrets go with jobs of tasks that their owner submitted, in the VO for which they were given."""

from __future__ import annotations

import base64
import dataclasses
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
from prometheus_client import CollectorRegistry

from services.job_dispatch.acquire.job_secrets import JobSecrets
from services.job_dispatch.acquire.picks import Granted
from services.job_dispatch.app import Parts, build_parts
from services.job_dispatch.store.secrets import KeptSecret
from shared.auth import Authority, Caller
from shared.auth.caller import Credential
from shared.auth.keyring import Keyring, add_key
from shared.config.parameters import Parameters
from shared.config.settings import SettingsError
from shared.model.secret_notes import ASKED, WITHHELD, secrets_of
from shared.runtime.service import Context
from tests.applications import application_of
from tests.handlers.job_dispatch.grid_of_jobs import Rows
from tests.handlers.job_dispatch.published_pilot import by_curl

CREDS = "/api/v1/creds"


def member(parts: Parts, authority: Authority, name: str, role: str, *groups: str) -> httpx.AsyncClient:
    """With a token of these groups."""
    return httpx.AsyncClient(
        transport=httpx.ASGITransport(app=application_of(parts.service, authority)),
        base_url="http://dispatch",
        headers={"Authorization": f"Bearer {authority.issue(name, [role], groups)}"},
    )


async def keep(person: httpx.AsyncClient, key: str, value: str | None, **more: Any) -> dict[str, Any]:
    answer = await person.post(f"{CREDS}/set_user_secrets", json={"key": key, "value": value, **more})
    return dict(answer.json())


async def kept_by(person: httpx.AsyncClient, **asked: Any) -> Any:
    answer = (await person.get(f"{CREDS}/get_user_secrets", params={"get_json": "true", **asked})).json()
    return answer["data"] if answer["success"] else answer["message"]


async def job_of(rows: Rows, vo: str, *, owner: str = "ada", shape: str = "small", **columns: str | None) -> int:
    """A job that uses secrets, of a task with these columns."""
    task_id = rows.next_id + 100
    await rows.task(task_id)
    async with rows.database.pool.acquire() as connection:
        await connection.execute(
            "UPDATE tasks SET vo = $2, user_name = $3, submitted_by = $4, changed_by = $5 WHERE task_id = $1",
            task_id,
            vo,
            owner,
            columns.get("submitted_by"),
            columns.get("changed_by"),
        )
    (job_id,) = await rows.jobs(1, task_id=task_id, user_name=owner, shape=await rows.shape_of_vo(vo, shape))
    async with rows.database.pool.acquire() as connection:
        spec = {"PandaID": job_id, "taskID": task_id, "prodUserID": owner, "useSecrets": "True"}
        await connection.execute("UPDATE job_specs SET spec = $2 WHERE job_id = $1", job_id, spec)
    return job_id


async def secrets_with(pilot: httpx.AsyncClient, job_id: int) -> Any:
    job = (await by_curl(pilot, "getJob", siteName="Q1")).json()
    assert (job["StatusCode"], job["PandaID"]) == (0, job_id), job
    return orjson.loads(job["secrets"])


def text_of(path: Path) -> str:
    assert path.stat().st_mode & 0o777 == 0o600, "nobody else may read it"
    return path.read_text()


def put(path: Path, text: str | None) -> None:
    if text is None:
        path.unlink()
    else:
        path.write_text(text)


@pytest.mark.parametrize(
    ("vo", "submitted_by", "changed_by", "given"),
    [
        ("atlas", "ada", None, {"TOKEN": "of atlas"}),
        ("cms", "ada", None, {"TOKEN": "of cms"}),
        ("cms", "cmsprod", None, {}),
        ("atlas", "atlasprod", None, {}),
        ("atlas", "cms:ada", None, {}),
        ("atlas", None, None, {}),
        ("atlas", "ada", "atlasprod", {}),
        ("lhcb", "ada", None, {}),
    ],
    ids=["own", "own of another VO", "production of another VO in her name", "production of her VO in her name",
         "another issuer's ada", "nobody knows who", "changed by production", "a VO for which she gave none"],
)  # fmt: skip
async def test_only_jobs_of_tasks_that_the_owner_submitted_carry_her_secrets_of_their_vo(
    rows: Rows, parts: Parts, authority: Authority, vo: str, submitted_by: str, changed_by: str, given: dict[str, str]
) -> None:
    async with member(parts, authority, "ada", "user", "atlas", "cms") as ada:
        for one in ("atlas", "cms"):
            assert (await keep(ada, "TOKEN", f"of {one}", vo=one))["success"]
    job_id = await job_of(rows, vo, submitted_by=submitted_by, changed_by=changed_by)
    async with member(parts, authority, "factory", "pilot", vo) as pilot:
        assert await secrets_with(pilot, job_id) == given
        again = {"job_id": job_id}
        assert "of atlas" not in (await pilot.post("/api/v1/job/get_description", json=again)).text


async def test_secrets_go_with_a_job_to_pilots_of_its_vo_and_to_the_owner_and_to_nobody_else_who_takes_jobs(
    rows: Rows, parts: Parts, authority: Authority, context: Context, key_file: Path
) -> None:
    keyring = Keyring(key_file)
    kept = KeptSecret.sealing(keyring, "ada", "atlas", "TOKEN", "v")
    data = base64.b64encode(kept.sealed.data).decode()
    told = orjson.dumps([["ada", "atlas", "TOKEN", kept.sealed.key_id, data]]).decode()
    job = Granted(1, '{"PandaID": 1}', False, vo="atlas", secrets=told)
    secrets, logins = JobSecrets(context.database, Parameters(), keyring), {"atlas": {"LOGIN": "x"}}
    named, acting = ["atlas", "cms"], Credential("olga", frozenset({"operator"})).acting("atlas.pilot")
    for caller, own, of_queue in (
        (Caller("factory", frozenset({"pilot"}), frozenset({"atlas"})), True, True),
        (Caller("both", frozenset({"pilot", "operator"}), frozenset()), True, True),
        (Caller("half", frozenset(), frozenset(named), roles_in={"cms": frozenset({"pilot"})}), False, False),
        (Caller("half", frozenset(), frozenset(named), roles_in={"atlas": frozenset({"pilot"})}), True, True),
        (Caller("ada", frozenset({"user"}), frozenset({"atlas"})), True, False),
        (Caller("ada", frozenset({"user"}), frozenset({"cms"})), False, False),
        (Caller("bob", frozenset({"user"}), frozenset({"atlas"})), False, False),
        (Caller("prod", frozenset({"production"}), frozenset({"atlas"})), False, False),
        (Caller("olga", frozenset({"operator"}), frozenset()), False, False),
        (acting, False, False),
    ):
        (found,) = secrets.added([job], logins, caller)
        spec = orjson.loads(found.spec or "")
        assert orjson.loads(spec["secrets"]) == ({"TOKEN": "v"} if own else {}), caller
        assert spec.get("pilotSecrets") == (logins["atlas"] if of_queue else None), caller
    async with member(parts, authority, "ada", "user", "atlas") as ada:
        await keep(ada, "TOKEN", "v")
        job_id = await job_of(rows, "atlas", submitted_by="ada", shape="user")
        assert await secrets_with(ada, job_id) == {"TOKEN": "v"}


@pytest.mark.parametrize(
    ("name", "role", "groups", "origin", "is_told"),
    [
        ("prod", "production", ["atlas"], "", False),
        ("olga", "operator", [], "", False),
        ("olga", "operator", [], "atlas.pilot", False),
        ("factory", "pilot", ["atlas"], "", True),
    ],
)
async def test_whoever_takes_the_jobs_of_a_task_and_is_no_pilot_gets_no_secrets_of_its_owner(
    rows: Rows, parts: Parts, authority: Authority, name: str, role: str, groups: list[str], origin: str, is_told: bool
) -> None:
    async with (
        member(parts, authority, "ada", "user", "atlas") as ada,
        member(parts, authority, name, role, *groups) as person,
    ):
        await keep(ada, "TOKEN", "very-secret-value")
        person.headers["Origin"] = origin
        job_id = await job_of(rows, "atlas", submitted_by="ada")
        async with rows.database.read() as connection:
            task_id = await connection.fetchval("SELECT task_id FROM jobs WHERE job_id = $1", job_id)
        wanted = {"site_name": "Q1", "task_id": task_id, "prod_user_id": "ada"}
        answer = await person.post("/api/v1/pilot/acquire_jobs", json=wanted)
        assert answer.json()["success"] and str(job_id) in answer.text, answer.text
        assert ("very-secret-value" in answer.text) is is_told


async def test_files_and_output_of_a_job_with_secrets_are_for_its_owner_and_its_pilot(
    rows: Rows, parts: Parts, authority: Authority
) -> None:
    job_id = await job_of(rows, "atlas", submitted_by="ada")
    command, stdout = "/api/v1/job/set_command", "/api/v1/job/get_stdout"
    async with (
        member(parts, authority, "ada", "user", "atlas") as ada,
        member(parts, authority, "prod", "production", "atlas") as production,
        member(parts, authority, "olga", "operator") as operator,
        member(parts, authority, "factory", "pilot", "atlas") as pilot,
    ):
        assert (await by_curl(pilot, "getJob", siteName="Q1")).json()["PandaID"] == job_id
        await by_curl(pilot, "updateJob", jobId=job_id, state="running", stdout="TOKEN=very-secret-value")
        for order in ("tail payload.stdout", "ls", "ps", "du", "debug"):
            wanted = {"job_id": job_id, "command": order}
            for other in (production, operator):
                answer = (await other.post(command, json=wanted)).json()
                assert (answer["success"], answer["data"]) == (False, 3)
                assert "the owner alone and its pilot, as it may carry secrets" in answer["message"]
            for one in (pilot, ada):
                assert (await one.post(command, json=wanted)).json()["success"]
        for other in (production, operator):
            answer = await other.get(stdout, params={"job_id": job_id})
            assert answer.json()["data"] == 2 and "very-secret-value" not in answer.text
        assert "very-secret-value" in (await ada.get(stdout, params={"job_id": job_id})).text
        for order in ("debugoff", "softkill"):
            assert (await production.post(command, json={"job_id": job_id, "command": order})).json()["success"]
        async with rows.database.pool.acquire() as connection:
            await connection.execute("DELETE FROM job_specs WHERE job_id = $1", job_id)
        answer = await production.get(stdout, params={"job_id": job_id})
        assert "very-secret-value" not in answer.text, "nobody knows any more whether it used secrets"
        assert "very-secret-value" in (await ada.get(stdout, params={"job_id": job_id})).text


async def test_whoever_acts_for_several_vos_says_for_which_secrets_are(parts: Parts, authority: Authority) -> None:
    async with member(parts, authority, "ada", "user", "atlas", "cms") as ada:
        for answer in (await keep(ada, "K", "v"), await keep(ada, "K", "v", vo="lhcb")):
            assert not answer["success"]
            (told,) = answer["problems"]
            assert (told["field"], told["allowed"]) == (
                "vo",
                "allowed: atlas, cms (in this field or the header Origin)",
            )
        assert "allowed: atlas, cms" in await kept_by(ada)
        ada.headers["Origin"] = "cms"
        assert (await keep(ada, "K", "of cms"))["success"] and await kept_by(ada) == {"K": "of cms"}
        assert not (await keep(ada, "K", "v", vo="atlas"))["success"], "Origin limits what she acts for"
        ada.headers["Origin"] = "atlas"
        assert await kept_by(ada) == {}
        assert not (await keep(ada, "K", None))["success"], "of the other VO she has the key"
    async with member(parts, authority, "everywhere", "user") as bob:
        assert "allowed: a VO of at most 16 characters" in (await keep(bob, "K", "v"))["message"]
        assert not (await keep(bob, "K", "v", vo="v" * 17))["success"]
        assert (await keep(bob, "K", "v", vo="atlas"))["success"]
    async with member(parts, authority, "carl", "user", "atlas") as carl:
        assert (await keep(carl, "K", "his"))["success"] and await kept_by(carl) == {"K": "his"}
        assert (await by_curl(carl, "get_user_secrets", keys="K")).json() == [True, {"K": "his"}]


async def test_the_database_has_no_plain_value_and_a_row_that_is_copied_to_others_does_not_decrypt(
    rows: Rows, parts: Parts, authority: Authority, context: Context
) -> None:
    async with member(parts, authority, "ada", "user", "atlas") as ada:
        await keep(ada, "TOKEN", "very-secret-value")
    columns = "key, key_id, sealed"
    async with rows.database.pool.acquire() as connection:
        (row,) = await connection.fetch("SELECT * FROM user_secrets")
        assert b"very-secret-value" not in row["sealed"] and row["key"] == "TOKEN"
        for owner, vo in (("bob", "atlas"), ("ada", "cms")):
            await connection.execute(
                f"INSERT INTO user_secrets (owner, vo, {columns}) SELECT $1, $2, {columns} FROM user_secrets LIMIT 1",
                owner,
                vo,
            )
    async with member(parts, authority, "bob", "user", "atlas") as bob:
        assert (await kept_by(bob)).startswith("TOKEN cannot be decrypted: it was not encrypted with the key")
        told = (await by_curl(bob, "get_user_secrets", keys="TOKEN")).json()
        assert told[0] is False and "cannot be decrypted" in told[1]
        assert await kept_by(bob, keys="OTHER") == {}
    job_id = await job_of(rows, "cms", submitted_by="ada")
    async with member(parts, authority, "factory", "pilot", "cms") as pilot:
        assert await secrets_with(pilot, job_id) == {}, "the pilot gets the job, without what cannot be read"
    assert context.metrics.get_sample_value("orrery_secrets_unreadable_total") == 1


async def test_keys_are_rotated_while_dispatchers_run_and_the_old_one_can_go(
    rows: Rows, parts: Parts, authority: Authority, context: Context, key_file: Path
) -> None:
    async with (
        member(parts, authority, "ada", "user", "atlas") as ada,
        member(parts, authority, "root", "operator") as operator,
        member(parts, authority, "prod", "production") as production,
    ):
        for number in range(3):
            await keep(ada, f"K{number}", f"value {number}")
        old_text, new = text_of(key_file), add_key(key_file)
        await keep(ada, "K3", "value 3")
        assert (await production.post(f"{CREDS}/rotate_key")).status_code == 403
        async with rows.database.pool.acquire() as connection:
            await connection.execute("UPDATE user_secrets SET key_id = 'lost' WHERE key = 'K2'")
        answer = (await operator.post(f"{CREDS}/rotate_key")).json()
        assert answer["data"]["key_id"] == new and answer["data"]["n_secrets"] == 2
        assert answer["data"]["unreadable"] == [{"owner": "ada", "vo": "atlas", "key": "K2"}]
        assert (await kept_by(ada)).startswith("K2 cannot be decrypted: the key lost is not in the file")
        await keep(ada, "K2", "value 2")
        again = (await operator.post(f"{CREDS}/rotate_key")).json()
        assert (again["data"]["n_secrets"], again["data"]["n_unreadable"]) == (0, 0)
        put(key_file, text_of(key_file).removeprefix(old_text))
        other = build_parts(dataclasses.replace(context, metrics=CollectorRegistry()))
        async with member(other, authority, "ada", "user", "atlas") as elsewhere:
            assert await kept_by(elsewhere) == {f"K{number}": f"value {number}" for number in range(4)}
        await other.close()


async def test_a_dispatcher_says_at_its_start_that_the_key_file_is_missing_or_wrong(
    context: Context, key_file: Path, monkeypatch: pytest.MonkeyPatch, authority: Authority, caplog: Any, rows: Rows
) -> None:
    put(key_file, "not a key\n")
    with pytest.raises(SettingsError, match=r"ORRERY_SECRETS_KEY_FILE=.*line 1 is no key; allowed: 32 bytes in base64"):
        build_parts(dataclasses.replace(context, metrics=CollectorRegistry()))
    put(key_file, None)
    with pytest.raises(SettingsError, match=r"ORRERY_SECRETS_KEY_FILE=.*No such file.*orrery secrets add-key"):
        build_parts(dataclasses.replace(context, metrics=CollectorRegistry()))
    monkeypatch.delenv("ORRERY_SECRETS_KEY_FILE")
    parts = build_parts(dataclasses.replace(context, metrics=CollectorRegistry()))
    assert "no secrets are kept: ORRERY_SECRETS_KEY_FILE names no file with keys" in caplog.text
    async with member(parts, authority, "ada", "user", "atlas") as ada:
        answer = await keep(ada, "K", "v")
        assert (answer["success"], answer["message"]) == (
            False,
            "nothing can be encrypted here: ORRERY_SECRETS_KEY_FILE names no file",
        )
    await parts.close()


async def test_logins_for_pilots_go_with_jobs_of_their_vo_if_their_owner_gave_them_for_that(
    rows: Rows, parts: Parts, authority: Authority, context: Context
) -> None:
    async with rows.database.pool.acquire() as connection:
        await connection.execute(
            "INSERT INTO parameters (component, key, value, type)"
            """ VALUES ('job_dispatch', 'PILOT_SECRETS', '{"*": "keeper"}', 'json')"""
        )
    async with member(parts, authority, "keeper", "production", "atlas", "cms") as keeper:
        await keep(keeper, "LOGIN", "of atlas", vo="atlas", for_pilots=True)
        await keep(keeper, "OWN", "hers alone", vo="cms")
    dispatcher = build_parts(dataclasses.replace(context, metrics=CollectorRegistry()))
    for action in dispatcher.service.on_start:
        await action()
    jobs = {vo: await job_of(rows, vo, owner="bob", submitted_by="bob") for vo in ("atlas", "cms")}
    for vo, expected in (("atlas", {"LOGIN": "of atlas"}), ("cms", None)):
        async with member(dispatcher, authority, "factory", "pilot", vo) as pilot:
            job = (await by_curl(pilot, "getJob", siteName="Q1")).json()
        assert (job["PandaID"], job.get("pilotSecrets")) == (jobs[vo], expected)
    await dispatcher.close()


async def test_the_owner_reads_which_keys_there_are_and_who_asked_for_them(
    rows: Rows, parts: Parts, authority: Authority
) -> None:
    async with rows.database.pool.acquire() as connection:
        for caller, verb, details in (
            ("cmsprod", ASKED, {"vo": "cms", "task_name": "theft"}),
            ("atlasprod", WITHHELD, {"vo": "atlas", "task_id": 7, "changed": ["nFiles"]}),
        ):
            await connection.execute(
                "INSERT INTO audit_log (caller, roles, verb, target, outcome, details)"
                " VALUES ($1, '{}', $2, $3, 'x', $4)",
                caller,
                verb,
                secrets_of("ada"),
                details,
            )
    async with (
        member(parts, authority, "ada", "user", "atlas", "cms") as ada,
        member(parts, authority, "bob", "user", "atlas", "cms") as bob,
        member(parts, authority, "root", "operator") as root,
    ):
        await keep(ada, "TOKEN", "v", vo="atlas")
        data = (await ada.get(f"{CREDS}/list_user_secrets")).json()["data"]
        assert [(one["vo"], one["key"], one["for_pilots"]) for one in data["secrets"]] == [("atlas", "TOKEN", False)]
        assert {(one["caller"], one["what"], one.get("task_name") or one.get("task_id")) for one in data["notes"]} == {
            ("cmsprod", ASKED, "theft"),
            ("atlasprod", WITHHELD, 7),
        }
        ada.headers["Origin"] = "cms"
        data = (await ada.get(f"{CREDS}/list_user_secrets")).json()["data"]
        assert data["secrets"] == [] and [one["caller"] for one in data["notes"]] == ["cmsprod"]
        async with member(parts, authority, "ada", "user", "lhcb") as at_home:
            data = (await at_home.get(f"{CREDS}/list_user_secrets")).json()["data"]
        assert [one["caller"] for one in data["notes"]] == ["cmsprod"], "who asked is of another VO than she"
        for other in (bob, root):
            assert (await other.get(f"{CREDS}/list_user_secrets")).json()["data"] == {"secrets": [], "notes": []}
