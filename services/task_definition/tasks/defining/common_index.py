"""Uses files whose index all input that is indexConsistent has (JEDI: Contents Feeder).

The index of a file is the second and the third field of its name, separated by dots.
"""

from __future__ import annotations

from collections import defaultdict

from services.task_definition.tasks.store.common_index import SQL
from shared.db.unit_of_work import UnitOfWork
from shared.states import FILE, Owner

REASON = "all input that is indexConsistent has the index of these files of {}"


async def keep_common_index(work: UnitOfWork, task_id: int) -> None:
    """Leave out files whose index not all such datasets have, and use those that all have by now.

    The task's row is held, and all its input is read.
    """
    moved = defaultdict(list)
    for row in await SQL.rows(work.connection, "keep_common_index", timeout_s=600, task_id=task_id):
        FILE.check(row["was"], row["status"], Owner.TASK_DEFINITION)
        moved[row["dataset_name"], row["was"], row["status"]].append(row["file_id"])
    for (name, was, status), ids in sorted(moved.items()):
        reason = REASON.format(name)
        await work.log_files(
            entity="file",
            task_id=task_id,
            ids=sorted(ids),
            from_status=was,
            to_status=status,
            reason=f"not {reason}" if status == "lost" else reason,
        )
