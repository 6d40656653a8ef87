"""Tells a pilot why it got nothing and when to ask again.

Pilots that ask too often are a load; an answer without a reason helps nobody.
"""

from __future__ import annotations

from services.job_dispatch.acquire.site_requirements import SiteRequirements
from services.job_dispatch.acquire.windows import Windows
from services.job_dispatch.parameters import NO_JOB_RETRY_S
from services.job_dispatch.policy.fitting import Offer
from shared.config.parameters import Parameters


class NoMatch:
    """The reason names what is there and why it does not fit; the hint grows when the queue is empty."""

    def __init__(self, windows: Windows, sites: SiteRequirements, parameters: Parameters) -> None:
        self._windows = windows
        self._sites = sites
        self._parameters = parameters

    @property
    def longest_wait_s(self) -> int:
        """Empty or unknown queue: nothing will come in the next moments."""
        return self._parameters.read(NO_JOB_RETRY_S)

    async def explain(self, offer: Offer) -> tuple[str, int]:
        """(reason, seconds to wait)."""
        waiting = self._windows.waiting_shapes(offer.queue)
        misfits = self._windows.shapes.misfits(offer.kind, waiting)
        refused = self._sites.refused(offer.queue)
        if refused is not None and len(misfits) == len(waiting):
            return refused, self.longest_wait_s
        if offer.task_id is not None:
            return f"task {offer.task_id} has no activated job at {offer.queue} that fits", self.longest_wait_s
        if not waiting:
            return f"no activated jobs at {offer.queue}", self.longest_wait_s
        if misfits:
            more = f" (and {len(misfits) - 1} other kinds)" if len(misfits) > 1 else ""
            return f"jobs are waiting at {offer.queue} but none fits: {misfits[0]}{more}", self.longest_wait_s
        return f"the jobs at {offer.queue} were taken by others just now", max(1, self.longest_wait_s // 10)
