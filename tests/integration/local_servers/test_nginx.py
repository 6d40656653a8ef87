"""The containers' gateway as nginx runs it: slow callers, too many from one address, and what its log holds."""

from __future__ import annotations

import asyncio
import contextlib
import re
import shutil
import subprocess
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from aiohttp import web

from deploy.local.locations import GATEWAY_FILE
from deploy.local.ports import LOOPBACK, free_port
from tests.unit.local.slow_callers import BODY, HEADERS, slow_callers

MAIN_FILE = GATEWAY_FILE.with_name("nginx.conf")
NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
pytestmark = pytest.mark.skipif(NGINX is None, reason="nginx is not installed")
TEMPORARY = """
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/f;
    uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
    include {folder}/gateway.conf;
"""


def configured(folder: Path, port: int, service: str, **replaced: str) -> Path:
    """The files with another port, folder, services and times; everything else as it is."""
    text = GATEWAY_FILE.read_text().replace("listen 8081;", f"listen {LOOPBACK}:8081;")
    text = text.replace("8081", str(free_port())).replace("listen 8080;", f"listen {LOOPBACK}:{port};")
    text = text.replace("/var/log/nginx/access.log", str(folder / "access.log"))
    text = re.sub(r"set \$(\w+) http://\S+;", rf"set $\1 {service};", text)
    for before, after in {r"_timeout 10s": "_timeout 1s", **replaced}.items():
        assert re.search(before, text), before
        text = re.sub(before, after, text)
    (folder / "gateway.conf").write_text(text)
    main = MAIN_FILE.read_text()
    for before, after in {
        "user nginx;": "daemon off;",
        "worker_processes auto": "worker_processes 1",
        "/var/log/nginx/error.log notice": f"{folder}/error.log info",
        "/var/run/nginx.pid": f"{folder}/nginx.pid",
        "    include /etc/nginx/mime.types;\n": "",
        "    include /etc/nginx/conf.d/*.conf;": TEMPORARY.format(folder=folder),
    }.items():
        assert before in main, before
        main = main.replace(before, after)
    file = folder / "nginx.conf"
    file.write_text(main)
    return file


