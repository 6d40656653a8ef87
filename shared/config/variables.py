"""Names of environment variables: one that no setting reads is misspelt, and logged at start."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from shared.config.settings import PREFIX, Settings

#: those of single services, of the command line, and of what starts and tests the system
ELSEWHERE = frozenset({
    "CLAIM_SESSIONS", "READ_SESSIONS", "CLAIM_BATCH_LIMIT", "REPORT_SESSIONS", "REPORT_BATCH_LIMIT",
    "CREDENTIALS_DIRECTORY",
    "TRANSFERS_EVERY_S", "LEFT_OVERS_EVERY_S", "CONTENTS_EVERY_S", "INPUT_CHECKS_EVERY_S",
    "PERIODIC_TASKS_EVERY_S", "CATALOGUES_FILE",
    "TASK_DEFINITION_URL", "TASK_BROKERAGE_URL", "JOB_GENERATION_URL", "JOB_BROKERAGE_URL", "JOB_DISPATCH_URL",
    "WATCHDOG_URL", "JUMBO_WATCHDOG_URL", "SHARE_CORRECTION_URL", "RUN_FILE", "TOKEN",
    "POSTGRES_PASSWORD", "RABBITMQ_PASSWORD", "REDIS_PASSWORD", "RABBITMQ_MANAGEMENT_URL", "GATEWAY_PORT",
    "PROMETHEUS_PORT",
})  # fmt: skip


def known_variables() -> frozenset[str]:
    """Every variable that something here reads."""
    return frozenset(PREFIX + name for name in {*(field.upper() for field in Settings.model_fields), *ELSEWHERE})


def unknown_variables(names: Iterable[str]) -> list[str]:
    """A line for each variable of ours that nothing reads, with the name that is most like it."""
    known, lines = known_variables(), []
    for name in sorted(names):
        if name.upper().startswith(PREFIX) and name.upper() not in known:
            near = difflib.get_close_matches(name.upper(), known, n=1, cutoff=0.75)
            lines.append(f"{name} is not a setting and is ignored{f'; did you mean {near[0]}?' if near else ''}")
    return lines
