"""Environment variables: what each is for; one that no setting reads is misspelt, and logged at start."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

from shared.config.settings import PREFIX, Settings

#: settings of single services (their `environment.py`)
OF_SERVICES = frozenset({
    "CLAIM_SESSIONS", "READ_SESSIONS", "CLAIM_BATCH_LIMIT", "REPORT_SESSIONS", "REPORT_BATCH_LIMIT",
    "REPORT_COLLECT_S",
    "CREDENTIALS_DIRECTORY", "SECRETS_KEY_FILE",
    "TRANSFERS_EVERY_S", "LEFT_OVERS_EVERY_S", "CONTENTS_EVERY_S", "INPUT_CHECKS_EVERY_S",
    "PERIODIC_TASKS_EVERY_S", "CATALOGUES_FILE", "CATALOGUE_TOPIC",
    "MAIL_SERVER", "MAIL_FROM", "MAIL_DOMAIN", "MAIL_USER", "MAIL_PASSWORD", "MAIL_ENCRYPTION", "MAIL_TIMEOUT_S",
    "API_URL", "CONSOLE_PUBLIC_URL", "CONSOLE_KEY_FILE", "CONSOLE_SESSION_H",
    "CONSOLE_ISSUER", "CONSOLE_CLIENT_ID", "CONSOLE_CLIENT_SECRET_FILE", "CONSOLE_SCOPES",
})  # fmt: skip


@dataclass(frozen=True)
class Variable:
    """One that is no setting of a service; `name` without the prefix."""

    name: str
    read_by: str
    meaning: str


COMMAND_LINE, CONTAINERS = "command line", "containers"
OTHERS = (
    Variable("URL", COMMAND_LINE, "the one address of a system at another machine, instead of the one that runs here"),
    Variable("TOKEN", COMMAND_LINE, "as whom commands are given; absent: the login, or the key of this machine"),
    Variable("RUN_FILE", COMMAND_LINE, "run.json of the system, instead of the nearest .local/run.json"),
    *(
        Variable(f"{service.upper()}_URL", COMMAND_LINE, f"the address of {service} alone")
        for service in (
            "task_definition", "task_brokerage", "job_generation", "job_brokerage", "job_dispatch", "watchdog",
            "jumbo_watchdog", "share_correction", "console",
        )
    ),
    Variable("POSTGRES_PASSWORD", CONTAINERS, "made by deploy/docker/make_secrets.sh"),
    Variable("RABBITMQ_PASSWORD", CONTAINERS, "made by deploy/docker/make_secrets.sh"),
    Variable("REDIS_PASSWORD", CONTAINERS, "made by deploy/docker/make_secrets.sh"),
    Variable("RABBITMQ_MANAGEMENT_URL", CONTAINERS, "where the step `setup` loads policies of queues"),
    Variable("GATEWAY_PORT", f"{CONTAINERS}, make up", "the port of the one address (8080; a free one)"),
    Variable("GATEWAY_HOST", "make up", "0.0.0.0: the one address is for other machines too; absent: 127.0.0.1"),
    Variable("PICTURES", "make test", "a folder into which tests in a browser put the pictures of README.md"),
    Variable("PROMETHEUS_PORT", CONTAINERS, "the port of Prometheus, 9090"),
)  # fmt: skip


def known_variables() -> frozenset[str]:
    """Every variable that something here reads."""
    fields = {field.upper() for field in Settings.model_fields}
    return frozenset(PREFIX + name for name in {*fields, *OF_SERVICES, *(one.name for one in OTHERS)})


def unknown_variables(names: Iterable[str]) -> list[str]:
    """A line for each variable of ours that nothing reads, with the name that is most like it."""
    known, lines = known_variables(), []
    for name in sorted(names):
        if name.upper().startswith(PREFIX) and name.upper() not in known:
            near = difflib.get_close_matches(name.upper(), known, n=1, cutoff=0.75)
            lines.append(f"{name} is not a setting and is ignored{f'; did you mean {near[0]}?' if near else ''}")
    return lines
