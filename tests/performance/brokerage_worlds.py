"""Synthetic grids of any size, and the tasks that the brokerage benchmark places on them."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np

from shared.brokerage.load import Activity, JobCount, Load
from shared.brokerage.nucleus import RemainingWork, TaskRequest
from shared.brokerage.request import InputDataset, InputReplica, JobRequest, SmallestJob
from shared.brokerage.software import SoftwareNeeds
from shared.brokerage.world import World
from shared.model.architecture import parse_architecture
from shared.model.grid import Grid
from shared.model.link import Link
from shared.model.queue import Queue, QueueStatus, QueueType
from shared.model.site import Site
from shared.model.software import QueueSoftware
from shared.model.storage import Storage
from shared.task.needs import WorkNeeds

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
N_NUCLEI = 10
GB = 1024**3
POLICIES = ("", "", "type=evgen:100%,type=simul:100%,type=any:0%", "priority>900:0", "group=AP_Higgs:0%")


def a_grid(n_queues: int, rng: np.random.Generator) -> Grid:
    """Unified queues, each of four resource types, three to a site; ten nuclei with links from everywhere."""
    n_sites = max(N_NUCLEI, n_queues // 3)
    names = [f"SITE{number:04}" for number in range(n_sites)]
    sites = {name: Site(name, "ACTIVE", is_nucleus=place < N_NUCLEI) for place, name in enumerate(names)}
    storages = {
        f"{name}_DATADISK": Storage(
            f"{name}_DATADISK", name, "DATADISK", False, 100_000.0, float(rng.uniform(100, 60_000)), 0.0, 0.0, 0.0
        )
        for name in names
    }
    queues = {}
    for number in range(n_queues):
        site = names[number % n_sites]
        queue = Queue(
            name=f"QUEUE{number:05}",
            site=site,
            type=QueueType.UNIFIED,
            capability="ucore",
            core_count=8,
            status=QueueStatus.ONLINE if rng.random() < 0.9 else QueueStatus.BROKEROFF,
            core_power_hs06=float(rng.uniform(8, 16)),
            max_time_s=int(rng.choice([43_200, 172_800, 345_600])),
            max_rss_mb=int(rng.choice([16_000, 24_000, 32_000])),
            max_work_dir_mb=160_000,
            fair_share_policy=str(rng.choice(POLICIES)),
            releases=("ANY",) if rng.random() < 0.2 else ("AUTO",),
            connectivity=str(rng.choice(["full", "full", "http"])),
            read_storages=(f"{site}_DATADISK",),
            write_storages=(f"{site}_DATADISK",),
        )
        queues[queue.name] = queue
    links = {
        (source, end): Link(
            source,
            end,
            closeness=int(rng.integers(0, 11)),
            queued_output=int(rng.integers(0, 5)),
            queued_at=NOW,
            mbps_1h=float(rng.uniform(0, 300)),
            mbps_at=NOW,
        )
        for source in names
        for end in names[:N_NUCLEI]
        if source != end
    }
    published = QueueSoftware(cmtconfigs=["x86_64-el9-gcc13-opt"], containers=["any"], cvmfs=["atlas"])
    return Grid(queues, sites, storages, links, {name: published for name in queues if rng.random() < 0.9})


def a_world(n_queues: int) -> World:
    """A busy grid; the same for the same number."""
    rng = np.random.default_rng(n_queues)
    world = World.of(a_grid(n_queues, rng), version=1)
    counts = [
        JobCount(label.partition("/")[0], label.partition("/")[2], status, int(rng.integers(0, high)))
        for label in world.columns.labels
        for status, high in (("running", 400), ("activated", 300), ("assigned", 50), ("starting", 20))
    ]
    activities = [Activity(name, NOW, NOW, running_workers=100) for name in world.grid.queues]
    return world.with_load(Load.of(world.columns, counts, activities))


def some_tasks(n_tasks: int) -> list[TaskRequest]:
    """Tasks of all kinds: cores, memory, walltime, type, share, software, input at some of the nuclei."""
    rng = np.random.default_rng(7)
    software = [
        SoftwareNeeds(parse_architecture("x86_64-el9-gcc13-opt"), "Athena", f"24.0.{number}") for number in range(20)
    ]
    tasks = []
    for number in range(n_tasks):
        cores = int(rng.choice([1, 8]))
        needs = WorkNeeds(
            core_count=cores,
            ram_mb=int(rng.integers(500, 2500)),
            ram_per_core=True,
            output_bytes_per_event=5e5,
            cpu_time_hs06_s_per_event=float(rng.uniform(1, 500)),
            io_intensity_kb_s=float(rng.choice([0, 300])),
            connectivity=str(rng.choice(["", "http"])),
        )
        replicas = tuple(
            InputReplica(f"SITE{place:04}_DATADISK", 200, 500 * GB) for place in rng.choice(N_NUCLEI, 3, replace=False)
        )
        priority = int(rng.integers(100, 950))
        job = JobRequest(
            task_id=number,
            now=NOW,
            needs=needs,
            processing_type=str(rng.choice(["evgen", "simul", "deriv"])),
            working_group=str(rng.choice(["AP_Higgs", "AP_MCGN"])),
            gshare="MC",
            priority=priority,
            is_scout=True,
            software=software[number % len(software)],
            job=SmallestJob(1, 500, GB),
        )
        work = {f"SITE{place:04}": RemainingWork(1e9 * place, 5e8 * place) for place in range(N_NUCLEI)}
        tasks.append(
            TaskRequest(
                task_id=number,
                now=NOW,
                job=job,
                priority=priority,
                gshare="MC",
                io_intensity_kb_s=needs.io_intensity_kb_s,
                remaining_work=work,
                inputs=(InputDataset("data", 200, 500 * GB, replicas),),
            )
        )
    return tasks
