"""How large the bodies of pilots' calls may be, as the parameters say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from services.job_dispatch.api.body import ACQUIRE, BULK, HEARTBEAT, KIB, REPORT
from services.job_dispatch.parameters import ACQUIRE_BODY_KB, BULK_BODY_KB, HEARTBEAT_BODY_KB, REPORT_BODY_KB
from shared.config.parameter import Parameter
from shared.config.parameters import Parameters
from shared.web.json_text import BodyLimits

_OF = ((ACQUIRE, ACQUIRE_BODY_KB), (HEARTBEAT, HEARTBEAT_BODY_KB), (REPORT, REPORT_BODY_KB), (BULK, BULK_BODY_KB))


class BodySizes:
    """Limits with the sizes of the parameters; looked at again when those have changed."""

    def __init__(self, parameters: Parameters) -> None:
        self._parameters = parameters
        self._version: int | None = None
        self._known: Mapping[int, BodyLimits] = {}

    def of(self, limits: BodyLimits) -> BodyLimits:
        """These limits with the size that is set; those that no parameter governs as they are."""
        if self._version != self._parameters.version:
            self._version = self._parameters.version
            self._known = {id(one): self._set(one, parameter) for one, parameter in _OF}
        return self._known.get(id(limits), limits)

    def _set(self, limits: BodyLimits, parameter: Parameter[int]) -> BodyLimits:
        return replace(limits, n_bytes=self._parameters.read(parameter) * KIB)
