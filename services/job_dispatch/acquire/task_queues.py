"""Task queues as each kind of pilot sees them: which fit, and which its site holds back."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import asyncpg

from services.job_dispatch.acquire.site_limits import SiteLimits
from services.job_dispatch.acquire.task_queue_orders import Read, TaskQueueOrders
from services.job_dispatch.policy.fitting import Offer
from services.job_dispatch.policy.queues_of_share import TaskQueueView
from services.job_dispatch.policy.share_lanes import Fits
from services.job_dispatch.store import task_queues as store
from shared.config.parameters import Parameters
from shared.model.queue import QueueStatus
from shared.order.identity import TaskQueueIdentity
from shared.order.matching import TEST_JOBS, TaskQueueOffer, offered_tags, unmatched
from shared.snapshot import KnownGrid

MOST_VIEWS = 4096
NOTHING_OFFERED = TaskQueueOffer()


class TaskQueues:
    """One per process."""

    def __init__(
        self, read: Read, parameters: Parameters, grid: KnownGrid, limits: SiteLimits, *, random: Random
    ) -> None:
        self.limits = limits
        self.orders = TaskQueueOrders(read, parameters)
        self._grid = grid
        self._random = random
        self._sites: Mapping[str, str] = {}
        self._masked: frozenset[str] = frozenset()
        self._views: dict[tuple[Any, ...], TaskQueueView] = {}
        self._views_began = 0

    # -- what lanes ask

    def view(self, offer: Offer, fits: Fits) -> TaskQueueView:
        """Order keys as the offer's kind of pilot sees them; for each kind the same object.

        `fits` stands for the kind.
        """
        kind = (offer.queue, fits, offer.user_name, offer.working_group, offer.task_id is None)
        found = self._views.get(kind)
        if found is None:
            if len(self._views) >= MOST_VIEWS:
                self._views.clear()
            found = self._views[kind] = TaskQueueView(
                self.orders,
                self._fitting(offer),
                lambda key: self.holding(offer.queue, key) is not None,
                self._random.random,
                self.limits.version,
            )
        return found

    def completed(self, offer: Offer) -> TaskQueueOffer:
        """What an offer says to task queues, with what follows from its queue, memory and time."""
        asked, kind = offer.kind.task_queues or NOTHING_OFFERED, offer.kind
        masked = offer.queue in self._masked
        return replace(
            asked,
            sites=frozenset({offer.queue, self._sites.get(offer.queue, offer.queue)}),
            cpu_time_s=asked.cpu_time_s if asked.cpu_time_s is not None else kind.remaining_s or None,
            tags=offered_tags(asked.tags, max_ram_mb=kind.memory_mb),
            job_type=TEST_JOBS if masked else asked.job_type,
            user_name=offer.user_name,
            user_group=offer.working_group,
        )

    def _fitting(self, offer: Offer) -> Callable[[int], bool]:
        """Which order keys fit the offer; those without one do, where it takes jobs of anybody."""
        known = {0: offer.is_for_all}
        offered: TaskQueueOffer | None = None

        def fits(order_key_id: int) -> bool:
            nonlocal offered
            found = known.get(order_key_id)
            if found is None:
                key = self.orders.keys.get(order_key_id)
                if key is None:
                    return False
                offered = offered or self.completed(offer)
                found = known[order_key_id] = self.why_not(key[0], offered) is None
            return found

        return fits

    def is_of_owner(self, order_key_id: int) -> bool:
        """Whether all that counts for a key is the owner of its jobs."""
        key = self.orders.keys.get(order_key_id)
        return key is not None and self.orders.queues[key[0]].is_of_owner

    def why_not(self, task_queue_id: int, offered: TaskQueueOffer) -> str | None:
        """Why a task queue does not fit, in words; None if it does."""
        queue = self.orders.queues[task_queue_id]
        properties = self.orders.rules.groups.get((queue.vo, queue.user_group))
        found = unmatched(queue, offered, job_sharing=properties is not None and properties.job_sharing)
        return found.reason if found is not None else None

    def why_nothing(self, offer: Offer, order_key_ids: Iterable[int]) -> tuple[str | None, str | None]:
        """Of the waiting keys: the limit that holds one back, and why one does not match; both in words."""
        held = other = None
        known = sorted(self.orders.keys.keys() & set(order_key_ids))
        offered = self.completed(offer) if known else NOTHING_OFFERED
        for key in known:
            other_reason = self.why_not(self.orders.keys[key][0], offered)
            rule = self.holding(offer.queue, key) if other_reason is None else None
            held = held or (rule.text if rule is not None else None)
            other = other or other_reason
        return held, other

    def holding(self, queue: str, order_key_id: int) -> Any:
        """The rule of the site that holds jobs of a key back now, or None.

        None too for a key for which nothing waits any more: draws may have it until the next pick.
        """
        key = self.orders.keys.get(order_key_id) if self.limits.has_rules else None
        return None if key is None else self.limits.held(self._sites, queue, key[0], self.orders.queues[key[0]])

    def picked(self, queue: str, order_key_id: int, job_id: int) -> None:
        """Count a job that is being claimed."""
        key = self.orders.keys.get(order_key_id)
        if key is not None and self.limits.has_rules:
            self.limits.picked(self._sites, queue, key[0], self.orders.queues[key[0]], job_id)

    # -- reading

    async def recalculate(self, connection: asyncpg.Connection) -> None:
        """Order all groups again, by what waits now."""
        has_other_groups = await self.orders.recalculate(connection)
        n_of_no_use = self.orders.n_forgotten - self._views_began
        # JOB_SHARING decides whom a user's pilot serves; and views remember keys that have gone
        if has_other_groups or n_of_no_use > max(MOST_VIEWS, len(self.orders.keys)):
            self._views_began = self.orders.n_forgotten
            self._views.clear()

    async def read_limits(self, connection: asyncpg.Connection, clock: Callable[[], float]) -> None:
        """Read what runs at the sites, where there are limits."""
        self.limits.configure()
        if not self.limits.has_rules:
            return
        read_at = clock()
        self.limits.were_read(await self._identified(connection, await store.at_pilots(connection)), read_at)

    async def at_sites(
        self, connection: asyncpg.Connection, sites: Collection[str], permit_s: float
    ) -> Sequence[tuple[str, TaskQueueIdentity, int]]:
        """Read what runs at these sites or may be claimed there now."""
        queues = {queue for queue, site in self._sites.items() if site in sites}
        queues |= {site for site in sites if site not in self._sites}
        return await self._identified(connection, await store.at_pilots_of_queues(connection, sorted(queues), permit_s))

    async def _identified(
        self, connection: asyncpg.Connection, rows: Sequence[tuple[str, int, int]]
    ) -> list[tuple[str, TaskQueueIdentity, int]]:
        """Site, task queue and number of jobs for those of queue and order key."""
        await self.orders.learn(connection, sorted({key for _, key, _ in rows} - self.orders.keys.keys()))
        keys, queues = self.orders.keys, self.orders.queues
        return [
            (self._sites.get(queue, queue), queues[keys[key][0]], count) for queue, key, count in rows if key in keys
        ]

    async def read_grid(self, connection: asyncpg.Connection) -> None:
        """Read the site of each queue, and queues that take test jobs only."""
        queues = (await self._grid.grid(connection)).queues
        sites = {name: queue.site for name, queue in queues.items()}
        masked = frozenset(name for name, queue in queues.items() if queue.status is QueueStatus.TEST)
        if (sites, masked) != (self._sites, self._masked):
            self._sites, self._masked = sites, masked
            self.limits.sites_changed()
            self._views.clear()
