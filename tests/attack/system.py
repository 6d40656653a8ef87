"""The system that is attacked: private servers, all services and the gateway, two issuers beside its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from deploy.local.servers import stop_servers
from deploy.local.system import LocalSystem, running_system
from services.cli.addresses import RUN_FILE_VARIABLE
from shared.auth import Authority
from shared.auth.configuration import USUAL_ROLES, RolesOfGroup
from tests.integration.published_client.issuer import running_issuer
from tests.unit.auth.issuer_of_tests import Issuer

ROOT = Path(__file__).resolve().parents[2]
DIRECTORY = ROOT / ".local" / "attack"
IDENTITY_VARIABLE = "ORRERY_IDENTITY_FILE"
#: the prefixes of the two other issuers, who give the same names to other people
IAM, EGI = "iam:", "egi:"
#: iam names operators, too, by a group of another name; the other issuer gives the usual roles
ROLES: dict[str, RolesOfGroup] = {IAM: {**USUAL_ROLES, "*/admins": ("operator",)}, EGI: USUAL_ROLES}


@dataclass(frozen=True)
class AttackedSystem:
    """Where it is, who signs tokens for it, and where it writes."""

    local: LocalSystem
    address: str
    authority: Authority
    iam: Issuer
    egi: Issuer

    @property
    def database_url(self) -> str:
        return self.local.environment["ORRERY_DATABASE_URL"]

    def logs(self) -> dict[str, str]:
        """What each process has logged so far, by the name of its file."""
        files = sorted((self.local.directory / "logs").glob("*.log"))
        return {path.name: path.read_text(encoding="utf-8", errors="replace") for path in files}

    def orrery(self, token: str, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        """Run the command line as a person with this token does, where lines are long."""
        record = str(self.local.directory / "run.json")
        environment = {key: value for key, value in os.environ.items() if not key.startswith("ORRERY_")}
        environment |= {RUN_FILE_VARIABLE: record, "ORRERY_TOKEN": token, "COLUMNS": "400", "NO_COLOR": "1"}
        command = [sys.executable, "-m", "services.cli", *arguments]
        return subprocess.run(
            command, env=environment, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False
        )


@contextmanager
def attacked_system(say: Callable[[str], None]) -> Iterator[AttackedSystem]:
    """A system without any past for the length of a block, on servers of its own."""
    LocalSystem(DIRECTORY).stop()
    stop_servers(DIRECTORY)
    shutil.rmtree(DIRECTORY, ignore_errors=True)
    DIRECTORY.mkdir(parents=True)
    with running_issuer() as iam, running_issuer() as egi:
        os.environ[IDENTITY_VARIABLE] = str(_identity_file(iam, egi))
        with running_system(DIRECTORY, private_servers=True, durable=False, say=say) as local:
            address = local.gateway
            if address is None:
                raise SystemExit("the system has no gateway")
            authority = Authority.from_file(Path(local.environment["ORRERY_TOKEN_KEY_FILE"]))
            yield AttackedSystem(local, address.rstrip("/"), authority, iam, egi)


def _identity_file(iam: Issuer, egi: Issuer) -> Path:
    path = DIRECTORY / "identity.json"
    issuers = [
        {"issuer": one.url, "audience": ["orrery"], "prefix": prefix, "roles": ROLES[prefix]}
        for one, prefix in ((iam, IAM), (egi, EGI))
    ]
    path.write_text(json.dumps({"issuers": issuers}))
    return path
