"""What goes with a job beside its text: its owner's secrets, and logins for the pilots of its queue.

Neither is stored with the job, as specifications are shown to others than the owner.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson

from services.job_dispatch.acquire.picks import Granted
from services.job_dispatch.parameters import PILOT_SECRETS
from services.job_dispatch.store.secrets import KeptSecret, secrets_of_pilots
from shared.auth.access import OWN, Whose
from shared.auth.caller import Caller
from shared.auth.keyring import Keyring, NoKey, Sealed
from shared.auth.named import EVERYWHERE
from shared.config.parameters import Parameters
from shared.db.database import Database

log = logging.getLogger(__name__)

#: by VO, values by key
Logins = Mapping[str, Mapping[str, str]]


class JobSecrets:
    """Decrypts them for the pilot. `count` is told of each that cannot be: its job goes without."""

    def __init__(
        self, database: Database, parameters: Parameters, keyring: Keyring, count: Callable[[], None] = lambda: None
    ) -> None:
        self._database = database
        self._parameters = parameters
        self._keyring = keyring
        self._count = count

    async def of_pilots(self, queue: str) -> Logins:
        """Read what the subject that is configured for a queue gave for pilots, for each VO.

        Asked before a job is taken, which would be lost if they could not be read after.
        """
        configured = self._parameters.read(PILOT_SECRETS)
        keeper = (configured.get(queue) or configured.get(EVERYWHERE)) if isinstance(configured, Mapping) else None
        if keeper is None:
            return {}
        async with self._database.read() as connection:
            kept = await secrets_of_pilots(connection, str(keeper))
        return {vo: self._opened([one for one in kept if one.vo == vo]) for vo in {one.vo for one in kept}}

    def added(self, granted: Sequence[Granted], logins: Logins, caller: Caller) -> Sequence[Granted]:
        """Add to these jobs what goes with them: secrets where the job uses them, the logins of its VO.

        Both are for whoever was given the role pilot in the VO. Others who take jobs, production and operators too, get
        their own secrets alone.
        """
        if not logins and all(one.secrets is None for one in granted):
            return granted
        return [self._one(one, logins.get(one.vo or "", {}), caller) for one in granted]

    def _one(self, job: Granted, logins: Mapping[str, str], caller: Caller) -> Granted:
        more: dict[str, Any] = {}
        is_pilot = caller.was_given("pilot", job.vo)
        if job.secrets is not None:
            kept = [one for one in _kept_in(job.secrets) if is_pilot or OWN.allows(caller, Whose(one.owner, one.vo))]
            more["secrets"] = orjson.dumps(self._opened(kept)).decode()
        if logins and is_pilot:
            more["pilotSecrets"] = logins
        return replace(job, spec=orjson.dumps(orjson.loads(job.spec or "{}") | more).decode()) if more else job

    def _opened(self, kept: Iterable[KeptSecret]) -> dict[str, str]:
        found = {}
        for one in kept:
            try:
                found[one.key] = one.opened(self._keyring)
            except NoKey as error:
                self._count()
                log.error("a secret of %s for %s goes with no job: %s", one.owner, one.vo, error)
        return found


def _kept_in(text: str) -> list[KeptSecret]:
    """As the claim tells them."""
    return [
        KeptSecret(owner, vo, key, Sealed(key_id, base64.b64decode(data)))
        for owner, vo, key, key_id, data in orjson.loads(text)
    ]
