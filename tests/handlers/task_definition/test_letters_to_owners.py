"""Owners are told by mail what became of their tasks: once for each cause, by a real SMTP server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from typing import Any

import pytest
from aiosmtpd.smtp import SMTP, Envelope, Session
from prometheus_client import CollectorRegistry
from pydantic import ValidationError

from services.task_definition.environment import TaskDefinitionSettings
from services.task_definition.tasks.explaining import Explanation
from services.task_definition.tasks.notifying import sending as sending_module
from services.task_definition.tasks.notifying.letters import PlainLetters
from services.task_definition.tasks.notifying.noting import Notices
from services.task_definition.tasks.notifying.plugin import GROUP, Letter, Occasion, is_address
from services.task_definition.tasks.notifying.sending import LEASE_S, Sending, smtp
from shared.auth import Caller
from shared.cache import NullCache
from shared.db import Database
from shared.events import TaskCompleted
from shared.plugins import find
from shared.snapshot import KnownGrid
from tests import rows

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
OPERATOR = Caller("o", frozenset({"operator"}), frozenset())


@dataclass
class MailServer:
    """What arrived, and how the next letters are answered: with a code, or not at all (`slow`)."""

    port: int = 0
    letters: list[EmailMessage] = field(default_factory=list)
    answer: str = "250 OK"
    slow: bool = False
    n_asked: int = 0

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        self.n_asked += 1
        if self.slow:
            await asyncio.sleep(60)
        if self.answer.startswith("250"):
            content = envelope.original_content
            assert content is not None
            self.letters.append(message_from_bytes(content, policy=default))  # type: ignore[arg-type]
        return self.answer


@pytest.fixture
async def mail() -> AsyncIterator[MailServer]:
    found = MailServer()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: SMTP(found, hostname="test", loop=loop), "127.0.0.1", 0)
    found.port = server.sockets[0].getsockname()[1]
    yield found
    server.close()


@dataclass
class Desk:
    """Notices and their sender on a database with the test's clock."""

    database: Database
    sending: Sending
    registry: CollectorRegistry
    now: datetime = START
    notices: Notices = field(default_factory=lambda: Notices(sends=True))

    async def ended(self, task_id: int, status: str, notices: Notices | None = None) -> None:
        async with self.database.begin(reason="the task ended") as work:
            event = TaskCompleted(task_id=task_id, status=status)
            await (notices or self.notices).on_task_completed(event, work)

    async def task(self, **values: Any) -> int:
        async with self.database.read() as connection:
            facts = {"task_name": "user.ada.x", "user_name": "ada", "state_change_time": self.now, **values}
            return await rows.task(connection, **facts)

    async def rows(self) -> list[tuple[str, int, str | None]]:
        async with self.database.read() as connection:
            found = await connection.fetch("SELECT status, attempts, reason FROM notices ORDER BY notice_id")
        return [tuple(row) for row in found]


@pytest.fixture
async def desk(database_url: str, mail: MailServer) -> AsyncIterator[Desk]:
    settings = TaskDefinitionSettings(
        database_url=database_url, mail_server=f"127.0.0.1:{mail.port}", mail_from="orrery@site.org",
        mail_domain="site.org", mail_encryption="none", mail_timeout_s=0.3,
    )  # fmt: skip
    clock: list[Desk] = []
    database = await Database.connect(
        database_url, actor="task-definition", now=lambda: clock[0].now if clock else START
    )
    registry = CollectorRegistry()
    found = Desk(database, Sending(database, smtp(settings), settings.mail_domain, registry), registry)
    clock.append(found)
    yield found
    await database.close()


@pytest.mark.parametrize(
    ("status", "says"),
    [("done", "is done: all of its input was processed"), ("broken", "is broken: it cannot be carried out"),
     ("exhausted", "is exhausted: it waits until you retry or finish it"), ("failed", "has failed")],
)  # fmt: skip
async def test_the_owner_is_told_once_for_each_cause(desk: Desk, mail: MailServer, status: str, says: str) -> None:
    task = await desk.task(status=status, progress=40, error_dialog="no\nluck")
    for _ in range(2):
        await desk.ended(task, status)
        await desk.sending.work_off()
    (letter,) = mail.letters
    assert (letter["From"], letter["To"]) == ("orrery@site.org", "ada@site.org")
    assert letter["Subject"] == f"Task {task} {status}: user.ada.x"
    assert letter["Date"].datetime.tzinfo is not None and letter["Message-ID"].endswith("@site.org>")
    text = letter.get_content()
    assert f"Your task {task} user.ada.x {says}" in text and "since 2026-03-01 12:00:00 UTC" in text
    assert "40 % of its input are processed.\nIt says: no\\nluck\n" in text.replace("\r\n", "\n")
    assert await desk.rows() == [("sent", 1, None)]


