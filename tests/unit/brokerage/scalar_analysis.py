"""Every rule of analysis once more in plain Python, for one queue at a time, written from the document.

What analysis has in common with production is that reference's own function. Sites have no waiting times here, so all
are mid sites; classes of sites have tests of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from shared.brokerage.request import JobRequest
from shared.model.world_file import GroupUsage, JobsCounted, Outcomes, UserUsage
from tests.unit.brokerage.scalar_queue import MB, RULES, One

CLASSIFIED = ("User Analysis", "Express Analysis")
QUEUED = ("defined", "assigned", "activated", "starting")
USER = "alice"


@dataclass(frozen=True)
class OneOfAnalysis:
    """One queue, and what is known of users and shares everywhere. `limits`: the numbers of analysis by name."""

    one: One
    every: Sequence[OneOfAnalysis]
    limits: Any
    gshare: str
    progress_percent: float
    remaining_jobs: int
    avoid_vp: bool
    queues_used: frozenset[str]
    statistics: Sequence[JobsCounted]
    outcomes: Sequence[tuple[float, Outcomes]]
    disk: UserUsage
    group: GroupUsage | None
    due_percent: float

    @property
    def name(self) -> str:
        return self.one.queue.name

    @property
    def request(self) -> JobRequest:
        return self.one.request

    def count(self, states: Sequence[str], *, user: str | None = None, here: bool = True, cores: bool = False) -> int:
        """Jobs or cores in some states: of the share at this queue, or of the user everywhere."""
        return sum(
            row.n_cores if cores else row.n_jobs
            for row in self.statistics
            if row.status in states
            and (user is None or row.user_name == user)
            and (not here or (row.queue == self.name and row.gshare == self.gshare))
        )

    def used(self, states: Sequence[str], kind: str) -> int:
        """What the caps are about: the user's, or the working group's."""
        if self.group is not None:
            found: int = getattr(self.group, kind)
            return found
        return self.count(states, user=USER, here=False, cores=kind.endswith("cores"))

    @property
    def task_class(self) -> str:
        if self.gshare == "Express Analysis":
            return "S"
        if self.gshare not in CLASSIFIED or self.limits.class_a_slots > 0:
            found, percent, most = "A", 90, 500
        else:
            slots = sum(
                row.n_cores
                for row in self.statistics
                if row.user_name == USER and row.status == "running" and row.gshare in CLASSIFIED
            )
            found, percent, most = ("B", 95, 200) if slots < self.limits.class_b_slots else ("C", 1000, 0)
        nearly_done = self.progress_percent >= percent and 1 <= self.remaining_jobs <= most
        return "S" if nearly_done and self.gshare in CLASSIFIED else found

    @property
    def share_usage_percent(self) -> float:
        running = [row for row in self.statistics if row.status == "running"]
        total = sum(row.n_cores for row in running)
        mine = sum(row.n_cores for row in running if row.gshare == "User Analysis")
        return 100 * (mine / total) / (self.due_percent / 100) if total else 0.0

    @property
    def queued_here(self) -> int:
        return sum(self.one.jobs.get(state, 0) for state in QUEUED)

    @property
    def max_q_len(self) -> float:
        limits, running = self.limits, self.count(["running"])
        users = {
            row.user_name
            for row in self.statistics
            if row.queue == self.name and row.gshare == self.gshare and row.n_jobs > 0
        }
        longest = max(
            limits.base_queue_length,
            limits.max_queue_running_ratio * running,
            limits.max_expected_wait_h * self.to_running_rate,
        )
        part = max(self.count(["running"], user=USER) / running if running else 0.0, 1 / max(1, len(users)))
        return float(max(limits.base_user_queue_length, limits.base_queue_ratio * running, longest * part))

    @property
    def to_running_rate(self) -> float:
        rows = [(min(1.0, max(0.0, 7 - age_h)), row) for age_h, row in self.outcomes if row.queue == self.name]
        return sum(part * row.n_started for part, row in rows if row.gshare == self.gshare) / 6

    @property
    def room(self) -> float:
        return max(0.0, self.max_q_len - self.count(QUEUED, user=USER))


def at_most(states: Sequence[str], kind: str, times: int, cap: str) -> Callable[[OneOfAnalysis], bool]:
    def passes(one: OneOfAnalysis) -> bool:
        limit = times * int(getattr(one.limits, cap))
        return one.request.is_merge or limit == 0 or one.used(states, kind) <= limit

    return passes


def share_usage(one: OneOfAnalysis) -> bool:
    if one.gshare != "User Analysis" or one.request.is_merge or not one.due_percent or one.task_class == "S":
        return True
    limit = {"C": 90.0, "B": 95.0, "A": 100.0 * max(one.limits.class_a_slots, 1)}[one.task_class]
    return one.share_usage_percent <= limit


def input_locality(one: OneOfAnalysis) -> bool:
    request, cutoff = one.request, one.request.limits.io_intensity_cutoff_user_kb_s
    if request.is_merge or request.priority >= 2000 or (cutoff and request.needs.io_intensity_kb_s <= cutoff):
        return True
    files, _, at_hand, _ = one.one.local
    return at_hand >= files


def vp_has_room(one: OneOfAnalysis) -> bool:
    if not one.one.queue.is_virtual_placement:
        return True
    running = sum(other.one.jobs.get("running", 0) for other in one.every)
    ratio = sum(other.queued_here for other in one.every) / max(1, running)
    here = one.queued_here / max(1, one.one.jobs.get("running", 0))
    return one.queued_here <= one.limits.overload_min_queue or here <= ratio * one.limits.overload_ratio_offset + 1e-9


def scratch_disk(one: OneOfAnalysis) -> bool:
    needs, job, queue = one.request.needs, one.request.job, one.one.queue
    read = 0 if queue.direct_access_lan and not one.request.copies_to_scratch else job.input_bytes
    output = needs.output_bytes_per_event * job.n_events + needs.output_bytes_per_input_mb * job.input_bytes / MB
    return queue.max_work_dir_mb == 0 or (read + output + needs.work_dir_bytes) / MB < queue.max_work_dir_mb


def few_bad_jobs(one: OneOfAnalysis) -> bool:
    rows = [
        row
        for age_h, row in one.outcomes
        if row.queue == one.name and row.task_id == 1 and age_h - 1 < one.limits.done_jobs_window_h
    ]
    bad = sum(row.n_failed + row.n_closed for row in rows)
    return bad < max(2 * sum(row.n_finished for row in rows), one.limits.min_bad_jobs)


def stable(one: OneOfAnalysis) -> bool:
    queued = one.count(QUEUED)
    if queued < one.limits.base_queue_length or queued < one.limits.base_expected_wait_h * one.to_running_rate:
        return True
    return one.count(QUEUED, user=USER) <= one.max_q_len


def few_sites(one: OneOfAnalysis) -> bool:
    used = {other.one.queue.site for other in one.every if other.name in one.queues_used}
    return not one.limits.max_sites_of_task or len(used) < one.limits.max_sites_of_task or one.one.queue.site in used


def common(check: str) -> Callable[[OneOfAnalysis], bool]:
    return lambda one: RULES[check](one.one)


# In the order of the document.
ANALYSIS_RULES: dict[str, Callable[[OneOfAnalysis], bool]] = {
    "user_running_jobs": at_most(["running"], "running_jobs", 1, "running_jobs_cap"),
    "user_queued_jobs": at_most(QUEUED, "queued_jobs", 2, "running_jobs_cap"),
    "user_running_cores": at_most(["running"], "running_cores", 1, "running_cores_cap"),
    "user_queued_cores": at_most(QUEUED, "queued_cores", 2, "running_cores_cap"),
    "disk_quota": lambda one: (
        not one.disk.disk_quota_gb or (one.disk.disk_used_gb or 0) <= one.disk.disk_quota_gb
    ),
    "share_usage": share_usage,
    "queue_type": lambda one: one.one.queue.type in ("analysis", "unified"),
    "excluded_sites": common("excluded_sites"),
    "included_sites": lambda one: not one.request.included or one.name in one.request.included,
    "preassigned": common("preassigned"),
    "status": lambda one: bool(one.request.included) or common("status")(one),
    "input_locality": input_locality,
    **{name: common(name) for name in ("jumbo", "disk_io", "core_count", "max_core_count")},
    "avoid_vp": lambda one: not (one.avoid_vp and one.one.queue.is_virtual_placement),
    "vp_overloaded": vp_has_room,
    **{name: common(name) for name in ("release", "memory_too_large", "memory_too_small")},
    "scratch_disk": scratch_disk,
    **{name: common(name) for name in ("free_space", "write_storage")},
    "read_storage": lambda one: one.request.input_files == 0 or one.one.storage.works("read_lan"),
    **{name: common(name) for name in ("walltime_too_long", "walltime_too_short", "connectivity", "ip_stack",
                                       "pilots")},
    "bad_jobs": few_bad_jobs,
    "long_queue": lambda one: one.queued_here <= 2 * max(20, one.one.jobs.get("running", 0)),
    "user_queue": lambda one: (
        not one.limits.user_queued_jobs_cap or one.count(QUEUED, user=USER) <= one.limits.user_queued_jobs_cap
    ),
    "analysis_stabilizer": stable,
    "sites_of_task": few_sites,
}  # fmt: skip
TEMPORARY = ("bad_jobs", "long_queue", "user_queue", "analysis_stabilizer", "sites_of_task")
THROTTLES = (
    "user_running_jobs",
    "user_queued_jobs",
    "user_running_cores",
    "user_queued_cores",
    "disk_quota",
    "share_usage",
)


def surplus(passed: Sequence[OneOfAnalysis], weights: dict[str, float]) -> set[str]:
    """Queues at sites beyond the limit: used sites stay, of the others those of the best queues."""
    most = passed[0].limits.max_sites_of_task if passed else 0
    if not most:
        return set()
    used = {other.one.queue.site for other in passed[0].every if other.name in passed[0].queues_used}
    allowed = set(used)
    for one in sorted(passed, key=lambda one: (-weights[one.name], one.name)):
        if len(allowed) < max(most, len(used)):
            allowed.add(one.one.queue.site)
    return {one.name for one in passed if one.one.queue.site not in allowed}


def weight_of(one: OneOfAnalysis, chosen: Sequence[OneOfAnalysis]) -> float:
    """The weight among the queues that passed: the original one, or the new one."""
    if not one.limits.new_weight:
        return (one.one.running + 1) / (one.queued_here + 1)
    jobs, total = max(1, one.request.n_jobs), sum(other.room for other in chosen)
    at_mid_site = jobs if one.task_class == "B" or one.gshare not in CLASSIFIED else 0.01
    if total > jobs:
        return at_mid_site * max(one.room - jobs / len(chosen), 0.001 * jobs) / (total - jobs)
    return at_mid_site * (one.room / total if total > 0 else 1 / len(chosen))
