"""The jobs that a pilot gets, whatever interface it asks by."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from services.job_dispatch.acquire.activity import PilotActivity
from services.job_dispatch.acquire.claims import Claims
from services.job_dispatch.acquire.due_calls import DueCalls
from services.job_dispatch.acquire.job_secrets import JobSecrets
from services.job_dispatch.acquire.no_match import NoMatch
from services.job_dispatch.acquire.picks import Granted
from services.job_dispatch.acquire.waiting import Unavailable
from services.job_dispatch.api.acquire_fields import Wanted, read_acquire
from services.job_dispatch.api.body import ACQUIRE, fields_of
from services.job_dispatch.api.call import PilotCall
from services.job_dispatch.api.call_limits import PilotLimits
from services.job_dispatch.api.departure import WhileConnected
from services.job_dispatch.api.reported import serves_others
from services.job_dispatch.api.requests import FAILED, ROLE, BadRequest, request_key, shown
from services.job_dispatch.api.sources import SignedSources
from services.job_dispatch.metrics import DispatchMetrics
from services.job_dispatch.policy.fitting import Offer
from services.job_dispatch.policy.no_match import SHUT, NoJobs
from shared.auth import Caller, caller_of
from shared.model.problems import FieldProblem
from shared.web.intake import header_of

LONGEST_KEY = 200
#: of the jobs that a user may run with own pilots
OWN_LABEL = "user"


class Acquiring:
    """Takes the best jobs for one request, and counts what was answered."""

    def __init__(
        self,
        claims: Claims,
        activity: PilotActivity,
        no_match: NoMatch,
        secrets: JobSecrets,
        sources: SignedSources,
        metrics: DispatchMetrics,
        limits: PilotLimits,
    ) -> None:
        self._limits = limits
        self._claims = claims
        self._secrets = secrets
        self._sources = sources
        self._activity = activity
        self._no_match = no_match
        self._metrics = metrics
        self._granted = metrics.acquires.labels("job")
        self._due = DueCalls()

    async def acquire(self, request: PilotCall) -> tuple[Wanted, Sequence[Granted] | NoJobs]:
        """What was asked for, and the best jobs for the pilot, now `sent`.

        A repeated `Idempotency-Key` (same caller, queue, and worker or node) gets the same job while its pilot has it:
        sent, starting or running. Later the key is free again, and the answer is what a new request would get. Raises
        BadRequest, TooManyCalls, Unavailable, Crowded, ClientDisconnect.
        """
        self._limits.check(request.scope)
        who = caller_of(request)
        caller, serves_all = who.name, serves_others(who)
        try:
            wanted = read_acquire(await fields_of(request, ACQUIRE), caller)
            offer = _restricted(wanted.offer, who, serves_all=serves_all)
            key = _key_of(request)
        except BadRequest:
            self._metrics.acquires.labels("refused").inc()
            raise
        if key is not None:
            key = request_key(caller, offer, key)
        if offer.queue not in self._activity.known_queues and not await self._activity.knows(offer.queue):
            self._metrics.acquires.labels("refused").inc()
            return wanted, self._no_match.explain(offer)
        self._activity.pilot_seen(offer.queue)
        self._activity.heard(who.vos or ())
        if self._activity.known_queues.get(offer.queue) in SHUT:
            offer = replace(offer, takes_new=False)
        logins = await self._secrets.of_pilots(offer.queue) if serves_all else {}
        try:
            with WhileConnected(request.receive, self._due):
                granted = await self._claim(offer, wanted.n_jobs, key, asks_vo=bool(logins))
        except Unavailable:
            self._metrics.acquires.labels("unavailable").inc()
            raise
        if not granted:
            self._metrics.acquires.labels("none").inc()
            return wanted, self._no_match.explain(offer)
        self._no_match.served(offer.queue)
        self._granted.inc()
        return wanted, self._secrets.added(self._sources.told(granted), logins, who)

    async def _claim(self, offer: Offer, n_jobs: int, key: str | None, *, asks_vo: bool) -> list[Granted]:
        """One claim per job; the jobs of one request have keys of their own, so a repeat gets the same ones.

        What was granted is returned also when another claim failed or came too late.
        """
        if n_jobs == 1:
            one = await self._claims.acquire(offer, key, asks_vo=asks_vo)
            return [one] if one is not None and one.spec is not None else []
        keys = [f"{key}#{number}" if key and number else key for number in range(n_jobs)]
        claims = [asyncio.ensure_future(self._claims.acquire(offer, one, asks_vo=asks_vo)) for one in keys]
        try:
            await asyncio.wait(claims)
        except asyncio.CancelledError:  # the caller has gone
            for claim in claims:
                claim.cancel()
            raise
        failed = [error for one in claims if (error := one.exception()) is not None]
        found = [one.result() for one in claims if one.exception() is None]
        granted = [one for one in found if one is not None and one.spec is not None]
        if failed and not granted:
            raise failed[0]
        return granted


def _restricted(offer: Offer, caller: Caller, *, serves_all: bool) -> Offer:
    """What of an offer the caller may have: jobs of its VOs; without a pilot's role, analysis jobs of its own.

    Raises BadRequest for a label, user or working group that it may not have.
    """
    if caller.vos is not None:
        offer = replace(offer, kind=replace(offer.kind, vos=caller.vos))
    if serves_all:
        return offer
    own_groups = sorted(caller.groups)
    for field, value, own in (
        ("prod_source_label", offer.kind.prod_source_label, [OWN_LABEL]),
        ("prod_user_id", offer.user_name, [caller.name]),
        ("working_group", offer.working_group, own_groups),
    ):
        if value and value not in own:
            allowed = f"{', '.join(own) or 'none'} without the role pilot or production"
            said = f"{field}: value {shown(value)} is not allowed; allowed: {allowed}"
            raise BadRequest(ROLE, [FieldProblem(field, value, allowed, said)])
    return replace(offer, kind=replace(offer.kind, prod_source_label=OWN_LABEL), user_name=caller.name)


def _key_of(request: PilotCall) -> str | None:
    """The `Idempotency-Key`, if one was sent. Raises BadRequest."""
    sent = header_of(request.scope, b"idempotency-key")
    if sent is None:
        return None
    key = sent.decode("latin-1")
    if not 0 < len(key) <= LONGEST_KEY:
        allowed = f"1 to {LONGEST_KEY} are"
        said = f"Idempotency-Key: {len(key)} characters are not allowed; {allowed}"
        raise BadRequest(FAILED, [FieldProblem("Idempotency-Key", shown(key), allowed, said)])
    return key