async def test_a_task_that_ends_again_after_a_retry_is_told_again(desk: Desk, mail: MailServer) -> None:
    task = await desk.task(status="failed")
    await desk.ended(task, "failed")
    async with desk.database.read() as connection:
        await rows.change(connection, "UPDATE tasks SET state_change_time = $1", START + MINUTE)
    await desk.ended(task, "failed")
    assert await desk.sending.work_off() == 2 and len(mail.letters) == 2


async def test_without_a_mail_server_with_no_email_or_when_it_moved_on_nothing_is_noted(desk: Desk) -> None:
    await desk.ended(await desk.task(status="failed"), "failed", Notices(sends=False))
    await desk.ended(await desk.task(status="running"), "failed")
    quiet = await desk.task(status="failed")
    async with desk.database.read() as connection:
        await rows.insert(connection, "task_parameters", {"task_id": quiet, "task_parameters": {"noEmail": True}})
    await desk.ended(quiet, "failed")
    assert await desk.rows() == []


@pytest.mark.parametrize("slow", [False, True])
async def test_mail_that_is_refused_or_slow_is_told_and_forgotten_after_three_tries(
    desk: Desk, mail: MailServer, caplog: pytest.LogCaptureFixture, slow: bool
) -> None:
    mail.answer, mail.slow = "554 go away", slow
    why = "SMTPReadTimeoutError" if slow else "SMTPDataError"
    task = await desk.task(status="failed")
    await desk.ended(task, "failed")
    for attempts, wait in ((1, 60), (2, 120)):
        assert await desk.sending.work_off() == 1
        [(status, tried, reason)] = await desk.rows()
        assert (status, tried, reason) == ("waiting", attempts, why)
        desk.now += timedelta(seconds=wait - 1)
        assert await desk.sending.work_off() == 0
        desk.now += timedelta(seconds=1)
    assert await desk.sending.work_off() == 1
    [(status, tried, reason)] = await desk.rows()
    assert (status, tried, reason) == ("given up", 3, f"tried 3 times: {why}")
    desk.now += timedelta(days=1)
    assert await desk.sending.work_off() == 0 and mail.n_asked == 3 and mail.letters == []
    assert f"letter about task {task} (failed) given up: tried 3 times" in caplog.text
    assert slow or "(554, 'go away')" in caplog.text, "the log has what the server said, owners have not"
    assert desk.registry.get_sample_value("orrery_letters_total", {"outcome": "given up"}) == 1
    async with desk.database.read() as connection:
        found = await Explanation(KnownGrid(NullCache())).task(connection, task, OPERATOR)
    assert found is not None and "letter to its owner (failed since 2026-03-01 12:00:00 UTC): given up" in found["text"]


async def test_no_transaction_is_open_while_a_letter_is_sent(desk: Desk, mail: MailServer) -> None:
    seen = []

    async def send(letter: object) -> None:
        async with desk.database.read() as connection:
            seen.append(
                await connection.fetchval(
                    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
                    " AND state LIKE 'idle in transaction%'"
                )
            )

    await desk.ended(await desk.task(status="failed"), "failed")
    await Sending(desk.database, send, "site.org", CollectorRegistry()).work_off()
    assert seen == [0] and await desk.rows() == [("sent", 1, None)]


async def test_a_vo_has_a_plugin_of_its_own(desk: Desk, mail: MailServer) -> None:
    for status, subject in (("done", None), ("failed", "failed")):
        task = await desk.task(status=status, vo="example", task_name=f"t.{status}", user_name="bob@there.org")
        await desk.ended(task, status)
        await desk.sending.work_off()
        assert [letter["Subject"] for letter in mail.letters] == (
            [f"Task {task} {subject}: t.failed"] if subject else []
        )
    assert [letter["To"] for letter in mail.letters] == ["bob@there.org"]
    assert [row[0] for row in await desk.rows()] == ["not told", "sent"]
    assert find(GROUP, "atlas", "user") is PlainLetters


