"""Checks of analysis that others know too: virtual placement, and limits that explanations name."""

from __future__ import annotations

from shared.brokerage.check import YES_NO, Check, Tier, Verdict, decides
from shared.brokerage.request import JobRequest
from shared.brokerage.world import World

RUNNING_JOBS = Check(600, "user_running_jobs", Tier.POLICY, True, "running jobs of user or group", "at most", "jobs")
QUEUED_JOBS = Check(601, "user_queued_jobs", Tier.POLICY, True, "queued jobs of user or group", "at most", "jobs")
RUNNING_CORES = Check(
    602, "user_running_cores", Tier.POLICY, True, "running cores of user or group", "at most", "cores"
)
QUEUED_CORES = Check(603, "user_queued_cores", Tier.POLICY, True, "queued cores of user or group", "at most", "cores")
DISK_QUOTA = Check(604, "disk_quota", Tier.POLICY, True, "disk used by the user", "at most", "GB")
SHARE_USAGE = Check(605, "share_usage", Tier.POLICY, True, "usage of User Analysis", "at most, by task class", "%")
AVOID_VP = Check(606, "avoid_vp", Tier.POLICY, False, "virtual placement", "must be", words=YES_NO)


@decides(AVOID_VP)
def no_virtual_placement(world: World, request: JobRequest) -> Verdict | None:
    """`avoidVP`: no VP queues."""
    facts = request.analysis_facts(world.columns)
    if facts is None or not facts.task.avoid_vp:
        return None
    is_vp = world.columns.is_virtual_placement
    return Verdict(~is_vp, is_vp.astype(float), 0.0)
