"""A network link between two sites: closeness, files queued, throughput, and when each was measured.

The throughput numbers are used as the dump has them (`mbps`), against the thresholds of the throughput table.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from shared.model.problems import Problem
from shared.model.steps import Steps

PRODUCTION_OUTPUT = "Production Output"
EXPRESS = "Express"
PRODUCTION_INPUT = "Production Input"
MIN_CLOSENESS, MAX_CLOSENESS, BLOCKED_CLOSENESS = 0, 11, -1


@dataclass(frozen=True, slots=True)
class Link:
    """One direction of one pair of sites; None means not measured; closeness -1 means blocked."""

    source: str
    destination: str
    closeness: int | None = None
    queued_output: int | None = None
    queued_express: int | None = None
    queued_input: int | None = None
    done_output_1h: int | None = None
    done_output_6h: int | None = None
    queued_at: datetime | None = None
    mbps_1h: float | None = None
    mbps_1d: float | None = None
    mbps_1w: float | None = None
    mbps_at: datetime | None = None
    closeness_at: datetime | None = None

    @property
    def measured_at(self) -> datetime | None:
        """The newest of the times."""
        return max((at for at in (self.queued_at, self.mbps_at, self.closeness_at) if at), default=None)

    def shifted(self, by: timedelta) -> Link:
        """The same link with all times moved."""
        return replace(
            self,
            queued_at=self.queued_at and self.queued_at + by,
            mbps_at=self.mbps_at and self.mbps_at + by,
            closeness_at=self.closeness_at and self.closeness_at + by,
        )


class _Reader:
    """Reads one record and collects problems; it is small because a full dump has many thousand links."""

    def __init__(self, file: str, key: str) -> None:
        self.file, self.key, self.problems = file, key, list[Problem]()

    def number(self, field: str, value: Any, low: float, high: float) -> float | None:
        if value is None:
            return None
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not math.isfinite(value)
            or not low <= value <= high
        ):
            self.problems.append(
                Problem(self.file, self.key, field, f"{value!r} is not a number from {low:g} to {high:g}")
            )
            return None
        return value

    def count(self, field: str, value: Any) -> int | None:
        number = self.number(field, value, 0, 1e12)
        return None if number is None else int(number)

    def time(self, field: str, value: Any) -> datetime | None:
        if value is None:
            return None
        try:
            at = datetime.fromisoformat(value)
        except (TypeError, ValueError):
            self.problems.append(
                Problem(self.file, self.key, field, f"{value!r} is not a time such as 2026-01-01T00:00:00")
            )
            return None
        return at if at.tzinfo else at.replace(tzinfo=UTC)

    def part(self, field: str, record: Mapping[str, Any], name: str) -> Mapping[str, Any]:
        value = record.get(name) or {}
        if isinstance(value, Mapping):
            return value
        self.problems.append(Problem(self.file, self.key, field, f"{value!r} is not an object"))
        return {}


def link_from_dump(key: str, record: Any, file: str = "network_metrics.json") -> Link | list[Problem]:
    """One entry ("source:destination") of the network metrics dump as a Link, or all its problems."""
    source, separator, destination = key.partition(":")
    if not (source and separator and destination):
        return [Problem(file, key, "", "the key is not source:destination")]
    if not isinstance(record, Mapping):
        return [Problem(file, key, "", "is not an object")]
    read = _Reader(file, key)
    closeness = read.part("closeness", record, "closeness")
    files = read.part("files", record, "files")
    queued, done = read.part("files.queued", files, "queued"), read.part("files.done", files, "done")
    dashboard = read.part("mbps.dashb", read.part("mbps", record, "mbps"), "dashb")
    waiting = {
        name: read.part(f"files.queued.{name}", queued, name) for name in (PRODUCTION_OUTPUT, EXPRESS, PRODUCTION_INPUT)
    }
    moved = read.part("files.done.Production Output", done, PRODUCTION_OUTPUT)
    nearness = read.number("closeness.latest", closeness.get("latest"), BLOCKED_CLOSENESS, MAX_CLOSENESS)
    times = [read.time(f"files.queued.{name}.timestamp", one.get("timestamp")) for name, one in waiting.items()]
    link = Link(
        source=source,
        destination=destination,
        closeness=None if nearness is None else int(nearness),
        queued_output=read.count("files.queued.Production Output.latest", waiting[PRODUCTION_OUTPUT].get("latest")),
        queued_express=read.count("files.queued.Express.latest", waiting[EXPRESS].get("latest")),
        queued_input=read.count("files.queued.Production Input.latest", waiting[PRODUCTION_INPUT].get("latest")),
        done_output_1h=read.count("files.done.Production Output.1h", moved.get("1h")),
        done_output_6h=read.count("files.done.Production Output.6h", moved.get("6h")),
        queued_at=max((at for at in times if at), default=None),
        mbps_1h=read.number("mbps.dashb.1h", dashboard.get("1h"), 0, 1e9),
        mbps_1d=read.number("mbps.dashb.1d", dashboard.get("1d"), 0, 1e9),
        mbps_1w=read.number("mbps.dashb.1w", dashboard.get("1w"), 0, 1e9),
        mbps_at=read.time("mbps.dashb.timestamp", dashboard.get("timestamp")),
        closeness_at=read.time("closeness.timestamp", closeness.get("timestamp")),
    )
    return read.problems or link


# Names of the metrics in tables and caches, as the field has them, with the attributes that hold value and time.
METRICS = {
    "AGIS_closeness": ("closeness", "closeness_at"),
    "Production Output_queued": ("queued_output", "queued_at"),
    "Express_queued": ("queued_express", "queued_at"),
    "Production Input_queued": ("queued_input", "queued_at"),
    "Production Output_done_1h": ("done_output_1h", "queued_at"),
    "Production Output_done_6h": ("done_output_6h", "queued_at"),
    "dashb_mbps_1h": ("mbps_1h", "mbps_at"),
    "dashb_mbps_1d": ("mbps_1d", "mbps_at"),
    "dashb_mbps_1w": ("mbps_1w", "mbps_at"),
}
Metric = tuple[str, str, str, float, datetime]


def metrics_of(links: Iterable[Link], otherwise_at: datetime) -> Iterator[Metric]:
    """(source, destination, metric, value, time) of every number.

    `otherwise_at` is the time where the dump has none.
    """
    for link in links:
        for metric, (value_name, time_name) in METRICS.items():
            value = getattr(link, value_name)
            if value is not None:
                yield link.source, link.destination, metric, float(value), getattr(link, time_name) or otherwise_at


def links_of(metrics: Iterable[Metric]) -> dict[tuple[str, str], Link]:
    """The inverse of `metrics_of`; metrics of other names are ignored."""
    values: dict[tuple[str, str], dict[str, Any]] = {}
    for source, destination, metric, value, at in metrics:
        names = METRICS.get(metric)
        if names is None:
            continue
        known = values.setdefault((source, destination), {})
        value_name, time_name = names
        known[value_name] = value if value_name.startswith("mbps") else int(value)
        known[time_name] = max(at, known.get(time_name, at))
    return {pair: Link(*pair, **known) for pair, known in values.items()}


def shift_to_now(links: list[Link], now: datetime) -> Steps[None]:
    """Move all times by the same amount so that the newest is now: an old dump then behaves as a live one.

    Each link is replaced in its place: the list of the old ones would be freed in one go.
    """
    newest: datetime | None = None
    for link in links:
        yield
        at = link.measured_at
        newest = max(newest, at) if newest and at else newest or at
    if newest is None:
        return
    for place, link in enumerate(links):
        yield
        links[place] = link.shifted(now - newest)
