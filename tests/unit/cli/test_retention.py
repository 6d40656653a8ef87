from __future__ import annotations

RULE = {
    "rule": "chunks", "tables": ["chunks"], "order": "tasks", "keep_days": 30, "because_of": None,
    "never": "that a task had scouts", "then": None, "n_bytes": 5 * 2**20, "most_gb": None, "is_nearly_full": False,
    "bytes_a_day": None, "oldest_at": None, "next_drop_at": None, "n_dropped": 0, "dropped_at": None,
    "n_waiting_tasks": 0, "waiting_task_id": None,
}  # fmt: skip


def test_each_rule_is_a_line(services, orrery):
    audit = {
        **RULE, "rule": "audit_log", "keep_days": 90, "because_of": "transition_log", "n_bytes": 3 * 2**30,
        "bytes_a_day": -(2**20), "most_gb": 4, "oldest_at": "2026-01-05T06:00:00Z",
        "next_drop_at": "2026-04-05T06:00:00Z",
        "n_dropped": 12345, "n_waiting_tasks": 2, "waiting_task_id": 17,
    }  # fmt: skip
    inbox = {**RULE, "rule": "inbox", "keep_days": None, "then": "names are free"}
    services.says("retention", [RULE, audit, inbox])
    outcome = orrery("retention")
    assert outcome.code == 0
    chunks, log, inbox = outcome.out.splitlines()[-3:]
    assert "names are free" in inbox
    assert "30 d" in chunks and "5.0 MB" in chunks and "not known yet" in chunks
    for part in (
        "90 d (for transition_log)",
        "3.0 GB of 4 GB",
        "-1.0 MB",
        "2026-04-05 06:00",
        "12,345",
        "2 tasks, as 17",
    ):
        assert part in log
    assert "for ever" in inbox


def test_a_rule_that_is_nearly_full_is_told_by_the_exit_code(services, orrery):
    services.says("retention", [{**RULE, "n_bytes": 15 * 2**28, "most_gb": 4, "is_nearly_full": True}])
    outcome = orrery("retention")
    assert outcome.code == 1 and "3.8 GB of 4 GB: nearly full" in outcome.out
    assert orrery("retention", "--json").code == 1


def test_the_verb_says_which_service_and_role_it_needs(orrery):
    text = orrery("retention", "--help").out
    assert "Service: watchdog" in text and "Role: operator" in text
