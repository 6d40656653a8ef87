"""Build jobs: a user's sources are compiled once for each site, and every other job there reads that.

Source: JEDI, Broken tasks ("Build job failed three times when task are in the scouting state"); PanDA client, prun: a
task with buildSpec names the archive of the sources, and its jobs name the result as ${LIB}.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from services.job_generation.policy.placing import PlacedJob
from services.job_generation.policy.values import Dataset, JobInput, QueueFacts, Unit
from shared.states.task import TaskStatus

#: builds that may fail: all of a task while it scouts, those at one site after that
MOST_FAILURES = 3
WHILE_SCOUTING: tuple[TaskStatus, ...] = ("ready", "scouting")


@dataclass(frozen=True)
class SiteBuild:
    """The build at one site: `library` once it is made, `job_id` while its job is under way."""

    site: str
    job_id: int | None = None
    library: Unit | None = None
    n_failures: int = 0


@dataclass(frozen=True)
class BuildDecision:
    """Queues whose site has the library; where it is to be built now; why nothing can be done yet.

    `is_refused`: it failed too often at the sites of all queues, so that nothing is waited for.
    """

    usable: list[QueueFacts] = field(default_factory=list)
    build_at: QueueFacts | None = None
    reason: str = ""
    is_refused: bool = False


def decide(queues: Sequence[QueueFacts], builds: Mapping[str, SiteBuild]) -> BuildDecision:
    """What the ranked queues of a chunk allow.

    Jobs go where the library is. It is built at the best queue whose site has not failed three times, once for each
    site, so that every site that is once the best has one. Where it is nowhere yet, the chunk waits for it.

    Examples: at the queues A, B of the sites a, b, with a build under way at a and none at b, nothing is usable and
    nothing is built: the chunk waits for a. With the library at b only, its jobs go to B, and a is given a library.
    """
    usable = [one for one in queues if _at(builds, one).library is not None]
    allowed = [one for one in queues if _at(builds, one).n_failures < MOST_FAILURES]
    if usable:
        has_one = allowed and (_at(builds, allowed[0]).library or _at(builds, allowed[0]).job_id)
        return BuildDecision(usable, allowed[0] if allowed and not has_one else None, "the library is there")
    if not allowed:
        sites = ", ".join(sorted({one.site for one in queues})) or "none of the ranked queues"
        return BuildDecision(reason=f"the build failed {MOST_FAILURES} times at {sites}", is_refused=True)
    best = allowed[0]
    waits = f"waits for the build at {best.site}"
    if _at(builds, best).job_id is not None:
        return BuildDecision(reason=f"{waits}, job {_at(builds, best).job_id}")
    return BuildDecision(build_at=best, reason=waits)


def _at(builds: Mapping[str, SiteBuild], queue: QueueFacts) -> SiteBuild:
    return builds.get(queue.site) or SiteBuild(queue.site)


def refused_for_failures(status: TaskStatus, builds: Mapping[str, SiteBuild]) -> str | None:
    """Why a task is broken for its builds; None where it is not."""
    n_failures = sum(one.n_failures for one in builds.values())
    if status not in WHILE_SCOUTING or n_failures < MOST_FAILURES or any(one.library for one in builds.values()):
        return None
    return f"{n_failures} build jobs failed while the task was scouting; at most {MOST_FAILURES - 1} may"


def with_libraries(placed: Sequence[PlacedJob], builds: Mapping[str, SiteBuild]) -> list[PlacedJob]:
    """The same jobs, each with the library of its site among its input."""
    found = []
    for one in placed:
        library = _at(builds, one.queue).library
        extra = {} if library is None else {library.dataset_id: (library,)}
        job = JobInput(one.job.master, {**one.job.secondary, **extra})
        found.append(one._replace(job=job))
    return found


def library_streams(job: JobInput, datasets: Mapping[int, Dataset]) -> dict[str, list[Unit]]:
    """What a merge job reads besides, by the name of its placeholder."""
    return {str(datasets[key].stream_name): list(units) for key, units in job.secondary.items()}
