"""Datasets of a VO and of its people are written by others."""

from __future__ import annotations

from typing import Any

from tests.attack.attacks import attack
from tests.attack.calls import absent
from tests.attack.ground import GotThrough, Ground
from tests.attack.people import Person
from tests.attack.rows import changed
from tests.attack.stage import STORAGE


def _import(who: Person, name: str, scope: str, state: str = "open", **more: Any) -> Any:
    files = [{"lfn": f"{name}.planted.root", "size_bytes": 1}]
    one = {"scope": scope, "name": name, "state": state, "files": files, "replicas": [{"storage": STORAGE}], **more}
    return who.post("/api/v1/catalogue/import", {"format": "orrery-catalogue/1", "datasets": [one]})


@attack("production of another VO imports files into open and frozen datasets of a VO")
def into_datasets(ground: Ground) -> None:
    victim, scope = ground.ada, ground.ada.dataset.partition(".")[0]
    for who in (ground.people["production@cms"], ground.people["iam:production@cms"]):
        before = ground.rows.of(victim)
        for state in ("open", "frozen"):
            answer = _import(who, victim.dataset, scope, state)
            ground.refused(who, answer, f"imports files into the dataset as {state}", "belongs to the VO")
        if gone := changed(before, ground.rows.of(victim)):
            raise GotThrough(f"{who.label}: {', '.join(gone)} were changed")


@attack("production of another VO says where the files of a VO are")
def replicas(ground: Ground) -> None:
    who, victim = ground.people["production@cms"], ground.ada
    answer = _import(who, victim.dataset, victim.dataset.partition(".")[0], replicas=[{"storage": "BNL-OSG2_DATADISK"}])
    ground.refused(who, answer, "imports replicas")


@attack("production of another VO puts datasets of a VO into a container of its own")
def container(ground: Ground) -> None:
    who, victim = ground.people["production@cms"], ground.ada
    one = {"scope": "cms23", "name": "cms23.taken.container", "datasets": [victim.dataset]}
    answer = who.post("/api/v1/catalogue/import", {"format": "orrery-catalogue/1", "containers": [one]})
    ground.refused(who, answer, "makes a container of them")
    ground.tells_nothing(who, answer.text.replace(victim.dataset, ""), "the refusal")


@attack("production of another VO takes names of ada and of the VO")
def names(ground: Ground) -> None:
    for who in (ground.people["production@cms"], ground.people["iam:production@cms"]):
        for number, scope in enumerate(("user.ada", "data23_13p6TeV")):
            name = f"{scope}.taken{number}.{'iam' if who.label.startswith('iam') else 'own'}"
            ground.refused(who, _import(who, name, scope), f"takes the name {name}", "belongs to")


@attack("bob writes datasets by the name of ada")
def outputs(ground: Ground) -> None:
    for label in ("bob@atlas", "bob@cms", "iam:ada@atlas"):
        who = ground.people[label]
        near = ground.bob if label.endswith("cms") else ground.ada
        task = ground.stage.task_of(near, "taking task", by=who)
        task["jobParameters"][2]["dataset"] = f"user.ada.{ground.fresh('taken')}.$JEDITASKID.out"
        answer = who.post("/api/v1/task/submit", {"task_parameters": task})
        ground.refused(who, answer, "submits a task that writes user.ada.*", "scope user.ada ")


@attack("what is hidden in the catalogue is told otherwise than what is not there")
def absent_alike(ground: Ground) -> None:
    who = ground.people["bob@cms"]
    hidden = who.get("/api/v1/catalogue/dataset", name=ground.ada.dataset)
    nothing = who.get("/api/v1/catalogue/dataset", name=absent(ground.ada).dataset)
    ground.tells_nothing(who, hidden.text.replace(ground.ada.dataset, ""), "the answer")
    alike = hidden.text.replace(ground.ada.dataset, "X") == nothing.text.replace(absent(ground.ada).dataset, "X")
    if not alike or hidden.status != nothing.status:
        raise GotThrough(f"hidden: {hidden}; absent: {nothing}")
