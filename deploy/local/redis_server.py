"""A private Redis (or Valkey).

It is a cache only: nothing is written to disk, and old values make room for new ones.
"""

from __future__ import annotations

from deploy.local.binaries import find_redis
from deploy.local.packages import REDIS as PACKAGE
from deploy.local.ports import LOOPBACK
from deploy.local.private_server import Description, PrivateServer, write_settings


def _prepare(server: PrivateServer) -> None:
    settings = {
        "bind": LOOPBACK,
        "port": str(server.port),
        "requirepass": f'"{server.password}"',
        "dir": f'"{server.place}"',
        "daemonize": "no",
        "save": '""',
        "appendonly": "no",
        "maxmemory": "256mb",
        "maxmemory-policy": "allkeys-lru",
    }
    write_settings(server.place / "redis.conf", settings, between=" ")


REDIS = Description(
    name="redis",
    variable="ORRERY_REDIS_URL",
    package=PACKAGE,
    find=find_redis,
    url=f"redis://:{{password}}@{LOOPBACK}:{{port}}/0",
    hello="AUTH {password}\r\nPING\r\n",
    answer=b"+OK\r\n+PONG\r\n",
    prepare=_prepare,
    command=lambda server: [server.programs.program, server.place / "redis.conf"],
    stop_grace_s=10.0,
)
