"""Tokens that are revoked, and tokens that may submit or cancel only."""

from __future__ import annotations

import time

import httpx
import jwt
import pytest

from shared.auth import KEY_AUDIENCE, Authority, NotAuthenticated
from shared.auth.authentication import Authentication
from shared.auth.caller import mark_of
from shared.auth.revocation import LOOKED_AT_EVERY_S
from shared.db import Database
from shared.events import ConfigChanged
from shared.runtime.service import Service, with_authentication
from tests.handlers.task_definition.conftest import client_of
from tests.handlers.task_definition.steps import value_of
from tests.handlers.task_definition.world import analysis

REVOKE = "/api/v1/token/revoke"
KNOWN = "/api/v1/system/get_attributes"


def claims(token: str) -> dict[str, object]:
    return dict(jwt.decode(token, options={"verify_signature": False}))


def is_believed(authentication: Authentication, token: str) -> bool:
    try:
        authentication.caller({"headers": [(b"authorization", f"Bearer {token}".encode())]})
    except NotAuthenticated:
        return False
    return True


def replica(authority: Authority, database: Database) -> tuple[Authentication, Service]:
    """Another process: it believes by itself, and hears news."""
    authentication = Authentication(authority)
    return authentication, with_authentication(authentication, database, Service("sample"))


async def test_a_revoked_token_is_refused_by_every_replica_that_hears_the_news_and_others_go_on(
    database: Database, authority: Authority, operator: httpx.AsyncClient
) -> None:
    authentication, service = replica(authority, database)
    (_, hear), *_ = service.news
    lost, kept = authority.issue("pilot-1", ["pilot"]), authority.issue("pilot-1", ["pilot"])
    assert is_believed(authentication, lost) and is_believed(authentication, kept)
    asked = {"token_id": claims(lost)["jti"], "expires_at": claims(lost)["exp"], "reason": "lost"}
    told = (await operator.post(REVOKE, json=asked)).json()
    assert told["success"] and told["data"]["revocations_version"] > 1
    assert await value_of(database, "SELECT count(*) FROM outbox WHERE routing_key = 'config.changed.v1'") == 1
    await hear(ConfigChanged(config_version=0))
    assert not is_believed(authentication, lost) and is_believed(authentication, kept)
    assert await value_of(database, "SELECT details ->> 'reason' FROM audit_log WHERE verb = 'token.revoke'") == "lost"
    listed = (await operator.get("/api/v1/token/revocations")).json()["data"]
    assert [(one["kind"], one["revoked_by"], one["reason"]) for one in listed] == [("token", "operations", "lost")]


async def test_a_replica_that_hears_no_news_looks_by_itself_within_ten_seconds(
    database: Database, authority: Authority, operator: httpx.AsyncClient
) -> None:
    authentication, service = replica(authority, database)
    token = authority.issue("pilot-1", ["pilot"])
    await operator.post(REVOKE, json={"subject": "pilot-1"})
    looks = next(one for one in service.periodic if one.name == "revocations")
    assert looks.every_s == LOOKED_AT_EVERY_S <= 10 and not looks.lease, "each replica looks"
    async with database.begin(reason="test") as work:
        await looks.run(work)
    assert not is_believed(authentication, token)


async def test_of_a_revoked_subject_what_it_got_before_is_refused_keys_included_and_what_it_gets_later_is_good(
    database: Database, authority: Authority, operator: httpx.AsyncClient
) -> None:
    authentication, service = replica(authority, database)
    before, other = authority.issue("pilot-1", ["pilot"]), authority.issue("pilot-2", ["pilot"])
    key = authority.issue("pilot-1", ["pilot"], audience=KEY_AUDIENCE)
    assert authentication.key_owner(key).name == "pilot-1"
    await operator.post(REVOKE, json={"subject": "pilot-1"})
    await service.on_start[0]()
    assert not is_believed(authentication, before) and is_believed(authentication, other)
    with pytest.raises(NotAuthenticated, match="revoked"):
        authentication.key_owner(key)
    async with database.begin(reason="test") as work:  # what is issued later has another second in it
        await work.connection.execute("UPDATE revocations SET revoked_at = revoked_at - interval '5 s'")
        await work.connection.execute("UPDATE versions SET version = version + 1 WHERE name = 'revocations'")
    await service.on_start[0]()
    assert is_believed(authentication, authority.issue("pilot-1", ["pilot"]))


