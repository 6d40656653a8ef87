"""The immutable world in memory: read once from PostgreSQL, updated by news, checked every 10 s.

Consumes the news `grid.changed` and `statistics.changed`. Reads tables versions, queues, sites, storages,
network_metrics, software_map, resource_types, shares, queue_statistics and queue_activity, and writes none. Network
metrics and statistics come from Redis while it has the right version, otherwise from PostgreSQL: without Redis
everything works.

`use_of_queues` keeps nothing: it reads how much of queues is used and how long analysis waits there, from
queue_statistics, queue_outcomes, queue_waits, jobs and tasks. `live_queues` walks through the queues that have live
jobs, for those who count jobs some queues at a time.
"""

from shared.snapshot.known_grid import KnownGrid
from shared.snapshot.reader import GridReader, statistics_key
from shared.snapshot.snapshot import Snapshot

__all__ = ["GridReader", "KnownGrid", "Snapshot", "statistics_key"]
