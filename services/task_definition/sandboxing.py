"""Files that people upload for their payloads: in parts, found again by checksum, fetched by name.

Source: PanDA client, sandbox files: an archive of the working directory is uploaded before the task is submitted, and
not again where the same person uploaded the same bytes before; the payload fetches it from `<sourceURL>/cache/<name>`.

Each part is a transaction of its own: no session waits for a slow sender, and nothing of a file that did not come to
its end is ever given to anybody.
"""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator
from dataclasses import dataclass

import asyncpg

from services.task_definition.parameters import SANDBOX_KEPT_DAYS, SANDBOX_OF_USER_GB
from services.task_definition.store.sandboxes import SQL
from shared.config.parameters import Parameters
from shared.db.database import Database
from shared.db.unit_of_work import UnitOfWork
from shared.model.task_spec_problems import problem
from shared.web.problems import WrongRequest
from shared.web.uploads import UploadedFile

PART_BYTES = 1024 * 1024
MIB = 1024 * 1024
#: sources are what a build job compiles; other archives go to every job (PanDA client: size limits)
SOURCES, MOST_OF_SOURCES_BYTES, MOST_OF_OTHERS_BYTES = "sources.", 768 * MIB, 10 * MIB
#: an upload that adds nothing for so long has stopped
STOPPED_S = 3600.0
FORGOTTEN_AT_ONCE = 20
_FOOTER_BYTES = 8


@dataclass(frozen=True)
class KnownSandbox:
    """A complete file."""

    sandbox_id: int
    user_name: str
    size_bytes: int
    checksum: int | None


class Sandboxes:
    """Takes files in and gives them out."""

    def __init__(self, database: Database, parameters: Parameters) -> None:
        self._database, self._parameters = database, parameters

    async def same(self, user_name: str, size_bytes: int, checksum: int) -> str | None:
        """The name of the person's own file of this size and checksum; it is kept as if it was new."""
        async with self._database.begin(reason=f"sandbox of {user_name} used again") as work:
            found = await SQL.row(
                work.connection, "same", user_name=user_name, size_bytes=size_bytes, checksum=checksum
            )
            if found is None:
                return None
            await SQL.run(work.connection, "used", sandbox_id=found["sandbox_id"])
        return str(found["name"])

    async def take(self, user_name: str, file: UploadedFile) -> None:
        """Store a file. Raises WrongRequest where it is too large, or another file has its name.

        The same file once more is no trouble: the client sends it again when it has lost the answer.
        """
        room = await self._room(user_name, file.name)
        async with self._database.begin(reason=f"sandbox {file.name} of {user_name}") as work:
            sandbox_id = int(await SQL.value(work.connection, "begin", name=file.name, user_name=user_name))
        is_kept = False
        try:
            size, checksum = await self._store(sandbox_id, file, room)
            is_kept = await self._completed(sandbox_id, checksum, user_name, file.name)
            if not is_kept:
                await self._check_same(user_name, file.name, size, checksum)
        finally:
            if not is_kept:
                async with self._database.begin(reason=f"sandbox {file.name} is not kept") as work:
                    await SQL.run(work.connection, "forget", sandbox_id=sandbox_id)

    async def _room(self, user_name: str, name: str) -> int:
        """How many bytes the file may have. Raises WrongRequest where the person has no room left."""
        async with self._database.read() as connection:
            held = int(await SQL.value(connection, "held_bytes", user_name=user_name))
        most = int(self._parameters.read(SANDBOX_OF_USER_GB) * 1024 * MIB)
        if held >= most:
            said = f"files of {user_name} take {held} bytes; allowed: {most} together ({SANDBOX_OF_USER_GB.name})"
            raise WrongRequest([problem("file", name, said)])
        return MOST_OF_SOURCES_BYTES if name.startswith(SOURCES) else MOST_OF_OTHERS_BYTES

    async def _store(self, sandbox_id: int, file: UploadedFile, room: int) -> tuple[int, int | None]:
        """Size and checksum of what came."""
        size, end, part = 0, b"", 0
        async for piece in file.pieces(PART_BYTES):
            size += len(piece)
            if size > room:
                raise WrongRequest([problem("file", file.name, f"is larger than allowed; allowed: {room} bytes")])
            async with self._database.begin(reason=f"part {part} of sandbox {file.name}") as work:
                await SQL.run(work.connection, "add_part", sandbox_id=sandbox_id, part=part, content=piece)
            part, end = part + 1, (end + piece)[-_FOOTER_BYTES:]
        return size, checksum_of(end)

    async def _completed(self, sandbox_id: int, checksum: int | None, user_name: str, name: str) -> bool:
        try:
            async with self._database.begin(reason=f"sandbox {name} of {user_name} is complete") as work:
                return bool(await SQL.run(work.connection, "complete", sandbox_id=sandbox_id, checksum=checksum))
        except asyncpg.UniqueViolationError:  # one of this name came to its end at the same time
            return False

    async def _check_same(self, user_name: str, name: str, size: int, checksum: int | None) -> None:
        known = await self.named(name)
        if known is None or (known.user_name, known.size_bytes, known.checksum) != (user_name, size, checksum):
            raise WrongRequest([problem("file", name, "a file of this name is there; allowed: another name")])

    async def named(self, name: str) -> KnownSandbox | None:
        """The complete file of a name; that it is used is noted once a day."""
        async with self._database.read() as connection:
            row = await SQL.row(connection, "named", name=name)
        if row is None:
            return None
        if row["is_use_to_tell"]:
            async with self._database.begin(reason=f"sandbox {name} is used") as work:
                await SQL.run(work.connection, "used", sandbox_id=row["sandbox_id"])
        return KnownSandbox(row["sandbox_id"], row["user_name"], row["size_bytes"], row["checksum"])

    async def content(self, sandbox: KnownSandbox) -> AsyncIterator[bytes]:
        """All its bytes, part by part: no session waits for a slow reader."""
        for part in range(-(-sandbox.size_bytes // PART_BYTES)):
            async with self._database.read() as connection:
                yield bytes(await SQL.value(connection, "part", sandbox_id=sandbox.sandbox_id, part=part))

    async def forget_unused(self, work: UnitOfWork) -> bool:
        """Forget a few that nobody fetched for long; whether there may be more."""
        forgotten = await SQL.run(
            work.connection,
            "forget_unused",
            kept_s=self._parameters.read(SANDBOX_KEPT_DAYS) * 86_400,
            stopped_s=STOPPED_S,
            at_most=FORGOTTEN_AT_ONCE,
        )
        return forgotten == FORGOTTEN_AT_ONCE


def checksum_of(end: bytes) -> int | None:
    """The CRC-32 of the content of a gzip file, 8 bytes before its end; None of a shorter file.

    Example: of b"...\\x01\\x00\\x00\\x00\\x05\\x00\\x00\\x00", content of 5 bytes, it is 1.
    """
    return int(struct.unpack("<II", end)[0]) if len(end) == _FOOTER_BYTES else None
