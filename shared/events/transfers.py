"""Events about moving data."""

from shared.events.base import Event


class TransfersRequested(Event):
    """Rows of ``transfers`` wait to be given to the adapter."""

    transfer_ids: tuple[int, ...]


class TransfersCompleted(Event):
    """These transfers ended; ``failed_job_ids`` are jobs whose data cannot be moved."""

    transfer_ids: tuple[int, ...]
    job_ids: tuple[int, ...]
    failed_job_ids: tuple[int, ...] = ()
