"""Requests, counts and outcomes of analysis in one line each: all of alice's task 1 in User Analysis."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from services.job_brokerage.policy.analysis import AnalysisJobBrokerage
from shared.brokerage.analysis_facts import AnalysisFacts, AnalysisInput, TaskFacts
from shared.brokerage.decision import Decision
from shared.brokerage.limits import AnalysisLimits, JobLimits
from shared.brokerage.request import InputDataset, InputReplica, JobRequest
from shared.brokerage.usage import UsageRows
from shared.brokerage.world import World
from shared.model.world_file import JobsCounted, Outcomes, QueueHistory
from tests.unit.brokerage.worlds import NOW, a_queue, a_request, a_world

SHARE = "User Analysis"


def counted(
    queue: str, status: str, n_jobs: int, user: str = "alice", gshare: str = SHARE, cores: int | None = None
) -> JobsCounted:
    """Jobs of one core each, unless `cores` says how many they have in all."""
    return JobsCounted(
        queue=queue,
        resource_type="SCORE",
        gshare=gshare,
        user_name=user,
        status=status,
        n_jobs=n_jobs,
        n_cores=n_jobs if cores is None else cores,
    )


def outcome(queue: str, hours_ago: float = 1, **numbers: int) -> Outcomes:
    """What became of jobs of task 1 at one queue within an hour."""
    return Outcomes(hour=NOW - timedelta(hours=hours_ago), queue=queue, gshare=SHARE, task_id=1, **numbers)


def an_analysis(
    *,
    rows: UsageRows | None = None,
    limits: dict[str, Any] | None = None,
    task: dict[str, Any] | None = None,
    limits_of_jobs: JobLimits | None = None,
    **changes: Any,
) -> JobRequest:
    """A request of alice's task 1 in User Analysis; `limits` are those of analysis alone."""
    facts = TaskFacts(**{"task_id": 1, "user_name": "alice", "working_group": "", "gshare": SHARE, **(task or {})})
    counted = rows or UsageRows()
    own = counted.own(task_id=facts.task_id, user_name=facts.user_name, working_group=facts.working_group)
    given = AnalysisInput(facts, AnalysisLimits(**(limits or {})), counted.shared(), own)
    return a_request(
        **{
            "is_analysis": True, "label": "user", "gshare": SHARE, "user_name": "alice", "analysis": given,
            "limits": limits_of_jobs or JobLimits(), **changes,
        }
    )  # fmt: skip


def decided(world: World, request: JobRequest) -> Decision:
    return AnalysisJobBrokerage().decide(world, request, 1)


def left_out(decision: Decision, name: str) -> str | None:
    """The check that excluded a queue."""
    found = decision.exclusion(f"{name}/SCORE" if f"{name}/SCORE" in decision.names else name)
    return None if found is None else found[0].name


def two_queues(**load: Any) -> World:
    return a_world([a_queue("Q_A", "A"), a_queue("Q_B", "B")], **load)


def at(*storages: str, n_files: int = 2) -> tuple[InputDataset, ...]:
    """Input of which some storages have everything."""
    return (InputDataset("data", n_files, 2000, tuple(InputReplica(one, n_files, 2000) for one in storages)),)


def facts_of(world: World, request: JobRequest) -> AnalysisFacts:
    facts = request.analysis_facts(world.columns)
    assert facts is not None
    return facts


def stabilized(queued: int, running: int, mine: int = 0, mine_running: int = 0, started_6h: int = 0) -> AnalysisFacts:
    """Facts with so many jobs at Q_A, some of them alice's and the others bob's."""
    rows = UsageRows(
        [
            counted("Q_A", "activated", queued - mine, user="bob"), counted("Q_A", "activated", mine),
            counted("Q_A", "running", running - mine_running, user="bob"), counted("Q_A", "running", mine_running),
        ],
        QueueHistory(outcomes=[outcome("Q_A", n_started=started_6h)]),
    )  # fmt: skip
    return facts_of(two_queues(), an_analysis(rows=rows))
