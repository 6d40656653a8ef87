"""Secrets of people reach jobs of others."""

from __future__ import annotations

from typing import Any

from shared.auth import access
from shared.auth.access import Whose
from tests.attack.attacks import attack
from tests.attack.ground import Ground, require
from tests.attack.people import Person
from tests.attack.stage import Victim, acquire


def _first_job(ground: Ground, who: Person, pilot: Person, near: Victim, **changes: Any) -> str | None:
    """The specification of the first job of a task that somebody submits with secrets; None where it is refused.

    `near`: whose input it reads.
    """
    task = ground.stage.task_of(near, "task with secrets", by=who, useSecrets=True, nFiles=1, **changes)
    answer = who.post("/api/v1/task/submit", {"task_parameters": task})
    if not answer.is_success:
        ground.refused(who, answer, "submits it", "userName" if "another issuer" in answer.text else "useSecrets")
        return None
    task_id = int(answer.data)
    ground.stage.wait_for_jobs(Victim(who, who, pilot, near.whose), task_id, 1)
    jobs = acquire(pilot, task_id=task_id)
    ground.people.operator.post("/api/v1/task/kill", {"task_id": task_id})  # the queue takes so many that wait
    return str(jobs)


def _holds_none(ground: Ground, pilot: Person, spec: str | None, what: str = "the job") -> None:
    """The rest of its job is the pilot's to know."""
    told = ground.canaries.told_to(pilot.caller, spec or "")
    found = ", ".join(one.what for one in told if one.what.startswith("secret of"))
    require(not found, f"{pilot.label}: {what} holds {found}")


@attack("who keeps secrets gets them in a job of theirs, in the VO for which they were given")
def owner_has_them(ground: Ground) -> None:
    spec = _first_job(ground, ground.ada.person, ground.ada.pilot, ground.ada)
    require(spec is not None and ground.ada.secret_key in spec, "ada@atlas: the secrets did not come with her own job")


@attack("production of another VO submits for ada, with her secrets")
def production_of_another_vo(ground: Ground) -> None:
    who, pilot = ground.people["production@cms"], ground.people["pilot@cms"]
    spec = _first_job(ground, who, pilot, ground.bob, userName="ada")
    _holds_none(ground, pilot, spec)
    notes = ground.ada.person.get("/api/v1/creds/list_user_secrets").text
    require(who.name in notes, f"ada is not told that {who.name} asked for her secrets: {notes[:300]}")


@attack("production of another issuer submits for ada, with her secrets")
def production_of_another_issuer(ground: Ground) -> None:
    who, pilot = ground.people["iam:production@cms"], ground.people["pilot@cms"]
    spec = _first_job(ground, who, pilot, ground.bob, userName="ada")
    _holds_none(ground, pilot, spec)


@attack("production of ada's own VO submits for her, with her secrets")
def production_of_her_vo(ground: Ground) -> None:
    who = ground.people["egi:production@atlas"]
    spec = _first_job(ground, who, ground.ada.pilot, ground.ada, userName="ada")
    _holds_none(ground, ground.ada.pilot, spec)


@attack("somebody of the same name at another issuer uses the secrets of ada")
def same_name_at_another_issuer(ground: Ground) -> None:
    for label, pilot, near in (
        ("iam:ada@atlas", ground.ada.pilot, ground.ada),
        ("egi:ada@cms", ground.bob.pilot, ground.bob),
    ):
        spec = _first_job(ground, ground.people[label], pilot, near)
        _holds_none(ground, pilot, spec, f"the job of {label}")


@attack("a person acts for cms and uses the secrets that she gave for atlas")
def same_person_in_another_vo(ground: Ground) -> None:
    issue = ground.system.authority.issue
    at_home = ground.people.with_token("eva@atlas", issue("eva", ["user"], ["atlas"]))
    abroad = ground.people.with_token("eva@cms", issue("eva", ["user"], ["cms"]))
    value = ground.canaries.make("secret of eva@atlas", access.OWN, Whose("eva", "atlas"))
    at_home.done(at_home.post("/api/v1/creds/set_user_secrets", {"key": "token", "value": value}))
    spec = _first_job(ground, abroad, ground.bob.pilot, ground.bob)
    _holds_none(ground, ground.bob.pilot, spec)


@attack("whoever reads the database reads secrets")
def at_rest(ground: Ground) -> None:
    secrets = [one.text for one in ground.canaries.by_text.values() if one.what.startswith("secret of")]
    stored = str([tuple(row) for row in ground.rows.look("SELECT * FROM user_secrets")])
    stored += str([tuple(row) for row in ground.rows.look("SELECT * FROM job_specs")])
    plain = [text for text in secrets if text in stored or text.encode().hex() in stored]
    require(not plain, f"{len(plain)} secrets are stored as they are")
