"""Outputs of jobs: their names and datasets, and what the pilot is told of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from services.job_generation.policy.values import Dataset, QueueFacts, Template
from services.job_generation.specification.job_fields import NO_OUTPUT, NOTHING, guid_of
from shared.brokerage.output_places import written_storage
from shared.model.outputs_by_expression import told_name


class Output(NamedTuple):
    """One file that a job will produce, or those whose names match an expression."""

    dataset_id: int
    lfn: str
    type: str
    scope: str
    n_events: int | None = None

    @property
    def told(self) -> str:
        """What its pilot is told for a name."""
        return told_name(self.lfn)


@dataclass(frozen=True, slots=True)
class NamedTemplate:
    """A template with what is the same for all names made from it."""

    template: Template
    dataset: Dataset
    scope: str
    is_log: bool
    around_serial: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Written:
    """What jobs write at one queue: templates, and the fields that are the same for all of them.

    `log`, `optional`: the places among the templates of the job's own log, and of what it may leave out.
    """

    named: tuple[NamedTemplate, ...]
    fields: Mapping[str, str]
    log: int | None
    optional: tuple[int, ...]


def written_by(named: Sequence[NamedTemplate], queue: QueueFacts) -> Written:
    """What jobs that write these write at a queue."""
    stored = (written_storage(queue.write_storages, one.dataset.storage_token) or NOTHING for one in named)
    datasets = ",".join(one.dataset.short_name for one in named)
    log = next((place for place, one in enumerate(named) if one.is_log), None)
    fields = {
        "realDatasets": datasets,
        "destinationDblock": datasets,
        "ddmEndPointOut": ",".join(stored),
        "scopeOut": ",".join(one.scope for one in named if not one.is_log),
    }
    if log is not None:
        fields["scopeLog"] = named[log].scope
    optional = tuple(place for place, one in enumerate(named) if one.dataset.allows_no_output)
    return Written(tuple(named), fields, log, optional)


def output_fields(
    written: Written, outputs: Sequence[Output], queue: QueueFacts, left_out: frozenset[str], guid_seed: int
) -> Mapping[str, str]:
    """Outputs in order without those left out; the log is in every list but scopeOut."""
    if left_out:
        made = [
            pair for pair in zip(written.named, outputs, strict=True) if pair[0].template.stream_name not in left_out
        ]
        written, outputs = written_by([one for one, _ in made], queue), [output for _, output in made]
    if not outputs:
        return NO_OUTPUT
    fields = {**written.fields, "outFiles": ",".join([output.told for output in outputs])}
    if written.optional:
        fields["allowNoOutput"] = ",".join([outputs[place].told for place in written.optional])
    if written.log is not None:
        log = outputs[written.log].lfn
        fields["logFile"], fields["logGUID"] = log, guid_of(guid_seed, log)
    return fields