async def test_an_owner_without_an_address_is_told_nothing_and_that_is_said(desk: Desk, mail: MailServer) -> None:
    await desk.ended(await desk.task(status="failed", user_name="/DC=ch/CN=Ada L"), "failed")
    await desk.sending.work_off()
    assert await desk.rows() == [("given up", 1, "no address: '/DC=ch/CN=Ada L@site.org'")] and mail.n_asked == 0


@pytest.mark.parametrize(
    ("text", "good"),
    [("ada@site.org", True), ("ada", False), ("ada@", False), ("a b@site.org", False), ("a@b@c.org", False),
     ("a@site.org\nBcc: x@y.org", False), ("<a@site.org>", False)],
)  # fmt: skip
def test_only_one_plain_address_is_one(text: str, good: bool) -> None:
    assert is_address(text) == good


def test_names_of_tasks_forge_no_line_of_a_letter() -> None:
    about = Occasion(1, "x\r\nBcc: all@site.org", "ada", "demo", "failed", START, None, "", "site.org")
    letter = PlainLetters().letter(about)
    assert letter is not None and "\n" not in letter.subject and "\r" not in letter.subject


@pytest.mark.parametrize(
    ("waited", "temporary", "n_told"), [(60, False, 1), (59, False, 0), (60, True, 0), (600, False, 1)]
)
async def test_a_task_that_only_its_owner_can_help_is_told_after_an_hour(
    desk: Desk, mail: MailServer, waited: int, temporary: bool, n_told: int
) -> None:
    task = await desk.task(status="pending", frozen_time=START - waited * MINUTE)
    miss = {"name": "Q", "check": "memory", "tier": "configuration", "temporary": temporary}
    decision = {"kind": "job", "task_id": task, "plugin": "p", "seed": 1, "world_version": 1, "outcome": "none",
                "summary": {"nearest_miss": miss}, "names": [], "codes": [], "found": [], "wanted": [], "weights": [],
                "checks": []}  # fmt: skip
    async with desk.database.read() as connection:
        await rows.insert(connection, "brokerage_decisions", decision)
    for _ in range(2):
        async with desk.database.begin(reason="periodic") as work:
            await desk.notices.look(work)
        desk.now += timedelta(seconds=59)
    await desk.sending.work_off()
    assert [letter["Subject"] for letter in mail.letters] == [f"Task {task} waits: user.ada.x"] * n_told


async def test_a_slow_server_has_each_letter_sent_once_by_two_senders(desk: Desk) -> None:
    sent: list[str] = []
    for number in range(3):
        await desk.ended(await desk.task(status="failed", user_name=f"u{number}"), "failed")

    async def send(letter: Letter) -> None:
        sent.append(letter.to)

    other = Sending(desk.database, send, "site.org", CollectorRegistry())

    async def send_slowly(letter: Letter) -> None:
        desk.now += timedelta(seconds=LEASE_S - 1)
        if len(sent) == 1:
            await other.work_off()
        sent.append(letter.to)

    await Sending(desk.database, send_slowly, "site.org", CollectorRegistry()).work_off()
    assert sorted(sent) == ["u0@site.org", "u1@site.org", "u2@site.org"]


async def test_a_sender_that_lost_its_notice_changes_nothing_more(desk: Desk) -> None:
    await desk.ended(await desk.task(status="failed"), "failed")
    seen: list[Any] = []

    async def send(letter: Letter) -> None:
        seen.append(await desk.rows())

    async def send_until_the_lease_is_over(letter: Letter) -> None:
        desk.now += timedelta(seconds=LEASE_S)
        taken = await Sending(desk.database, send, "site.org", CollectorRegistry())._take()
        assert taken is not None and taken.attempts == 2
        raise OSError("too late")

    await Sending(desk.database, send_until_the_lease_is_over, "site.org", CollectorRegistry()).work_off()
    assert await desk.rows() == [("waiting", 2, None)]
    desk.now += timedelta(seconds=LEASE_S - 1)
    assert await desk.sending.work_off() == 0, "the other has it until its lease is over"


