"""Claims whose specifications show the share and priority that their jobs have now."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Protocol

from services.job_dispatch.acquire.sessions import ClaimLine, ClaimOutcome, Sessions
from services.job_dispatch.policy.spec_order import in_order

log = logging.getLogger(__name__)

#: share and priority
Order = tuple[str, int]


class OrderReader(Protocol):
    """Reads what live jobs are ordered by."""

    async def orders(self, job_ids: Sequence[int]) -> Mapping[int, Order]: ...


class OrderedTexts:
    """Jobs have what they were picked by, as it is compared; those of repeated requests are read."""

    def __init__(self, sessions: Sessions, reader: OrderReader) -> None:
        self._sessions = sessions
        self._reader = reader

    @property
    def count(self) -> int:
        """As many claims as the sessions make at a time."""
        return self._sessions.count

    async def claim(self, session: int, wanted: Sequence[ClaimLine]) -> list[ClaimOutcome]:
        """Claim in one statement, and look up jobs where requests were repeated."""
        outcomes = await self._sessions.claim(session, wanted)
        repeated = [one.job_id for one in outcomes if one.known and one.job_id is not None]
        known = await self._orders_of(repeated) if repeated else {}
        found = []
        for line, outcome in zip(wanted, outcomes, strict=True):
            order = known.get(outcome.job_id or 0) if outcome.known else (line.gshare, line.priority)
            if outcome.spec is not None and order is not None:
                spec = in_order(outcome.spec, *order)
                found.append(outcome if spec is outcome.spec else outcome._replace(spec=spec))
            else:
                found.append(outcome)
        return found

    async def _orders_of(self, job_ids: Sequence[int]) -> Mapping[int, Order]:
        """Read the orders of jobs. Where they cannot be read texts stay as they are: the jobs are claimed."""
        try:
            return await self._reader.orders(job_ids)
        except Exception as error:
            log.warning("share and priority of jobs of repeated requests could not be read: %s", error)
            return {}

    async def close(self) -> None:
        await self._sessions.close()
