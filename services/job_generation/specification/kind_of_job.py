"""What differs between kinds of jobs.

The plain case processes the task's input: scouts and normal jobs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol

from services.job_generation.policy.picking import GENERATING
from services.job_generation.policy.values import Dataset, JobInput, QueueFacts, Task, Template, Unit
from shared.brokerage.estimates import cores_of_job, walltime_of_job_s
from shared.brokerage.usage import EXPRESS_SHARE
from shared.config.parameter import Parameter
from shared.model.dataset_types import LIBRARY_STREAM, MERGE_LOG_STREAM, UNMERGED_TYPES
from shared.states.task import TaskStatus
from shared.task.in_effect import SplitRules
from shared.task.needs import WorkNeeds

INSTALL_LABEL = "install"
#: logs that are not merged
FINAL_LOGS = ("log", "tmpl_log")


class AmountOfWork(Protocol):
    """The part of a job's totals that output and time depend on: events, and bytes of input."""

    @property
    def n_events(self) -> int:
        """Events; a unit of unknown ones counts as one."""
        ...

    @property
    def input_bytes(self) -> int:
        """Bytes of all its input files."""
        ...

    @property
    def effective_bytes(self) -> float:
        """Bytes of the events that it uses."""
        ...


class KindOfJob:
    """One kind; what a subclass does not say is as for jobs that process the task's input.

    `name` is that of chunks and rows of jobs, `lines` the command lines of the task that it may have, the first one
    that is given, `trans_path_line` where the task keeps a transformation of its own for it, `processing_type` what
    replaces the task's. `chunks_wanted_while`: states of a task in which its chunks become jobs.
    """

    name: ClassVar[str]
    lines: ClassVar[tuple[str, ...]] = ("normal",)
    trans_path_line: ClassVar[str | None] = None
    #: where the task keeps the label that pilots are told for it
    label_line: ClassVar[str | None] = None
    #: a runtime parameter that bounds its walltime, in hours
    longest_walltime: ClassVar[Parameter[float | None] | None] = None
    processing_type: ClassVar[str | None] = None
    #: whether the task's steps around the payload (multiStepExec) are its own
    has_steps: ClassVar[bool] = True
    #: whether what the task says of sites holds for it
    goes_where_the_task_says: ClassVar[bool] = True
    #: whether it reads outputs of earlier jobs, which end with it, rather than the task's input
    reads_outputs: ClassVar[bool] = False
    #: the least memory is that of merging, which reads whole files
    needs_memory_of_merging: ClassVar[bool] = False
    #: whether its failures say what other jobs of the task need
    speaks_for_the_task: ClassVar[bool] = True
    chunks_wanted_while: ClassVar[tuple[TaskStatus, ...]] = GENERATING
    #: states of a task that waits in pending when no queue takes its chunk and nothing of it runs
    task_is_held_from: ClassVar[tuple[TaskStatus, ...]] = GENERATING
    #: whether the files that it reads, which are outputs, have the middle name of what it writes
    is_named_as_merged: ClassVar[bool] = False
    #: whether the owner's other jobs lower its priority (PanDA: priorities of user jobs)
    takes_turns: ClassVar[bool] = True
    #: as what it gets its priority in the share of express analysis
    in_express: ClassVar[str] = "express"

    def templates(
        self,
        templates: Sequence[Template],
        rules: SplitRules,
        datasets: Mapping[int, Dataset],
        command_lines: Mapping[str, Any],
    ) -> list[Template]:
        """The outputs that it writes: unmerged ones where the task merges.

        Otherwise final ones, but for those that merge jobs make.
        """
        given = [one for one in templates if one.stream_name not in (LIBRARY_STREAM, MERGE_LOG_STREAM)]
        if rules.merge_output:
            return [one for one in given if one.dataset_type in UNMERGED_TYPES]
        final = [one for one in given if one.dataset_type not in UNMERGED_TYPES]
        return [one for one in final if not datasets[one.dataset_id].attributes.get("mergeOnly")]

    def numbers(self, template: Template) -> bool:
        """Whether its outputs of a template get serial numbers when it is made."""
        return True

    def master_of(self, datasets: Mapping[int, Dataset], job: JobInput) -> int:
        """The dataset that a job reads first of all, or that stands for it; its id."""
        return job.master[0].dataset_id

    def streams(
        self, datasets: Mapping[int, Dataset], jobs: Sequence[JobInput]
    ) -> Sequence[Mapping[str, Sequence[Unit]]]:
        """The input of each job by the name of its placeholder; nothing: as its datasets say."""
        return ()

    def needs(self, task: Task) -> WorkNeeds:
        """What it asks of a queue."""
        return task.needs

    def cores(self, task: Task, queue: QueueFacts) -> int:
        """The cores of the queue's slot; one where the task asks for one."""
        return 1 if task.core_count == 1 else cores_of_job(task.needs, queue.core_count)

    def output_bytes(self, task: Task, work: AmountOfWork) -> float:
        """The output that it is expected to write."""
        return task.needs.output_bytes(work.n_events, int(work.effective_bytes))

    def walltime_s(self, task: Task, queue: QueueFacts, work: AmountOfWork, cores: int) -> float | None:
        """How long it is expected to run; None: unknown."""
        return walltime_of_job_s(task.needs, work.n_events, cores, queue.core_power_hs06)

    def priced_as(self, task: Task) -> str:
        """As what it gets its priority: its kind, unless its task makes it an installation or express work.

        Installations have the label install; express work is analysis in the share Express Analysis, whose builds come
        before its other jobs. Example: a scout of a task in that share has 6000 and not 901. Source: PanDA, priorities
        of user jobs; that the share says what is express is the choice taken here.
        """
        if self.reads_outputs:
            return self.name
        if task.prod_source_label == INSTALL_LABEL:
            return "install"
        return self.in_express if task.is_analysis and task.gshare == EXPRESS_SHARE else self.name

    def copies_to_scratch(self, task: Task) -> bool:
        """Whether the pilot copies input first: the task's useLocalIO."""
        return task.rules.copies_to_scratch


class Normal(KindOfJob):
    """Processes some of the task's input."""

    name = "normal"


class Scout(KindOfJob):
    """Processes the first of it, to measure what the others need (JEDI: Scout jobs)."""

    name = "scout"


NORMAL, SCOUT = Normal(), Scout()
