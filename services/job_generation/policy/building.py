"""Builds jobs: names, seeds, requirements and the text that the pilot gets.

Source of the text: PanDA pilot protocol, the job specification.

Serial numbers are given once and never again (JEDI: Naming of output file, option B). Everything that is the same for
all jobs of a chunk at a queue is worked out once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from services.job_generation.policy.job_fields import (
    NO_INPUT,
    NO_OUTPUT,
    NOTHING,
    base_fields,
    copies_to_scratch,
    distinct,
    fields_of_steps,
    guid_of,
    sequence_number,
    task_texts,
)
from services.job_generation.policy.merging import merge_stream
from services.job_generation.policy.placing import PlacedJob
from services.job_generation.policy.requirements import Requirement, requirement_of, totals_of
from services.job_generation.policy.values import (
    NOBODY,
    Dataset,
    JobInput,
    OwnerStanding,
    QueueFacts,
    Task,
    Template,
    Unit,
)
from shared.model import command_line
from shared.model.dataset_types import LOG_TYPES, UNMERGED_TYPES
from shared.model.priorities import job_priority

COPIED = "local"


@dataclass(frozen=True, slots=True)
class Output:
    """One file that a job will produce."""

    dataset_id: int
    lfn: str
    type: str
    scope: str
    n_events: int | None = None


@dataclass(frozen=True, slots=True)
class NewJob:
    """One job to insert."""

    job_id: int
    queue: str
    resource_type: str
    core_count: int
    priority: int
    attempt_number: int
    requirement: Requirement
    inputs: JobInput
    outputs: tuple[Output, ...]
    spec: dict[str, Any]
    seed: int | None = None


@dataclass(frozen=True)
class BuildRequest:
    """What a plugin builds jobs from.

    `serials` is the first number of each template, `seeds` one number for each job.
    """

    task: Task
    kind: str
    master: Dataset
    datasets: Mapping[int, Dataset]
    templates: Sequence[Template]
    parameters: str
    placed: Sequence[PlacedJob]
    job_ids: Sequence[int]
    serials: Mapping[int, int]
    guid_seed: int = 0
    seeds: Sequence[int] | None = None
    trans_path: str | None = None
    owner: OwnerStanding = NOBODY
    streams: Sequence[Mapping[str, Sequence[Unit]]] = field(default_factory=tuple)


@dataclass(frozen=True, slots=True)
class _Named:
    """A template with what is the same for all names made from it."""

    template: Template
    dataset: Dataset
    scope: str
    is_log: bool
    around_serial: tuple[str, ...]


class Builder:
    """Builds the jobs of one request; what repeats is kept."""

    def __init__(self, request: BuildRequest) -> None:
        self.request = request
        self.task = request.task
        self.texts = task_texts(request.task)
        self.templates = [
            _Named(one, dataset := request.datasets[one.dataset_id], dataset.scope, dataset.type in LOG_TYPES,
                   command_line.around_serial(one.file_name, request.task.task_id, self.texts))
            for one in request.templates
        ]  # fmt: skip
        self._bases: dict[str, dict[str, Any]] = {}
        self._requirements: dict[tuple[Any, ...], Requirement] = {}
        self._names = {key: (one.short_name, one.scope, one.type) for key, one in request.datasets.items()}
        self._out_names = ",".join(self._names[one.dataset.dataset_id][0] for one in self.templates)
        # the pilot reads no file directly whose token is local
        copied = copies_to_scratch(request.task, is_merge=request.kind == "merge")
        self._block_token = COPIED if copied else NOTHING
        self._out_scopes = ",".join(one.scope for one in self.templates if not one.is_log)
        unmerged = (one for one in request.datasets.values() if one.type in UNMERGED_TYPES and one.stream_name)
        self._unmerged = frozenset(merge_stream(one) for one in unmerged) if request.streams else frozenset()
        self._writes_lists = bool(command_line.list_streams(request.parameters))

    def build(self) -> list[NewJob]:
        """One job for each placed input, in the order of the request."""
        return [self._job(place, placed) for place, placed in enumerate(self.request.placed)]

    def _job(self, place: int, placed: PlacedJob) -> NewJob:
        request, queue, job = self.request, placed.queue, placed.job
        job_id = request.job_ids[place]
        seed = request.seeds[place] if request.seeds is not None else None
        outputs = self._outputs(place, job)
        requirement = self._requirement(job, queue)
        priority = job_priority(
            request.kind, self.task.priority, is_analysis=self.task.is_analysis,
            serial=request.owner.n_jobs + place, weight=request.owner.weight,
        )  # fmt: skip
        attempt = max((unit.attempt_nr for unit in job.master), default=0) + 1
        base = self._base(queue, requirement.core_count)
        values = self._values(place, job, outputs, attempt, seed, job_id)
        parameters = command_line.fill(request.parameters, values)
        spec = {
            **base,
            "PandaID": job_id,
            "attemptNr": attempt,
            "jobName": f"{self.task.name}.{job_id}",
            "currentPriority": priority,
            "jobPars": parameters,
            "minRamCount": requirement.ram_mb,
            "maxDiskCount": requirement.disk_mb,
            "maxWalltime": requirement.walltime_s or queue.max_time_s,
            **self._input_fields(place, job, queue),
            **self._output_fields(outputs, queue, self._left_out(place)),
            **self._steps(base, parameters),
        }
        if self._writes_lists:
            spec["writeToFile"] = command_line.lists_to_write(request.parameters, values)
        return NewJob(
            job_id, queue.queue, queue.resource_type, requirement.core_count, priority, min(attempt, 32_767),
            requirement, job, tuple(outputs), spec, seed,
        )  # fmt: skip

    def _left_out(self, place: int) -> frozenset[str]:
        """Streams that a merge job goes without: no job of its group wrote them (allowNoOutput). Its log stays.

        A final output that only merge jobs write is not among them.
        """
        if not self.request.streams:
            return frozenset()
        absent = self._unmerged - {name for name, units in self.request.streams[place].items() if units}
        final = {one.template.stream_name for one in self.templates if not one.is_log}
        return absent | {name for name in final if f"TRN_{name}" in absent}

    def _outputs(self, place: int, job: JobInput) -> list[Output]:
        outputs = []
        events = job.n_events
        for one in self.templates:
            serial = command_line.padded(self.request.serials[one.template.template_id] + place)
            found = None if one.is_log else events
            if self.request.streams and not one.is_log:
                merged = self.request.streams[place].get(f"TRN_{one.template.stream_name}", ())
                found = sum(unit.events or 0 for unit in merged) or None
            outputs.append(
                Output(one.dataset.dataset_id, serial.join(one.around_serial), one.dataset.type, one.scope, found)
            )
        return outputs

    def _requirement(self, job: JobInput, queue: QueueFacts) -> Requirement:
        """The job's requirement; jobs of a chunk mostly need the same."""
        totals = totals_of(job)
        raised = max((unit.ram_mb or 0 for unit in job.master), default=0) or None
        key = (queue.key, totals, raised)
        known = self._requirements.get(key)
        if known is None:
            known = requirement_of(self.task, queue, self.request.kind, totals, raised)
            self._requirements[key] = known
        return known

    def _streams(self, place: int, job: JobInput) -> dict[str, Sequence[Unit]]:
        """Input units by the name of their placeholder."""
        if self.request.streams:
            return dict(self.request.streams[place])
        streams: dict[str, Sequence[Unit]] = {self.request.master.stream_name or "IN": job.master}
        for dataset_id, units in job.secondary.items():
            dataset = self.request.datasets[dataset_id]
            streams[dataset.stream_name or f"SEC{dataset_id}"] = units
        return streams

    def _steps(self, base: Mapping[str, Any], parameters: str) -> dict[str, Any]:
        """What runs before, beside and after the payload; merge jobs have one step."""
        steps = self.task.parameters.get("multiStepExec") if self.request.kind != "merge" else None
        return fields_of_steps(steps, base["transformation"], parameters) if steps else {}

    def _values(
        self, place: int, job: JobInput, outputs: Sequence[Output], attempt: int, seed: int | None, job_id: int
    ) -> command_line.Values:
        """What the placeholders of the job's parameters stand for."""
        given = self._streams(place, job)
        streams = {name: distinct(units) for name, units in given.items()}
        datasets = {name: self._names[units[0].dataset_id][0] for name, units in given.items() if units}
        left_out = self._left_out(place)
        for one, output in zip(self.templates, outputs, strict=True):
            if one.template.stream_name not in left_out:
                streams[one.template.stream_name] = [output.lfn]
        first = job.master[0] if job.master else None
        events = job.n_events
        serial = next(iter(self.request.serials.values()), 0) + place
        texts = {
            **self.texts,
            "MAXEVENTS": str(-1 if events is None else events),
            "SKIPEVENTS": str((first.start_event if first else None) or 0),
            "FIRSTEVENT": str((first.first_event if first else None) or 0),
            "ATTEMPTNR": str(attempt),
            "SN": f"{serial:06d}",
            "PANDAID": str(job_id),
        }
        if seed is not None:
            texts["RNDMSEED"] = str(seed)
        if first is not None:
            texts["SEQNUMBER"] = sequence_number(first)
        return command_line.Values(streams, texts, datasets, left_out)

    def _base(self, queue: QueueFacts, cores: int) -> dict[str, Any]:
        known = self._bases.get(queue.key)
        if known is None or known["coreCount"] != cores:
            known = self._bases[queue.key] = base_fields(
                self.task, queue, cores, is_merge=self.request.kind == "merge", trans_path=self.request.trans_path
            )
        return known

    def _input_fields(self, place: int, job: JobInput, queue: QueueFacts) -> dict[str, str]:
        """Comma-joined lists, one place for each distinct file."""
        units = {
            unit.lfn: unit
            for stream in self._streams(place, job).values()
            for unit in stream
            if self._names[unit.dataset_id][2] != "pseudo_input"
        }
        if not units:
            return NO_INPUT
        rows = list(units.values())
        facts = [self._names[unit.dataset_id] for unit in rows]
        names = ",".join([name for name, _, _ in facts])
        return {
            "inFiles": ",".join(units),
            "realDatasetsIn": names,
            "GUID": ",".join([unit.guid or NOTHING for unit in rows]),
            "fsize": ",".join([str(unit.size_bytes) for unit in rows]),
            "checksum": ",".join([unit.checksum or NOTHING for unit in rows]),
            "scopeIn": ",".join([unit.scope or scope for unit, (_, scope, _) in zip(rows, facts, strict=True)]),
            "ddmEndPointIn": ",".join([queue.read_storage or NOTHING] * len(rows)),
            "prodDBlocks": names,
            "prodDBlockToken": ",".join([self._block_token] * len(rows)),
        }

    def _output_fields(self, outputs: Sequence[Output], queue: QueueFacts, left_out: frozenset[str]) -> dict[str, str]:
        """Outputs in order without those left out; the log is in every list but scopeOut."""
        made = list(zip(self.templates, outputs, strict=True))
        names, scopes = self._out_names, self._out_scopes
        if left_out:
            made = [pair for pair in made if pair[0].template.stream_name not in left_out]
            names = ",".join(self._names[one.dataset.dataset_id][0] for one, _ in made)
            scopes = ",".join(one.scope for one, _ in made if not one.is_log)
        if not made:
            return NO_OUTPUT
        fields = {
            "outFiles": ",".join([output.lfn for _, output in made]),
            "realDatasets": names,
            "destinationDblock": names,
            "ddmEndPointOut": ",".join([queue.write_storage or NOTHING] * len(made)),
            "scopeOut": scopes,
        }
        optional = [output.lfn for one, output in made if one.dataset.allows_no_output]
        if optional:
            fields["allowNoOutput"] = ",".join(optional)
        for one, output in made:
            if one.is_log:
                fields |= {
                    "logFile": output.lfn,
                    "scopeLog": output.scope,
                    "logGUID": guid_of(self.request.guid_seed, output.lfn),
                }
                break
        return fields
