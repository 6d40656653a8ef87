"""One clock for durable times: `orrery_now()`, everywhere but in its own definition."""

from __future__ import annotations

import re

from tests.contracts.sql_writes import ROOT

_OTHER_CLOCKS = re.compile(
    r"(?<![\w.])(now\s*\(\s*\)|current_timestamp|current_date|current_time|localtimestamp|localtime|"
    r"clock_timestamp\s*\(|statement_timestamp\s*\(|transaction_timestamp\s*\(|timeofday\s*\()",
    re.IGNORECASE,
)
_OWN_DEFINITION = "coalesce(nullif(current_setting('orrery.now', true), '')::timestamptz, transaction_timestamp())"
_PYTHON_SQL = re.compile(r'"""(?:[^"]|"(?!""))*?"""|"[^"\n]*"|\'[^\'\n]*\'')


def without_comments(sql: str) -> str:
    return re.sub(r"--[^\n]*", "", sql)


def test_no_sql_file_reads_another_clock() -> None:
    wrong = []
    for folder in ("services", "shared"):
        for path in sorted((ROOT / folder).rglob("*.sql")):
            text = without_comments(path.read_text(encoding="utf-8")).replace(_OWN_DEFINITION, "")
            wrong += [f"{path.relative_to(ROOT)}: {match[0]}" for match in _OTHER_CLOCKS.finditer(text)]
    assert wrong == []


def test_no_sql_in_python_reads_another_clock() -> None:
    wrong = []
    for folder in ("services", "shared"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for constant in _PYTHON_SQL.findall(path.read_text(encoding="utf-8")):
                if re.search(r"\b(SELECT|INSERT INTO|UPDATE|DELETE FROM)\b", constant):
                    text = without_comments(constant)
                    wrong += [f"{path.relative_to(ROOT)}: {match[0]}" for match in _OTHER_CLOCKS.finditer(text)]
    assert wrong == []


def test_the_definition_of_the_clock_is_where_it_should_be() -> None:
    text = (ROOT / "shared/db/schema/foundation.sql").read_text(encoding="utf-8")
    assert text.count(_OWN_DEFINITION) == 1
