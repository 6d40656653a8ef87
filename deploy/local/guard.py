"""Run one service, and end it when it no longer answers.

Use: `python -m deploy.local.guard -m services.job_dispatch`.

For containers: Docker starts again what exits, but leaves alone what hangs. This small parent exits as its service
does, or with code 70 after it had to kill a service that was silent on `/livez` for too long.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from deploy.local.liveness import Liveness

EXIT_SILENT = 70
_TICK_S = 0.2


def run(arguments: Sequence[str], port: int) -> int:
    """Run `python ARGUMENTS` until it ends or stops answering; the exit code."""
    child = subprocess.Popen([sys.executable, *arguments])

    def pass_on(number: int, frame: Any) -> None:
        child.send_signal(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, pass_on)
    liveness = Liveness(port)
    while child.poll() is None:
        now = time.monotonic()
        liveness.look(now)
        if liveness.is_silent(now):
            print(f"no answer on /livez for {liveness.silent_s(now):.0f} s: the service is ended", file=sys.stderr)
            child.kill()
            child.wait()
            return EXIT_SILENT
        time.sleep(_TICK_S)
    code = child.returncode
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:], int(os.environ.get("ORRERY_HTTP_PORT", "8080"))))
