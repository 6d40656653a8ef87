"""Letters are made and sent by SMTP, outside any transaction.

Mail that is refused or slow is told and tried three times.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from email.message import EmailMessage
from email.utils import formatdate

import aiosmtplib
import asyncpg
from prometheus_client import CollectorRegistry, Counter

from services.task_definition.environment import TaskDefinitionSettings
from services.task_definition.tasks.notifying.noting import OLDEST_S
from services.task_definition.tasks.notifying.plugin import GROUP, Letter, Occasion, OwnerNotice, is_address
from services.task_definition.tasks.store.notices import SQL
from shared.db.database import Database
from shared.plugins import PluginError, find

log = logging.getLogger(__name__)
LOOK_EVERY_S = 5.0
#: a letter that was tried so often is forgotten; before, it is tried again after so long times the tries
MOST_TRIES, AGAIN_AFTER_S = 3, 60.0
#: who took a notice has it for so long; its letter, with all that the server is asked, is given up long before
LEASE_S, LONGEST_LETTER_S = 600.0, 120.0
GIVEN_UP = "given up"

Send = Callable[[Letter], Awaitable[None]]


def message_of(letter: Letter, sender: str) -> EmailMessage:
    """Make the message of a letter. Its Message-ID is that of its content.

    A letter whose sender was killed before it kept that it was sent goes again: it has the same id, so that mail
    programs know it. Source: RFC 5322 (Date is required), RFC 3834.
    """
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = sender, letter.to, letter.subject
    message["Date"], message["Auto-Submitted"] = formatdate(usegmt=True), "auto-generated"
    content = "\0".join((letter.to, letter.subject, letter.text))
    message["Message-ID"] = (
        f"<{hashlib.sha256(content.encode()).hexdigest()[:32]}@{sender.rpartition('@')[2].rstrip('>')}>"
    )
    message.set_content(letter.text)
    return message


def smtp(settings: TaskDefinitionSettings) -> Send:
    """Send by the mail server of the settings. What it refuses, or does not answer in time, raises."""
    host, _, port = settings.mail_server.rpartition(":")

    async def send(letter: Letter) -> None:
        message = message_of(letter, settings.mail_from)
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
    """A notice that this sender has; `attempts` counts from 1.

    `moot`: why it is not to be sent any more; "": it is.
    """

    notice_id: int
    attempts: int
    moot: str
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
            await self.work_off()
            await asyncio.sleep(LOOK_EVERY_S)

    async def work_off(self) -> int:
        """Send what is due now, each notice taken when its turn comes; how many there were."""
        n_taken = 0
        while (taken := await self._take()) is not None:
            await self._work_on(taken)
            n_taken += 1
        return n_taken

    async def _take(self) -> Taken | None:
        """Take the next notice that is due; None: there is none."""
        async with self._database.begin(reason="notice to an owner taken") as work:
            row = await SQL.row(work.connection, "take_notice", lease_s=LEASE_S, oldest_s=OLDEST_S)
        return None if row is None else self._taken(row)

    def _taken(self, row: asyncpg.Record) -> Taken:
        about = Occasion(
            task_id=row["task_id"], task_name=row["task_name"] or "", user_name=row["user_name"] or "", vo=row["vo"],
            cause=row["cause"], since=row["since"], progress=row["progress"], error=row["error_dialog"] or "",
            domain=self._domain,
        )  # fmt: skip
        return Taken(row["notice_id"], row["attempts"], _moot(row), row["prod_source_label"] or "", about)

    async def _work_on(self, taken: Taken) -> None:
        """Send one, and keep what became of it."""
        if taken.moot:
            await self._end(taken, GIVEN_UP, taken.moot)
            return
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
            async with asyncio.timeout(LONGEST_LETTER_S):
                await self._send(letter)
        except Exception as error:  # of the server, the network, or of what a plugin wrote into a letter
            await self._failed(taken, error)
            return
        await self._end(taken, "sent", None)

    def _letter(self, taken: Taken) -> Letter | None:
        try:
            plugin: OwnerNotice = find(GROUP, taken.about.vo, taken.label)()
        except PluginError as error:
            raise ValueError(str(error)) from error
        return plugin.letter(taken.about)

    async def _failed(self, taken: Taken, error: Exception) -> None:
        """Try again later; after the third time it is forgotten.

        The log has all that was said; owners are told the kind of error, for servers tell names and addresses.
        """
        reason = type(error).__name__
        log.warning("letter about task %s (%s) not sent: %s: %s", taken.about.task_id, taken.about.cause, reason, error)
        if taken.attempts >= MOST_TRIES:
            await self._end(taken, GIVEN_UP, f"tried {taken.attempts} times: {reason}")
            return
        self._count.labels("put off").inc()
        async with self._database.begin(reason="letter put off") as work:
            await SQL.run(
                work.connection, "put_off_notice", notice_id=taken.notice_id, attempts=taken.attempts, reason=reason,
                wait_s=AGAIN_AFTER_S * taken.attempts,
            )  # fmt: skip

    async def _end(self, taken: Taken, outcome: str, reason: str | None) -> None:
        """Keep what became of a notice."""
        if outcome == GIVEN_UP:
            log.error("letter about task %s (%s) given up: %s", taken.about.task_id, taken.about.cause, reason)
        self._count.labels(outcome).inc()
        async with self._database.begin(reason=f"letter {outcome}") as work:
            await SQL.run(
                work.connection, "end_notice", notice_id=taken.notice_id, attempts=taken.attempts, status=outcome,
                reason=None if reason is None else reason[:500],
            )  # fmt: skip


def _moot(row: asyncpg.Record) -> str:
    """Why a notice that was taken is not to be sent; "": it is."""
    if row["task_name"] is None:
        return "its task is not there any more"
    if row["attempts"] > MOST_TRIES:
        return f"tried {MOST_TRIES} times: each time its sender was ended"
    if row["is_too_old"]:
        return f"not sent within {OLDEST_S / 3600:g} h"
    if row["cause"] in ("waits", "exhausted") and not row["is_so"]:
        return "the task has gone on"
    return ""
