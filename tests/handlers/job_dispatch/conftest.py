from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import orjson
import pytest

from services.job_dispatch.app import Parts, build_parts
from shared.auth import Authority
from shared.auth.keyring import create_key_file
from shared.db import Database
from shared.runtime.service import Context
from tests.applications import application_of
from tests.handlers.job_dispatch.grid_of_jobs import Rows


@pytest.fixture(autouse=True)
def key_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file with the keys of secrets, which dispatchers read."""
    path = tmp_path / "secrets.keys"
    create_key_file(path)
    monkeypatch.setenv("ORRERY_SECRETS_KEY_FILE", str(path))
    return path


@pytest.fixture
async def rows(database: Database) -> Rows:
    """Two queues at different sites, a third at the nucleus, one running task."""
    rows = Rows(database)
    await rows.grid({"Q1": "SITE-A", "Q2": "SITE-B", "QN": "NUCLEUS"}, nuclei=("NUCLEUS",))
    await rows.task(1)
    sites = {site: ["pilot-1"] for site in ("SITE-A", "SITE-B", "NOWHERE")}
    named = {"ADVERTISERS": sites, "REPORTERS": {"Q2": ["pusher"]}}
    async with database.pool.acquire() as connection:
        await connection.executemany(
            "INSERT INTO parameters (component, key, value, type) VALUES ('job_dispatch', $1, $2, 'json')",
            [(key, orjson.dumps(value).decode()) for key, value in named.items()],
        )
    return rows


@pytest.fixture
async def parts(context: Context, rows: Rows) -> AsyncIterator[Parts]:
    """The dispatcher's own objects, started but without messages, periodic work and sockets."""
    parts = build_parts(context)
    for action in parts.service.on_start:
        await action()
    yield parts
    await parts.close()


@pytest.fixture
async def pilot(parts: Parts, authority: Authority) -> AsyncIterator[httpx.AsyncClient]:
    """An HTTP client with a pilot's token, straight into the application."""
    async with client(parts, authority, "pilot-1", "pilot") as found:
        yield found


def client(parts: Parts, authority: Authority, name: str, *roles: str) -> httpx.AsyncClient:
    """A client with a token of these roles."""
    return httpx.AsyncClient(
        transport=httpx.ASGITransport(app=application_of(parts.service, authority)),
        base_url="http://dispatch",
        headers={"Authorization": f"Bearer {authority.issue(name, roles)}"},
    )
