"""Load the policies of `definitions.json` into a broker over its management API; safe to repeat.

The address comes from ORRERY_RABBITMQ_MANAGEMENT_URL (http://user:password@host:15672). The policy bounds every queue
of Orrery: one that nobody empties fills to its length and then refuses, so that events wait in the outbox in
PostgreSQL instead of filling the broker's disk. Standard library alone.
"""

from __future__ import annotations

import base64
import os
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

DEFINITIONS = Path(__file__).with_name("definitions.json")
VARIABLE = "ORRERY_RABBITMQ_MANAGEMENT_URL"
_TIMEOUT_S = 60.0


def import_definitions(url: str, definitions: bytes) -> None:
    """Send the definitions, waiting for a broker that still starts.

    Raises OSError with the broker's answer.
    """
    parts = urllib.parse.urlsplit(url)
    user, password = urllib.parse.unquote(parts.username or ""), urllib.parse.unquote(parts.password or "")
    request = urllib.request.Request(
        f"{parts.scheme}://{parts.hostname}:{parts.port or 15672}/api/definitions",
        data=definitions,
        method="POST",
        headers={
            "Content-Type": "application/json",
            "Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode(),
        },
    )
    deadline = time.monotonic() + _TIMEOUT_S
    while True:
        try:
            urllib.request.urlopen(request, timeout=10).close()
            return
        except urllib.error.HTTPError as error:
            raise OSError(f"{error.code}: {error.read().decode(errors='replace')}") from error
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(1.0)


def main() -> int:
    """The exit code."""
    url = os.environ.get(VARIABLE, "")
    if not url.startswith(("http://", "https://")):
        print(f"{VARIABLE}={url!r}: must be http://user:password@host:port", file=sys.stderr)
        return 2
    try:
        import_definitions(url, DEFINITIONS.read_bytes())
    except OSError as error:
        print(f"{DEFINITIONS.name} was refused: {error}", file=sys.stderr)
        return 1
    print(f"{DEFINITIONS.name} is loaded")
    return 0


if __name__ == "__main__":
    sys.exit(main())
