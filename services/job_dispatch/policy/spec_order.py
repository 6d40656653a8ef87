"""A specification shows the share and priority that its job has, not those it was made with."""

from __future__ import annotations

import orjson

PRIORITY, SHARE = "currentPriority", "gshare"


def in_order(spec: str, gshare: str, priority: int) -> str:
    """The text of a specification with this share and priority; as a rule it says so already.

    Example: a job that was made with priority 500 and raised to 700 while it waited is told 700.
    """
    if _says(spec, PRIORITY, str(priority)) and _says(spec, SHARE, orjson.dumps(gshare).decode()):
        return spec
    fields = orjson.loads(spec)
    wanted = {key: value for key, value in ((PRIORITY, priority), (SHARE, gshare)) if key in fields}
    if all(fields[key] == value for key, value in wanted.items()):
        return spec
    return orjson.dumps({**fields, **wanted}).decode()


def _says(spec: str, key: str, value: str) -> bool:
    """Whether it has this value under the key, or has no such key.

    Inside of a value quotes are escaped, so that it is a key of its own. Written with and without a space, and followed
    by other keys or by the end.
    """
    if f'"{key}":' not in spec:
        return True
    for text in (f'"{key}":{value}', f'"{key}": {value}'):
        place = spec.find(text)
        if place >= 0:
            return spec[place + len(text) : place + len(text) + 1] in (",", "}")
    return False
