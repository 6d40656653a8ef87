"""Corrects shares, and users within shares, by what they used."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

from services.share_correction.collecting import BUCKET_S
from services.share_correction.parameters import TERMS_KEPT_S, UPDATE_HISTORY_PERIOD
from services.share_correction.policy.found import FoundCorrection, UserOfGroup
from services.share_correction.policy.plugin import ShareCorrector
from services.share_correction.policy.scopes import Scope, corrections_in, scope_of_shares, scopes_of_groups
from services.share_correction.policy.virtual_organisations import EVERY_VO, parts_by_vo
from services.share_correction.store import groups
from services.share_correction.store import shares as store
from services.share_correction.store.usage import usage
from shared.config.parameters import Parameters
from shared.db.turns import take_turn
from shared.db.unit_of_work import UnitOfWork
from shared.events import SharesCorrected
from shared.order.configuration import DEFAULT, DEFAULT_TIME_SPAN_S, ConfigurationError, Instance, corrections_of
from shared.order.parameters import ENABLE_SHARES_CORRECTION, SHARE_CORRECTIONS
from shared.order.tree import Node
from shared.plugins import PluginError

log = logging.getLogger(__name__)

#: instances by corrector
Correctors = Mapping[str, tuple[Instance, ...]]


class ShareCorrection:
    """`find_corrector` gives the plugin of a name (ShareCorrectorsToStart)."""

    def __init__(self, parameters: Parameters, find_corrector: Callable[[str], ShareCorrector]) -> None:
        self._parameters = parameters
        self._find_corrector = find_corrector

    def longest_span_s(self) -> float:
        """What the longest slice of any VO's correctors reads."""
        return max([DEFAULT_TIME_SPAN_S, *_spans(self._configured())])

    async def correct_shares(self, work: UnitOfWork) -> None:
        """Compute all factors; announce them if one of them changed. Switched off: all factors go back to 1."""
        period_s = self._parameters.read(UPDATE_HISTORY_PERIOD)
        if await take_turn(work.connection, "share_correction", period_s) is None:
            return
        nodes, vos = await store.shares(work.connection)
        configured = self._configured()
        rows = await usage(work.connection, _spans(configured), BUCKET_S)
        users = await store.users_of_shares(work.connection)
        scopes = [scope_of_shares(vo, part, rows, users) for vo, part in parts_by_vo(nodes, vos, configured).items()]
        scopes += scopes_of_groups(await groups.with_task_queues(work.connection), rows)
        found = [one for scope in scopes for one in self._found(scope, configured)]
        await self._store(work, nodes, found)

    async def forget_terms(self, work: UnitOfWork) -> None:
        """Delete terms of corrections of long ago; periodic, on one replica."""
        await store.SQL.run(work.connection, "forget_terms", older_than_s=float(self._parameters.read(TERMS_KEPT_S)))

    def _found(self, scope: Scope, configured: Mapping[str, Correctors]) -> Iterator[FoundCorrection]:
        """What the correctors of a VO, or else those of every VO, say of a scope."""
        for name, instances in configured.get(scope.vo, configured[EVERY_VO]).items():
            try:
                corrector = self._find_corrector(name)
            except PluginError as error:
                log.error("%s", error)
                continue
            for instance in instances:
                yield from corrections_in(scope, corrector, instance)

    async def _store(self, work: UnitOfWork, nodes: Sequence[Node], found: Sequence[FoundCorrection]) -> None:
        """Store factors: those of several correctors are multiplied; what nobody corrects has the factor 1."""
        factors = {node.name: 1.0 for node in nodes}
        of_users: dict[str, dict[str, float]] = defaultdict(dict)
        of_groups: dict[UserOfGroup, float] = {}
        for one in found:
            if one.user_group:
                of_groups[one.user_of_group] = of_groups.get(one.user_of_group, 1.0) * one.correction.factor
            elif one.user_name:
                users = of_users[one.gshare]
                users[one.user_name] = users.get(one.user_name, 1.0) * one.correction.factor
            else:
                factors[one.gshare] *= one.correction.factor
        shares_changed = await store.set_corrections(work.connection, factors)
        users_changed = await store.set_user_corrections(work.connection, of_users)
        groups_changed = await groups.set_corrections(work.connection, of_groups)
        kept = [
            one
            for one in found
            if not one.user_name
            or (one.user_of_group in groups_changed if one.user_group else (one.gshare, one.user_name) in users_changed)
        ]
        if kept:
            await store.keep_terms(work.connection, kept)
        if shares_changed or users_changed or groups_changed:
            work.emit(SharesCorrected(shares_version=await store.next_version(work.connection)))

    def _configured(self) -> dict[str, Correctors]:
        """Correctors by VO, those without a section of their own under EVERY_VO.

        A section that cannot be read corrects nothing and says why.
        """
        found: dict[str, Correctors] = {}
        own = set(self._parameters.vos_of(SHARE_CORRECTIONS)) | set(self._parameters.vos_of(ENABLE_SHARES_CORRECTION))
        for vo in (EVERY_VO, *sorted(own)):
            found[vo] = {}
            if self._parameters.read(ENABLE_SHARES_CORRECTION, vo=vo or None):
                given = self._parameters.read(SHARE_CORRECTIONS, vo=vo or None)
                try:
                    found[vo] = corrections_of(DEFAULT if given is None else given)
                except ConfigurationError as error:
                    log.error("%s%s is not used: %s", SHARE_CORRECTIONS.name, f" of VO {vo}" if vo else "", error)
        return found


def _spans(configured: Mapping[str, Correctors]) -> list[float]:
    instances = [one for correctors in configured.values() for some in correctors.values() for one in some]
    return [part.time_span_s for instance in instances for part in instance.slices]
