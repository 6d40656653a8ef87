"""A record of a log is one line, shows what is not seen as escapes, and holds no secret; in every process."""

from __future__ import annotations

import logging
import os
import subprocess
import sys

import orjson
import pytest

from deploy.local.__main__ import _log_line
from shared.auth import Authority
from shared.config.settings import Settings, SettingsError, load_settings
from shared.runtime.logs import JsonFormatter, LineFormatter

ATTACK = "eve\r\n2030-01-01 INFO all is well\x1b[2J\u202egnp.exe\u2028next\x85end\x00"
TOKEN = Authority.generate().issue("ada", ["user"])


def record(message: str, *arguments: object, error: Exception | None = None) -> logging.LogRecord:
    info = (type(error), error, error.__traceback__) if error is not None else None
    return logging.LogRecord("a.b", logging.ERROR, "f.py", 1, message, arguments, info)


def raised(text: str) -> Exception:
    try:
        raise ValueError(text)
    except ValueError as error:
        return error


@pytest.mark.parametrize("formatter", [LineFormatter("%(levelname)s %(name)s: %(message)s"), JsonFormatter("p")])
def test_a_record_is_one_line_whatever_names_and_error_texts_hold(formatter: logging.Formatter) -> None:
    line = formatter.format(record("task of %s failed", ATTACK, error=raised(ATTACK)))
    assert line.splitlines() == [line] and line.isprintable()
    assert "\\r\\n2030" in line and "\\x1b[2J" in line and "\\u202e" in line and "ValueError" in line


def test_the_json_of_a_record_decodes_to_texts_without_escapes_of_terminals() -> None:
    found = orjson.loads(JsonFormatter("p").format(record("%s", ATTACK, error=raised(ATTACK))))
    assert "\n" not in found["message"] and "\x1b" not in found["message"] + found["exception"]
    assert found["exception"].startswith("Traceback") and found["exception"].count("\n") > 1, "still readable"


@pytest.mark.parametrize(
    "text",
    [f"Authorization: Bearer {TOKEN}", f"b'authorization: bearer {TOKEN}'", f"token {TOKEN} refused",
     f"GET /server/panda/get_access_token?client_name=x&token_key={TOKEN} HTTP/1.1", f"Bearer%20{TOKEN}",
     "https://h/p?token_key=opaque-key-0123456789&x=1", "Authorization: Bearer opaque-key-0123456789",
     "postgresql://orrery:opaque-key-0123456789@db:5432/orrery"],
)  # fmt: skip
def test_no_secret_is_in_a_line(text: str) -> None:
    for formatter in (LineFormatter("%(message)s"), JsonFormatter("p")):
        for one in (record(text), record("%s", text), record("failed", error=raised(text))):
            line = formatter.format(one)
            assert "(not shown)" in line and "opaque-key" not in line
            assert not any(part in line for part in TOKEN.split("."))


def test_the_supervisor_writes_one_line_for_each_thing_that_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    _log_line(f"failed: migrating the database failed:\n{ATTACK}")
    written = capsys.readouterr().out
    assert written.count("\n") == 1 and written.rstrip("\n").isprintable()


def test_a_wrong_setting_is_named_without_the_password_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORRERY_DATABASE_URL", "mysql://orrery:opaque-key@db/orrery")
    with pytest.raises(SettingsError, match="ORRERY_DATABASE_URL='mysql://orrery:") as raised_error:
        load_settings(Settings)
    assert "opaque-key" not in str(raised_error.value)


def test_an_error_that_ends_a_process_is_one_line_of_its_log() -> None:
    program = (
        "from shared.runtime import logs; import warnings; logs.configure('p', form='plain', level='INFO'); "
        "warnings.warn('two\\nlines'); raise ValueError('two\\nlines')"
    )
    environment = {**os.environ, "PYTHONPATH": os.getcwd()}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=False)
    lines = done.stderr.splitlines()
    assert done.returncode == 1 and len(lines) == 2
    assert "py.warnings: " in lines[0] and "two\\nlines" in lines[0]
    assert "CRITICAL p orrery: ended by an error\\nTraceback" in lines[1]
