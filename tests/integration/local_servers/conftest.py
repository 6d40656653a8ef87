"""Private servers in a temporary directory, removed with all their data."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from deploy.local import binaries
from deploy.local.servers import Servers

needs_programs = pytest.mark.skipif(
    None in (binaries.find_postgresql(), binaries.find_rabbitmq(), binaries.find_redis()),
    reason="the programs of PostgreSQL, RabbitMQ and Redis are not all on this machine",
)


@pytest.fixture(scope="module")
def private_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """All three, started once for the module."""
    servers = Servers(tmp_path_factory.mktemp("local"), durable=False, named={})
    try:
        yield servers.start()
    finally:
        servers.remove()
