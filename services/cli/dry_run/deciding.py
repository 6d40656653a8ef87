"""A task file and a world file to a decision, by the functions that the services themselves call."""

from __future__ import annotations

from collections.abc import Iterable

from services.cli.dry_run.parameters_of_file import parameters_of
from services.cli.dry_run.rows import rows_of
from services.cli.dry_run.world_of_file import adverts_of, remaining_work_of, usage_of, world_of
from services.job_brokerage import parameters as job_parameters
from services.job_brokerage.loading import ANALYSIS_LABEL
from services.job_brokerage.policy import request as job
from services.job_brokerage.policy.grid_checks import GRID_CHECKS
from services.task_brokerage import parameters as task_parameters
from services.task_brokerage.policy import request as task
from services.task_definition.tasks.policy.task_file import TaskFile
from shared.brokerage.decision import Decision
from shared.brokerage.policy import JOB_BROKERAGE, TASK_BROKERAGE
from shared.brokerage.smallest_job import Boundary
from shared.brokerage.world import World
from shared.model.analysis import ANALYSIS as ANALYSIS_TYPE
from shared.model.analysis import is_analysis
from shared.model.problems import InvalidGrid
from shared.model.world_file import WorldFile
from shared.plugins import find

TASK, JOB, ANALYSIS = ("task-brokerage", "job-brokerage", "analysis-brokerage")


class DryRun:
    """One world; every task is decided on it as if it were alone."""

    def __init__(self, file: WorldFile) -> None:
        """Raises InvalidGrid with everything that is wrong with the world's grid; ValueError for a parameter."""
        self.file = file
        self.world: World = world_of(file)
        self.usage_rows = usage_of(file, self.world.grid.shares)
        self.usage = self.usage_rows.shared()
        self.parameters = parameters_of(file)

    def check_queues(self, names: Iterable[str]) -> None:
        """The rules that a queue must keep to be loaded.

        Raises InvalidGrid with every problem of these queues.
        """
        queues = self.world.grid.queues
        problems = [problem for name in names for check in GRID_CHECKS for problem in check(queues[name])]
        if problems:
            raise InvalidGrid(problems)

    def decide(self, brokerage: str, given: TaskFile, seed: int | None = None) -> Decision:
        """The decision for this task.

        Raises InvalidTask or ValueError if the task makes no sense or is not for this brokerage.
        """
        task_type = given.parameters.get("taskType")
        if brokerage == ANALYSIS and task_type is not None and task_type != ANALYSIS_TYPE:
            raise ValueError(f"taskType = {task_type!r}: allowed: {ANALYSIS_TYPE!r}; see {JOB}")
        return self._task(given, seed) if brokerage == TASK else self._job(given, seed)

    def _task(self, given: TaskFile, seed: int | None) -> Decision:
        rows = rows_of(given, self.world.grid)
        vo = rows.task["vo"]
        limits = task_parameters.limits_from(self.parameters, vo=vo, gshare=rows.task["gshare"])
        work = remaining_work_of(self.file, rows.task["current_priority"])
        largest = rows.chunk.get("largest_boundary")
        boundary = Boundary(**largest) if largest else None
        typical = task.job_request(rows.task, rows.datasets, rows.inputs, boundary, self.file.now)
        request = task.task_request(rows.task, typical, rows.inputs, work, limits)
        policy = find(TASK_BROKERAGE, vo or "", rows.task["prod_source_label"] or "")()
        decision: Decision = policy.decide(self.world, request, rows.seed if seed is None else seed)
        return decision

    def _job(self, given: TaskFile, seed: int | None) -> Decision:
        rows = rows_of(given, self.world.grid)
        row = rows.chunk
        for_analysis = is_analysis(row["task_type"], row["prod_source_label"])
        limits = job_parameters.limits_from(
            self.parameters, vo=row["vo"], is_analysis=for_analysis, gshare=row["gshare"], cloud=row["cloud"]
        )
        analysis = None
        if for_analysis:
            masters = sum(one["n_files"] for one in rows.datasets if one["is_master"])
            history = job.TaskHistory(masters, given.state.files_finished, tuple(given.state.queues_used))
            own = self.usage_rows.own(
                task_id=row["task_id"],
                user_name=row["user_name"] or "",
                working_group=row["working_group"] or "",
                vo=row["vo"] or "",
            )
            analysis = job.analysis_input(row, history, self.usage, own, self.parameters)
        adverts = adverts_of(self.file)
        request = job.job_request(row, rows.chunk_inputs, limits, self.file.now, analysis, adverts, rows.secondary)
        label = ANALYSIS_LABEL if request.is_analysis else request.label
        policy = find(JOB_BROKERAGE, request.vo, label)()
        decision: Decision = policy.decide(
            self.world.of_vo(request.vo), request, rows.chunk_seed if seed is None else seed
        )
        return decision
