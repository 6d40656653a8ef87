from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Iterator
from dataclasses import replace

import pytest
from rucio.client.client import Client

from shared.catalogue.messages import rule_of_message
from shared.catalogue.outside import CatalogueTrouble, DataName, NewCollection, NewRule
from shared.catalogue.rucio.adapter import RucioCatalogue
from shared.catalogue.rucio.settings import RucioSettings
from tests.catalogues.conformance import Arrive, CatalogueConformance, new_file
from tests.integration.rucio.server import ACCOUNT, PASSWORD, USER, RucioServer


@pytest.fixture
def catalogue(rucio_settings: RucioSettings) -> Iterator[RucioCatalogue]:
    found = RucioCatalogue(rucio_settings)
    yield found
    found.shut_down()


@pytest.fixture
def client(rucio: RucioServer) -> Client:
    credentials = {"username": USER, "password": PASSWORD}
    return Client(rucio_host=rucio.host, auth_host=rucio.host, account=ACCOUNT, auth_type="userpass", creds=credentials)


@pytest.fixture
def scope(client: Client) -> str:
    """One of the test's own: names in others are taken by other tests."""
    name = f"s{uuid.uuid4().hex[:12]}"
    client.add_scope(ACCOUNT, name)
    return name


@pytest.fixture
def arrive(rucio: RucioServer) -> Arrive:
    async def arrive(rule_id: str) -> None:
        await asyncio.to_thread(rucio.arrive, rule_id)

    return arrive


class TestRucio(CatalogueConformance):
    """A real server, through its own client."""


async def test_a_file_is_known_by_its_scope_in_whatever_dataset_it_is_and_another_of_its_name_is_refused(
    catalogue: RucioCatalogue, scope: str
) -> None:
    first, second = DataName(scope, "first"), DataName(scope, "second")
    await catalogue.create([NewCollection(first), NewCollection(second)])
    await catalogue.add_files(first, [new_file(1)])
    found = await catalogue.registered([DataName(scope, "f.1"), DataName(scope, "f.2")])
    assert [(name.name, one.size_bytes, one.checksum) for name, one in found.items()] == [("f.1", 101, "ad:0000000a")]
    with pytest.raises(CatalogueTrouble):
        await catalogue.add_files(second, [replace(new_file(1), size_bytes=7)])
    await catalogue.add_files(second, [new_file(1)])


async def test_a_finished_rule_is_told_by_a_message_that_names_it(
    catalogue: RucioCatalogue, rucio: RucioServer, scope: str, arrive: Arrive
) -> None:
    name = DataName(scope, "told")
    await catalogue.create([NewCollection(name)])
    await catalogue.add_files(name, [new_file(1)])
    rule_id = await catalogue.create_rule(NewRule(name, "B_DISK", "Express"))
    assert rule_id not in told_of(rucio)
    await arrive(rule_id)
    assert rule_id in told_of(rucio)
    [destination] = {one["destination"] for one in rucio.messages()}
    assert destination == "/topic/rucio.events", "which RabbitMQ puts into amq.topic with the key rucio.events"


def told_of(rucio: RucioServer) -> set[str | None]:
    return {rule_of_message(json.loads(one["body"])) for one in rucio.messages()}
