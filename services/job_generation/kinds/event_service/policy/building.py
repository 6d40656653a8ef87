"""Jobs of a job set: those that process events, and the one that merges what they wrote.

All jobs of a set name the same output; the merge job writes it, the others write their log alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from services.job_generation.kinds.event_service.job import OfJobSet
from services.job_generation.kinds.event_service.policy.merge_input import ProcessedEvents, input_fields
from services.job_generation.policy.values import QueueFacts, Unit
from services.job_generation.specification.building import Builder, BuildRequest, NewJob
from services.job_generation.specification.job_fields import NOTHING, TRUE
from services.job_generation.specification.job_texts import Own
from services.job_generation.specification.output_names import NamedTemplate, Output, Written
from shared.model import command_line

NO_EVENTS = ProcessedEvents()


@dataclass(frozen=True)
class SetPlace:
    """The job set of a job: its id, and the serial number of each output template (logs have their own).

    `processed`: what its merge job reads, written under the numbers `written_as`.
    """

    job_set_id: int
    serials: Mapping[int, int]
    processed: ProcessedEvents = NO_EVENTS
    written_as: Mapping[int, int] = field(default_factory=dict)


class JobSetBuilder(Builder):
    """Builds jobs of job sets; `places` has one for each placed input of the request."""

    kind: OfJobSet

    def __init__(self, request: BuildRequest, places: Sequence[SetPlace]) -> None:
        super().__init__(request)
        self._places = places
        if self.kind.writes_outputs:  # they read what no stream of the request has
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
        lfns = [one.lfn for one in self._places[own.place].processed.files]
        return replace(found, streams={**found.streams, **{f"TRN_{name}": lfns for name in names}})

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
        """A merge job reads what its events were processed to, and the input where its line names it."""
        super()._add_fields(spec, own, parameters, streams, written, outputs, queue)
        place = self._places[own.place]
        made = [pair for pair in zip(written.named, outputs, strict=True) if not pair[0].is_log]
        names = [(output.lfn, self._written_as(place, one, output)) for one, output in made]
        files = place.processed.read_for([name for _, name in names])
        if not files or not made:
            return
        storage = queue.read_storage or NOTHING
        read = input_fields(files, spec["realDatasets"].partition(",")[0], made[0][1].scope, storage)
        if command_line.placeholders(self.request.parameters) & set(streams) and spec["inFiles"]:
            read = {name: f"{spec[name]},{value}" for name, value in read.items()}
        spec |= {**read, "writeToFile": place.processed.lists(names)}

    @staticmethod
    def _written_as(place: SetPlace, one: NamedTemplate, output: Output) -> str:
        """The name under which the jobs of a set wrote what becomes this output."""
        serial = place.written_as.get(one.template.template_id)
        return output.lfn if serial is None else command_line.padded(serial).join(one.around_serial)


def build(request: BuildRequest, places: Sequence[SetPlace]) -> list[NewJob]:
    """One job for each placed input. Raises UnresolvedPlaceholder."""
    return JobSetBuilder(for_event_service(request), places).build()


def for_event_service(request: BuildRequest) -> BuildRequest:
    """The part of a command line that is for event service only (<PANDA_ES_ONLY>) is kept."""
    text = request.parameters.replace("<PANDA_ES_ONLY>", "").replace("</PANDA_ES_ONLY>", "")
    return replace(request, parameters=text)
