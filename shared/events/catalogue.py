"""The catalogue of events: who states them, who works on them, who only listens."""

from dataclasses import dataclass
from typing import Any

from shared.events import chunk, jobs, news, task, transfers
from shared.events.base import Event


@dataclass(frozen=True)
class Entry:
    """One kind of event: who emits it, who works on it (once, by queue), and to whom it is news.

    ``counting``: consumers that only count, so that nobody waits for what they do. ``asked``: the access rules of the
    routes that emit it for somebody; without one it states what a service found.
    """

    event: type[Event]
    producers: tuple[str, ...]
    consumers: tuple[str, ...] = ()
    listeners: tuple[str, ...] = ()
    counting: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()


_TD, _TB, _JG, _JB = "task_definition", "task_brokerage", "job_generation", "job_brokerage"
_JD, _WD, _JW, _SC = "job_dispatch", "watchdog", "jumbo_watchdog", "share_correction"
_CO = "console"
_EVERYONE = (_TD, _TB, _JG, _JB, _JD, _WD, _JW, _SC)

ENTRIES: tuple[Entry, ...] = (
    Entry(task.TaskRegistered, (_TD, _WD), (_TD,), (_CO,), asked=("COMMANDS", "SUBMITTING")),
    Entry(task.TaskDefined, (_TD, _WD), (_TB,), (_CO,)),
    Entry(task.TaskReady, (_TD, _TB, _WD), (_JG, _TB), (_CO,)),
    Entry(task.TaskProgressed, (_JG, _WD), (_TD, _TB), (_CO,), counting=(_TD, _TB)),
    Entry(task.TasksCounted, (_JG,), (_JG,)),
    Entry(task.TaskMeasured, (_JG,), (_TD,), (_CO,)),
    Entry(task.TaskPrepared, (_JG, _TD, _WD), (_TD,), (_CO,)),
    Entry(task.TaskCompleted, (_TD, _WD), (_TD, _TB), (_CO,), asked=("COMMANDS",)),
    Entry(task.TaskCommandRequested, (_WD,), (_TD,)),
    Entry(task.TaskOrderRequested, (_WD, _JW), (_TD,)),
    Entry(task.TaskSiteRequested, (_WD,), (_TD,)),
    Entry(task.TaskCommanded, (_TD, _WD), (_JG, _JD), (_CO,), asked=("COMMANDS",)),
    Entry(task.TaskReleased, (_WD, _TD), (_TD, _TB, _JG), (_CO,), asked=("COMMANDS",)),
    Entry(task.TasksWoken, (_JB, _TB, _JG), (_WD,)),
    Entry(task.TaskJumboSwitched, (_JW, _TD), (_JG,), (_CO,), asked=("COMMANDS",)),
    Entry(task.TaskPointsOpened, (_JD,), (_JG,), asked=("PILOTS",)),
    Entry(chunk.ChunkOffered, (_JG, _WD), (_JB,), (_CO,)),
    Entry(chunk.ChunkBrokered, (_JB,), (_JG,), (_CO,)),
    Entry(chunk.ChunkUnplaceable, (_JB, _WD), (_JG,), (_CO,)),
    Entry(jobs.JobsGenerated, (_JG, _WD), (_JD, _JB), (_CO,), counting=(_JB,)),
    Entry(jobs.JobsAssigned, (_JD,), (_JB,), (_CO,), counting=(_JB,)),
    Entry(jobs.JobsActivated, (_JD,), (_JB,), (_JD, _CO), (_JB,), asked=("COMMANDS",)),
    Entry(jobs.JobsThrottled, (_JD,), (_JB,), (_JD, _CO), (_JB,)),
    Entry(jobs.JobsReordered, (_JD, _JG), (_JB,), (_JD, _CO), (_JB,), asked=("COMMANDS",)),
    Entry(jobs.JobsDispatched, (_JD,), (_JB,), (_JD, _CO), (_JB,)),
    Entry(jobs.JobsStarted, (_JD,), (_JG, _JB, _SC), (_CO,), counting=(_JB, _SC)),
    Entry(jobs.OutputsProduced, (_JD, _WD), (_TD, _JB, _SC), (_CO,), counting=(_JB, _SC)),
    Entry(jobs.OutputsRegistered, (_TD,), (_JD,)),
    Entry(jobs.JobsTransferring, (_JD,), (_JG, _JB), (_CO,), counting=(_JB,)),
    Entry(jobs.JobsMerging, (_JD, _WD, _JG), (_JG, _JB), (_CO,), counting=(_JB,)),
    Entry(jobs.JobsFinished, (_JD, _JG, _WD), (_JG, _JB), (_CO,), counting=(_JB,)),
    Entry(jobs.JobsFailed, (_JD, _JG, _WD), (_JG, _JB, _SC), (_CO,), counting=(_JB, _SC)),
    Entry(jobs.JobsExpired, (_WD,), (_JG, _JB, _SC), (_CO,), counting=(_JB, _SC)),
    Entry(transfers.TransfersRequested, (_JD, _WD), (_TD,)),
    Entry(transfers.TransfersCompleted, (_TD, _WD), (_JD,)),
    Entry(news.ConfigChanged, (_TD,), (), _EVERYONE, asked=("OPERATORS", "OWN")),
    Entry(news.GridChanged, (_JB,), (), (_TB, _JB, _JD, _CO), asked=("OPERATORS",)),
    Entry(news.StatisticsChanged, (_JB,), (), (_TB, _JB, _CO)),
    Entry(news.SharesCorrected, (_SC,), (), (_JD, _CO), asked=("OPERATORS",)),
)

BY_ROUTING_KEY: dict[str, Entry] = {entry.event.routing_key(): entry for entry in ENTRIES}


def contract_rows() -> list[dict[str, Any]]:
    """Describe each kind of event for people.

    Of the consumers each handles it once, by its queue; of the listeners each replica hears it.
    """
    return [
        {
            "event": entry.event.routing_key(),
            "class": entry.event.__name__,
            "producers": list(entry.producers),
            "consumers": list(entry.consumers),
            "listeners": list(entry.listeners),
            "meaning": (entry.event.__doc__ or "").strip().split("\n")[0].replace("``", ""),
        }
        for entry in ENTRIES
    ]
