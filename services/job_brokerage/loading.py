"""Reads what a decision about a chunk is made on, besides the world that is in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import asyncpg

from services.job_brokerage.parameters import limits_from
from services.job_brokerage.policy.request import analysis_input, job_request
from services.job_brokerage.store import chunks as store
from services.job_brokerage.store.usage import UsageSnapshot, read_own
from shared.brokerage.analysis_facts import AnalysisInput
from shared.brokerage.policy import JobBrokerage
from shared.brokerage.request import JobRequest
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


class ChunkLoading:
    """Makes the request of a chunk's row: for a decision, and for one that is only supposed."""

    def __init__(self, catalogue: CatalogueReader, snapshot: Snapshot, usage: UsageSnapshot) -> None:
        self._catalogue, self._snapshot, self._usage = catalogue, snapshot, usage

    async def request(
        self, connection: asyncpg.Connection, row: Mapping[str, Any], parameters: Parameters, now: datetime
    ) -> JobRequest:
        """Read input with its copies, limits, usage and advertisements.

        Raises ValueError where the task's needs make no sense.
        """
        storages = self._snapshot.world.grid.storages
        inputs = await inputs_of_chunk(self._catalogue, connection, row["chunk_id"], storages)
        for_analysis = is_analysis(row["task_type"], row["prod_source_label"])
        limits = limits_from(
            parameters, vo=row["vo"], is_analysis=for_analysis, gshare=row["gshare"], cloud=row["cloud"]
        )
        analysis = await self._analysis(connection, row, parameters) if for_analysis else None
        adverts = await store.site_adverts(connection)
        secondary = await secondary_inputs_of_chunk(self._catalogue, connection, row["chunk_id"])
        return job_request(row, inputs, limits, now, analysis, adverts, secondary)

    async def _analysis(
        self, connection: asyncpg.Connection, row: Mapping[str, Any], parameters: Parameters
    ) -> AnalysisInput:
        """Read who uses how much, and how far the task is."""
        history = await store.task_history(connection, row["task_id"])
        usage = await self._usage.current(connection)
        own = await read_own(
            connection,
            task_id=row["task_id"],
            user_name=row["user_name"] or "",
            vo=row["vo"] or "",
            working_group=row["working_group"] or "",
        )
        return analysis_input(row, history, usage, own, parameters)
