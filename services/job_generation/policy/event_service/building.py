"""Jobs of a job set: those that process events, and the one that merges what they wrote.

All jobs of a set name the same output; the merge job writes it, the others write their log alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from services.job_generation.policy.building import Builder, BuildRequest, NewJob
from services.job_generation.policy.job_fields import TRUE
from services.job_generation.policy.job_texts import Own
from services.job_generation.policy.kinds.event_service import JUMBO, OfJobSet
from services.job_generation.policy.output_names import Output, Written
from services.job_generation.policy.requirements import Requirement
from services.job_generation.policy.values import JobInput, QueueFacts, Unit
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

    kind: OfJobSet

    def __init__(self, request: BuildRequest, places: Sequence[SetPlace], kind: OfJobSet) -> None:
        super().__init__(request)
        self._places, self.kind = places, kind
        if kind.writes_outputs:  # they read what no stream of the request has
            self._format = None

    def _outputs(self, place: int, events: int | None, written: Written) -> list[Output]:
        found = []
        for one, output in zip(written.named, super()._outputs(place, events, written), strict=True):
            serial = None if one.is_log else self._places[place].serials.get(one.template.template_id)
            name = output.lfn if serial is None else command_line.padded(serial).join(one.around_serial)
            found.append(output._replace(lfn=name))
        return found

    def _not_written(self, place: int, written: Written) -> frozenset[str]:
        if self.kind.writes_outputs:
            return frozenset()
        return frozenset(one.template.stream_name for one in written.named if not one.is_log)

    def _more_fields(self, place: int, queue: QueueFacts) -> dict[str, Any]:
        job_set = {"jobsetID": self._places[place].job_set_id} if self.kind.belongs_to_a_set else {}
        return {self.kind.flag: TRUE, **job_set}

    def _values(
        self, own: Own, given: Mapping[str, Sequence[Unit]], written: Written, outputs: Sequence[Output]
    ) -> command_line.Values:
        """Merge jobs have the files with processed events under TRN_OUTPUT0, ..."""
        found = super()._values(own, given, written, outputs)
        if not self.kind.writes_outputs:
            return found
        names = [one.template.stream_name for one in written.named if not one.is_log]
        files = {f"TRN_{name}": list(self._places[own.place].written) for name in names}
        return replace(found, streams={**found.streams, **files})


def build(request: BuildRequest, places: Sequence[SetPlace], kind: OfJobSet) -> list[NewJob]:
    """One job for each placed input. Raises UnresolvedPlaceholder."""
    return JobSetBuilder(_for_event_service(request), places, kind).build()


class JumboBuilder(JobSetBuilder):
    """Builds jumbo jobs: of no job set, as long as their queue lets them.

    They are as large as a job of one input, for they read one file after another, as their ranges come.
    """

    def _requirement(self, job: JobInput, queue: QueueFacts) -> Requirement:
        largest = max(job.master, key=lambda unit: (unit.size_bytes, -unit.file_id))
        needed = super()._requirement(JobInput((largest,), job.secondary), queue)
        return needed._replace(walltime_s=queue.max_time_s)


def build_jumbo(request: BuildRequest, places: Sequence[SetPlace]) -> list[NewJob]:
    """One jumbo job for each placed input. Raises UnresolvedPlaceholder."""
    return JumboBuilder(_for_event_service(request), places, JUMBO).build()


def _for_event_service(request: BuildRequest) -> BuildRequest:
    """The part of a command line that is for event service only (<PANDA_ES_ONLY>) is kept."""
    text = request.parameters.replace("<PANDA_ES_ONLY>", "").replace("</PANDA_ES_ONLY>", "")
    return replace(request, parameters=text)
