"""The two periodic pieces of work: sample what runs, and correct the shares by what ran."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

from services.share_correction.parameters import (
    ENABLE_SHARES_CORRECTION,
    SHARE_CORRECTORS_TO_START,
    UPDATE_HISTORY_PERIOD,
    USAGE_PERIOD_S,
    WMS_HISTORY,
)
from services.share_correction.policy.plugin import ShareCorrector
from services.share_correction.store import shares as store
from shared.config.parameters import Parameters
from shared.db.turns import take_turn
from shared.db.unit_of_work import UnitOfWork
from shared.events import SharesCorrected
from shared.order.configuration import DEFAULT, ConfigurationError, Instance, instances_of
from shared.plugins import PluginError

log = logging.getLogger(__name__)

#: history is kept a little longer than the longest slice reads
KEEP_LONGER_S = 86400.0
LONGEST_SPAN_S = 604800.0


class ShareCorrection:
    """`find_corrector` gives the plugin of a name (ShareCorrectorsToStart)."""

    def __init__(self, parameters: Parameters, find_corrector: Callable[[str], ShareCorrector]) -> None:
        self._parameters = parameters
        self._find_corrector = find_corrector

    async def collect_usage(self, work: UnitOfWork) -> None:
        """One sample of running jobs and cores by share and user."""
        period_s = self._parameters.read(USAGE_PERIOD_S)
        if await take_turn(work.connection, "share_usage", period_s) is None:
            return
        await store.SQL.run(work.connection, "record_usage")
        spans = [part.time_span_s for instances in self._correctors().values() for i in instances for part in i.slices]
        keep_s = max([LONGEST_SPAN_S, *spans]) + KEEP_LONGER_S
        await store.SQL.run(work.connection, "forget_usage", older_than_s=keep_s)

    async def correct_shares(self, work: UnitOfWork) -> None:
        """Compute all factors; announce them if one of them changed. Switched off: all factors go back to 1."""
        period_s = self._parameters.read(UPDATE_HISTORY_PERIOD)
        if await take_turn(work.connection, "share_correction", period_s) is None:
            return
        nodes = await store.shares(work.connection)
        factors = {node.name: 1.0 for node in nodes}
        for name, instances in self._correctors().items():
            try:
                corrector = self._find_corrector(name)
            except PluginError as error:
                log.error("%s", error)
                continue
            for instance in instances:
                if instance.group is None:
                    usage = await store.usage_by_share(work.connection, _spans(instance))
                    found = corrector.correct_shares(nodes, usage, instance)
                    factors = {
                        name: factor * found[name].factor if name in found else factor
                        for name, factor in factors.items()
                    }
                else:
                    await self._correct_users(work, corrector, instance, instance.group)
        version = await store.set_corrections(work.connection, factors)
        if version is not None:
            work.emit(SharesCorrected(shares_version=version))

    async def _correct_users(
        self, work: UnitOfWork, corrector: ShareCorrector, instance: Instance, gshare: str
    ) -> None:
        usage = await store.usage_by_user(work.connection, gshare, _spans(instance))
        users = sorted({*await store.users_of(work.connection, gshare), *(name for one in usage for name in one)})
        found = corrector.correct_users(users, usage, instance)
        factors = {user: found[user].factor if user in found else 1.0 for user in users}
        await store.set_user_corrections(work.connection, gshare, factors)

    def _correctors(self) -> dict[str, tuple[Instance, ...]]:
        """What is configured, by corrector; a configuration that cannot be read corrects nothing and says why."""
        if not self._parameters.read(ENABLE_SHARES_CORRECTION):
            return {}
        found = {}
        for name in self._parameters.read(SHARE_CORRECTORS_TO_START):
            given = self._parameters.read(replace(WMS_HISTORY, key=str(name)))
            try:
                found[str(name)] = instances_of(DEFAULT if given is None else given, str(name))
            except ConfigurationError as error:
                log.error("%s.%s is not used: %s", WMS_HISTORY.component, name, error)
        return found


def _spans(instance: Instance) -> list[float]:
    return [part.time_span_s for part in instance.slices]