def test_the_configuration_is_one_that_nginx_takes(tmp_path: Path) -> None:
    assert NGINX is not None
    file = configured(tmp_path, free_port(), "http://127.0.0.1:1")
    done = subprocess.run(
        [NGINX, "-t", "-p", str(tmp_path), "-c", str(file)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and "warn" not in done.stderr, done.stderr


@dataclass
class Running:
    port: int
    folder: Path
    client: httpx.AsyncClient
    asked: list[str]
    #: those whose head arrived
    begun: list[str]


@contextlib.asynccontextmanager
async def nginx(folder: Path, **replaced: str) -> AsyncIterator[Running]:
    asked, begun = list[str](), list[str]()

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        begun.append(request.path)
        await request.read()
        asked.append(request.path)
        if request.path.endswith("/wait"):
            await asyncio.sleep(1.5)  # the point of the call is time
        return web.Response(text="done")

    runner = web.ServerRunner(web.Server(handle), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, LOOPBACK, 0)
    await site.start()
    service = f"http://{LOOPBACK}:{site._server.sockets[0].getsockname()[1]}"  # type: ignore[union-attr]
    port = free_port()
    file = configured(folder, port, service, **replaced)
    process = await asyncio.create_subprocess_exec(str(NGINX), "-p", str(folder), "-c", str(file))
    async with httpx.AsyncClient(base_url=f"http://{LOOPBACK}:{port}", timeout=10, trust_env=False) as client:
        async with asyncio.timeout(10):
            while True:
                with contextlib.suppress(httpx.ConnectError):
                    await client.get("/livez")
                    break
                await asyncio.sleep(0.05)
        try:
            yield Running(port, folder, client, asked, begun)
        finally:
            process.terminate()
            await process.wait()
            await runner.cleanup()


@pytest.mark.parametrize(
    "begin", [BODY % b"/api/v1/task/submit", HEADERS % b"/api/v1/task/submit"], ids=["body", "head"]
)
async def test_slow_requests_reach_no_service_and_are_cut_while_others_go_on(tmp_path: Path, begin: bytes) -> None:
    async with (
        nginx(tmp_path) as running,
        slow_callers(running.port, ["127.0.0.9", "127.0.0.8"], 600, begin, b"", 0.5) as callers,
    ):
        for path in ("/livez", "/api/v1/pilot/acquire_jobs", "/server/panda/getJob", "/api/v1/task/list"):
            async with asyncio.timeout(1):
                assert (await running.client.get(path)).status_code == 200, path
        async with asyncio.timeout(20):
            for one in callers:
                await one.was_cut.wait()
        assert "/api/v1/task/submit" not in running.asked


def test_one_address_leaves_most_connections_of_nginx_to_others() -> None:
    (room,) = map(int, re.findall(r"worker_connections (\d+);", MAIN_FILE.read_text()))
    text = GATEWAY_FILE.read_text()
    of_one = sum(max(map(int, re.findall(rf"limit_conn {zone} (\d+);", text))) for zone in ("of_pilots", "of_others"))
    assert 2 * of_one < room / 2, "each has one connection to a service, too"
    (files,) = map(int, re.findall(r"worker_rlimit_nofile (\d+);", MAIN_FILE.read_text()))
    assert files > room


async def test_a_pilot_s_body_that_drips_reaches_the_service_whose_part_it_is_to_cut_it(tmp_path: Path) -> None:
    begin = BODY % b"/api/v1/pilot/update_job"
    async with (
        nginx(tmp_path) as running,
        slow_callers(running.port, ["127.0.0.9"], 50, begin, b"1", 0.2) as callers,
    ):
        async with asyncio.timeout(10):
            while len(running.begun) < len(callers):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert (await running.client.get("/livez")).status_code == 200
        assert (await running.client.get("/api/v1/pilot/acquire_jobs")).status_code == 200


async def test_too_many_from_one_address_are_put_off_in_the_form_of_the_method_and_health_goes_on(
    tmp_path: Path,
) -> None:
    few = {
        r"limit_conn of_others 100": "limit_conn of_others 3",
        r"limit_conn of_pilots 12000": "limit_conn of_pilots 1",
    }
    async with nginx(tmp_path, **few) as running:
        asking = [asyncio.create_task(running.client.get("/api/v1/task/wait")) for _ in range(6)]
        answers = await asyncio.gather(*asking)
        assert sorted(one.status_code for one in answers) == [200] * 3 + [429] * 3
        put_off = next(one for one in answers if one.status_code == 429)
        assert put_off.json()["success"] is False and put_off.headers["retry-after"] == "5"
        waiting = asyncio.create_task(running.client.get("/api/v1/pilot/wait"))
        while "/api/v1/pilot/wait" not in running.asked:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert (await running.client.get("/livez")).status_code == 200
        assert (await running.client.get("/api/v1/task/list")).status_code == 200
        told = await running.client.post("/server/panda/updateJob", content=b"jobId=1")
        assert told.status_code == 429 and told.headers["content-type"].startswith("text/plain")
        told = await running.client.post("/server/panda/getJob", content=b"siteName=Q")
        assert (told.status_code, told.json()["StatusCode"]) == (200, 10)
        assert (await waiting).status_code == 200


async def test_what_the_console_asks_for_is_not_counted_and_its_pages_are(tmp_path: Path) -> None:
    async with nginx(tmp_path, **{r"limit_conn of_others 100": "limit_conn of_others 3"}) as running:
        text = (tmp_path / "gateway.conf").read_text()
        (own,) = re.findall(r"map \$server_port \$counted {[^}]*?(\d+) \"\";", text)
        calls = [running.client.get(f"http://{LOOPBACK}:{own}/api/v1/task/wait") for _ in range(6)]
        pages = [running.client.get("/console/wait") for _ in range(6)]
        answers = [one.status_code for one in await asyncio.gather(*calls, *pages)]
    assert answers[:6] == [200] * 6 and sorted(answers[6:]) == [200] * 3 + [429] * 3


async def test_no_argument_of_an_address_is_in_a_log(tmp_path: Path) -> None:
    async with nginx(tmp_path) as running:
        for path in ("/server/panda/get_access_token", "/api/v1/creds/get_access_token", "/api/v1/task/list"):
            assert (await running.client.get(path, params={"token_key": "s3cr3t"})).status_code == 200
        await running.client.get("/api/v1/task/two%0Alines", headers={"User-Agent": 'a" b'})
    log = (tmp_path / "access.log").read_text()
    assert "/api/v1/task/list" in log and "s3cr3t" not in log and "get_access_token" not in log
    assert all(line.startswith("127.0.0.1 [") for line in log.splitlines())


async def test_addresses_of_one_network_of_ipv6_count_as_one(tmp_path: Path) -> None:
    listening = {r"listen 127.0.0.1:(\d+);": r"listen 127.0.0.1:\1; listen [::1]:\1;",
                 r"limit_conn of_others 100": "limit_conn of_others 1"}  # fmt: skip
    async with nginx(tmp_path, **listening) as running:
        try:
            async with httpx.AsyncClient(base_url=f"http://[::1]:{running.port}", trust_env=False) as client:
                asking = [asyncio.create_task(client.get("/api/v1/task/wait")) for _ in range(2)]
                answers = await asyncio.gather(*asking)
        except httpx.ConnectError:
            pytest.skip("this machine has no IPv6")
        assert sorted(one.status_code for one in answers) == [200, 429]
