"""Jobs that the user of a task describes in XML: what each reads, writes and executes.

Source: PanDA client, prun --loadXML; JEDI: BOUNDARYID (one boundary for each job, outputs mapped).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from services.job_generation.policy.values import Dataset, JobInput, QueueFacts, Task, Unit
from services.job_generation.specification.building import Builder
from services.job_generation.specification.output_names import NamedTemplate, Output, Written, written_by
from services.job_generation.splitting.secondary import Pool
from shared.model import command_line
from shared.model.job_xml import JobXml, XmlJob, read_job_xml
from shared.model.names import bare_name


def xml_of(task: Task) -> JobXml | None:
    """The jobs that the task's user described; None where rules cut its input."""
    text = task.parameters.get("loadXML")
    return read_job_xml(text) if isinstance(text, str) else None


@dataclass(frozen=True)
class WholeJobs:
    """Units that jobs are made of now; those of jobs that wait for a file, and why these wait."""

    units: Sequence[Unit]
    waiting: Sequence[Unit] = ()
    reasons: Sequence[str] = ()


def whole_jobs(described: JobXml, units: Sequence[Unit], pools: Sequence[Pool]) -> WholeJobs:
    """Jobs of which all files are there: those that the XML names, or the job is not made."""
    by_job: dict[int | None, list[Unit]] = {}
    for unit in units:
        by_job.setdefault(unit.boundary_id, []).append(unit)
    there: list[Unit] = []
    waiting: list[Unit] = []
    reasons: list[str] = []
    for boundary, of_job in by_job.items():
        why = _lacks(described.job(boundary), of_job, pools)
        (waiting if why else there).extend(of_job)
        if why:
            reasons.append(why)
    return WholeJobs(there, waiting, reasons)


def _lacks(job: XmlJob | None, units: Sequence[Unit], pools: Sequence[Pool]) -> str:
    """Why a job cannot be made now; empty if it can."""
    if job is None:
        return f"{units[0].lfn} is in no job of loadXML"
    found = {unit.lfn for unit in units}
    for pool in pools:
        found |= {unit.lfn for unit in pool.at(job.number).units} if pool.by_boundary is not None else set()
    for dataset, names in job.files.items():
        absent = [name for name in names if name not in found]
        if absent:
            return f"job {job.number} of loadXML waits for {absent[0]} of {dataset}, which is not ready"
    return ""


def pool_of_jobs(pool: Pool) -> Pool:
    """A pool of which each job takes the files that are named for it."""
    parts: dict[int, list[Unit]] = {}
    for unit in pool.units:
        if unit.boundary_id is not None:
            parts.setdefault(unit.boundary_id, []).append(unit)
    return replace(pool, by_boundary={key: tuple(units) for key, units in parts.items()})


def is_described(described: JobXml, dataset: Dataset) -> bool:
    """Whether the XML names files of the dataset, so that it follows no ratio."""
    names = (dataset.name, dataset.container_name or "")
    return any(bare_name(name) in described.datasets for name in names)


class DescribedBuilder(Builder):
    """Builds jobs whose outputs are named one by one; ${XML_OUTMAP} tells the payload."""

    def _written_for(self, job: JobInput, queue: QueueFacts, middle: str) -> Written:
        """The log, and an output under the template's name for each that the job names."""
        common = super()._written_for(job, queue, middle)
        described = self._described(job)
        named: list[NamedTemplate] = []
        for one in common.named:
            names = () if one.is_log else described.outputs
            named += [one] if one.is_log else [_named(one, described, name) for name in names]
        return written_by(named, queue)

    def _more_texts(self, job: JobInput, written: Written, outputs: Sequence[Output]) -> Mapping[str, str]:
        """What stands for the placeholders: names of outputs as the payload writes and as it stores them."""
        pairs = zip(written.named, outputs, strict=True)
        stored = {named.template.stream_name: output.lfn for named, output in pairs if not named.is_log}
        return {"XML_OUTMAP": str(stored), "XML_EXESTR": self._described(job).encoded_command}

    def _described(self, job: JobInput) -> XmlJob:
        described = xml_of(self.task)
        found = described.job(job.master[0].boundary_id) if described is not None else None
        if found is None:
            reason = f"is of no job of loadXML: {job.master[0].lfn}"
            raise command_line.UnresolvedPlaceholder("XML_EXESTR", (), reason)
        return found


def _named(one: NamedTemplate, described: XmlJob, output: str) -> NamedTemplate:
    *front, last = one.around_serial
    around = (*front, last + described.name_after(output))
    return replace(one, template=replace(one.template, stream_name=output), around_serial=around)
