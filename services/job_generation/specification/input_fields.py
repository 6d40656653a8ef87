"""What a pilot is told of the files that its job reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Self

from services.job_generation.policy.values import Dataset, QueueFacts, Unit
from services.job_generation.specification.job_fields import NO_INPUT, NOTHING
from shared.model.dataset_types import UNPACKED_STREAMS, WITHOUT_DATA
from shared.model.names import stands_for_others

#: the token of files that the pilot copies: it reads no such file directly
COPIED = "local"


class InputFacts(NamedTuple):
    """What is said of each file of a dataset; `asked_for`: the container that its task named, if any."""

    name: str
    asked_for: str
    scope: str
    has_data: bool
    token: str

    @classmethod
    def of(cls, dataset: Dataset, *, is_copied: bool) -> Self:
        """What jobs unpack is copied wherever it is read (PanDA pilot protocol: prodDBlockToken)."""
        token = COPIED if is_copied or dataset.stream_name in UNPACKED_STREAMS else NOTHING
        name, named = dataset.short_name, dataset.container_name
        asked_for = name if named is None or stands_for_others(named) else named
        return cls(name, asked_for, dataset.scope, dataset.type not in WITHOUT_DATA, token)


class InputFields:
    """The fields of one request's jobs; what repeats is kept.

    `datasets`: what is said of the files of each, by its id.
    """

    def __init__(self, datasets: Mapping[int, InputFacts]) -> None:
        self._datasets = datasets
        self._of_one: dict[tuple[str, int, str | None], dict[str, str]] = {}

    def fields(self, streams: Mapping[str, Sequence[Unit]], queue: QueueFacts) -> Mapping[str, str]:
        """Comma-joined lists, one place for each distinct file."""
        units = {
            unit.lfn: unit for stream in streams.values() for unit in stream if self._datasets[unit.dataset_id].has_data
        }
        if not units:
            return NO_INPUT
        if len(units) == 1:
            return self._fields_of_one(next(iter(units.values())), queue)
        return self._lists(units, queue.read_storage or NOTHING)

    def _lists(self, units: Mapping[str, Unit], storage: str) -> dict[str, str]:
        rows = list(units.values())
        facts = [self._datasets[unit.dataset_id] for unit in rows]
        return {
            "inFiles": ",".join(units),
            "realDatasetsIn": ",".join([one.asked_for for one in facts]),
            "GUID": ",".join([unit.guid or NOTHING for unit in rows]),
            "fsize": ",".join([str(unit.size_bytes) for unit in rows]),
            "checksum": ",".join([unit.checksum or NOTHING for unit in rows]),
            "scopeIn": ",".join([unit.scope or one.scope for unit, one in zip(rows, facts, strict=True)]),
            "ddmEndPointIn": ",".join([storage] * len(rows)),
            "prodDBlocks": ",".join([one.name for one in facts]),
            "prodDBlockToken": ",".join([one.token for one in facts]),
        }

    def _fields_of_one(self, unit: Unit, queue: QueueFacts) -> dict[str, str]:
        """The same of a job that reads one file: what its dataset says is worked out once."""
        key = (queue.key, unit.dataset_id, unit.scope)
        known = self._of_one.get(key)
        if known is None:
            facts = self._datasets[unit.dataset_id]
            known = self._of_one[key] = {
                "realDatasetsIn": facts.asked_for,
                "scopeIn": unit.scope or facts.scope,
                "ddmEndPointIn": queue.read_storage or NOTHING,
                "prodDBlocks": facts.name,
                "prodDBlockToken": facts.token,
            }
        return {
            **known,
            "inFiles": unit.lfn,
            "GUID": unit.guid or NOTHING,
            "fsize": str(unit.size_bytes),
            "checksum": unit.checksum or NOTHING,
        }
