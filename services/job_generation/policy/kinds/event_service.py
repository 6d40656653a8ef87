"""Jobs of the event service.

They take ranges of events, merge what was made of them, or take ranges of all files. Source: JEDI, Event service; Jumbo
jobs.
"""

from __future__ import annotations

from typing import ClassVar

from services.job_generation.policy.kinds.merge import Merge
from services.job_generation.specification.kind_of_job import KindOfJob, Normal, Scout


class OfJobSet(KindOfJob):
    """What jobs of job sets differ in besides.

    `flag` is true in what the pilot gets, `role` what the job is in its set. `writes_outputs`: otherwise it writes its
    log alone. `has_own_outputs`: its outputs have numbers of their own, not those of its set. `belongs_to_a_set`: it
    has the set's id. `share`: where it is served, if there is a share of this name.
    """

    flag: ClassVar[str] = "eventService"
    role: ClassVar[str] = "consumer"
    writes_outputs: ClassVar[bool] = False
    has_own_outputs: ClassVar[bool] = False
    belongs_to_a_set: ClassVar[bool] = True
    share: ClassVar[str | None] = None


class Consumer(OfJobSet, Normal):
    """Processes ranges of the events of its set."""


class ScoutConsumer(OfJobSet, Scout):
    """The same among the first jobs of the task."""


class Evaluation(OfJobSet, Normal):
    """Evaluates points of a search of hyper-parameters (PanDA client, phpo); nobody merges what it wrote."""

    flag = "isHPO"
    writes_outputs = True
    has_own_outputs = True


class EventServiceMerge(OfJobSet, Merge):
    """Makes the output of a set of what its consumers wrote.

    Without esmergeSpec it has the command line of the consumers.
    """

    lines = ("es_merge", "normal")
    trans_path_line = "es_merge_trans_path"
    flag = "eventServiceMerge"
    role = "merge"
    writes_outputs = True
    share = "Express"


class Jumbo(OfJobSet):
    """Processes ranges of all sets, beside the consumers of these."""

    name = "jumbo"
    belongs_to_a_set = False


CONSUMER, SCOUT_CONSUMER, EVENT_SERVICE_MERGE, JUMBO = Consumer(), ScoutConsumer(), EventServiceMerge(), Jumbo()
EVALUATION = Evaluation()


def consumer(kind: str) -> OfJobSet:
    """Consumers of chunks of this kind."""
    return SCOUT_CONSUMER if kind == SCOUT_CONSUMER.name else CONSUMER