async def test_a_whole_letter_that_lasts_too_long_is_put_off(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending_module, "LONGEST_LETTER_S", 0.01)
    await desk.ended(await desk.task(status="failed"), "failed")

    async def send(letter: Letter) -> None:
        await asyncio.Event().wait()

    await Sending(desk.database, send, "site.org", CollectorRegistry()).work_off()
    assert await desk.rows() == [("waiting", 1, "TimeoutError")]
    assert sending_module.LEASE_S >= 5 * 120.0, "a letter ends long before another sender takes its notice"


async def test_an_error_that_nobody_foresaw_stops_no_other_letter(desk: Desk) -> None:
    sent: list[str] = []
    for name in ("bad", "good"):
        await desk.ended(await desk.task(status="failed", user_name=name), "failed")

    async def send(letter: Letter) -> None:
        if letter.to.startswith("bad"):
            raise IndexError("of a parser")
        sent.append(letter.to)

    assert await Sending(desk.database, send, "site.org", CollectorRegistry()).work_off() == 2
    assert sent == ["good@site.org"]
    assert await desk.rows() == [("waiting", 1, "IndexError"), ("sent", 1, None)]


async def test_a_letter_whose_sender_is_ended_each_time_is_given_up(desk: Desk, mail: MailServer) -> None:
    await desk.ended(await desk.task(status="failed"), "failed")
    for _ in range(3):
        assert await desk.sending._take() is not None
        desk.now += timedelta(seconds=LEASE_S)
    await desk.sending.work_off()
    assert await desk.rows() == [("given up", 4, "tried 3 times: each time its sender was ended")] and not mail.letters


@pytest.mark.parametrize(("seconds", "told"), [(86_400, "sent"), (86_401, "given up")])
async def test_a_letter_that_could_not_be_sent_for_a_day_is_given_up(
    desk: Desk, mail: MailServer, seconds: int, told: str
) -> None:
    await desk.ended(await desk.task(status="failed"), "failed")
    desk.now += timedelta(seconds=seconds)
    await desk.sending.work_off()
    assert await desk.rows() == [(told, 1, None if told == "sent" else "not sent within 24 h")]


@pytest.mark.parametrize(("cause", "now", "told"), [("exhausted", "ready", "given up"), ("failed", "ready", "sent")])
async def test_owners_are_not_asked_for_what_the_task_does_not_wait_for_any_more(
    desk: Desk, mail: MailServer, cause: str, now: str, told: str
) -> None:
    await desk.ended(await desk.task(status=cause), cause)
    async with desk.database.read() as connection:
        await rows.change(connection, "UPDATE tasks SET status = $1", now)
    await desk.sending.work_off()
    assert await desk.rows() == [(told, 1, None if told == "sent" else "the task has gone on")]


async def test_an_end_that_is_told_again_after_a_day_is_not_noted(desk: Desk) -> None:
    task = await desk.task(status="failed", state_change_time=START - timedelta(days=1))
    await desk.ended(task, "failed")
    assert await desk.rows() == []


async def test_notices_that_nobody_sends_are_forgotten_after_30_days(desk: Desk) -> None:
    await desk.ended(await desk.task(status="failed"), "failed")
    for seconds, left in ((0, 1), (1, 0)):
        desk.now = START + timedelta(days=30, seconds=seconds)
        async with desk.database.begin(reason="periodic") as work:
            await desk.notices.forget(work)
        assert len(await desk.rows()) == left


async def test_notices_are_forgotten_after_30_days(desk: Desk) -> None:
    await desk.ended(await desk.task(status="failed"), "failed")
    await desk.sending.work_off()
    for days, left in ((30, 1), (0, 0)):
        desk.now += timedelta(days=days, seconds=0 if days else 1)
        async with desk.database.begin(reason="periodic") as work:
            await desk.notices.forget(work)
        assert len(await desk.rows()) == left


@pytest.mark.parametrize(
    "wrong",
    [{"mail_server": "mail.site.org"}, {"mail_server": "a b:25"}, {"mail_from": "nobody"}, {"mail_encryption": "some"}],
)
def test_settings_that_cannot_be_meant_are_refused(wrong: dict[str, str]) -> None:
    right = {"database_url": "postgresql://x", "mail_server": "mail.site.org:25", "mail_from": "o@site.org"}
    assert TaskDefinitionSettings(**right).mail_encryption == "starttls"  # type: ignore[arg-type]
    with pytest.raises(ValidationError, match=next(iter(wrong))):
        TaskDefinitionSettings(**{**right, **wrong})  # type: ignore[arg-type]
