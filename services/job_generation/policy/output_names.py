"""Outputs of jobs: their names and datasets, and what the pilot is told of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from services.job_generation.policy.job_fields import NO_OUTPUT, NOTHING, guid_of
from services.job_generation.policy.values import Dataset, QueueFacts, Template
from shared.brokerage.output_places import written_storage


@dataclass(frozen=True, slots=True)
class Output:
    """One file that a job will produce."""

    dataset_id: int
    lfn: str
    type: str
    scope: str
    n_events: int | None = None


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
    """What jobs write at one queue: templates; their datasets, scopes and storages as lists with commas."""

    named: tuple[NamedTemplate, ...]
    datasets: str
    scopes: str
    storages: str


def written_by(named: Sequence[NamedTemplate], queue: QueueFacts) -> Written:
    """What jobs that write these write at a queue."""
    stored = (written_storage(queue.write_storages, one.dataset.storage_token) or NOTHING for one in named)
    return Written(
        tuple(named),
        ",".join(one.dataset.short_name for one in named),
        ",".join(one.scope for one in named if not one.is_log),
        ",".join(stored),
    )


def output_fields(
    written: Written, outputs: Sequence[Output], queue: QueueFacts, left_out: frozenset[str], guid_seed: int
) -> dict[str, str]:
    """Outputs in order without those left out; the log is in every list but scopeOut."""
    made = list(zip(written.named, outputs, strict=True))
    if left_out:
        made = [pair for pair in made if pair[0].template.stream_name not in left_out]
        written = written_by([one for one, _ in made], queue)
    if not made:
        return NO_OUTPUT
    fields = {
        "outFiles": ",".join([output.lfn for _, output in made]),
        "realDatasets": written.datasets,
        "destinationDblock": written.datasets,
        "ddmEndPointOut": written.storages,
        "scopeOut": written.scopes,
    }
    optional = [output.lfn for one, output in made if one.dataset.allows_no_output]
    if optional:
        fields["allowNoOutput"] = ",".join(optional)
    for one, output in made:
        if one.is_log:
            fields |= {
                "logFile": output.lfn,
                "scopeLog": output.scope,
                "logGUID": guid_of(guid_seed, output.lfn),
            }
            break
    return fields
