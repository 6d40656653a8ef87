"""Tokens that are no longer believed before they expire: one, or all that a subject got so far."""

from __future__ import annotations

from collections.abc import Callable

import asyncpg

from shared.auth.caller import EXPIRED_WITHIN_S, Credential
from shared.db.queries import Queries

SQL = Queries.beside(__file__)
#: the row of table `versions` that counts changes
VERSION_NAME = "revocations"
LOOKED_AT_EVERY_S = 5.0


class Revocations:
    """A copy of table `revocations` in memory; `on_change` is called when it is another one."""

    def __init__(self, on_change: Callable[[], None] = lambda: None) -> None:
        self._on_change = on_change
        self._version = -1
        self._tokens: dict[str, float] = {}
        self._subjects: dict[str, tuple[float, float]] = {}

    def refuse(self, credential: Credential, now: float) -> str | None:
        """Why a credential is not believed; None where nothing was revoked.

        A subject's tokens issued after the revocation are good; a certificate, which tells no time, is not.
        """
        for one in credential.token_ids:
            if self._tokens.get(one, 0.0) > now:
                return f"it was revoked ({one})"
        revoked_at, until = self._subjects.get(credential.name, (0.0, 0.0))
        if until > now and credential.issued_at <= revoked_at:
            return f"what {credential.name} got before was revoked"
        return None

    async def refresh(self, connection: asyncpg.Connection) -> bool:
        """Read the table again if its version changed; whether it did."""
        version = await SQL.value(connection, "revocations_version") or 0
        if version == self._version:
            return False
        rows = await SQL.rows(connection, "revocations", expired_within_s=EXPIRED_WITHIN_S)
        self._tokens = {row["name"]: row["until"] for row in rows if row["kind"] == "token"}
        self._subjects = {row["name"]: (row["revoked_at"], row["until"]) for row in rows if row["kind"] == "subject"}
        self._version = version
        self._on_change()
        return True
