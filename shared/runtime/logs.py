"""Logging: plain lines for people, one JSON object per line for machines.

A record is one line, and holds no secret. Names, error texts and addresses in records were written by others: what
could begin a line of its own, or move the cursor of whoever reads the log, is shown as an escape.
"""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from types import TracebackType

import orjson

from shared.model.log_lines import one_line, without_secrets
from shared.model.visible_text import visible

QUIET = ("aio_pika", "aiormq", "faststream", "httpx", "httpcore", "uvicorn.access")
WARNINGS_ONLY = ("uvicorn", "uvicorn.error")


class LineFormatter(logging.Formatter):
    """Plain lines; an exception is in the line of its record."""

    def format(self, record: logging.LogRecord) -> str:
        return one_line(super().format(record))


class JsonFormatter(logging.Formatter):
    """One JSON object in each line; control characters are escaped in its texts, too."""

    def __init__(self, process_name: str) -> None:
        super().__init__()
        self._process_name = process_name

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "process": self._process_name,
            "logger": record.name,
            "message": one_line(record.getMessage()),
        }
        if record.exc_info:
            line["exception"] = visible(without_secrets(self.formatException(record.exc_info)), lines=True)
        return orjson.dumps(line).decode()


def configure(process_name: str, *, form: str, level: str) -> None:
    """Everything to standard error; the chatty libraries only when something is wrong."""
    handler = logging.StreamHandler(sys.stderr)
    if form == "json":
        handler.setFormatter(JsonFormatter(process_name))
    else:
        handler.setFormatter(LineFormatter(f"%(asctime)s %(levelname)-7s {process_name} %(name)s: %(message)s"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for name in QUIET:
        # their own errors about a lost connection are told, in our words, by the relay and the consumers
        logging.getLogger(name).setLevel(logging.CRITICAL)
    for name in WARNINGS_ONLY:
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.captureWarnings(True)
    sys.excepthook = _log_end


def _log_end(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """An error that ends the process is a record like others."""
    if issubclass(kind, KeyboardInterrupt):
        return
    logging.getLogger("orrery").critical("ended by an error", exc_info=(kind, error, trace))
