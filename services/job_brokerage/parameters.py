"""Runtime parameters of this service: limits of a decision, and who may set slots.

Those of a decision are in `shared.brokerage.limits`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from shared.auth.named import check_named
from shared.brokerage.limits import ANALYSIS, CLOUD, GROUP_CORES_CAP, GROUP_JOBS_CAP, JOBS, AnalysisLimits, JobLimits
from shared.config.parameter import SHARE, Parameter
from shared.config.parameters import Parameters

SLOT_SETTERS: Parameter[Any] = Parameter(
    "job_brokerage", "SLOT_SETTERS", None, "",
    "{queue or *: [subject]} that may set its slots, besides production of all its VOs",
    check=check_named,
)  # fmt: skip


def limits_from(
    parameters: Parameters, *, vo: str | None, is_analysis: bool, gshare: str | None = None, cloud: str | None = None
) -> JobLimits:
    """What holds for a share and a cloud; `anal_jobbroker` wins over `jobbroker` for analysis."""
    components = (ANALYSIS, JOBS) if is_analysis else (JOBS,)
    return parameters.filled(JobLimits, vo=vo, names={SHARE: gshare, CLOUD: cloud}, components=components)


def analysis_limits_from(parameters: Parameters, *, vo: str | None, is_group: bool) -> AnalysisLimits:
    """What holds for analysis; the caps of users or of working groups."""
    found = parameters.filled(AnalysisLimits, vo=vo)
    if not is_group:
        return found
    jobs, cores = (int(parameters.read(one, vo=vo)) for one in (GROUP_JOBS_CAP, GROUP_CORES_CAP))
    return replace(found, running_jobs_cap=jobs, running_cores_cap=cores)
