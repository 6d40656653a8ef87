"""One sample of the field's splitter, cut by Orrery's: files, limits and secondary datasets in its terms."""

from __future__ import annotations

from typing import Any

from services.job_generation.policy.values import Unit
from services.job_generation.splitting.cutting import Cutter
from services.job_generation.splitting.limits import JobSizeLimits
from services.job_generation.splitting.master_input import MasterInput, master_input
from services.job_generation.splitting.placing import lacking
from services.job_generation.splitting.secondary import NoSecondaryLeft, Pool
from services.task_definition.tasks.policy.task_spec_items import Item
from shared.model.units import GB_BYTES
from shared.task.in_effect import SplitRules, rules_of
from shared.task.needs import WorkNeeds
from tests.unit.job_generation.made import a_dataset, a_queue

#: jobs as the samples write them: of each, dataset and file ids
Jobs = list[list[list[Any]]]
#: the samples stop there
MOST_JOBS = 300
NO_LIMIT = 1e18
DEFAULT_BYTES = 20 * GB_BYTES
#: "inSplit" of the samples -> groupBoundaryID; 3 is that of merge jobs, which may have several boundaries
BOUNDARIES = {1: 1, 2: 3}


def unit_of(one: dict[str, Any], dataset_id: int) -> Unit:
    n_events = one["events"] if one["start"] is None else None
    return Unit(
        one["id"], one["lfn"], one["size"], n_events, one["start"], one["end"], None, one["boundary"], one["lumiblock"],
        dataset_id, file_events=one["events"],
    )  # fmt: skip


def pool_of(one: dict[str, Any]) -> Pool:
    attributes = Item(type="template", param_type="input", attributes=one["attributes"]).dataset_attributes()
    dataset = a_dataset(one["id"], name=one["name"], master_id=1, attributes=attributes)
    return Pool(dataset, tuple(unit_of(file, one["id"]) for file in one["files"]))


def needs_of(task: dict[str, Any], given: dict[str, Any]) -> WorkNeeds:
    output, per_event = given["sizeGradients"] or 0, "PerEvent" in task["out_disk"][1]
    return WorkNeeds(
        output_bytes_per_event=output if per_event else 0,
        output_bytes_per_input_mb=0 if per_event else output,
        work_dir_bytes=given["sizeIntercepts"] or 0,
        cpu_time_hs06_s_per_event=given["walltimeGradient"] if task["cpu_time_unit"] else None,
        cpu_efficiency=task["cpu_efficiency"] / 100,
        base_walltime_s=task["base_walltime"],
    )


def rules_and_limits(given: dict[str, Any]) -> tuple[SplitRules, JobSizeLimits]:
    """With a dynamic number of events the samples go by neither number of files nor of events per job."""
    dynamic = given["dynNumEvents"]
    n_files, n_events = (None, None) if dynamic else (given["nFilesPerJob"], given["nEventsPerJob"])
    boundary = BOUNDARIES.get(given["useBoundary"]["inSplit"]) if given["useBoundary"] else None
    stated = rules_of({"respectLB": given["respectLB"], "groupBoundaryID": boundary})
    rules = stated.changed(
        n_files_per_job=n_files,
        n_events_per_job=n_events,
        granularity=1 if dynamic else None,
        skips_short_output=given["skip_short_output"],
    )
    limits = JobSizeLimits(
        max_files=n_files or given["maxNumFiles"] or 200,
        max_events=n_events or (given["max_events"] if dynamic else None),
        job_bytes=given["maxSize"] or (None if n_files or n_events else DEFAULT_BYTES),
        scratch_bytes=given["maxDiskSize"],
        output_bytes=given["maxOutSize"] or NO_LIMIT,
        max_walltime_s=given["maxWalltime"] or None,
        least_walltime_s=given["min_walltime"] if dynamic else None,
        reads_directly=given["useDirectIO"],
    )
    return rules, limits


def cut(case: dict[str, Any]) -> tuple[Jobs, str]:
    """The jobs until the input is used up, without those left out as short, and why it ended before that."""
    task, given = case["task"], case["args"]
    rules, limits = rules_and_limits(given)
    [master] = [one for one in task["datasets"] if one["master"]]
    units: MasterInput = master_input([unit_of(one, master["id"]) for one in master["files"]], rules)
    pools = tuple(pool_of(one) for one in task["datasets"] if not one["master"])
    queue = a_queue(core_count=given["coreCount"], core_power_hs06=given["corePower"] or 0)
    cutter, jobs, position = Cutter(units, limits, rules, needs_of(task, given), queue), list[Any](), 0
    while position < len(units) and len(jobs) < MOST_JOBS:
        try:
            one = cutter.cut(position, pools)
        except NoSecondaryLeft as shortage:
            return jobs, shortage.reason
        if one.job is None:
            return jobs, one.reason
        if not (rules.skips_short_output and lacking(one.job, rules)):
            taken = {master["id"]: one.job.master, **one.job.secondary}
            jobs.append([[key, [unit.file_id for unit in files]] for key, files in taken.items() if files])
        position, pools = one.position, one.pools
    return jobs, ""
