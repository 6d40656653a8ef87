"""Build jobs: a user's sources are compiled once for each site, and every other job there reads that.

Source: JEDI, Broken tasks ("Build job failed three times when task are in the scouting state"); PanDA client, prun: a
task with buildSpec names the archive of the sources, and its jobs name the result as ${LIB}.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from services.job_generation.policy.values import JobInput, PlacedJob, QueueFacts, Unit
from services.job_generation.splitting.placement import Placement
from shared.states.task import TaskStatus

#: builds that may fail: all of a task while it scouts, those at one site after that
MOST_FAILURES = 3
WHILE_SCOUTING: tuple[TaskStatus, ...] = ("ready", "scouting")


@dataclass(frozen=True)
class SiteBuild:
    """The build at one site.

    It has its `library` once it is made, and `job_id` while its job is under way, for `under_way_s`.
    """

    site: str
    job_id: int | None = None
    library: Unit | None = None
    n_failures: int = 0
    under_way_s: float = 0.0


@dataclass(frozen=True)
class BuildDecision:
    """Queues to which jobs may be given; why there are none.

    They are refused where the build failed too often at the sites of all queues: then nothing is waited for.
    """

    usable: list[QueueFacts] = field(default_factory=list)
    reason: str = ""


@dataclass
class Libraries:
    """The builds of a task by site, and the queues whose jobs wait for theirs, one for each site."""

    builds: Mapping[str, SiteBuild]
    awaited: dict[str, QueueFacts] = field(default_factory=dict)

    def hold(self, placement: Placement) -> bool:
        """Give each job the library of its site; input of jobs without one is left over, and waits."""
        placed = with_libraries(placement.jobs, self.builds)
        placement.jobs[:] = [one for one in placed if _at(self.builds, one.queue).library is not None]
        for one in placed:
            if _at(self.builds, one.queue).library is None:
                placement.leftover.extend(one.job.master)
                self.awaited.setdefault(one.queue.site, one.queue)
        if self.awaited:
            placement.leftover.sort(key=lambda unit: unit.file_id)
            placement.note(self.waits)
        return bool(self.awaited)

    def give(self, placement: Placement) -> bool:
        """Give each job the library of its site, if there is one; none of them waits."""
        placement.jobs[:] = with_libraries(placement.jobs, self.builds)
        return False

    @property
    def waits(self) -> str:
        """What the jobs without a library wait for."""
        jobs = ((site, _at(self.builds, queue).job_id) for site, queue in self.awaited.items())
        return (
            f"waits for the build at {', '.join(site if job is None else f'{site} (job {job})' for site, job in jobs)}"
        )

    @property
    def to_begin(self) -> list[QueueFacts]:
        """Where no build is under way yet."""
        return [queue for site, queue in self.awaited.items() if _at(self.builds, queue).job_id is None]


def decide(queues: Sequence[QueueFacts], builds: Mapping[str, SiteBuild], *, longest_s: float) -> BuildDecision:
    """Which of the ranked queues of a chunk are given jobs.

    Jobs go to every site where the build has not failed three times; where the library is not made yet, the jobs wait
    for it. A build that is under way for `longest_s` is not waited for longer while another site has the library.

    Examples: at the queues A, B of the sites a, b, with a library at a alone and a build under way at b, both are
    given jobs, and those at B wait; an hour later all go to A.
    """
    allowed = [one for one in queues if _at(builds, one).n_failures < MOST_FAILURES or _at(builds, one).library]
    if not allowed:
        sites = ", ".join(sorted({one.site for one in queues})) or "none of the ranked queues"
        return BuildDecision(reason=f"the build failed {MOST_FAILURES} times at {sites}")
    in_time = [one for one in allowed if _at(builds, one).library or _at(builds, one).under_way_s < longest_s]
    has_one = any(_at(builds, one).library for one in allowed)
    return BuildDecision(in_time if has_one else allowed)


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
