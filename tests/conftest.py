"""Fixtures for everybody: a database like the template, queue names and cache keys of the test's own."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from prometheus_client import CollectorRegistry

import shared.db.database
from shared.auth import Authority
from shared.cache import NullCache, RedisCache
from shared.config.settings import Settings
from shared.db import Database
from shared.runtime.service import Context
from tests import servers
from tests.databases import Databases
from tests.drawn import of_push
from tests.route_analysis import remember

# how long an example takes says something about the machine and what else it does, nothing about the code
settings.register_profile("orrery", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("orrery")

# a process of a busy machine may stand still for longer than one of a service
shared.db.database.IDLE_IN_TRANSACTION_S = 120.0

remember()

#: what takes long begins first, so that no processor is idle at the end while another has a long file before it
LONGEST_FIRST = ("simulation", "integration", "handlers", "contracts", "unit")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--night", action="store_true", help="run every seed, kill and published program, and new seeds")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    items[:], left = of_push(config, items)
    config.hook.pytest_deselected(items=left)

    def place(item: pytest.Item) -> int:
        folder = item.path.relative_to(servers.ROOT / "tests").parts[0]
        return LONGEST_FIRST.index(folder) if folder in LONGEST_FIRST else len(LONGEST_FIRST)

    items.sort(key=place)


@pytest.fixture(scope="session")
def servers_of_tests() -> servers.Servers:
    return servers.Servers.find()


@pytest.fixture(scope="session")
def database_template(servers_of_tests: servers.Servers) -> str:
    return asyncio.run(servers.ensure_template(servers_of_tests.database_url))


@pytest.fixture(scope="session")
def databases(servers_of_tests: servers.Servers, database_template: str) -> Iterator[Databases]:
    databases = Databases(servers_of_tests.database_url, database_template)
    yield databases
    asyncio.run(databases.drop())


@pytest.fixture
async def database_url(databases: Databases) -> AsyncIterator[str]:
    """The address of an empty database with the schema that is the test's alone."""
    url, before = await databases.lend(), asyncio.all_tasks()
    yield url
    await end_tasks(asyncio.all_tasks() - before)
    await databases.take_back(url)


async def end_tasks(tasks: set[asyncio.Task[Any]]) -> None:
    """What a test left in the event loop does not reach the next one."""
    others = tasks - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


@pytest.fixture
async def database(databases: Databases, database_url: str) -> Database:
    return await databases.database(database_url, actor="test")


@pytest.fixture
def rabbitmq_url(servers_of_tests: servers.Servers) -> str:
    if not servers_of_tests.rabbitmq_url:
        pytest.skip("no RabbitMQ on this machine")
    return servers_of_tests.rabbitmq_url


@pytest.fixture
def bus_namespace() -> Iterator[str]:
    """Goes before every exchange and queue name of the test: tests share one virtual host without meeting."""
    yield f"test-{uuid.uuid4().hex[:12]}"


@pytest.fixture
async def cache(servers_of_tests: servers.Servers) -> AsyncIterator[RedisCache]:
    if not servers_of_tests.redis_url:
        pytest.skip("no Redis on this machine")
    prefix = f"orrery-test-{uuid.uuid4().hex[:12]}:"
    cache = RedisCache(servers_of_tests.redis_url, prefix=prefix)
    yield cache
    await cache.forget_all()
    await cache.close()


@pytest.fixture(scope="session")
def authority() -> Authority:
    return Authority.generate()


@pytest.fixture
def context(database: Database, database_url: str, authority: Authority) -> Context:
    """What a composition root needs, without RabbitMQ and Redis."""
    return Context(
        database=database,
        cache=NullCache(),
        authority=authority,
        random=random.Random(1),
        settings=Settings(database_url=database_url),
        metrics=CollectorRegistry(),
    )
