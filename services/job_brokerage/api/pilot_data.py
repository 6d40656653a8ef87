"""/cache/*: queues and storages for pilots, who ask without a token; nothing here is secret.

The answers are the bare records without an envelope, as CRIC gives them. Anybody may call.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from services.job_brokerage.policy.pilot_data import queue_for_pilots, storage_for_pilots
from services.job_brokerage.store import grids as store
from shared.db.database import Database

PREFIX = "/cache"
_ENDINGS = (".all.json", ".pilot.json", ".json")
_HEADERS = {"Cache-Control": "public, max-age=60"}


class PilotData:
    """Texts of the grid that is loaded; the large ones are kept until the next is."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._kept: dict[str, tuple[int, bytes]] = {}

    def routes(self) -> list[Route]:
        """A queue, all queues, all storages."""
        return [
            Route(f"{PREFIX}/schedconfig/{{file:str}}", self.queue, methods=["GET"]),
            Route(f"{PREFIX}/schedconfig.json", self.queues, methods=["GET"]),
            Route(f"{PREFIX}/ddmendpoints.json", self.storages, methods=["GET"]),
        ]

    async def queue(self, request: Request) -> Response:
        """`QUEUE.all.json`: the record of one queue; HTTP 404 with `error` where there is none."""
        file = request.path_params["file"]
        name = next((file.removesuffix(one) for one in _ENDINGS if file.endswith(one)), "")
        async with self._database.read() as connection:
            record = await store.queue_record(connection, name.replace("\x00", ""))
        if record is None:
            return _json({"error": f"there is no queue {name!r}"}, 404)
        return _json(queue_for_pilots(name, record))

    async def queues(self, request: Request) -> Response:
        """Every queue by name."""

        async def made() -> bytes:
            async with self._database.read() as connection:
                records = await store.queue_records(connection)
            return orjson.dumps({name: queue_for_pilots(name, record) for name, record in records.items()})

        return await self._of_this_grid("queues", made)

    async def storages(self, request: Request) -> Response:
        """Every storage by name."""

        async def made() -> bytes:
            async with self._database.read() as connection:
                records = await store.storage_records(connection)
            return orjson.dumps({name: storage_for_pilots(name, record) for name, record in records.items()})

        return await self._of_this_grid("storages", made)

    async def _of_this_grid(self, what: str, made: Callable[[], Awaitable[bytes]]) -> Response:
        async with self._database.read() as connection:
            version = await store.grid_version(connection)
        kept = self._kept.get(what)
        if kept is None or kept[0] != version:
            kept = self._kept[what] = (version, await made())
        return Response(kept[1], media_type="application/json", headers=_HEADERS)


def _json(content: object, status: int = 200) -> Response:
    return Response(orjson.dumps(content), status, media_type="application/json", headers=_HEADERS)
