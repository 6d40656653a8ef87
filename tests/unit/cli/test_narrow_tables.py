"""Tables in a narrow terminal, with the widest values there are."""

import pytest

LONG = "UKI-NORTHGRID-LANCS-HEP-CEPH"
LONG_AGO = "2020-03-01T12:00:00Z"
WIDEST_ROWS = {
    "jobs": ("job/list", [{
        "job_id": 1234567890, "task_id": 1234567890, "job_type": "prod_merge", "status": "transferring",
        "attempt_number": 10, "current_priority": 10000, "queue": LONG, "resource_type": "MCORE_HIMEM",
        "state_change_time": LONG_AGO, "heartbeat_at": LONG_AGO, "worker": "w" * 60, "error_dialog": "e" * 300,
    }], {"1234567890", "transferring"}),
    "queues": ("grid/queues", [{
        "queue": LONG, "site": LONG, "status": "brokeroff", "type": "production", "running_workers": 123456,
        "n_slots": 123456, "last_pilot_at": LONG_AGO, "last_job_start_at": LONG_AGO,
        "jobs": dict.fromkeys(("activated", "running", "defined", "assigned", "throttled"), 1234567),
    }], {LONG, "brokeroff", "1234567"}),
    "shares": ("share/list", [{
        "gshare": "Express Analysis of the Upgrade", "value": 12.345, "parent": "Analysis of the Upgrade",
        "prodsourcelabel": "(prod_)?test|ptest|rc_test.*", "processingtype": "reprocessing|deriv" * 3, "queue_id": 9000,
        "correction_factor": 0.1234, "running_jobs": 500_000, "running_cores": 4_000_000, "queued_jobs": 1_000_000,
        "due_percent": 12.345, "corrected_percent": 12.345,
    }], {"4000000", "1000000"}),
}  # fmt: skip


@pytest.mark.parametrize("columns", ["80", "100", "200"])
@pytest.mark.parametrize("verb", WIDEST_ROWS)
def test_the_widest_row_is_one_line_in_a_narrow_terminal_and_keeps_what_matters(
    services, orrery, monkeypatch, verb, columns
):
    path, rows, told = WIDEST_ROWS[verb]
    monkeypatch.setenv("COLUMNS", columns)
    services.says(path, rows)
    lines = orrery(verb).out.splitlines()
    assert len(lines) == 2 and max(len(line.rstrip()) for line in lines) <= int(columns)
    assert told <= set(lines[1].split())
    services.says(path, [])
    assert len(orrery(verb).out.splitlines()) <= 1
