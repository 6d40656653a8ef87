"""The source URLs that jobs are told, with a permission to fetch the archives of their task.

A permission is made when a job is handed out, so that it does not expire while the job waits, and is stored nowhere.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import orjson

from services.job_dispatch.acquire.picks import Granted
from shared.config.parameters import Parameters
from shared.signed_sources import SourceKeys
from shared.signed_sources.parameters import PERMISSION_HOURS, SIGNED_SOURCES
from shared.signed_sources.places import filled, signed


class SignedSources:
    """Writes permissions into specifications of jobs; `clock`: seconds since the epoch."""

    def __init__(self, keys: SourceKeys, parameters: Parameters, clock: Callable[[], float] = time.time) -> None:
        self._keys, self._parameters, self._clock = keys, parameters, clock

    def told(self, granted: Sequence[Granted]) -> Sequence[Granted]:
        """The same jobs, whose command lines name source URLs that open the archives of their tasks."""
        if not self._parameters.read(SIGNED_SOURCES):
            return granted
        expires_at = self._clock() + self._parameters.read(PERMISSION_HOURS) * 3600
        return [self._with_permission(one, expires_at) for one in granted]

    def _with_permission(self, job: Granted, expires_at: float) -> Granted:
        if job.spec is None or job.task_id is None:
            return job
        if job.source_spots is not None:
            permission = self._keys.permission(job.task_id, expires_at)
            return replace(job, spec=filled(job.spec, job.source_spots, permission))
        if "ourceURL" not in job.spec:
            return job
        # a line that is encoded, or an address with a slash at its end
        permission = self._keys.permission(job.task_id, expires_at)
        return replace(job, spec=orjson.dumps(signed(orjson.loads(job.spec), permission)).decode())
