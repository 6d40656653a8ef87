"""What a pilot is told of the files that its job reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from services.job_generation.policy.values import QueueFacts, Unit
from services.job_generation.specification.job_fields import NO_INPUT, NOTHING, input_lists
from shared.model.dataset_types import WITHOUT_DATA


class InputFields:
    """The fields of one request's jobs; what repeats is kept.

    `datasets`: short name, scope and type of each by its id. `block_token`: what is said of each file's dataset.
    """

    def __init__(self, datasets: Mapping[int, tuple[str, str, str]], block_token: str) -> None:
        self._datasets, self._block_token = datasets, block_token
        self._of_one: dict[tuple[str, int, str | None], dict[str, str]] = {}

    def fields(self, streams: Mapping[str, Sequence[Unit]], queue: QueueFacts) -> Mapping[str, str]:
        """Comma-joined lists, one place for each distinct file."""
        units = {
            unit.lfn: unit
            for stream in streams.values()
            for unit in stream
            if self._datasets[unit.dataset_id][2] not in WITHOUT_DATA
        }
        if not units:
            return NO_INPUT
        if len(units) == 1:
            return self._fields_of_one(next(iter(units.values())), queue)
        facts = [self._datasets[unit.dataset_id] for unit in units.values()]
        return input_lists(units, facts, queue.read_storage or NOTHING, self._block_token)

    def _fields_of_one(self, unit: Unit, queue: QueueFacts) -> dict[str, str]:
        """The same of a job that reads one file: what its dataset says is worked out once."""
        key = (queue.key, unit.dataset_id, unit.scope)
        known = self._of_one.get(key)
        if known is None:
            name, scope, _ = self._datasets[unit.dataset_id]
            known = self._of_one[key] = {
                "realDatasetsIn": name,
                "scopeIn": unit.scope or scope,
                "ddmEndPointIn": queue.read_storage or NOTHING,
                "prodDBlocks": name,
                "prodDBlockToken": self._block_token,
            }
        return {
            **known,
            "inFiles": unit.lfn,
            "GUID": unit.guid or NOTHING,
            "fsize": str(unit.size_bytes),
            "checksum": unit.checksum or NOTHING,
        }
