"""What is needed to start the containers and to reach every service through one address, read from the files."""

from __future__ import annotations

import importlib
import re
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from deploy.local import services
from deploy.local.locations import GATEWAY_FILE, location_of, read_locations
from services.cli.addresses import SERVICES
from services.console.environment import ConsoleSettings
from shared.web.document import add_document

PROJECT = Path(__file__).parents[2]
COMPOSE = (PROJECT / "compose.yaml").read_text()
LOCATIONS = read_locations(GATEWAY_FILE.read_text())
MAKE_SECRETS = PROJECT / "deploy" / "docker" / "make_secrets.sh"
#: what each service has under the same name; the gateway answers /livez itself
OF_EACH = {"/livez", "/readyz", "/metrics", "/docs", "/docs/oauth2-redirect", "/redoc", "/openapi.json"}


def target_of(path: str) -> str | None:
    found = location_of(path, LOCATIONS)
    return found.target if found else None


def paths_of(service: str, context: Any) -> set[str]:
    """Those that it serves: of its document, plain routes, and the document itself."""
    built = importlib.import_module(f"services.{service}.app").build(context)
    web = built.web
    if web is None:
        return set()
    add_document(web, built.name)
    return (set(web.openapi()["paths"]) | {route.path for route in web.routes if hasattr(route, "path")}) - OF_EACH


@pytest.mark.parametrize("service", SERVICES)
async def test_every_path_of_every_service_is_routed_to_it_by_the_gateway(service, context) -> None:
    host = service.replace("_", "-")
    paths = paths_of(service, context)
    wrong = {path: target_of(path) for path in paths if target_of(path) != f"http://{host}:8080"}
    assert wrong == {}


async def test_the_gateway_has_no_location_that_no_service_answers(context) -> None:
    paths = set[str]()
    for service in SERVICES:
        paths |= paths_of(service, context)
    assert [one.path for one in LOCATIONS if not any(one.takes(path) for path in paths)] == []


@pytest.mark.parametrize(
    ("path", "written", "service"),
    [
        ("/server/panda/get_access_token", "= /server/panda/get_access_token", "job-dispatch"),
        ("/api/v1/creds/get_access_token", "= /api/v1/creds/get_access_token", "job-dispatch"),
        ("/signed/1.2.x/cache/jobO.1.tar.gz", "/signed/", "task-definition"),
        ("/console/sign-in/link/1.x", "/console/sign-in/link/", "console"),
    ],
)
def test_the_gateway_logs_no_address_with_a_key_in_it(path: str, written: str, service: str) -> None:
    location = location_of(path, LOCATIONS)
    assert location is not None and location.path == written.removeprefix("= ") and location.service == service
    (block,) = re.findall(rf"location {written} {{([^}}]*)}}", GATEWAY_FILE.read_text())
    assert "access_log off;" in block and "error_log /dev/null" in block


def test_every_service_of_a_location_is_one_that_is_started() -> None:
    assert {one.service for one in LOCATIONS} <= set(services.SERVICES)


def test_the_console_asks_where_its_calls_are_not_counted_and_nobody_else_can() -> None:
    blocks, conf = blocks_of("services"), GATEWAY_FILE.read_text()
    (port,) = re.findall(r'map \$server_port \$counted {[^}]*?(\d+) "";', conf)
    assert f"ORRERY_API_URL: http://gateway:{port}\n" in blocks["console"] and f"listen {port};" in conf
    assert re.findall(r":(\d+)\"$", blocks["gateway"], re.MULTILINE) == ["8080"]


def blocks_of(section: str) -> dict[str, str]:
    """The text of each container under its name."""
    text = COMPOSE.split(f"\n{section}:\n")[1].split("\nvolumes:\n")[0]
    names = re.split(r"^  ([\w-]+):\n", text, flags=re.MULTILINE)[1:]
    return dict(zip(names[::2], names[1::2], strict=True))


def test_the_console_gets_all_that_it_needs_to_sign_people_in_at_an_issuer() -> None:
    """Everything that its settings have for it; the file of the secret is mounted."""
    block = blocks_of("services")["console"]
    named = {one for one in ConsoleSettings.model_fields if re.match("console_(issuer|client|scopes)", one)}
    assert {one for one in named if f"ORRERY_{one.upper()}: " not in block} == set()
    assert ":/run/console_client_secret:ro" in block


def test_one_container_builds_the_image_that_all_of_ours_use() -> None:
    blocks, shared = blocks_of("services"), COMPOSE.split("\nservices:\n")[0]
    assert [name for name, text in blocks.items() if "build:" in text] == ["setup"] and "build:" not in shared
    # never pulled: an image that is nowhere but here would be looked for elsewhere before it is built
    assert "x-image: &image\n  image: orrery:local\n  pull_policy: never\n" in shared
    assert "x-service: &service\n  <<: *image\n" in shared and "    setup:\n      condition:" in shared
    assert "    image: orrery:local\n" in blocks["setup"] and "    <<: *image\n" in blocks["orrery"]
    for name in SERVICES:
        block = blocks[name.replace("_", "-")]
        assert "    <<: *service\n" in block and "image:" not in block and f"services.{name}" in block


def test_a_service_that_answers_no_more_is_ended_by_its_guard_and_started_again() -> None:
    shared, blocks = COMPOSE.split("\nservices:\n")[0], blocks_of("services")
    assert "\n  restart: always\n" in shared
    for name in SERVICES:
        block = blocks[name.replace("_", "-")]
        assert f'command: ["python", "-m", "deploy.local.guard", "-m", "services.{name}"]' in block


def test_the_secrets_step_writes_every_password_that_compose_asks_for_and_never_changes_them(tmp_path) -> None:
    file = tmp_path / ".env"
    make = ["sh", str(MAKE_SECRETS), str(file)]
    subprocess.run(make, check=True, capture_output=True)
    first = file.read_text()
    subprocess.run(make, check=True, capture_output=True)
    written = dict(line.split("=") for line in first.splitlines())
    asked = set(re.findall(r"\${(\w+):\?", COMPOSE))
    assert set(written) == asked and all(len(value) == 48 for value in written.values())
    assert file.read_text() == first and stat.S_IMODE(file.stat().st_mode) == 0o600


def test_the_readme_names_the_secrets_step_before_compose_up() -> None:
    for name in ("README.md", "deploy/README.md"):
        text = (PROJECT / name).read_text()
        assert 0 < text.index("sh deploy/docker/make_secrets.sh") < text.index("docker compose up"), name
