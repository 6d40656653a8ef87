"""What the sub-statuses of jobs of job sets mean (JEDI: Final status of Event Service jobs)."""

from __future__ import annotations

from shared.states.job import MEANINGS, JobStatus

SUB_STATUSES = {
    "es_retry": "it processed some of its events; another job processes the rest",
    "es_merge": "it processed the last events of its job set; a merge job merges them",
    "es_wait": "no event is left for it; other jobs of its job set still run",
    "es_inaction": "it processed no event; another job tries again",
    "es_noevent": "it ran and got no event: other jobs of its job set had them all",
    "es_killed": "stopped by the system, as other jobs processed all events of its job set or they were taken back",
    "es_unused": "taken back by the system before it ran, as it was not needed any more",
    "es_aborted": "stopped by the system, as its job set was given up",
    "es_heartbeat": "its pilot went silent before any event was processed",
    "pilot_failed": "its pilot reported an error",
    "es_merge_failed": "the events that it processed could not be merged",
    "es_discard": "its job set was given up, and the events that it processed with it",
    "es_toolong": "stopped by the system, as it took too long",
    "es_badstatus": "it ended when its job set was being merged already: its end counts for nothing",
    "es_noqueue": "no queue was left for the events of its job set",
    "jc_unlock": "another copy of it was first: what this one did is not used",
    "fg_done": "it processed all its events",
    "fg_partial": "it processed some of its events",
    "fg_stumble": "it processed none of its events",
}


def job_meaning(status: JobStatus, sub_status: str | None) -> str:
    """What the state of a job means; of one that a job set closed, why, and not that it never ran.

    Example: closed with es_noevent is "it ran and got no event: other jobs of its job set had them all (es_noevent)".
    """
    told = SUB_STATUSES.get(sub_status or "")
    if told is None:
        return MEANINGS[status]
    return f"{told} ({sub_status})" if status == "closed" else f"{MEANINGS[status]}; {told} ({sub_status})"
