"""Logging: plain lines for people, one JSON object per line for machines."""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime

import orjson

QUIET = ("aio_pika", "aiormq", "faststream", "httpx", "httpcore", "uvicorn.access")
WARNINGS_ONLY = ("uvicorn", "uvicorn.error")


class JsonFormatter(logging.Formatter):
    def __init__(self, process_name: str) -> None:
        super().__init__()
        self._process_name = process_name

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "process": self._process_name,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return orjson.dumps(line).decode()


def configure(process_name: str, *, form: str, level: str) -> None:
    """Everything to standard error; the chatty libraries only when something is wrong."""
    handler = logging.StreamHandler(sys.stderr)
    if form == "json":
        handler.setFormatter(JsonFormatter(process_name))
    else:
        plain = f"%(asctime)s %(levelname)-7s {process_name} %(name)s: %(message)s"
        handler.setFormatter(logging.Formatter(plain))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for name in QUIET:
        # their own errors about a lost connection are told, in our words, by the relay and the consumers
        logging.getLogger(name).setLevel(logging.CRITICAL)
    for name in WARNINGS_ONLY:
        logging.getLogger(name).setLevel(logging.WARNING)
