"""One sample of the field's splitter at one candidate queue, placed by Orrery: groups of jobs as they are drawn."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from services.job_generation.policy.values import QueueFacts, Task
from services.job_generation.splitting.placement import Placement
from services.job_generation.splitting.placing import place
from shared.task.needs import needs_of_task
from tests.unit.job_generation.made import a_queue, a_task
from tests.unit.job_generation.subchunks import pool_of, unit_of

#: rules of the samples that Orrery spells in another way: 1 is "use"
SPELLED = {"allowInputLAN": "use"}
MOST_JOBS = 100_000


def task_of(case: dict[str, Any]) -> Task:
    given = case["task"]
    row = {
        "out_disk_count": given["out_disk"][0],
        "out_disk_unit": given["out_disk"][1],
        "work_disk_count": given["work_disk"][0],
        "work_disk_unit": given["work_disk"][1],
        "cpu_time": given["cpu_time"],
        "cpu_time_unit": given["cpu_time_unit"],
        "cpu_efficiency": given["cpu_efficiency"],
        "base_walltime": given["base_walltime"],
        "core_count": case["queue"]["core_count"],
    }
    rules = {name: SPELLED.get(name, value) for name, value in given["rules"].items()}
    return a_task(rules, needs=needs_of_task(row), core_count=row["core_count"])


def queue_of(case: dict[str, Any]) -> QueueFacts:
    given, candidate = case["queue"], case["candidate"]
    return a_queue(
        given["name"],
        core_count=given["core_count"],
        core_power_hs06=given["core_power"],
        max_time_s=given["maxtime"],
        min_time_s=given["mintime"],
        max_work_dir_mb=given["maxwdir"],
        max_input_size_mb=max(0, given["maxinputsize"]),
        reads_directly=given["direct_access_lan"] or given["maxinputsize"] == -1,
        max_jobs=candidate["cap"],
        n_queued=candidate["n_queued"],
        job_chunk_size=given["job_chunk_size"],
    )


def placed(case: dict[str, Any]) -> tuple[list[list[list[list[Any]]]], Placement]:
    """Jobs of the sample as dataset and file ids, and everything else that came of it."""
    [master] = [one for one in case["task"]["datasets"] if one["master"]]
    pools = [pool_of(one) for one in case["task"]["datasets"] if not one["master"]]
    units = [unit_of(one, master["id"]) for one in master["files"]]
    placement = place(
        task_of(case), units, pools, [queue_of(case)], scout=case["task"]["scout"], max_jobs=MOST_JOBS, seed=1
    )
    jobs = []
    for one in placement.jobs:
        taken = {master["id"]: one.job.master, **one.job.secondary}
        jobs.append([[key, [unit.file_id for unit in files]] for key, files in taken.items() if files])
    return jobs, placement


def in_order(jobs: list[Any]) -> bool:
    """Whether the jobs use the master's files one after the other."""
    ids = [one for job in jobs for one in job[0][1]]
    return all(before < after for before, after in pairwise(ids))
