"""Reads what a decision about a chunk is made on, besides the world that is in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import asyncpg

from services.job_brokerage.parameters import limits_from
from services.job_brokerage.policy.request import TaskHistory, analysis_input, job_request
from services.job_brokerage.store import chunks as store
from services.job_brokerage.store.usage import UsageSnapshot, read_own
from shared.brokerage.matchmaking import Advert
from shared.brokerage.policy import JobBrokerage
from shared.brokerage.request import InputDataset, JobRequest
from shared.brokerage.smallest_job import SecondaryInput
from shared.brokerage.usage import OwnUsage, Usage
from shared.catalogue import CatalogueReader
from shared.config.parameters import Parameters
from shared.model.analysis import is_analysis
from shared.snapshot import Snapshot
from shared.snapshot.inputs import inputs_of_chunk, secondary_inputs_of_chunk

FindPolicy = Callable[[str, str], JobBrokerage]

# Analysis tasks go to the plugin of this label whatever label their jobs have.
ANALYSIS_LABEL = "user"


def policy_of(request: JobRequest, find_policy: FindPolicy) -> JobBrokerage:
    """The plugin that decides about it."""
    return find_policy(request.vo, ANALYSIS_LABEL if request.is_analysis else request.label)


@dataclass(frozen=True)
class Use:
    """Who uses how much, and how far a task of analysis is."""

    history: TaskHistory
    usage: Usage
    own: OwnUsage


@dataclass(frozen=True)
class ChunkFacts:
    """What was read for a chunk beside its row: whatever is supposed of its numbers does not change it."""

    inputs: tuple[InputDataset, ...]
    secondary: tuple[SecondaryInput, ...]
    adverts: tuple[Advert, ...]
    use: Use | None


class ChunkLoading:
    """Makes the request of a chunk's row: for a decision, and for one that is only supposed."""

    def __init__(self, catalogue: CatalogueReader, snapshot: Snapshot, usage: UsageSnapshot) -> None:
        self._catalogue, self._snapshot, self._usage = catalogue, snapshot, usage

    async def request(
        self, connection: asyncpg.Connection, row: Mapping[str, Any], parameters: Parameters, now: datetime
    ) -> JobRequest:
        """Read what the request needs, and make it. Raises ValueError where the task's needs make no sense."""
        return request_of(row, await self.facts(connection, row), parameters, now)

    async def facts(self, connection: asyncpg.Connection, row: Mapping[str, Any]) -> ChunkFacts:
        """Read input with its copies, usage and advertisements."""
        storages = self._snapshot.world.grid.storages
        return ChunkFacts(
            inputs=await inputs_of_chunk(self._catalogue, connection, row["chunk_id"], storages),
            secondary=await secondary_inputs_of_chunk(self._catalogue, connection, row["chunk_id"]),
            adverts=await store.site_adverts(connection),
            use=await self._use(connection, row) if _is_analysis(row) else None,
        )

    async def _use(self, connection: asyncpg.Connection, row: Mapping[str, Any]) -> Use:
        history = await store.task_history(connection, row["task_id"])
        usage = await self._usage.current(connection)
        own = await read_own(
            connection,
            task_id=row["task_id"],
            user_name=row["user_name"] or "",
            vo=row["vo"] or "",
            working_group=row["working_group"] or "",
        )
        return Use(history, usage, own)


def request_of(row: Mapping[str, Any], facts: ChunkFacts, parameters: Parameters, now: datetime) -> JobRequest:
    """The request of a chunk, with its limits. Raises ValueError where the task's needs make no sense."""
    limits = limits_from(
        parameters, vo=row["vo"], is_analysis=_is_analysis(row), gshare=row["gshare"], cloud=row["cloud"]
    )
    use = facts.use
    analysis = analysis_input(row, use.history, use.usage, use.own, parameters) if use else None
    return job_request(row, facts.inputs, limits, now, analysis, facts.adverts, facts.secondary)


def _is_analysis(row: Mapping[str, Any]) -> bool:
    return is_analysis(row["task_type"], row["prod_source_label"])
