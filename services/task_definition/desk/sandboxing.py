"""Files that people upload for their payloads: in parts, found again by checksum, fetched by name.

Source: PanDA client, sandbox files: an archive of the working directory is uploaded before the task is submitted, and
not again where the same person uploaded the same bytes before; the payload fetches it from `<sourceURL>/cache/<name>`.

Names are their owner's: two people may have files of one name. An upload reserves its room before its first byte is
read. Each part is a transaction of its own: no session waits for a slow sender, and nothing of a file that did not come
to its end is ever given to anybody.
"""

from __future__ import annotations

import asyncio
import re
import struct
from collections.abc import AsyncIterator
from dataclasses import dataclass

import asyncpg

from services.task_definition.desk.store.sandboxes import SQL
from services.task_definition.parameters import SANDBOX_KEPT_DAYS, SANDBOX_OF_USER_GB, SANDBOX_UPLOADS_AT_ONCE
from shared.auth import Caller, access
from shared.auth.access import Whose
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
#: an upload takes at most so long for a part, and for all of them
SLOWEST_PART_S, SLOWEST_UPLOAD_S = 60.0, 7200.0
#: an upload that adds nothing for so long has stopped with its process: its room is free again
STOPPED_S = 3 * SLOWEST_PART_S
FORGOTTEN_AT_ONCE = 20
_FOOTER_BYTES = 8
_ARCHIVE = re.compile(r"\.(gz|tgz|tar)$")
#: a name in the JSON of a task ends at whatever no name has in it, or begins after an escaped line end or tab
_WORD = r"(^|[^A-Za-z0-9._+-]|\\[nrt]){name}([^A-Za-z0-9._+-]|$)"


@dataclass(frozen=True)
class KnownSandbox:
    """A complete file."""

    sandbox_id: int
    whose: Whose
    size_bytes: int
    checksum: int | None
    is_use_to_tell: bool

    @classmethod
    def of_row(cls, row: asyncpg.Record) -> KnownSandbox:
        whose = Whose.of(row["user_name"], row["vo"])
        return cls(row["sandbox_id"], whose, row["size_bytes"], row["checksum"], row["is_use_to_tell"])


