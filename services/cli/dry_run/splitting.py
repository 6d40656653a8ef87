"""`orrery dry-run split`: the jobs of a task's first chunk, and why each ended where it did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from services.cli.dry_run.deciding import JOB, DryRun
from services.cli.dry_run.rows import TaskRows, rows_of
from services.job_generation.generating.plugin import JobGeneration, SplitRequest
from services.job_generation.kinds.registered import kind_of
from services.job_generation.parameters import generation_parameters
from services.job_generation.policy.queue_facts import facts_of_candidates
from services.job_generation.policy.task_row import task_of_row
from services.job_generation.policy.values import Dataset, PlacedJob, Task, Unit
from services.job_generation.specification.job_xml import is_described, pool_of_jobs, xml_of
from services.job_generation.specification.requirements import requirement_of
from services.job_generation.splitting.ends_of_jobs import why_each_ended
from services.job_generation.splitting.limits import totals_of
from services.job_generation.splitting.secondary import Pool
from services.task_definition.tasks.policy.task_file import FilePart, InputPart, TaskFile
from shared.events import QueueChoice
from shared.plugins import find

GENERATION = "orrery.job_generation"


class _SplitPart(BaseModel):
    model_config = ConfigDict(extra="forbid")


class SplitJob(_SplitPart):
    """One job: its input, what it asks of a pilot, its queue, and why it was not made longer."""

    queue: str
    resource_type: str
    files: list[str] = Field(description="of the master, in order; a range as NAME[first-last event]")
    secondary: dict[str, list[str]] = {}
    events: int | None
    input_bytes: int
    cores: int
    ram_mb: int
    disk_mb: int
    walltime_s: int = Field(description="0: not known")
    ended: str
    command: str = Field("", description="what the job executes, where loadXML says it")
    outputs: list[str] = Field([], description="what it writes, where loadXML says it")


class SplitDocument(_SplitPart):
    """The jobs of one chunk; `leftover` are files that no job was made of, for `reasons`."""

    task_id: int
    kind: str
    seed: int
    queues: dict[str, float] = Field(description="the ranked queues with the weights by which they are drawn")
    jobs: list[SplitJob]
    leftover: list[str]
    left_out: list[str]
    reasons: list[str]


def split(dry_run: DryRun, given: TaskFile, seed: int | None = None) -> SplitDocument:
    """Rank queues as job brokerage does, then cut and place the chunk as job generation does.

    Raises InvalidTask or ValueError if the task makes no sense.
    """
    decision = dry_run.decide(JOB, given, seed)
    rows = rows_of(given, dry_run.world.grid)
    task = task_of_row({"task_name": given.parameters.get("taskName", ""), **rows.task})
    task = replace(task, parameters=given.parameters)
    scout = rows.chunk["kind"] == "scout"
    units, pools = _units(given, rows, task), _pools(given, rows, task)
    candidates = [
        QueueChoice(queue=one.queue, resource_type=one.resource_type, weight=one.weight, max_jobs=one.max_jobs)
        for one in decision.candidates
    ]
    queues = facts_of_candidates(dry_run.world.grid, task, candidates, {})
    limits = generation_parameters(dry_run.parameters, task.gshare, task.vo)
    taken = units[: limits.files_of_chunk]
    request = SplitRequest(
        task, taken, pools, queues, scout, limits.jobs_of_chunk, more_follows=len(taken) < len(units) and not scout
    )
    plugin: JobGeneration = find(GENERATION, task.vo or "", task.prod_source_label)()
    drawn = rows.chunk_seed if seed is None else seed
    placement = plugin.split(request, drawn)
    ended = why_each_ended(task, taken, pools, placement.jobs, scout=scout)
    names = {pool.dataset.dataset_id: pool.dataset.name for pool in pools}
    return SplitDocument(
        task_id=task.task_id,
        kind=rows.chunk["kind"],
        seed=drawn,
        queues={one.key: one.weight for one in queues},
        jobs=[_job(task, one, rows.chunk["kind"], why, names) for one, why in zip(placement.jobs, ended, strict=True)],
        leftover=[_named(unit) for unit in placement.leftover],
        left_out=[_named(unit) for unit in placement.left_out],
        reasons=placement.reasons or ([] if queues else [decision.reason()]),
    )


def _job(task: Task, one: PlacedJob, kind: str, why: str, names: Mapping[int, str]) -> SplitJob:
    totals = totals_of(one.job)
    raised = max((unit.ram_mb or 0 for unit in one.job.master), default=0) or None
    asked = requirement_of(task, one.queue, kind_of(kind), totals, raised)
    described = xml_of(task)
    stated = described.job(one.job.master[0].boundary_id) if described is not None else None
    return SplitJob(
        queue=one.queue.queue,
        resource_type=one.queue.resource_type,
        files=[_named(unit) for unit in one.job.master],
        secondary={names[key]: [unit.lfn for unit in units] for key, units in one.job.secondary.items()},
        events=one.job.n_events,
        input_bytes=one.job.input_bytes,
        cores=asked.core_count,
        ram_mb=asked.ram_mb,
        disk_mb=asked.disk_mb,
        walltime_s=asked.walltime_s,
        ended=why,
        command="" if stated is None else stated.command,
        outputs=[] if stated is None else list(stated.outputs),
    )


def _named(unit: Unit) -> str:
    return unit.lfn if unit.start_event is None else f"{unit.lfn}[{unit.start_event}-{unit.end_event}]"


def _units(given: TaskFile, rows: TaskRows, task: Task) -> list[Unit]:
    """Master files, or ranges of their events where the rules cut them (JEDI: Event-level splitting)."""
    rules = task.rules
    per_unit = rules.granularity or rules.n_events_per_job or rules.target_events_per_job
    parts = (given.chunk.inputs if given.chunk and given.chunk.inputs is not None else given.inputs) or []
    files = [file for part in parts if part.master for file in files_of(part, task)]
    if not parts:
        [pseudo] = rows.datasets
        files = _equal(str(pseudo["dataset_name"]), pseudo["n_files"], 0, pseudo["n_events"])
    units: list[Unit] = []
    first = 1
    for file in files:
        events = task.rules.n_events_per_input_file or file.events
        cuts = (
            [(None, None)] if not (per_unit and events and int(per_unit) < events) else _ranges(events, int(per_unit))
        )
        for start, end in cuts:
            n_events = events if start is None or end is None else end - start + 1
            units.append(
                Unit(
                    len(units) + 1,
                    file.lfn,
                    file.bytes,
                    n_events,
                    start,
                    end,
                    first,
                    file.boundary,
                    file.lumi_block,
                    1,
                    file_events=events,
                )
            )
            first += n_events or 0
    return units


def _ranges(events: int, per_unit: int) -> list[tuple[int | None, int | None]]:
    return [(start, min(start + per_unit, events) - 1) for start in range(0, events, per_unit)]


def _pools(given: TaskFile, rows: TaskRows, task: Task) -> list[Pool]:
    """Secondary datasets, whole, in the order of the file; of those that loadXML names each job has its own part."""
    described = xml_of(task)
    attributes = {row["dataset_name"]: row.get("attributes") or {} for row in rows.datasets}
    pools = []
    for place, part in enumerate(one for one in given.inputs if not one.master and not one.pseudo):
        dataset = Dataset(
            2 + place, part.dataset, "input", "ready", f"IN{2 + place}", 1, part.files,
            attributes=part.attributes or attributes.get(part.dataset, {}),
        )  # fmt: skip
        units = [
            Unit(number, file.lfn, file.bytes, file.events, boundary_id=file.boundary, dataset_id=dataset.dataset_id)
            for number, file in enumerate(files_of(part, task), start=1)
        ]
        pool = Pool(dataset, tuple(units))
        pools.append(pool_of_jobs(pool) if described is not None and is_described(described, dataset) else pool)
    return pools


def files_of(part: InputPart, task: Task) -> Sequence[FilePart]:
    """The files that the task reads: all, or those that loadXML or segmentSpecs name, in their order.

    Raises ValueError for a name that is not among the files that are listed.
    """
    described, segments = xml_of(task), task.parameters.get("segmentSpecs") if part.master else None
    names, boundaries = ((), ()) if described is None else described.files_of(part.dataset)
    if segments:
        pairs = [(name, number) for number, one in enumerate(segments, start=1) for name in one["files"]]
        names, boundaries = tuple(name for name, _ in pairs), tuple(number for _, number in pairs)
    if not names:
        return contents(part)
    listed = {one.lfn: one for one in part.content}
    unknown = [name for name in names if part.content and name not in listed]
    if unknown:
        raise ValueError(f"{', '.join(unknown[:5])} is named by the task and is no file of {part.dataset}")
    mean = {"bytes": part.bytes // max(1, part.files), "events": part.events // max(1, part.files) or None}
    return [
        listed.get(name, FilePart(lfn=name, **mean)).model_copy(update={"boundary": boundary})
        for name, boundary in zip(names, boundaries, strict=True)
    ]


def contents(part: InputPart) -> Sequence[FilePart]:
    """The files of a dataset: as they are listed, else so many of the same size and number of events."""
    return part.content or _equal(part.dataset, part.files, part.bytes, part.events)


def _equal(name: str, n_files: int, n_bytes: int, n_events: int) -> list[FilePart]:
    """Totals are exact: the first files have one byte or event more where they cannot be shared evenly.

    Example: 3 files of 10 events in all have 4, 3 and 3.
    """

    def part(total: int, place: int) -> int:
        return total // n_files + (place < total % n_files)

    return [
        FilePart(
            lfn=f"{name}._{place + 1:06d}",
            bytes=part(n_bytes, place),
            events=part(n_events, place) if n_events else None,
        )
        for place in range(n_files)
    ]


def document(found: SplitDocument) -> dict[str, Any]:
    """As JSON."""
    return found.model_dump(mode="json")
