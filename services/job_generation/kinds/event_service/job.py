"""Jobs of the event service.

They take ranges of events, or merge what was made of them. Source: JEDI, Event service.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from services.job_generation.kinds.merge.job import Merge
from services.job_generation.policy.values import Dataset, JobInput, Template, Unit
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
    is_named_as_merged = False

    def numbers(self, template: Template) -> bool:
        """Its log; outputs that are merged have none before that."""
        return template.is_log or self.has_own_outputs

    def streams(
        self, datasets: Mapping[int, Dataset], jobs: Sequence[JobInput]
    ) -> Sequence[Mapping[str, Sequence[Unit]]]:
        """As its datasets say, also where it merges."""
        return ()


class Consumer(OfJobSet, Normal):
    """Processes ranges of the events of its set."""


class ScoutConsumer(OfJobSet, Scout):
    """The same among the first jobs of the task."""


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


CONSUMER, SCOUT_CONSUMER, EVENT_SERVICE_MERGE = Consumer(), ScoutConsumer(), EventServiceMerge()


def consumer(kind: str) -> OfJobSet:
    """Consumers of chunks of this kind."""
    return SCOUT_CONSUMER if kind == SCOUT_CONSUMER.name else CONSUMER
