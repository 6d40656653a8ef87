"""Tokens and names that are forged, borrowed, revoked, too long, or told in logs."""

from __future__ import annotations

import secrets
from typing import Any

from tests.attack.attacks import attack
from tests.attack.ground import GotThrough, Ground, require
from tests.attack.people import Person

OVERSIZED = "oversized" + secrets.token_hex(8)
KEY_PATHS = ("/server/panda/get_access_token", "/api/v1/creds/get_access_token")


def _outside(ground: Ground, label: str, **claims: Any) -> Person:
    return Person(label, ground.system.iam.token(**claims), None, ground.people.nobody.http)


@attack("a token of 40 000 characters is told back or logged")
def oversized(ground: Ground) -> None:
    for token in (OVERSIZED * 1600, f"{OVERSIZED * 400}.{OVERSIZED * 400}.{OVERSIZED * 100}"):
        who = Person("oversized", token, None, ground.people.nobody.http)
        for path in (
            "/api/v1/task/list",
            "/server/panda/getJob",
            "/api/v1/pilot/get_job_status",
            "/api/v1/grid/queues",
        ):
            answer = who.get(path)
            require(OVERSIZED not in answer.text, f"{path} tells it back: {len(answer.text)} characters")
            require(not answer.is_success and answer.status < 500, f"{path}: {answer}")
    found = [name for name, text in ground.system.logs().items() if OVERSIZED in text]
    require(not found, f"it is in {', '.join(found)}")


@attack("tokens, keys that renew them and secrets are in the logs")
def logged(ground: Ground) -> None:
    key = ground.system.authority.issue("factory", ["pilot"], ["atlas"], audience="orrery-token-key")
    pilot = ground.people.nobody
    for path in KEY_PATHS:
        pilot.get(path, client_name="factory", token_key=key)
        pilot.get(path, client_name="factory", token_key=f"{key[:-8]}xxxxxxxx")
    shown = {key[-40:-8]: "the key that renews a token"}
    shown |= {one.token[-40:]: f"the token of {one.label}" for one in ground.people.believed() if one.token}
    shown |= {one.text: one.what for one in ground.canaries.by_text.values() if one.what.startswith("secret of")}
    found = [
        f"{what} in {name}"
        for name, text in ground.system.logs().items()
        for part, what in shown.items()
        if part in text
    ]
    require(not found, "; ".join(found[:5]))


@attack("a person of another issuer has a name with control characters")
def control_characters(ground: Ground) -> None:
    names = (
        "ada\x1b]52;c;eA==\x07",
        "ada\nERROR forged",
        "ada\x00",
        "ada\u202ebob",
        "ada\r",
        "\x1b[2J",
        "ada\u200b",
        " ",
    )
    for name in names:
        who = _outside(ground, f"iam:{name!r}", sub=name, preferred_username=name, groups=["atlas"])
        answer = who.get("/api/v1/task/list")
        require(not answer.is_success, f"{who.label} is believed: {answer}")
        raw = [one for one in "\x1b\x07\u202e\x00\u200b" if one in answer.text]
        require(not raw, f"{who.label} is told back as it came")


@attack("a person of another issuer becomes ada, or an operator, by what the token says")
def forged_claims(ground: Ground) -> None:
    tries: dict[str, dict[str, Any]] = {
        "roles": {"preferred_username": "eve", "roles": ["operator"], "groups": ["atlas"]},
        "group operator": {"preferred_username": "eve", "groups": ["atlas/operator", "operator", "*/operator"]},
        "issuer orrery": {"preferred_username": "ada", "iss": "orrery", "groups": ["atlas"]},
        "names": {"preferred_username": None, "sub": None, "name": "ada", "groups": ["atlas"]},
        "list": {"preferred_username": ["ada"], "groups": ["atlas"]},
        "prefix of egi": {"preferred_username": "../egi:ada", "groups": ["cms"]},
    }
    for what, claims in tries.items():
        who = _outside(ground, f"iam ({what})", **claims)
        for path in ("/api/v1/audit", "/api/v1/check"):
            ground.refused(who, who.get(path), f"reads {path}")
        ground.tells_nothing(who, who.get("/api/v1/creds/get_user_secrets").text, "its secrets")
        ground.tells_nothing(
            who, who.get("/api/v1/task/get_task_parameters", task_id=ground.ada.task_id).text, "a task"
        )


@attack("headers of a TLS proxy make anybody the holder of a certificate")
def certificates(ground: Ground) -> None:
    for name in ("X-SSL-Client-S-DN", "SSL_CLIENT_S_DN", "X-Ssl-Client-S-Dn"):
        headers = {
            name: "/DC=org/CN=ada",
            "X-SSL-Client-Verify": "SUCCESS",
            "X-SSL-Client-FQAN": "/atlas/Role=production",
        }
        answer = ground.people.nobody.ask("GET", "/api/v1/task/list", headers=headers)
        require(answer.status == 401, f"{name}: {answer}")


@attack("somebody who is no operator revokes what others got")
def revokes(ground: Ground) -> None:
    for label in ("bob@atlas", "production@cms", "production@atlas", "iam:ada@atlas", "ada@cms (as bob)"):
        who = ground.people.by_label.get(label)
        if who is None:
            continue
        ground.refused(who, who.post("/api/v1/token/revoke", {"subject": "ada"}), "revokes ada")
        ground.refused(who, who.post("/api/v1/token/revoke", {"token_id": "a" * 32}), "revokes a token by its id")
    if not ground.ada.person.get("/api/v1/task/get_status", task_id=ground.ada.task_id).is_success:
        raise GotThrough("ada is not believed any more")
