"""The time of an answer tells whether somebody else has a task or job of a number."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from tests.attack.attacks import attack
from tests.attack.calls import absent
from tests.attack.ground import Ground, require
from tests.attack.people import Person
from tests.attack.stage import Victim

#: a difference of medians that nobody can use over a network
ABSOLUTE_S, RELATIVE = 0.001, 0.2
N_PAIRS_FULL, N_PAIRS_SMALL = 400, 200


def _reads(victim: Victim) -> Iterator[tuple[str, dict[str, int]]]:
    """Routes that tell nothing of a task to who may not see it, not even its state."""
    for name in ("get_task_parameters", "get_job_ids", "get_datasets_and_files"):
        yield f"/api/v1/task/{name}", {"task_id": victim.task_id}


def _medians(who: Person, path: str, hers: dict[str, int], nothing: dict[str, int], n_pairs: int) -> list[float]:
    """Of as many asks for each, by turns and each first as often as the other, so that noise comes to both alike."""
    took: tuple[list[float], list[float]] = ([], [])
    for number in range(n_pairs):
        for which in ((0, 1), (1, 0))[number % 2]:
            took[which].append(who.get(path, **(hers, nothing)[which]).seconds)
    return [statistics.median(one) for one in took]


@attack("what is hidden is answered later or sooner than what is not there")
def hidden_and_absent(ground: Ground) -> None:
    who, n_pairs = ground.people["bob@cms"], ground.sized(N_PAIRS_FULL, N_PAIRS_SMALL)
    for (path, hers), (_, nothing) in zip(_reads(ground.ada), _reads(absent(ground.ada)), strict=True):
        texts = [who.get(path, **ids).text.replace(str(ids["task_id"]), "N") for ids in (hers, nothing)]
        require(texts[0] == texts[1], f"{path}: hidden {texts[0]}, absent {texts[1]}")
        hidden_s, absent_s = _medians(who, path, hers, nothing, n_pairs)
        allowed_s = max(ABSOLUTE_S, RELATIVE * absent_s)
        told = f"{path}: hidden {hidden_s * 1000:.2f} ms, absent {absent_s * 1000:.2f} ms"
        require(abs(hidden_s - absent_s) < allowed_s, f"{told}; allowed: {allowed_s * 1000:.2f} ms apart")
