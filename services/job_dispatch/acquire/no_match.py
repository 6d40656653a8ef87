"""Tells a pilot why it got nothing and when to ask again.

Pilots that ask too often are a load. The reason says what must change before a job fits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from services.job_dispatch.acquire.activity import PilotActivity
from services.job_dispatch.acquire.site_requirements import SiteRequirements
from services.job_dispatch.acquire.windows import Windows
from services.job_dispatch.metrics import DispatchMetrics
from services.job_dispatch.parameters import NO_JOB_LONGEST_RETRY_S, NO_JOB_RETRY_S
from services.job_dispatch.policy.fitting import Offer
from services.job_dispatch.policy.no_match import AtQueue, NoJobs, grown_wait_s, no_match
from shared.config.parameters import Parameters


class NoMatch:
    """What is in memory decides: an answer without a job costs no question to PostgreSQL."""

    def __init__(
        self,
        windows: Windows,
        sites: SiteRequirements,
        activity: PilotActivity,
        parameters: Parameters,
        metrics: DispatchMetrics,
        clock: Callable[[], float],
    ) -> None:
        self._clock = clock
        #: since when pilots of a queue have got nothing
        self._empty_since: dict[str, float] = {}
        self._windows = windows
        self._sites = sites
        self._activity = activity
        self._parameters = parameters
        self._metrics = metrics

    def explain(self, offer: Offer) -> NoJobs:
        """Say why the offer got no job; count it, and note it for who asks why a job waits."""
        waiting = self._windows.waiting_shapes(offer.queue)
        shapes = self._windows.shapes
        misfits = shapes.misfits(shapes.kind_of(offer), waiting)
        status, refused = self._activity.known_queues.get(offer.queue), self._sites.refused(offer.queue)
        held, unmatched = self._windows.why_no_task_queue(offer)
        at_queue = AtQueue(status, len(waiting), misfits, refused, held, unmatched)
        found = no_match(offer, at_queue, self._parameters.read(NO_JOB_RETRY_S))
        if status is not None:
            found = replace(found, retry_after_s=self._wait_s(offer.queue, found))
        self._metrics.no_match.labels(found.why).inc()
        if status is not None:
            self._activity.got_nothing(offer.queue, found)
        return found

    def served(self, queue: str) -> None:
        """Note that a pilot of the queue got a job: the next one that gets none waits the usual time."""
        self._empty_since.pop(queue, None)

    def _wait_s(self, queue: str, found: NoJobs) -> int:
        now = self._clock()
        empty_for_s = now - self._empty_since.setdefault(queue, now)
        longest_s = self._parameters.read(NO_JOB_LONGEST_RETRY_S)
        return grown_wait_s(found.why, found.retry_after_s, empty_for_s, longest_s)
