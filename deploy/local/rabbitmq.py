"""A private RabbitMQ, started from its own `lib` directory.

The packaged wrapper insists on the packaged user, and the packaged configuration on the standard port; so every file
and every port it uses is named here, in `RABBITMQ_*` variables. Erlang's port mapper (epmd) is ours too, on a port of
its own, as a child that ends with the server: left to itself, Erlang would start one that outlives everybody.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import time

from deploy.local import processes
from deploy.local.account import empty
from deploy.local.binaries import find_rabbitmq, search_path
from deploy.local.errors import LocalError
from deploy.local.packages import RABBITMQ as PACKAGE
from deploy.local.ports import LOOPBACK, free_port, is_free
from deploy.local.private_server import USER, Description, PrivateServer, write_settings

_LOOPBACK_ONLY = "-kernel inet_dist_use_interface {127,0,0,1}"


def control(server: PrivateServer, *arguments: str, timeout_s: float = 60.0) -> str:
    """Run `rabbitmqctl` on the node of a server, for operators and for faults; returns what it printed."""
    result = subprocess.run(
        [str(server.programs.directory / "rabbitmqctl"), "--node", server.kept["node"], *arguments],
        env=_environment(server),
        cwd=server.place,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    if result.returncode != 0:
        raise LocalError(f"rabbitmqctl {' '.join(arguments)} failed: {result.stderr.strip() or result.stdout.strip()}")
    return result.stdout


def _prepare(server: PrivateServer) -> None:
    place, kept, taken = server.place, server.kept, {server.port}
    for name in ("distribution_port", *(() if processes.is_alive(server.mapper) else ("mapper_port",))):
        kept[name] = free_port(preferred=kept.get(name), taken=taken)
    # The data belongs to a node name; it carries the directory's own token, so a copied clone gets a node of its own.
    node = kept.setdefault("node", f"orrery-{server.password[:12]}@localhost")
    if not (place / "data" / node).exists():
        empty(place / "data")  # of a node whose record is gone
    for name in ("home", "data", "configuration"):
        (place / name).mkdir(exist_ok=True)
    cookie = place / "home" / ".erlang.cookie"
    if not cookie.exists():
        cookie.touch(mode=0o600)
        cookie.write_text(secrets.token_hex(20))
        cookie.chmod(0o400)
    configuration = {
        "default_user": USER,
        "default_pass": server.password,
        "disk_free_limit.absolute": "50MB",
        "vm_memory_high_watermark.absolute": "1GB",
        "log.file.level": "warning",
        "log.console": "false",
    }
    write_settings(place / "configuration" / "rabbitmq.conf", configuration)
    (place / "configuration" / "enabled_plugins").write_text("[].\n")
    (place / "configuration" / "environment.conf").write_text("")
    if not processes.is_alive(server.mapper):
        _start_mapper(server)


def _start_mapper(server: PrivateServer) -> None:
    port = server.kept["mapper_port"]
    server.mapper = server.spawn([server.programs.epmd, "-address", LOOPBACK, "-port", str(port)])
    deadline = time.monotonic() + 10.0
    while is_free(port):
        server.is_running()  # collects it if it has ended
        if not processes.is_alive(server.mapper) or time.monotonic() > deadline:
            raise LocalError(f"epmd does not listen on port {port}:\n{server.log_end()}")
        time.sleep(0.02)


def _environment(server: PrivateServer) -> dict[str, str]:
    configuration, data = server.place / "configuration", server.place / "data"
    node = server.kept["node"]
    return {
        "PATH": search_path(),
        "HOME": str(server.place / "home"),
        "LANG": "C.UTF-8",
        "TMPDIR": os.environ.get("TMPDIR", "/tmp"),
        "ERL_EPMD_PORT": str(server.kept["mapper_port"]),
        "ERL_EPMD_ADDRESS": LOOPBACK,
        # Makes the script become the broker instead of watching it, so that the recorded pid is the broker's.
        "RUNNING_UNDER_SYSTEMD": "true",
        "RABBITMQ_NODENAME": node,
        "RABBITMQ_NODE_IP_ADDRESS": LOOPBACK,
        "RABBITMQ_NODE_PORT": str(server.port),
        "RABBITMQ_DIST_PORT": str(server.kept["distribution_port"]),
        "RABBITMQ_CONF_ENV_FILE": str(configuration / "environment.conf"),
        "RABBITMQ_CONFIG_FILE": str(configuration / "rabbitmq.conf"),
        "RABBITMQ_CONFIG_FILES": str(configuration / "conf.d" / "*.conf"),
        "RABBITMQ_GENERATED_CONFIG_DIR": str(data / "generated"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(configuration / "enabled_plugins"),
        "RABBITMQ_MNESIA_BASE": str(data),
        "RABBITMQ_MNESIA_DIR": str(data / node),
        "RABBITMQ_FEATURE_FLAGS_FILE": str(data / "feature_flags"),
        "RABBITMQ_PLUGINS_EXPAND_DIR": str(data / "plugins"),
        "RABBITMQ_LOG_BASE": str(server.log.parent),
        "RABBITMQ_LOGS": str(server.log.with_name("rabbitmq-node.log")),
        "RABBITMQ_PID_FILE": str(data / "pid"),
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": _LOOPBACK_ONLY,
    }


#: one node without plugins; user `orrery`, virtual host `/`
RABBITMQ = Description(
    name="rabbitmq",
    variable="ORRERY_RABBITMQ_URL",
    package=PACKAGE,
    find=find_rabbitmq,
    url=f"amqp://{USER}:{{password}}@{LOOPBACK}:{{port}}/",
    hello="AMQP\x00\x00\x09\x01",  # a broker that is up replies with the method frame `connection.start`
    answer=b"\x01",
    prepare=_prepare,
    command=lambda server: [server.programs.directory / "rabbitmq-server"],
    environment=_environment,
    kept=("distribution_port", "mapper_port", "node"),
    start_timeout_s=120.0,
    stop_grace_s=30.0,
)
