"""Who this process is among all dispatchers there ever were."""

from __future__ import annotations

from services.job_dispatch.store.dispatchers import SQL
from shared.db.unit_of_work import UnitOfWork


class Identity:
    """A number from a sequence, taken at the start.

    It is unique also where the random seed is fixed, and the same in every run of a simulation.
    """

    def __init__(self) -> None:
        self._number: int | None = None

    async def take_number(self, work: UnitOfWork) -> None:
        """Take a number of its own, once, before the first request."""
        self._number = await SQL.value(work.connection, "next_dispatcher_number")

    @property
    def name(self) -> str:
        """Unique among dispatchers, past ones included. Raises RuntimeError before the start."""
        if self._number is None:
            raise RuntimeError("job_dispatch was not started: its number is taken at the start")
        return f"dispatcher-{self._number}"
