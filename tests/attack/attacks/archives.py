"""What people upload for their payloads is read, replaced, or fills the place of all."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor

from tests.attack.attacks import attack
from tests.attack.ground import GotThrough, Ground, require
from tests.attack.stage import Victim, acquire, archive, upload

QUOTA_MB, PIECE_MB, AT_ONCE = 4, 1, 12
_SIGNED = re.compile(r"/signed/([\w.-]+)")


@attack("an archive is fetched by its name alone, without a token and with those of others")
def by_name(ground: Ground) -> None:
    path = f"/cache/{ground.ada.sandbox}"
    for who in (ground.people.nobody, ground.people["bob@cms"], ground.people["bob@atlas"]):
        answer = who.ask("GET", path)
        if answer.content == ground.ada.sandbox_content:
            raise GotThrough(f"{who.label} has the archive by its name")


def _permission(ground: Ground, victim: Victim) -> str:
    """What the source URL of a job of the victim carries."""
    spec = str(acquire(victim.pilot, task_id=victim.spare_task_id))
    found = _SIGNED.search(spec)
    if found is None:
        raise GotThrough(f"a job of {victim.person.label} is told no signed source URL")
    return found.group(1)


@attack("the permission of a job, or one that is made up, opens the archives of others")
def permissions(ground: Ground) -> None:
    hers, his = _permission(ground, ground.ada), _permission(ground, ground.bob)
    task, expires, signature = hers.split(".")
    tries = (
        his, his.replace(str(ground.bob.spare_task_id), task, 1), f"{task}.{int(expires) + 1}.{signature}",
        f"{task}.{expires}.{signature[::-1]}", f"{task}.{expires}.", "..", f"{ground.ada.task_id}.{expires}.x",
    )  # fmt: skip
    for permission in tries:
        answer = ground.people.nobody.ask("GET", f"/signed/{permission}/cache/{ground.ada.sandbox}")
        if answer.content == ground.ada.sandbox_content or answer.status >= 500:
            raise GotThrough(f"/signed/{permission}: {answer}")
    own = ground.people.nobody.ask("GET", f"/signed/{hers}/cache/{ground.ada.sandbox}")
    require(own.content == ground.ada.sandbox_content, f"her own job cannot fetch it: {own}")


@attack("bob uploads an archive by the name of ada's")
def replaced(ground: Ground) -> None:
    for label in ("bob@atlas", "bob@cms", "iam:ada@atlas", "ada@cms"):
        upload(ground.people[label], ground.ada.sandbox, archive("planted"))
    owner = "SELECT user_name FROM sandboxes WHERE name = $1"
    owners = {row["user_name"] for row in ground.rows.look(owner, ground.ada.sandbox)}
    content = ground.rows.value(
        "SELECT string_agg(p.content, '' ORDER BY part) FROM sandbox_parts p JOIN sandboxes USING (sandbox_id) "
        "WHERE name = $1 AND user_name = 'ada'",
        ground.ada.sandbox,
    )
    require("ada" in owners, f"the archive belongs to {', '.join(owners) or 'nobody'} now")
    require(content == ground.ada.sandbox_content, "the archive has another content now")


@attack("uploads that run at once pass the quota of a person")
def quota(ground: Ground) -> None:
    operator, who = ground.people.operator, ground.people["bob@atlas"]
    setting = {"component": "taskrefiner", "key": "SANDBOX_OF_USER_GB"}
    operator.done(operator.post("/api/v1/config/set", {**setting, "value": QUOTA_MB / 1000}))
    try:
        ground.wait(3.0)  # until each service has taken up the parameter
        names = [f"sources.flood{number}.tar.gz" for number in range(AT_ONCE)]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(lambda name: upload(who, name, archive(name, PIECE_MB * 1_000_000)), names))
        stored = float(ground.rows.value("SELECT coalesce(sum(size_bytes), 0) FROM sandboxes WHERE user_name = 'bob'"))
        require(stored <= QUOTA_MB * 1.1e6, f"{stored / 1e6:.1f} MB are stored; the quota is {QUOTA_MB} MB")
    finally:
        operator.post("/api/v1/config/unset", setting)


@attack("an archive's name leads out of its folder")
def traversal(ground: Ground) -> None:
    tries = (
        "../../../etc/passwd", "..%2f..%2f..%2fetc%2fpasswd", "%2e%2e/%2e%2e/etc/passwd", "....//....//etc/passwd.gz",
        "schedconfig/../../../etc/passwd", "schedconfig/..%2f..%2f..%2fetc%2fpasswd.json",
    )  # fmt: skip
    for name in tries:
        answer = ground.people.nobody.ask("GET", f"/cache/{name}")
        if answer.status >= 500 or "root:" in answer.text:
            raise GotThrough(f"/cache/{name}: {answer}")
    for name in ("../../evil.tar.gz", "/etc/evil.tar.gz", "a\x00b.tar.gz", "a\r\nb.tar.gz"):
        who = ground.people["bob@cms"]
        upload(who, name, archive("x"))
    stored = [row["name"] for row in ground.rows.look("SELECT name FROM sandboxes WHERE name !~ '^[A-Za-z0-9._+-]+$'")]
    require(not stored, f"stored under {stored}")