async def test_who_is_no_operator_revokes_nothing_but_what_they_got_themselves(
    user: httpx.AsyncClient, database: Database
) -> None:
    for asked in ({"subject": "bob"}, {"token_id": "x"}):
        told = (await user.post(REVOKE, json=asked)).json()
        assert (told["success"], told["data"]) == (False, 3)
    assert (await user.get("/api/v1/token/revocations")).status_code == 403
    for asked in ({}, {"subject": "alice", "token_id": "x"}, {"subject": ""}, {"subject": "alice", "reason": "\x00"}):
        told = (await user.post(REVOKE, json=asked)).json()
        assert (told["success"], told["data"]) == (False, 5), asked
    assert await value_of(database, "SELECT count(*) FROM revocations") == 0
    assert (await user.post(REVOKE, json={"subject": "alice"})).json()["success"]


async def test_a_revocation_is_over_once_nothing_can_be_renewed_and_kept_while_it_could_tell_the_end_of_a_job(
    operator: httpx.AsyncClient, database: Database
) -> None:
    for token_id in ("older", "old", "new"):
        await operator.post(REVOKE, json={"token_id": token_id, "expires_at": time.time() + 500})
    assert await value_of(database, "SELECT min(until) - max(revoked_at) > interval '30 days' FROM revocations") is True
    async with database.begin(reason="test") as work:
        for token_id, over_s in (("older", 7300), ("old", 5)):
            sql = "UPDATE revocations SET until = orrery_now() - make_interval(secs => $1) WHERE name = $2"
            await work.connection.execute(sql, over_s, token_id)
    await operator.post(REVOKE, json={"token_id": "new"})
    assert [one["name"] for one in (await operator.get("/api/v1/token/revocations")).json()["data"]] == ["new"]
    assert await value_of(database, "SELECT string_agg(name, ',' ORDER BY name) FROM revocations") == "new,old"


async def test_a_token_is_not_believed_that_was_given_after_one_that_was_revoked_by_its_id(
    service: Service, authority: Authority, operator: httpx.AsyncClient
) -> None:
    names = [f"https://iam.example#{n}" for n in range(3)]
    async with client_of(service, authority, "ada", "user") as ada:

        async def statuses() -> list[int]:
            return [(await ada.get(KNOWN, params={"marks": f"0,{mark_of(one)}"})).status_code for one in names]

        assert await statuses() == [200, 200, 200]
        await operator.post(REVOKE, json={"token_id": names[1], "expires_at": time.time() - 3600})
        assert await statuses() == [200, 401, 200]
        assert (await ada.get(KNOWN)).status_code == 200


async def test_submitting_and_cancelling_are_separate_rights(service: Service, authority: Authority) -> None:
    answers = {}
    for rights in ((), ("submit",), ("cancel",), ("modify",)):
        async with client_of(service, authority, "alice", "user") as client:
            client.headers["Authorization"] = f"Bearer {authority.issue('alice', ['user'], rights=rights or None)}"
            task = {"task_parameters": analysis(f"user.alice.{'-'.join(rights) or 'all'}")}
            submitted = await client.post("/api/v1/task/submit", json=task)
            killed = await client.post("/api/v1/task/kill", json={"task_id": 1})
            paused = await client.post("/api/v1/task/pause", json={"task_id": 1})
            read = await client.get("/api/v1/task/list")
            answers[rights] = [one.status_code for one in (submitted, killed, paused, read)]
            for one in (submitted, killed, paused):
                assert one.status_code == 200 or "needs the right" in one.json()["message"]
    assert answers == {
        (): [200, 200, 200, 200],
        ("submit",): [200, 403, 403, 200],
        ("cancel",): [403, 200, 403, 200],
        ("modify",): [403, 403, 200, 200],
    }


def test_a_right_that_does_not_exist_is_refused(authority: Authority) -> None:
    with pytest.raises(ValueError, match="unknown right 'delete': allowed are submit, cancel, modify"):
        authority.issue("x", ["user"], rights=["delete"])


async def test_who_was_revoked_is_not_known_by_a_later_token_that_was_given_for_an_earlier_one(
    database: Database, service: Service, authority: Authority, operator: httpx.AsyncClient
) -> None:
    def asked(at: float | None) -> dict[str, float]:
        return {} if at is None else {"issued_at": at}

    async with client_of(service, authority, "ada", "user") as ada:
        assert [(await ada.get(KNOWN, params=asked(at))).status_code for at in (None, 0.0)] == [200, 200]
        await operator.post(REVOKE, json={"subject": "ada"})
        sql = "SELECT extract(epoch FROM revoked_at)::float8 FROM revocations WHERE name = 'ada'"
        revoked_at = float(str(await value_of(database, sql)))
        statuses = [(await ada.get(KNOWN, params=asked(revoked_at + s))).status_code for s in (-1.0, -0.001, 0.001)]
        assert statuses == [401, 401, 200]
        assert not (await ada.get(KNOWN, params={"issued_at": -1.0})).json()["success"]
