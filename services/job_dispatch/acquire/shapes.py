"""The interned shapes of jobs in memory, and which of them fit each kind of pilot."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from services.job_dispatch.acquire.lane_reader import LaneReader
from services.job_dispatch.policy.fitting import Misfit, Offer, PilotKind, Shape, misfit
from shared.db.holders import for_all

MOST_KINDS = 10_000


class KnownShapes:
    """Shapes by number.

    They never change, so a copy is never out of date; one that is not known yet fits no pilot until it was read.
    """

    def __init__(self, reader: LaneReader) -> None:
        self._reader = reader
        self._shapes: dict[int, Shape] = {}
        #: shapes of urgent work
        self.urgent: set[int] = set()
        #: queues whose jobs have more memory than their limit on average, with the limit in MB for a core
        self.above_mean: Mapping[str, int] = {}
        self._missing: set[int] = set()
        self._being_read: frozenset[int] = frozenset()
        self._reading: asyncio.Task[None] | None = None
        self._fits: dict[PilotKind, Callable[[int], bool]] = {}

    def expect(self, shape_id: int) -> None:
        """Note that a job of this shape exists."""
        if shape_id not in self._shapes:
            self._missing.add(shape_id)

    def may_be_urgent(self, shape_id: int) -> bool:
        """Whether it is a shape of urgent work, or one that was not read yet."""
        return shape_id in self.urgent or shape_id not in self._shapes

    @property
    def has_missing(self) -> bool:
        return bool(self._missing)

    async def load_missing(self) -> None:
        """Read the shapes that were met and are not known; who misses what is being read joins the read."""
        wanted = frozenset(self._missing)
        if not wanted:
            return
        if self._reading is None or self._reading.done() or not wanted <= self._being_read:
            self._being_read = wanted
            self._reading = for_all(self._read(sorted(wanted)))
        await asyncio.shield(self._reading)

    async def _read(self, wanted: Sequence[int]) -> None:
        found = await self._reader.shapes(wanted)
        for shape in found:
            self._shapes[shape.shape_id] = shape
            self._missing.discard(shape.shape_id)
            if shape.is_urgent:
                self.urgent.add(shape.shape_id)
        if found:
            self._fits.clear()  # a shape that fitted no pilot because it was unknown is compared again

    def kind_of(self, offer: Offer) -> PilotKind:
        """The kind of pilot that makes an offer, with what its queue as a whole adds."""
        limit_mb = self.above_mean.get(offer.queue)
        return offer.kind if limit_mb is None else replace(offer.kind, mean_memory_mb=limit_mb)

    def fits(self, kind: PilotKind) -> Callable[[int], bool]:
        """Whether a shape fits a kind of pilot.

        It is the same function for a kind until another shape becomes known.
        """
        found = self._fits.get(kind)
        if found is None:
            if len(self._fits) >= MOST_KINDS:
                self._fits.clear()
            found = self._fits[kind] = self._fitting(kind)
        return found

    def _fitting(self, kind: PilotKind) -> Callable[[int], bool]:
        known: dict[int, bool] = {}

        def fits(shape_id: int) -> bool:
            if shape_id in known:
                return known[shape_id]
            shape = self._shapes.get(shape_id)
            if shape is None:
                self._missing.add(shape_id)
                return False
            known[shape_id] = misfit(shape, kind) is None
            return known[shape_id]

        return fits

    def misfits(self, kind: PilotKind, shape_ids: set[int]) -> list[Misfit]:
        """Why each of these shapes does not fit."""
        reasons = (misfit(self._shapes[one], kind) for one in sorted(shape_ids) if one in self._shapes)
        return [reason for reason in reasons if reason is not None]
