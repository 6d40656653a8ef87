"""By when the owner of a task would like to have it (ttcrTimestamp)."""

from __future__ import annotations

from datetime import UTC, datetime


def wanted_by(stated: str) -> datetime:
    """The time that is stated; without a zone it is UTC. Raises ValueError.

    Example: "2026-05-01 12:00:00.5+00:00", as clients of the field write it.
    """
    found = datetime.fromisoformat(stated.strip())
    try:
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except OverflowError:
        raise ValueError(f"{stated} is before the year 1 or after the year 9999 in UTC") from None
