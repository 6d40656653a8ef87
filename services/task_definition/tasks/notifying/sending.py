"""Letters are made and sent by SMTP, outside any transaction.

Mail that is refused or slow is told and tried three times.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from email.message import EmailMessage

import aiosmtplib
import asyncpg
from prometheus_client import CollectorRegistry, Counter

from services.task_definition.environment import TaskDefinitionSettings
from services.task_definition.tasks.notifying.plugin import GROUP, Letter, Occasion, OwnerNotice, is_address
from services.task_definition.tasks.store.notices import SQL
from shared.db.database import Database
from shared.plugins import PluginError, find

log = logging.getLogger(__name__)
LOOK_EVERY_S, AT_ONCE = 5.0, 20
#: a letter that was tried so often is forgotten; before, it is tried again after so long times the tries
MOST_TRIES, AGAIN_AFTER_S = 3, 60.0
#: who took notices has them for so long
LEASE_S = 600.0
GIVEN_UP = "given up"

Send = Callable[[Letter], Awaitable[None]]


def smtp(settings: TaskDefinitionSettings) -> Send:
    """Send by the mail server of the settings. What it refuses, or does not answer in time, raises."""
    host, _, port = settings.mail_server.rpartition(":")

    async def send(letter: Letter) -> None:
        message = EmailMessage()
        message["From"], message["To"], message["Subject"] = settings.mail_from, letter.to, letter.subject
        message["Auto-Submitted"] = "auto-generated"
        message.set_content(letter.text)
        password = settings.mail_password.get_secret_value() if settings.mail_password is not None else None
        await aiosmtplib.send(
            message,
            hostname=host.strip("[]"),
            port=int(port),
            username=settings.mail_user or None,
            password=password,
            use_tls=settings.mail_encryption == "tls",
            start_tls=settings.mail_encryption == "starttls",
            timeout=settings.mail_timeout_s,
        )

    return send


@dataclass(frozen=True)
class Taken:
    """A notice that this sender has; `attempts` counts from 1."""

    notice_id: int
    attempts: int
    label: str
    about: Occasion


class Sending:
    """One for each process; senders of several processes share the notices."""

    def __init__(self, database: Database, send: Send, domain: str, registry: CollectorRegistry) -> None:
        self._database, self._send, self._domain = database, send, domain
        self._count = Counter("orrery_letters", "Letters to owners of tasks", ["outcome"], registry=registry)

    async def run(self) -> None:
        """Send what is due, until it is cancelled."""
        while True:
            if await self.work_off() < AT_ONCE:
                await asyncio.sleep(LOOK_EVERY_S)

    async def work_off(self) -> int:
        """Send what is due now; how many there were."""
        async with self._database.begin(reason="notices to owners taken") as work:
            rows = await SQL.rows(work.connection, "take_notices", most=AT_ONCE, lease_s=LEASE_S)
        for row in sorted(rows, key=lambda row: int(row["notice_id"])):
            await self._work_on(self._taken(row))
        return len(rows)

    def _taken(self, row: asyncpg.Record) -> Taken:
        about = Occasion(
            task_id=row["task_id"], task_name=row["task_name"] or "", user_name=row["user_name"], vo=row["vo"],
            cause=row["cause"], since=row["since"], progress=row["progress"], error=row["error_dialog"] or "",
            domain=self._domain,
        )  # fmt: skip
        return Taken(row["notice_id"], row["attempts"], row["prod_source_label"] or "", about)

    async def _work_on(self, taken: Taken) -> None:
        """Send one, and keep what became of it."""
        try:
            letter = self._letter(taken)
        except Exception as error:  # of a VO's plugin, whatever it is
            await self._end(taken, GIVEN_UP, f"no letter: {type(error).__name__}: {error}")
            return
        if letter is None:
            await self._end(taken, "not told", None)
            return
        if not is_address(letter.to):
            await self._end(taken, GIVEN_UP, f"no address: {letter.to[:100]!r}")
            return
        try:
            await self._send(letter)
        except (aiosmtplib.SMTPException, OSError, TimeoutError, ValueError) as error:
            await self._failed(taken, f"{type(error).__name__}: {error}")
            return
        await self._end(taken, "sent", None)

    def _letter(self, taken: Taken) -> Letter | None:
        try:
            plugin: OwnerNotice = find(GROUP, taken.about.vo, taken.label)()
        except PluginError as error:
            raise ValueError(str(error)) from error
        return plugin.letter(taken.about)

    async def _failed(self, taken: Taken, reason: str) -> None:
        """Try again later; after the third time it is forgotten."""
        if taken.attempts >= MOST_TRIES:
            await self._end(taken, GIVEN_UP, f"tried {taken.attempts} times: {reason}")
            return
        log.warning("letter about task %s (%s) not sent: %s", taken.about.task_id, taken.about.cause, reason)
        self._count.labels("put off").inc()
        async with self._database.begin(reason="letter put off") as work:
            await SQL.run(
                work.connection, "put_off_notice", notice_id=taken.notice_id, reason=reason[:500],
                wait_s=AGAIN_AFTER_S * taken.attempts,
            )  # fmt: skip

    async def _end(self, taken: Taken, outcome: str, reason: str | None) -> None:
        """Keep what became of a notice."""
        if outcome == GIVEN_UP:
            log.error("letter about task %s (%s) given up: %s", taken.about.task_id, taken.about.cause, reason)
        self._count.labels(outcome).inc()
        async with self._database.begin(reason=f"letter {outcome}") as work:
            await SQL.run(
                work.connection, "end_notice", notice_id=taken.notice_id, status=outcome,
                reason=None if reason is None else reason[:500],
            )  # fmt: skip
