"""Builds jobs: names, seeds, requirements and the text that the pilot gets.

Source of the text: PanDA pilot protocol, the job specification.

Serial numbers are given once and never again (JEDI: Naming of output file, option B). Everything that is the same for
all jobs of a chunk at a queue is worked out once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from services.job_generation.policy.merging import merge_stream
from services.job_generation.policy.values import (
    NOBODY,
    Dataset,
    JobInput,
    OwnerStanding,
    PlacedJob,
    QueueFacts,
    Task,
    Template,
    Unit,
)
from services.job_generation.specification.command_format import format_of
from services.job_generation.specification.input_fields import InputFacts, InputFields
from services.job_generation.specification.job_fields import (
    base_fields,
    distinct,
    encoded,
    fields_of_steps,
    task_texts,
)
from services.job_generation.specification.job_texts import Own, texts_of_job
from services.job_generation.specification.kind_of_job import KindOfJob
from services.job_generation.specification.output_names import NamedTemplate, Output, Written, output_fields, written_by
from services.job_generation.specification.requirements import Requirement, requirement_of
from services.job_generation.specification.segments import texts_of_segment
from services.job_generation.splitting.limits import totals_of
from services.job_generation.splitting.middle_names import middle_name_in_outputs, middle_name_of_job
from shared.model import command_line
from shared.model.dataset_types import MERGE_LOG_STREAM, UNMERGED_TYPES
from shared.model.outputs_by_expression import is_by_expression, name_until_reported
from shared.model.priorities import job_priority

NO_TEXTS: Mapping[str, str] = {}
#: characters of the name of a file
MAX_NAME = 250


class NewJob(NamedTuple):
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

    `serials` is the first number of each template, `seeds` and `sequence` one number for each job. `at_site`: by
    template dataset and site the dataset that takes its place there. `most_walltime_s`: its jobs may take no longer.
    """

    task: Task
    kind: KindOfJob
    master: Dataset
    datasets: Mapping[int, Dataset]
    templates: Sequence[Template]
    parameters: str
    placed: Sequence[PlacedJob]
    job_ids: Sequence[int]
    serials: Mapping[int, int]
    guid_seed: int = 0
    seeds: Sequence[int] | None = None
    sequence: Sequence[int] | None = None
    trans_path: str | None = None
    most_walltime_s: int | None = None
    owner: OwnerStanding = NOBODY
    streams: Sequence[Mapping[str, Sequence[Unit]]] = field(default_factory=tuple)
    at_site: Mapping[tuple[int, str], Dataset] = field(default_factory=dict)


