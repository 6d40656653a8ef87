"""News: every replica receives them; a lost one is made up for within ten seconds."""

from shared.events.base import Event


class ConfigChanged(Event):
    """Runtime parameters changed, or tokens were revoked.

    The rows `config` and `revocations` of table `versions` say which.
    """

    config_version: int


class GridChanged(Event):
    """Queues, sites, storages, network metrics or the software map changed.

    `queues`: those that changed; none: any may have.
    """

    grid_version: int
    queues: tuple[str, ...] = ()


class StatisticsChanged(Event):
    """Statistics of these queues changed; the jobs generated for these chunks are counted in them."""

    queues: tuple[str, ...]
    chunk_ids: tuple[int, ...] = ()


class SharesCorrected(Event):
    """Shares or their correction factors changed."""

    shares_version: int
