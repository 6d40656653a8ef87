"""Encrypts all secrets with the newest key, in slices.

Services go on meanwhile, as they have the older keys, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from services.job_dispatch.store.secrets import KeptSecret, seal_again, sealed_otherwise
from shared.auth.keyring import Keyring, NoKey
from shared.db.database import Database

AT_ONCE = 200
MOST_NAMED = 20


@dataclass(frozen=True)
class Rotated:
    """What was done; `unreadable`: secrets of which no key is known, which stay as they are."""

    key_id: str
    n_secrets: int
    unreadable: tuple[KeptSecret, ...]
    older_keys: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """For people."""
        said = f"{self.n_secrets} secrets are encrypted with the key {self.key_id} now"
        if self.unreadable:
            return f"{said}; {len(self.unreadable)} cannot be decrypted with any key of the file, and stay"
        return f"{said}; no other key of the file is needed any more"

    def as_sent(self) -> dict[str, Any]:
        """The data of the answer."""
        named = [{"owner": one.owner, "vo": one.vo, "key": one.key} for one in self.unreadable[:MOST_NAMED]]
        return {
            "key_id": self.key_id,
            "n_secrets": self.n_secrets,
            "n_unreadable": len(self.unreadable),
            "unreadable": named,
            "older_keys": list(self.older_keys),
        }


class Rotation:
    """May be run again at any time: what the newest key encrypts already is left alone."""

    def __init__(self, database: Database, keyring: Keyring) -> None:
        self._database, self._keyring = database, keyring

    async def run(self, by: str) -> Rotated:
        """Encrypt anew what another key encrypts, 200 in a transaction. Raises NoKey without a key file."""
        key_id, after = self._keyring.newest(), ("", "", "")
        n_secrets, unreadable = 0, list[KeptSecret]()
        while True:
            async with self._database.begin(reason=f"secrets encrypted anew by {by}") as work:
                found = await sealed_otherwise(work.connection, key_id, after, AT_ONCE)
                again = []
                for one in found:
                    try:
                        text = one.opened(self._keyring)
                        again.append(KeptSecret.sealing(self._keyring, one.owner, one.vo, one.key, text))
                    except NoKey:
                        unreadable.append(one)
                n_secrets += await seal_again(work.connection, again) if again else 0
            if len(found) < AT_ONCE:
                break
            after = (found[-1].owner, found[-1].vo, found[-1].key)
        older = tuple(one for one in self._keyring.ids() if one != key_id)
        return Rotated(key_id, n_secrets, tuple(unreadable), older)