class Sandboxes:
    """Takes files in and gives them out."""

    def __init__(self, database: Database, parameters: Parameters) -> None:
        self._database, self._parameters = database, parameters

    async def same(self, caller: Caller, size_bytes: int, checksum: int) -> str | None:
        """The name of the person's own file of this size and checksum; it is kept as if it was new."""
        vos = None if caller.vos is None else sorted(caller.vos)
        async with self._database.begin(reason=f"sandbox of {caller.name} used again") as work:
            found = await SQL.row(
                work.connection, "same", user_name=caller.name, vos=vos, size_bytes=size_bytes, checksum=checksum
            )
            if found is None:
                return None
            await SQL.run(work.connection, "used", sandbox_id=found["sandbox_id"])
        return str(found["name"])

    async def take(self, caller: Caller, file: UploadedFile, size_bytes: int | None) -> None:
        """Store a file of at most `size_bytes`, if that is known before.

        The same file once more is no trouble: the client sends it again when it has lost the answer. Raises
        WrongRequest where the file is too large or comes too slowly, its owner has no room, too many uploads under way
        or another file of this name.
        """
        owner = caller.name
        sandbox_id = await self._begin(caller, file.name, size_bytes)
        is_kept = False
        try:
            size, checksum = await self._store(sandbox_id, file)
            is_kept = await self._completed(sandbox_id, checksum, owner, file.name)
            if not is_kept:
                await self._check_same(owner, file.name, size, checksum)
        finally:
            if not is_kept:
                async with self._database.begin(reason=f"sandbox {file.name} is not kept") as work:
                    await SQL.run(work.connection, "forget", sandbox_id=sandbox_id)

    async def _begin(self, caller: Caller, name: str, size_bytes: int | None) -> int:
        """The row of an upload, with room reserved: what several send at once fits together. Raises WrongRequest."""
        owner, largest = caller.name, largest_of(name)
        wanted = largest if size_bytes is None else min(size_bytes, largest)
        most = int(self._parameters.read(SANDBOX_OF_USER_GB) * 1024 * MIB)
        async with self._database.begin(reason=f"sandbox {name} of {owner}") as work:
            await SQL.run(work.connection, "hold_uploads", user_name=owner)
            found = await SQL.row(work.connection, "standing", user_name=owner, stopped_s=STOPPED_S)
            assert found is not None
            if found["n_under_way"] >= (n_at_once := self._parameters.read(SANDBOX_UPLOADS_AT_ONCE)):
                said = f"{found['n_under_way']} uploads of {owner} are under way"
                raise _refused(name, f"{said}; allowed: {n_at_once} at once ({SANDBOX_UPLOADS_AT_ONCE.name})")
            if found["held_bytes"] + wanted > most:
                said = f"files of {owner} take {found['held_bytes']} bytes, this one up to {wanted}"
                raise _refused(name, f"{said}; allowed: {most} together ({SANDBOX_OF_USER_GB.name})")
            vo = next(iter(caller.vos)) if caller.vos is not None and len(caller.vos) == 1 else None
            return int(
                await SQL.value(work.connection, "begin", name=name, user_name=owner, vo=vo, reserved_bytes=wanted)
            )

    async def _store(self, sandbox_id: int, file: UploadedFile) -> tuple[int, int | None]:
        """Size and checksum of what came. Raises WrongRequest."""
        size, end, part, largest = 0, b"", 0, largest_of(file.name)
        pieces = aiter(file.pieces(PART_BYTES))
        try:
            async with asyncio.timeout(SLOWEST_UPLOAD_S):
                while True:
                    async with asyncio.timeout(SLOWEST_PART_S):
                        piece = await anext(pieces, b"")
                    if not piece:
                        return size, checksum_of(end)
                    size += len(piece)
                    if size > largest or not await self._added(sandbox_id, part, piece):
                        raise _refused(file.name, f"is larger than allowed; allowed: {largest} bytes")
                    part, end = part + 1, (end + piece)[-_FOOTER_BYTES:]
        except TimeoutError:
            allowed = f"{PART_BYTES} bytes in {SLOWEST_PART_S:g} s, all of it in {SLOWEST_UPLOAD_S:g} s"
            raise _refused(file.name, f"came too slowly; allowed: {allowed}") from None

    async def _added(self, sandbox_id: int, part: int, piece: bytes) -> bool:
        async with self._database.begin(reason=f"part {part} of sandbox {sandbox_id}") as work:
            return bool(await SQL.run(work.connection, "add_part", sandbox_id=sandbox_id, part=part, content=piece))

    async def _completed(self, sandbox_id: int, checksum: int | None, owner: str, name: str) -> bool:
        try:
            async with self._database.begin(reason=f"sandbox {name} of {owner} is complete") as work:
                return bool(await SQL.run(work.connection, "complete", sandbox_id=sandbox_id, checksum=checksum))
        except asyncpg.UniqueViolationError:  # one of this name came to its end at the same time
            return False

    async def _check_same(self, owner: str, name: str, size: int, checksum: int | None) -> None:
        async with self._database.read() as connection:
            known = await SQL.row(connection, "own", name=name, user_name=owner)
        if known is None or (known["size_bytes"], known["checksum"]) != (size, checksum):
            raise _refused(name, f"another file of {owner} has this name; allowed: another name")

    async def of_caller(self, name: str, caller: Caller) -> KnownSandbox | None:
        """The complete file of a name that a caller may read, their own before others (rule SOURCES)."""
        found = [one for one in await self._named(name) if access.SOURCES.allows(caller, one.whose)]
        found.sort(key=lambda one: not access.OWN.allows(caller, one.whose))
        return await self._noted(found[0] if found else None)

    async def of_task(self, name: str, task_id: int) -> KnownSandbox | None:
        """The complete file of a name that a task names, if it is of who submitted the task."""
        stem = name.removesuffix(".gz")
        whole = re.escape(name) if stem == name or _ARCHIVE.search(stem) else rf"{re.escape(stem)}(\.gz)?"
        word = _WORD.format(name=whole)
        async with self._database.read() as connection:
            row = await SQL.row(connection, "of_task", name=name, task_id=task_id, word=word)
        return await self._noted(None if row is None else KnownSandbox.of_row(row))

    async def of_anybody(self, name: str) -> KnownSandbox | None:
        """The complete file of a name, for whoever knows the name: where source URLs are not signed.

        None where several people have one: a payload must not get what somebody else put under its owner's name.
        """
        found = await self._named(name)
        return await self._noted(found[0] if len(found) == 1 else None)

    async def _named(self, name: str) -> list[KnownSandbox]:
        async with self._database.read() as connection:
            return [KnownSandbox.of_row(row) for row in await SQL.rows(connection, "named", name=name)]

    async def _noted(self, found: KnownSandbox | None) -> KnownSandbox | None:
        """The same; that it is used is noted once a day."""
        if found is not None and found.is_use_to_tell:
            async with self._database.begin(reason=f"sandbox {found.sandbox_id} is used") as work:
                await SQL.run(work.connection, "used", sandbox_id=found.sandbox_id)
        return found

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


def largest_of(name: str) -> int:
    """The most bytes of a file of this name."""
    return MOST_OF_SOURCES_BYTES if name.startswith(SOURCES) else MOST_OF_OTHERS_BYTES


def _refused(name: str, said: str) -> WrongRequest:
    return WrongRequest([problem("file", name, said)])


def checksum_of(end: bytes) -> int | None:
    """The CRC-32 of the content of a gzip file, 8 bytes before its end; None of a shorter file.

    Example: of b"...\\x01\\x00\\x00\\x00\\x05\\x00\\x00\\x00", content of 5 bytes, it is 1.
    """
    return int(struct.unpack("<II", end)[0]) if len(end) == _FOOTER_BYTES else None
