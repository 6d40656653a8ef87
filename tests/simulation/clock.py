"""Virtual time."""

from datetime import UTC, datetime, timedelta

START = datetime(2030, 1, 1, tzinfo=UTC)


class VirtualClock:
    """What orrery_now() answers; only the scheduler moves it."""

    def __init__(self) -> None:
        self._now = START

    def __call__(self) -> datetime:
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += timedelta(seconds=seconds)

    @property
    def elapsed_s(self) -> float:
        return (self._now - START).total_seconds()
