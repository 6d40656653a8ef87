"""Jobs of a job set: those that process events, and the one that merges what they wrote.

All jobs of a set name the same output; the merge job writes it, the others write their log alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from services.job_generation.policy.building import Builder, BuildRequest, NewJob
from services.job_generation.policy.job_fields import TRUE
from services.job_generation.policy.output_names import Output, Written
from services.job_generation.policy.requirements import Requirement
from services.job_generation.policy.values import JobInput, QueueFacts
from shared.model import command_line


@dataclass(frozen=True)
class SetPlace:
    """The job set of a job: its id, and the serial number of each output template (logs have their own).

    `written`: names of the files with processed events, which its merge job reads.
    """

    job_set_id: int
    serials: Mapping[int, int]
    written: tuple[str, ...] = ()


class JobSetBuilder(Builder):
    """Builds jobs of job sets; `places` has one for each placed input of the request."""

    def __init__(self, request: BuildRequest, places: Sequence[SetPlace], *, merges: bool) -> None:
        super().__init__(request)
        self._places, self._merges = places, merges

    def _outputs(self, place: int, job: JobInput, written: Written) -> list[Output]:
        found = []
        for one, output in zip(written.named, super()._outputs(place, job, written), strict=True):
            serial = None if one.is_log else self._places[place].serials.get(one.template.template_id)
            name = output.lfn if serial is None else command_line.padded(serial).join(one.around_serial)
            found.append(replace(output, lfn=name))
        return found

    def _not_written(self, place: int, written: Written) -> frozenset[str]:
        if self._merges:
            return frozenset()
        return frozenset(one.template.stream_name for one in written.named if not one.is_log)

    def _more_fields(self, place: int, queue: QueueFacts) -> dict[str, Any]:
        flag = "eventServiceMerge" if self._merges else "eventService"
        return {flag: TRUE, "jobsetID": self._places[place].job_set_id}

    def _values(self, place: int, job: JobInput, written: Written, *others: Any) -> command_line.Values:
        """Merge jobs have the files with processed events under TRN_OUTPUT0, ..."""
        found = super()._values(place, job, written, *others)
        if not self._merges:
            return found
        names = [one.template.stream_name for one in written.named if not one.is_log]
        files = {f"TRN_{name}": list(self._places[place].written) for name in names}
        return replace(found, streams={**found.streams, **files})


def build(request: BuildRequest, places: Sequence[SetPlace], *, merges: bool) -> list[NewJob]:
    """One job for each placed input. Raises UnresolvedPlaceholder."""
    return JobSetBuilder(_for_event_service(request), places, merges=merges).build()


class JumboBuilder(JobSetBuilder):
    """Builds jumbo jobs: of no job set, as long as their queue lets them.

    They are as large as a job of one input, for they read one file after another, as their ranges come.
    """

    def _more_fields(self, place: int, queue: QueueFacts) -> dict[str, Any]:
        return {"eventService": TRUE}

    def _requirement(self, job: JobInput, queue: QueueFacts) -> Requirement:
        largest = max(job.master, key=lambda unit: (unit.size_bytes, -unit.file_id))
        needed = super()._requirement(JobInput((largest,), job.secondary), queue)
        return replace(needed, walltime_s=queue.max_time_s)


def build_jumbo(request: BuildRequest, places: Sequence[SetPlace]) -> list[NewJob]:
    """One jumbo job for each placed input. Raises UnresolvedPlaceholder."""
    return JumboBuilder(_for_event_service(request), places, merges=False).build()


def _for_event_service(request: BuildRequest) -> BuildRequest:
    """The part of a command line that is for event service only (<PANDA_ES_ONLY>) is kept."""
    text = request.parameters.replace("<PANDA_ES_ONLY>", "").replace("</PANDA_ES_ONLY>", "")
    return replace(request, parameters=text)
