"""Resource types: classes of work that share a queue, and the part of a unified queue for each.

A pseudo-queue is never stored: it is the pair (queue, resource type), shown as `QUEUE/TYPE`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

# Memory of a job is compared a tenth lower, so that work close to a limit is not pushed to high-memory queues.
RAM_COMPENSATION = 0.9
UNDEFINED = "Undefined"


@dataclass(frozen=True)
class ResourceType:
    """One class of work; limits are inclusive, None means no limit; memory is MB for each core."""

    name: str
    min_cores: int | None
    max_cores: int | None
    min_ram_per_core_mb: int | None
    max_ram_per_core_mb: int | None

    def matches(self, core_count: int, ram_per_core_mb: float) -> bool:
        return (
            (self.min_cores is None or core_count >= self.min_cores)
            and (self.max_cores is None or core_count <= self.max_cores)
            and (self.min_ram_per_core_mb is None or ram_per_core_mb >= self.min_ram_per_core_mb)
            and (self.max_ram_per_core_mb is None or ram_per_core_mb <= self.max_ram_per_core_mb)
        )


DEFAULT_RESOURCE_TYPES = (
    ResourceType("SCORE", 1, 1, None, 2000),
    ResourceType("SCORE_HIMEM", 1, 1, 2001, None),
    ResourceType("MCORE", 2, None, None, 2000),
    ResourceType("MCORE_HIMEM", 2, None, 2001, None),
)


def compensate(ram_mb: float) -> int:
    """Memory used for matching: nine tenths, rounded down."""
    return int(ram_mb * RAM_COMPENSATION)


def decompensate(ram_mb: float) -> int:
    """The real memory behind a compensated one, rounded down."""
    return int(ram_mb / RAM_COMPENSATION)


def resource_type_of(
    core_count: int | None, ram_mb: float, ram_per_core: bool, base_ram_mb: float, known: Sequence[ResourceType]
) -> str:
    """The first type that matches a task; no core count is 1, 0 ("any") counts as 8; UNDEFINED if none."""
    cores = 1 if core_count is None else 8 if core_count == 0 else core_count
    total_mb = ram_mb * cores + base_ram_mb if ram_per_core else ram_mb + base_ram_mb
    per_core_mb = compensate(total_mb / cores)
    for resource_type in known:
        if resource_type.matches(cores, per_core_mb):
            return resource_type.name
    return UNDEFINED


@dataclass(frozen=True)
class QueuePart:
    """What one resource type may use of a unified queue: cores and memory (MB) of one job slot."""

    core_count: int
    min_rss_mb: float
    max_rss_mb: float


def queue_part(core_count: int, min_rss_mb: float, max_rss_mb: float, resource_type: ResourceType) -> QueuePart | None:
    """Cut a queue's slot for a resource type; None when the queue has too few cores for it.

    cores  = queue cores, at most the type's maximum
    maxrss = min(queue maxrss x cores / queue cores, maximum per core x cores)
    minrss = max(queue minrss x cores / queue cores, (minimum per core - 1) x cores + 1)

    A queue that states no cores counts as one core. Zero maxrss stays zero: the queue states no limit.
    """
    whole = core_count or 1
    cores = whole
    if resource_type.max_cores is not None:
        cores = min(cores, resource_type.max_cores)
    if resource_type.min_cores is not None and cores < resource_type.min_cores:
        return None
    part_max, part_min = max_rss_mb * cores / whole, min_rss_mb * cores / whole
    if resource_type.max_ram_per_core_mb is not None:
        part_max = min(part_max, resource_type.max_ram_per_core_mb * cores)
    if resource_type.min_ram_per_core_mb is not None:
        part_min = max(part_min, (resource_type.min_ram_per_core_mb - 1) * cores + 1)
    return QueuePart(cores, part_min, part_max)