class Builder:
    """Builds the jobs of one request; what repeats is kept."""

    def __init__(self, request: BuildRequest) -> None:
        self.request = request
        self.task = request.task
        self.kind: KindOfJob = request.kind
        self.texts = task_texts(request.task)
        self._written: dict[tuple[str, str], Written] = {}
        self._bases: dict[str, dict[str, Any]] = {}
        self._requirements: dict[tuple[Any, ...], Requirement] = {}
        copied = self.kind.copies_to_scratch(request.task)
        self._read = {key: InputFacts.of(one, is_copied=copied) for key, one in request.datasets.items()}
        unmerged = (one for one in request.datasets.values() if one.type in UNMERGED_TYPES and one.stream_name)
        self._unmerged = frozenset(merge_stream(one) for one in unmerged) if request.streams else frozenset()
        self._has_merge_log = any(one.stream_name == MERGE_LOG_STREAM and one.is_log for one in request.templates)
        self._listed = command_line.list_streams(request.parameters)
        self._lists_all = request.task.rules.write_input_to_file
        self._has_segments = bool(request.task.parameters.get("segmentSpecs"))
        self._priced_as = self.kind.priced_as(request.task)
        self._is_analysis = request.task.is_analysis
        self._has_steps = self.kind.has_steps and bool(request.task.parameters.get("multiStepExec"))
        # the streams of a merge job may be left out, with their options
        self._format = None if request.streams else format_of(request.parameters)
        self._inputs = InputFields(self._read)

    def build(self) -> list[NewJob]:
        """One job for each placed input, in the order of the request."""
        return [self._job(place, placed) for place, placed in enumerate(self.request.placed)]

    def _job(self, place: int, placed: PlacedJob) -> NewJob:
        request, queue, job = self.request, placed.queue, placed.job
        job_id = request.job_ids[place]
        seed = request.seeds[place] if request.seeds is not None else None
        of_segment = texts_of_segment(self.task, job) if self._has_segments else NO_TEXTS
        middle = of_segment.get("MIDDLENAME") or self._middle_name(job)
        written = self._written_for(job, queue, middle)
        events = job.n_events
        outputs = self._outputs(place, events, written)
        requirement = self._requirement(job, queue)
        priority = job_priority(
            self._priced_as, self.task.priority, is_analysis=self._is_analysis,
            serial=request.owner.n_jobs + place, weight=request.owner.weight,
        )  # fmt: skip
        attempt = (max([unit.attempt_nr for unit in job.master]) if job.master else 0) + 1
        streams = self._streams(place, job)
        more = {**self._more_texts(job, written, outputs), **of_segment}
        if request.sequence is not None:
            more["SEQNUMBER"] = str(request.sequence[place])
        own = Own(place, job_id, attempt, seed, middle, events, job.master[0] if job.master else None, more)
        parameters = self._parameters(own, streams, written, outputs)
        not_written = self._not_written(place, written)
        base = self._base(queue, requirement.core_count)
        spec = {
            **base,
            "PandaID": job_id,
            "attemptNr": attempt,
            "jobName": f"{self.task.name}.{job_id}",
            "currentPriority": priority,
            "jobPars": encoded(parameters) if self.task.rules.enc_job_params else parameters,
            "minRamCount": requirement.ram_mb,
            "maxDiskCount": requirement.disk_mb,
            "maxWalltime": requirement.walltime_s or queue.max_time_s,
            **self._inputs.fields(streams, queue),
            **output_fields(written, outputs, queue, not_written, request.guid_seed),
        }
        self._add_fields(spec, own, parameters, streams, written, outputs, queue)
        return NewJob(
            job_id, queue.queue, queue.resource_type, requirement.core_count, priority, min(attempt, 32_767),
            requirement, job, self._rows(written, outputs, not_written), spec, seed,
        )  # fmt: skip

    def _middle_name(self, job: JobInput) -> str:
        """${MIDDLENAME}: of the files that it merges, or else of its input."""
        if self.kind.is_named_as_merged:
            return middle_name_in_outputs(self.request.templates)(job.master)
        return middle_name_of_job(self.task.rules, self.request.master, job.master)

    def _parameters(
        self, own: Own, streams: Mapping[str, Sequence[Unit]], written: Written, outputs: Sequence[Output]
    ) -> str:
        """The command line. What the format of the chunk cannot fill in, or what is missing, is gone through whole."""
        if self._format is not None:
            names = {name: distinct(streams[name]) for name in self._format.names if name in streams}
            for one, output in zip(written.named, outputs, strict=True):
                names[one.template.stream_name] = [output.told]
            filled = self._format.filled(names, self._texts(own, self._format.names))
            if filled is not None:
                return filled
        return command_line.fill(self.request.parameters, self._values(own, streams, written, outputs))

    def _add_fields(
        self,
        spec: dict[str, Any],
        own: Own,
        parameters: str,
        streams: Mapping[str, Sequence[Unit]],
        written: Written,
        outputs: Sequence[Output],
        queue: QueueFacts,
    ) -> None:
        """What only some jobs tell their pilot."""
        if self._has_steps:
            spec.update(self._steps(spec["transformation"], parameters))
        spec.update(self._more_fields(own.place, queue))
        if self._listed or self._lists_all:
            values = self._values(own, streams, written, outputs)
            lists = command_line.lists_to_write(tuple(values.datasets) if self._lists_all else self._listed, values)
            spec |= {"writeToFile": lists} if lists else {}

    def _not_written(self, place: int, written: Written) -> frozenset[str]:
        """Streams that the job names and does not write."""
        return self._left_out(place)

    def _more_fields(self, place: int, queue: QueueFacts) -> dict[str, Any]:
        """What a kind of job tells its pilot besides."""
        return {}

    def _rows(self, written: Written, outputs: Sequence[Output], not_written: frozenset[str]) -> tuple[Output, ...]:
        """The outputs that become rows: a merge job has one also for a stream that no job of its group wrote."""
        if self.request.streams or not not_written:
            return tuple(outputs)
        named = zip(written.named, outputs, strict=True)
        return tuple(one for named_as, one in named if named_as.template.stream_name not in not_written)

    def _written_for(self, job: JobInput, queue: QueueFacts, middle: str) -> Written:
        """What one job writes."""
        return self._written_at(queue, middle)

    def _more_texts(self, job: JobInput, written: Written, outputs: Sequence[Output]) -> Mapping[str, str]:
        """Texts that a kind of job fills in besides."""
        return NO_TEXTS

    def _written_at(self, queue: QueueFacts, middle: str) -> Written:
        """The outputs of jobs at a queue with a middle name, in the datasets of its site where there are any."""
        request, known = self.request, self._written.get((queue.key, middle))
        if known is None:
            named = []
            for one in request.templates:
                dataset = request.at_site.get((one.dataset_id, queue.site)) or request.datasets[one.dataset_id]
                texts = {**self.texts, "MIDDLENAME": middle}
                around = command_line.around_serial(one.file_name, self.task.task_id, texts)
                if middle and len("".join(around)) > MAX_NAME - command_line.SERIAL_WIDTH:
                    reason = f"makes a file name of more than {MAX_NAME} characters: {middle}"
                    raise command_line.UnresolvedPlaceholder("MIDDLENAME", (), reason)
                named.append(NamedTemplate(one, dataset, dataset.scope, self._is_own_log(one), around))
            known = self._written[queue.key, middle] = written_by(named, queue)
        return known

    def _is_own_log(self, template: Template) -> bool:
        """Whether it names the log of the job itself; logs that a merge job with its own one merges are outputs."""
        return template.is_log and (not self._has_merge_log or template.stream_name == MERGE_LOG_STREAM)

    def _left_out(self, place: int) -> frozenset[str]:
        """Streams that a merge job goes without: no job of its group wrote them (allowNoOutput). Its log stays.

        A final output that only merge jobs write is not among them.
        """
        if not self.request.streams:
            return frozenset()
        absent = self._unmerged - {name for name, units in self.request.streams[place].items() if units}
        final = {one.stream_name for one in self.request.templates if not self._is_own_log(one)}
        return absent | {name for name in final if f"TRN_{name}" in absent}

    def _outputs(self, place: int, events: int | None, written: Written) -> list[Output]:
        outputs = []
        for one in written.named:
            serial = command_line.padded(self.request.serials[one.template.template_id] + place)
            found = None if one.is_log else events
            if self.request.streams and not one.is_log:
                merged = self.request.streams[place].get(f"TRN_{one.template.stream_name}", ())
                found = sum(unit.events or 0 for unit in merged) or None
            dataset = one.dataset
            name = serial.join(one.around_serial)
            if is_by_expression(name):
                name = name_until_reported(name, serial)
            outputs.append(Output(dataset.dataset_id, name, dataset.type, one.scope, found))
        return outputs

    def _requirement(self, job: JobInput, queue: QueueFacts) -> Requirement:
        """The job's requirement; jobs of a chunk mostly need the same."""
        totals = totals_of(job)
        raised = (max([unit.ram_mb or 0 for unit in job.master]) if job.master else 0) or None
        key = (queue.key, totals, raised)
        known = self._requirements.get(key)
        if known is None:
            known = requirement_of(self.task, queue, self.kind, totals, raised)
            most = self.request.most_walltime_s
            if most is not None:
                limits = (most, known.walltime_s, queue.max_time_s)
                known = known._replace(walltime_s=min(limit for limit in limits if limit))
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

    def _steps(self, transformation: str, parameters: str) -> dict[str, Any]:
        """What runs before, beside and after the payload."""
        return fields_of_steps(self.task.parameters["multiStepExec"], transformation, parameters)

    def _texts(self, own: Own, wanted: Collection[str]) -> dict[str, str]:
        return texts_of_job(own, self.texts, next(iter(self.request.serials.values()), 0), wanted)

    def _values(
        self, own: Own, given: Mapping[str, Sequence[Unit]], written: Written, outputs: Sequence[Output]
    ) -> command_line.Values:
        """What the placeholders of the job's parameters stand for."""
        streams = {name: distinct(units) for name, units in given.items()}
        datasets = {name: self._read[units[0].dataset_id].name for name, units in given.items() if units}
        left_out = self._left_out(own.place)
        for one, output in zip(written.named, outputs, strict=True):
            if one.template.stream_name not in left_out:
                streams[one.template.stream_name] = [output.told]
        return command_line.Values(streams, self._texts(own, command_line.TEXTS_OF_JOBS), datasets, left_out)

    def _base(self, queue: QueueFacts, cores: int) -> dict[str, Any]:
        known = self._bases.get(queue.key)
        if known is None or known["coreCount"] != cores:
            known = self._bases[queue.key] = base_fields(
                self.task, queue, cores, self.kind, trans_path=self.request.trans_path
            )
        return known
