"""Sites advertise themselves: what is kept, for how long, from whom, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from shared.db import Database
from tests.handlers.job_dispatch.conftest import client

URL = "/api/v1/site/advertise"
ADVERT = {
    "Site": "SITE-A", "Kind": "forwarding", "MaxJobs": 100, "MaxSubmittingJobs": 10, "CurrentJobs": 7,
    "CurrentSubmittingJobs": 2, "EntryPoint": "gram://site-a/jobmanager", "Station": "samgrid",
    "Monitor": "http://site-a:8080/xmldb", "Attributes": {"MemoryOfNodes": 4000},
}  # fmt: skip


async def stored(database: Database) -> dict[str, Any]:
    async with database.read() as connection:
        return dict(
            await connection.fetchrow(
                "SELECT *, extract(epoch FROM expires_at - advertised_at) AS life_s FROM site_adverts"
            )
        )


async def test_an_advertisement_is_kept_for_five_minutes_and_sets_matches_to_current_jobs(pilot, database) -> None:
    assert (await pilot.post(URL, json=ADVERT)).json()["success"]
    row = await stored(database)
    assert (row["site"], row["max_jobs"], row["max_submitting_jobs"]) == ("SITE-A", 100, 10)
    assert (row["current_matches"], row["life_s"]) == (7, 300)
    assert row["advertisement"] == {
        "Kind": "forwarding",
        "EntryPoint": "gram://site-a/jobmanager",
        "Station": "samgrid",
        "Monitor": "http://site-a:8080/xmldb",
        "MemoryOfNodes": 4000,
    }
    async with database.read() as connection:
        await connection.execute("UPDATE site_adverts SET current_matches = 50")
    assert (await pilot.post(URL, json=ADVERT | {"CurrentJobs": 20})).json()["success"]
    assert (await stored(database))["current_matches"] == 20


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"Requirements": "CurMatches <"}, "Requirements"), ({"MaxJobs": -1}, "MaxJobs"), ({"Site": ""}, "Site"),
        ({"Kind": "other"}, "Kind"), ({"Site": "NOWHERE"}, "Site"), ({"Attributes": {"a b": 1}}, "Attributes"),
        ({"Colour": "red"}, "Colour"), ({"Attributes": {"Big": 2**63}}, "Attributes"),
        ({"Attributes": {"Big": 2**63}}, "from -2^63 to 2^63 - 1"),
    ],
)  # fmt: skip
async def test_what_cannot_be_is_refused_with_the_field(pilot, database, changes, field) -> None:
    reply = (await pilot.post(URL, json=ADVERT | changes)).json()
    assert not reply["success"] and field in reply["message"]
    async with database.read() as connection:
        assert await connection.fetchval("SELECT count(*) FROM site_adverts") == 0


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (ADVERT | {"Requirements": "((("}, "Requirements: value '(((' is not allowed: not a ClassAd expression"),
        (ADVERT | {"Requirements": "[a=b+b;b=1].a"}, "Requirements: value '[a=b+b;b=1].a' is not allowed: '[a="),
        (ADVERT | {"Requirements": 'regexp("a", Owner)'}, "Requirements: value 'regexp(\"a\", Owner)' is not allowed"),
        (ADVERT | {"Requirements": "!" * 1500 + "true"}, "Requirements: value '!!!!!!!!!!"),
        (ADVERT | {"Attributes": {"Big": "x" * 501}}, "Attributes: "),
        (ADVERT | {"Kind": "other"}, "Kind: value 'other' is not allowed; allowed: 'native' or 'forwarding'"),
        (ADVERT | {"MaxJobs": -1}, "MaxJobs: value -1 is not allowed; allowed: 0 or more"),
        (ADVERT | {"Site": "NOWHERE"}, "Site: value 'NOWHERE' is not allowed; allowed: a site of the grid"),
        ({"site": "NOSUCH"}, "Site: is missing; site: there is no such field; allowed: Site"),
        (ADVERT | {"qqq": 1}, "qqq: there is no such field; allowed: Attributes, CurrentJobs, "),
    ],
)  # fmt: skip
async def test_a_refusal_is_a_sentence_with_the_field_as_sent_and_what_is_allowed(pilot, body, message) -> None:
    told = (await pilot.post(URL, json=body)).json()["message"]
    assert told.startswith(message) and not told.endswith((" is", "."))


async def test_only_whom_the_configuration_names_for_the_site_production_and_operators_may_advertise(
    parts, authority, pilot
) -> None:
    assert (await pilot.post(URL, json=ADVERT)).json()["success"]
    for name, role in (("alice", "user"), ("pilot-2", "pilot")):
        async with client(parts, authority, name, role) as other:
            refused = await other.post(URL, json=ADVERT)
            assert refused.status_code == 403 and name in refused.text
    assert (await pilot.post(URL, json={**ADVERT, "Site": "NUCLEUS"})).status_code == 403
    async with client(parts, authority, "paul", "production") as paul:
        assert (await paul.post(URL, json=ADVERT)).json()["success"]
    async with client(parts, authority, "olga", "operator") as olga:
        assert (await olga.post(URL, json=ADVERT)).json()["success"]
