"""What the order of a job depends on beside its share and priority (DIRAC: task queue identity). Pure.

Where the VO uses task queues it is all that they consist of. Where it does not, and a corrector is configured for the
users of the job's share, it is the owner: the share is divided among its owners, and each one's part is multiplied by
the correction (DIRAC: Dynamic share corrections). Why not by the priority of jobs: in a lane the highest priority wins
every pick, so that a factor on it would order users but not give each a part; the documents' factor is of the part.
Priorities, and what raises them (PanDA: priorities of user jobs), order the jobs of each owner as before. Shares
without such a corrector are served by priority and age alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from shared.model.names import names_in
from shared.order.cpu_segments import CPU_SEGMENTS_S, cpu_segment_s
from shared.order.identity import OrderFacts, TaskQueueIdentity, as_set, of_owner, priority_class
from shared.order.parameters import OFF
from shared.task.in_effect import SplitRules

DEFAULT_USER_PRIORITY = 1


class OrderedTask(Protocol):
    """The part of a task that the order of its jobs depends on."""

    @property
    def vo(self) -> str | None:
        """Its VO; None: none is stated."""
        ...

    @property
    def user_name(self) -> str:
        """Its owner."""
        ...

    @property
    def gshare(self) -> str:
        """The leaf of the share tree that it belongs to."""
        ...

    @property
    def working_group(self) -> str | None:
        """The group that it is for; None: for its owner."""
        ...

    @property
    def architecture(self) -> str | None:
        """The platform that it asks for, as it was submitted."""
        ...

    @property
    def processing_type(self) -> str | None:
        """What kind of processing it is."""
        ...

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The parameters as they were submitted."""
        ...

    @property
    def rules(self) -> SplitRules:
        """Its rules."""
        ...


@dataclass(frozen=True)
class OrderRule:
    """How a VO orders jobs: by task queues or not (`mode`), and the shares that are divided among users."""

    mode: str = OFF
    segments_s: tuple[int, ...] = CPU_SEGMENTS_S
    divided_shares: frozenset[str] = frozenset()

    @property
    def text(self) -> str:
        """The part of it that order keys depend on."""
        if self.mode == OFF:
            return f"owners of {', '.join(sorted(self.divided_shares)) or 'no share'}"
        return f"task queues, segments of {', '.join(map(str, self.segments_s))} s"

    def facts(self, task: OrderedTask, walltime_s: int, *, is_bound: bool) -> OrderFacts | None:
        """The order key of a task's jobs of this walltime; None: they have none.

        `is_bound`: they go where the task says.
        """
        if self.mode != OFF:
            return task_queue_of(task, walltime_s, self.segments_s, is_bound=is_bound), user_priority_of(task)
        if task.gshare in self.divided_shares:
            return of_owner(task.vo or "", task.user_name), DEFAULT_USER_PRIORITY
        return None


def task_queue_of(
    task: OrderedTask, walltime_s: int, segments_s: Sequence[int], *, is_bound: bool
) -> TaskQueueIdentity:
    """The task queue of a job.

    By owner and working group, time, and what the task says of where it may run. Its CPU time is the walltime that a
    pilot must offer. Merge jobs go where their files are, whatever the task says of sites. The job type is the task's
    processing type. Example: a task with includedSite ["ALPHA"] and jobs of 2 h is of the segment of 21 600 s and for
    ALPHA.
    """
    rules = task.rules
    named = names_in(task.parameters.get("site")) or rules.included_site or ()
    architecture = task.architecture
    return TaskQueueIdentity(
        task.vo or "",
        task.user_name,
        task.working_group or "",
        cpu_segment_s(walltime_s, segments_s),
        as_set(named) if is_bound else (),
        as_set(rules.excluded_site or ()) if is_bound else (),
        as_set([architecture] if architecture and architecture[0] not in "@#&{" else []),
        as_set(rules.tags or ()),
        as_set([task.processing_type] if task.processing_type else []),
    )


def user_priority_of(task: OrderedTask) -> int:
    """The class of the task's `userPriority`: which of their own jobs users want first."""
    given = task.rules.user_priority
    return priority_class(DEFAULT_USER_PRIORITY if given is None else given)
