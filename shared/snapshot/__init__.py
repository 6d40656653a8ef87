"""The immutable world in memory: read once from PostgreSQL, kept current by news, checked every ten seconds.

Consumes the news `grid.changed` and `statistics.changed`. Reads tables versions, queues, sites, storages,
network_metrics, software_map, resource_types, shares, queue_statistics and queue_activity, and writes none. Network
metrics and statistics come from Redis while it has the right version, otherwise from PostgreSQL: without Redis
everything works.
"""

from shared.snapshot.reader import GridReader, published_software, statistics_key
from shared.snapshot.snapshot import Snapshot

__all__ = ["GridReader", "Snapshot", "published_software", "statistics_key"]
