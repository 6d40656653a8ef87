"""How each service is started: its program, its port, its environment. One entry per running copy."""

from __future__ import annotations

import os
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from deploy.local.errors import LocalError
from deploy.local.ports import LOOPBACK
from deploy.local.servers import ServerAddresses

PROJECT = Path(__file__).resolve().parents[2]
SERVICES = (
    "task-definition",
    "task-brokerage",
    "job-generation",
    "job-brokerage",
    "job-dispatch",
    "watchdog",
    "jumbo-watchdog",
    "share-correction",
    "console",
)
ONE_PROCESS = "orrery"
#: one address for every path of every service; the one process is that already
GATEWAY = "gateway"
TOKEN_KEY = "token_key.pem"
SECRETS_KEYS = "secrets.keys"
SOURCE_KEY = "source_key"
CONSOLE = "console"
CONSOLE_KEYS = "console.keys"
#: other machines reach it where these say so
GATEWAY_HOST, GATEWAY_PORT = "ORRERY_GATEWAY_HOST", "ORRERY_GATEWAY_PORT"
GATEWAY_HOSTS = (LOOPBACK, "0.0.0.0")
#: where everybody reads what runs where, and the variable that names it
RECORD, RECORD_VARIABLE = "run.json", "ORRERY_RUN_FILE"


@dataclass(frozen=True)
class Copy:
    """One process: a replica of one service, or (embedded) all services at once."""

    service: str
    replica: int
    port: int

    @property
    def name(self) -> str:
        """The name in records and of its log: `job-dispatch-0`."""
        return f"{self.service}-{self.replica}"

    @property
    def url(self) -> str:
        """Where it serves HTTP."""
        return f"http://{LOOPBACK}:{self.port}"

    @property
    def serves(self) -> tuple[str, ...]:
        """The services in this process."""
        if self.service == GATEWAY:
            return ()
        return SERVICES if self.service == ONE_PROCESS else (self.service,)

    @property
    def answers_every_path(self) -> bool:
        """Whether pilots and clients need to know no other address."""
        return self.service in (GATEWAY, ONE_PROCESS)

    def command(self) -> list[str]:
        """The program and its arguments."""
        if self.service == ONE_PROCESS:
            return [sys.executable, "-m", "services.cli", "run", "--all"]
        if self.service == GATEWAY:
            return [sys.executable, "-m", "deploy.local.gateway"]
        return [sys.executable, "-m", f"services.{self.service.replace('-', '_')}"]


def planned(*, replicas: int, embedded: bool) -> list[tuple[str, int]]:
    """Which copies there are to be.

    Every service `replicas` times and a gateway; embedded one process with all of them.
    """
    if embedded:
        return [(ONE_PROCESS, 0)]
    return [*((service, replica) for service in SERVICES for replica in range(replicas)), (GATEWAY, 0)]


def environment_of(
    copy: Copy, addresses: ServerAddresses, directory: Path, gateway: str | None = None
) -> dict[str, str]:
    """The environment of one copy: the caller's own, with what this system decides for it.

    `gateway`: the one address of all services.
    """
    own = {"ORRERY_HTTP_HOST": LOOPBACK, "ORRERY_HTTP_PORT": str(copy.port)}
    if copy.service == GATEWAY:
        own[RECORD_VARIABLE] = str(directory / RECORD)
        own["ORRERY_HTTP_HOST"] = gateway_host()
    elif copy.service != ONE_PROCESS and "ORRERY_FORWARDERS" not in os.environ:
        own["ORRERY_FORWARDERS"] = LOOPBACK  # the gateway says whose calls it hands on
    if copy.service == CONSOLE and gateway is not None:
        own["ORRERY_API_URL"] = gateway
    return base_environment(addresses, directory) | own


def gateway_host() -> str:
    """Where the gateway listens: for this machine alone, unless ORRERY_GATEWAY_HOST says otherwise.

    Raises LocalError.
    """
    host = os.environ.get(GATEWAY_HOST) or LOOPBACK
    if host not in GATEWAY_HOSTS:
        raise LocalError(f"{GATEWAY_HOST}={host!r}: allowed are {' and '.join(GATEWAY_HOSTS)} (every address)")
    return host


def gateway_port() -> int | None:
    """The port that ORRERY_GATEWAY_PORT asks for; None: a free one. Raises LocalError."""
    text = os.environ.get(GATEWAY_PORT, "")
    if not text:
        return None
    if not text.isdecimal() or not 0 < int(text) < 65536:
        raise LocalError(f"{GATEWAY_PORT}={text!r}: allowed are 1 to 65535")
    return int(text)


def base_environment(addresses: ServerAddresses, directory: Path) -> dict[str, str]:
    """The part that every process of the system shares, `orrery migrate` included."""
    inherited = {key: value for key, value in os.environ.items() if key != "PYTHONHOME"}
    path = os.pathsep.join(part for part in (str(PROJECT), inherited.get("PYTHONPATH", "")) if part)
    return (
        inherited
        | addresses.environment()
        | {
            "PYTHONPATH": path,
            "PYTHONUNBUFFERED": "1",
            "ORRERY_TOKEN_KEY_FILE": str(directory / TOKEN_KEY),
            "ORRERY_SECRETS_KEY_FILE": str(directory / SECRETS_KEYS),
            "ORRERY_SOURCE_KEY_FILE": str(directory / SOURCE_KEY),
            "ORRERY_CONSOLE_KEY_FILE": str(directory / CONSOLE_KEYS),
            "TZ": "UTC",
        }
    )


def is_ready(url: str, *, timeout_s: float = 1.0) -> bool:
    """Whether a service says that it is connected and consumes (`/readyz` answers 2xx)."""
    try:
        with _opener().open(f"{url}/readyz", timeout=timeout_s) as answer:
            return 200 <= answer.status < 300
    except (OSError, urllib.error.URLError, ValueError):
        return False


def why_not_ready(url: str, *, timeout_s: float = 5.0) -> str:
    """What a service says of itself (`/readyz`), or why it does not answer."""
    try:
        with _opener().open(f"{url}/readyz", timeout=timeout_s) as answer:
            return str(answer.read().decode(errors="replace"))
    except urllib.error.HTTPError as error:
        return error.read().decode(errors="replace")
    except (OSError, ValueError) as error:
        return f"{type(error).__name__}: {error}"


def _opener() -> urllib.request.OpenerDirector:
    return urllib.request.build_opener(urllib.request.ProxyHandler({}))  # a proxy has no business on the loopback


def with_private_servers(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment without the variables that name servers, so that private ones are used."""
    named = {"ORRERY_DATABASE_URL", "ORRERY_RABBITMQ_URL", "ORRERY_REDIS_URL"}
    return {key: value for key, value in environment.items() if key not in named}
