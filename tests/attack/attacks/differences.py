"""What is not yours is told like what does not exist: in the same words, and after as long."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

from tests.attack.answers import Answer
from tests.attack.attacks import attack
from tests.attack.ground import Ground, require
from tests.attack.people import Person

NOBODYS = 987_654_321
#: a difference of medians that nobody measures over a network, or this part of the median where that is more
SMALL_S, SMALL_PART = 0.002, 0.2
READS: tuple[tuple[str, Callable[[Person, int, int], Answer]], ...] = (
    ("parameters of a task", lambda who, task, _: who.get("/api/v1/task/get_task_parameters", task_id=task)),
    ("files of a task", lambda who, task, _: who.get("/api/v1/task/get_datasets_and_files", task_id=task)),
    ("why a task waits", lambda who, task, _: who.get("/api/v1/task/explain", task_id=task)),
    ("the description of a job", lambda who, _, job: who.get("/api/v1/job/get_description", job_ids=job)),
)


@attack("how long an answer takes tells whether somebody else's task or job exists")
def times(ground: Ground) -> None:
    who, ada = ground.people["bob@cms"], ground.ada
    for what, asks in READS:
        seconds: dict[str, list[float]] = {"hers": [], "nobody's": []}
        for _ in range(ground.sized(300, 60)):
            seconds["hers"].append(asks(who, ada.task_id, ada.jobs["running"]).seconds)
            seconds["nobody's"].append(asks(who, NOBODYS, NOBODYS).seconds)
        hers, nobodys = median(seconds["hers"]), median(seconds["nobody's"])
        allowed = max(SMALL_S, SMALL_PART * nobodys)
        require(
            abs(hers - nobodys) < allowed,
            f"{what}: {1000 * hers:.1f} ms where it exists, {1000 * nobodys:.1f} ms where it does not",
        )


@attack("the words of an answer tell whether somebody else's task or job exists")
def words(ground: Ground) -> None:
    who, ada = ground.people["bob@cms"], ground.ada
    for what, asks in READS:
        hers, nobodys = asks(who, ada.task_id, ada.jobs["running"]), asks(who, NOBODYS, NOBODYS)
        named = {str(ada.task_id), str(ada.jobs["running"])}
        require(_without(hers, named) == _without(nobodys, {str(NOBODYS)}), f"{what}: {hers} is not {nobodys}")


def _without(answer: Answer, numbers: set[str]) -> tuple[int, list[str]]:
    """Status and words of an answer, with N for the number that was asked for."""
    separate = answer.text.replace('"', " ").replace(",", " ").replace(":", " ").split()
    return answer.status, ["N" if word in numbers else word for word in separate]
