"""What pilots say of the machines that they run on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import asyncpg

from shared.db.queries import Queries

SQL = Queries.beside(__file__)


async def note_node(
    connection: asyncpg.Connection,
    kind: Literal["node", "gpu"],
    site: str,
    host_name: str,
    data: Mapping[str, Any],
    item: str = "",
) -> None:
    """Store what a pilot says of its machine now; `item` tells the GPUs of one machine apart."""
    await SQL.run(connection, "note_node", site=site, host_name=host_name, kind=kind, item=item, data=dict(data))


async def forget_nodes(connection: asyncpg.Connection, older_than_s: float) -> None:
    """Delete machines that no pilot was on for long."""
    await SQL.run(connection, "forget_nodes", older_than_s=older_than_s)
